"""Runs a study over the nodes of a cluster: one worker per node, which gets whole epochs and returns them.

A node is a block: all arms of an epoch are measured on it. If a node is lost, its epoch is discarded.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter

from bakeoff.cli.arguments import Nodes
from bakeoff.cluster.nodes import (
    Node,
    alive_nodes,
    ask_facts,
    choose,
    connected,
    differences,
    get,
    last_words,
    on_node,
    require_same_programs,
)
from bakeoff.cluster.worker import Answer, Parcel, Ready, Report, Worker, unpack
from bakeoff.errors import BakeoffError, HostError, ResultsError, RunInvalid, ServerError, SpecError
from bakeoff.results import Outcome, RunDirectory
from bakeoff.results.epoch_data import EpochWriter, arm_directory_name
from bakeoff.results.manifest import Host, kinds_of
from bakeoff.run.arms import MemoryShare
from bakeoff.run.data_check import other_answers
from bakeoff.run.epoch import EpochDone, EpochOrder, Interrupted
from bakeoff.run.measuring import check_workloads, resolved
from bakeoff.run.resume import (
    Before,
    budget_began,
    check_setups,
    check_sources,
    keep_memory,
    keeping,
    kept_memory,
    read_before,
    script_digests,
)
from bakeoff.run.runner import Invocation, begin_notes
from bakeoff.run.study_run import StudyRun
from bakeoff.servers.paths import work_root
from bakeoff.spec import Study
from bakeoff.spec.server_name import is_url
from bakeoff.stats.differences import AllAnswers
from bakeoff.stats.model import Analysis
from bakeoff.stats.progress import Listener
from bakeoff.units import format_bytes

_LOOK_S = 0.5  # how soon a Ctrl-C is seen
_REPORT_S = 2.0  # a call costs the node a fraction of a millisecond
_CLOSE_S = 60.0


def run_over_cluster(
    study: Study,
    runs_root: Path,
    asked: Invocation,
    *,
    wanted: Nodes,
    listener: Listener,
    stop: threading.Event,
) -> tuple[RunDirectory, Analysis]:
    """Run a study on the nodes of a cluster to its end, like `bakeoff.run.runner.run_study`."""
    resume = asked.resume
    refuse_running_servers(study)
    study = resolved(study)
    check_workloads(study)
    if resume:
        require_cluster_run(resume)
    listener.stage("connecting to the cluster")
    with connected(wanted.address) as ray, ExitStack() as workers:
        nodes = ask_facts(ray, choose(alive_nodes(ray), wanted), study)
        require_same_programs(nodes)
        if resume:
            _check_machines(resume, nodes)
        require_like_machines(study, (resume.machines() if resume else {}) | {node.name: node.host for node in nodes})
        share = kept_share(resume, nodes) or smallest_share(nodes)
        run = resume or RunDirectory.create(
            runs_root, study, command=asked.command_line, engine=nodes[0].facts["engine"], data_path=work_root()
        )
        with keeping(run, is_new=resume is None, again="bakeoff run --ray --resume"):
            before = read_before(run)
            check_sources(run, study)
            keep_memory(run, share)
            for node in nodes:
                run.write_json(f"hosts/{arm_directory_name(node.name)}.json", node.host)
            begin_notes(study, listener)
            for sentence in differences(nodes):
                listener.note(sentence)
            begin = time.monotonic()
            hosts = RayHosts(ray, run, study, share, listener, stop, before, resource=wanted.resource)
            workers.callback(hosts.close)
            builds = hosts.prepare(nodes)
            return run, StudyRun(
                study,
                run,
                hosts,
                listener,
                stop,
                budget_began(run, before, begin),
                builds=builds,
                at_once=max(share.at_once, 2),
                plan=before.plan,
                history=run.load_epochs(),
            ).run()


def refuse_running_servers(study: Study) -> None:
    """Raise SpecError for running servers: they need passwords, which must not travel in a task's arguments."""
    for arm in study.arms:
        if arm.server.is_running or is_url(arm.data.source):
            raise SpecError(
                f"--ray: {arm.label} is a running server or takes its data from one, and passwords do not travel to "
                "nodes.",
                hint="Name a server that each node starts itself.",
                field=("arms", arm.name, "server"),
            )


def require_cluster_run(run: RunDirectory) -> None:
    """Raise ResultsError for a run of one machine, or a bisection, whose arms join on one machine only."""
    if run.study().question.adds_arms or any(not run.outcome(epoch).host for epoch in run.finished_epochs()):
        raise ResultsError(
            f"run {run.name} was measured on one machine.", hint=f"Go on there: bakeoff run --resume {run.name}"
        )


def smallest_share(nodes: Sequence[Node]) -> MemoryShare:
    """Return the memory that fits on the smallest node; raise HostError if not even two servers fit on one."""
    shares = []
    for node in nodes:
        if node.facts["share"] is None:
            raise HostError(f"node {node.name}: {node.facts['problem']}")
        shares.append(TypeAdapter(MemoryShare).validate_python(node.facts["share"]))
    smallest = min(shares, key=lambda share: share.memory.buffer_pool_bytes)
    return replace(smallest, at_once=min(share.at_once for share in shares))


def kept_share(run: RunDirectory | None, nodes: Sequence[Node]) -> MemoryShare | None:
    """Return the memory that a resumed run gave its servers, or None. HostError if it does not fit on a new node."""
    kept = kept_memory(run) if run else None
    if not (run and kept):
        return None
    known = run.machines()
    for node in nodes:
        if node.name in known:
            continue
        there = smallest_share([node])
        pool, given = (each.memory.buffer_pool_bytes for each in (there, kept))
        if pool < given or there.at_once < kept.at_once:
            raise HostError(
                f"node {node.name}: run {run.name} was begun with {kept.at_once} servers at once and buffer pools of "
                f"{format_bytes(given)}; {there.at_once} with {format_bytes(pool)} fit there.",
                hint="End other programs there, or go on without the node (--on, --hosts).",
            )
    return kept


def _check_machines(run: RunDirectory, nodes: Sequence[Node]) -> None:
    known = run.machines()
    for node in nodes:
        then = known.get(node.name)
        if then and then.differences(node.host):
            raise ResultsError(
                f"run {run.name} has epochs of another machine named {node.name}: {then.cpu_model}, {then.cpus} CPUs.",
                hint="Give the node another name: ray start --node-name.",
            )


def require_like_machines(study: Study, machines: Mapping[str, Host]) -> None:
    """Raise SpecError for machines of several kinds, unless the study combines them."""
    kinds = kinds_of(machines)
    if len(set(kinds.values())) > 1 and not study.combine_hosts:
        named = "; ".join(f"{name} is {kind}" for name, kind in kinds.items())
        raise SpecError(
            f"--ray: the nodes are unlike machines, which have no ratio in common: {named}.",
            hint="Measure on nodes of one kind (--on), or combine them: combine_hosts: true in the study.",
            field=("combine_hosts",),
        )


@dataclass
class _Remote:
    """A node's worker.

    Attributes:
        epochs: number given to it so far.
        compared: it has finished a valid epoch, in which its servers held the same rows.
        epoch: what it measures, the writer for it, and its start by this machine's clock.
    """

    node: Node
    actor: Any
    ready: bool = False
    left_out: bool = False
    epochs: int = 0
    compared: bool = False
    epoch: tuple[EpochOrder, EpochWriter, datetime] | None = None
    asked_s: float = 0.0
    asking: bool = False


@dataclass
class RayHosts:
    """The `Hosts` of a run over a cluster. Each worker takes one of `resource`, unless it is empty."""

    ray: ModuleType
    run: RunDirectory
    study: Study
    share: MemoryShare
    listener: Listener
    stop: threading.Event
    before: Before
    resource: str = ""
    _remotes: list[_Remote] = field(default_factory=list)
    _waiting: dict[Any, tuple[_Remote, str]] = field(default_factory=dict)
    _first: Ready | None = None

    def prepare(self, nodes: Sequence[Node]) -> int:
        """Start a worker on each node; return the number of builds once a first host has loaded its data.

        The first decides how many builds fit into the budget; the others load as many while it measures its pilot.
        """
        for node in nodes:
            self._remotes.append(_Remote(node, self._actor(node)))
        taken = f", perhaps because another program has taken the resource {self.resource}" if self.resource else ""
        for remote in self._remotes:
            get(self.ray, remote.node.name, remote.actor.pid.remote(), what=f"no worker starts{taken}")
        known = self.before.plan is not None
        waiting = list(self._remotes)
        while self._first is None:
            while waiting and (known or not self.busy()):
                self._prepare(waiting.pop(0), first=not known)
            if not self.busy():
                raise HostError("ray: no node could load the data.", hint="The notes above say why.")
            try:
                self.wait()
            except Interrupted:
                raise KeyboardInterrupt from None
        for remote in waiting:
            self._prepare(remote, first=False)
        return self._first.builds

    def _actor(self, node: Node) -> Any:  # noqa: ANN401
        """Start an actor on a node. Its name reserves the node for this run."""
        needs = {"resources": {self.resource: 1}} if self.resource else {}
        options = on_node(self.ray, node, name=f"bakeoff-{node.id}", **needs)
        actor = self.ray.remote(max_restarts=0, max_task_retries=0, max_concurrency=4)(Worker)
        try:
            return actor.options(**options).remote()
        except ValueError:  # the name is taken
            raise HostError(f"node {node.name}: another bakeoff measures there.") from None

    def _prepare(self, remote: _Remote, *, first: bool) -> None:
        study = self.study
        if self._first:
            study = study.model_copy(update={"builds": self._first.builds})
        preparing = remote.actor.prepare.remote(study, remote.node.name, self.share, first=first)
        self._waiting[preparing] = (remote, "prepare")

    def close(self) -> None:
        closing = [(remote, remote.actor.close.remote()) for remote in self._remotes]
        self.ray.wait([reference for _, reference in closing], num_returns=len(closing), timeout=_CLOSE_S)
        for remote, _ in closing:
            with suppress(self.ray.exceptions.RayError):  # the cluster itself may be lost
                self.ray.kill(remote.actor)

    def free(self) -> int:
        return sum(map(self._is_free, self._remotes))

    def _is_free(self, remote: _Remote) -> bool:
        return remote.ready and not remote.left_out and remote.epoch is None

    def busy(self) -> bool:
        return any(what in ("prepare", "measure") for _, what in self._waiting.values())

    def begin(self, order: EpochOrder) -> None:
        remote = min(filter(self._is_free, self._remotes), key=lambda each: each.epochs)
        order = replace(order, compare_rows=not remote.compared)
        remote.epochs += 1
        remote.epoch = order, self.run.epoch(order.draft.epoch, order.draft.build), datetime.now(UTC)
        self._waiting[remote.actor.measure.remote(order)] = (remote, "measure")

    def wait(self) -> EpochDone | None:
        """Wait until an epoch ends or is lost, or a worker becomes ready. Raises errors that every epoch would have."""
        while True:
            if self.stop.is_set():
                for remote in self._remotes:
                    remote.actor.end.remote()
                raise Interrupted
            self._ask()
            found, _ = self.ray.wait(list(self._waiting), num_returns=1, timeout=_LOOK_S)
            for reference in found:
                remote, what = self._waiting.pop(reference)
                try:
                    value = self.ray.get(reference)
                except self.ray.exceptions.RayError as error:
                    if what == "report":
                        continue
                    return self._lose(remote, f"node {remote.node.name} was lost: {last_words(error)}")
                if what == "report":
                    self._relay(remote, value)
                elif what == "prepare":
                    self._welcome(remote, value)
                    return None
                else:
                    return self._receive(remote, value)

    def leave_out(self, host: str) -> bool:
        """Give a host no further epochs; return whether others are left, ready or still loading."""
        for remote in self._remotes:
            if remote.node.name == host and not remote.left_out:
                remote.left_out = True
                self.listener.note(f"{host} is left out from now on")
        return any(not remote.left_out for remote in self._remotes)

    def _welcome(self, remote: _Remote, answer: Answer) -> None:
        """Note that a worker has loaded its data. If not, leave its node out; raise if it is the last."""
        name = remote.node.name
        if answer.stopped:
            return
        if answer.error:
            error = _named(answer.error, name)
            others = any(not each.left_out for each in self._remotes if each is not remote)
            if not (others and isinstance(error, HostError | ServerError)):
                raise error
            self.listener.note(str(error))
            self.leave_out(name)
            return
        ready: Ready = answer.value
        self._check_same(name, ready)
        if self._first is None:
            unpack(ready.files, self.run.path, replaces=False)
            self._first = ready
        remote.ready = True

    def _check_same(self, name: str, ready: Ready) -> None:
        """Refuse a node whose servers, scripts or data differ from the first's, or from those of finished epochs."""
        first = self._first or ready
        if other_arm := next((arm for arm in ready.setups if ready.setups[arm] != first.setups.get(arm)), None):
            raise RunInvalid(
                f"node {name}: arm {other_arm} has another binary or other options there than on the first node.",
                hint="Put the same server and cnf files on every node.",
            )
        scripts = self._first.scripts if self._first else script_digests(self.study)
        if script := next((each for each, now in ready.scripts.items() if scripts.get(each, now) != now), None):
            where = "on the first node" if self._first else "here"
            raise RunInvalid(f"node {name}: {script} is another file there than {where}.", hint="Copy it again.")
        if self._first is None:
            try:
                check_setups(self.run, ready.setups)
            except ResultsError as error:
                raise _named(error, name) from None
        for build, rows in ready.rows.items():
            known = self.run.read(f"rows/{build}.json", AllAnswers)
            asked = TypeAdapter(AllAnswers).validate_python(rows or {})
            if known is not None and (other := next(other_answers(known, asked), None)):
                raise RunInvalid(f"node {name} has loaded other rows than the first node: {other[-1]}.")

    def _receive(self, remote: _Remote, answer: Answer) -> EpochDone | None:
        if answer.stopped:
            raise Interrupted
        if isinstance(answer.error, HostError):
            return self._lose(remote, f"{_named(answer.error, remote.node.name)}")
        if answer.error:
            raise _named(answer.error, remote.node.name)
        parcel: Parcel = answer.value
        unpack(parcel.files, self.run.path)
        remote.epoch = None
        remote.compared = remote.compared or parcel.done.cost is not None
        return parcel.done

    def _lose(self, remote: _Remote, reason: str) -> EpochDone | None:
        remote.left_out = True
        self.listener.note(reason)
        if remote.epoch is None:
            return None
        order, writer, begun = remote.epoch
        self.listener.note(f"epoch {order.draft.epoch} is discarded for all arms")
        writer.finish(
            Outcome(
                epoch=order.draft.epoch,
                build=order.draft.build,
                valid=False,
                discard_reason=reason,
                started_at=begun,
                wall_s=(datetime.now(UTC) - begun).total_seconds(),
                measured_s=0.0,
                start_order=order.draft.start_order,
                seeds=order.draft.seeds.model_dump(),
                host=remote.node.name,
            )
        )
        remote.epoch = None
        return EpochDone(order.draft.epoch, remote.node.name)

    def _ask(self) -> None:
        now = time.monotonic()
        for remote in self._remotes:
            works = not remote.left_out and (remote.epoch or not remote.ready)
            if works and not remote.asking and now - remote.asked_s > _REPORT_S:
                remote.asked_s, remote.asking = now, True
                self._waiting[remote.actor.take.remote()] = (remote, "report")

    def _relay(self, remote: _Remote, reports: list[Report]) -> None:
        """Pass on a worker's reports; rates of one node only, since all are shown in one place."""
        remote.asking = False
        name = remote.node.name
        for report in reports:
            match report:
                case "throughput", rate:
                    if remote is next((each for each in self._remotes if each.epoch), None):
                        self.listener.throughput(*rate)
                case "stage", (text,):
                    working = [each for each in self._remotes if each.epoch or not each.ready]
                    more = f" ({len(working)} nodes at work)" if len(working) > 1 else ""
                    self.listener.stage(f"{name}: {text}{more}")
                case method, (text, *amounts):
                    getattr(self.listener, method)(f"{name}: {text}", *amounts)


def _named(error: BakeoffError, name: str) -> BakeoffError:
    error.message = f"node {name}: {error.message}"
    return error
