"""Measure epochs on hosts until the question is answered: the loop of a study, and this machine as its only host."""

import math
import threading
import time
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import InitVar, dataclass, replace
from itertools import count
from operator import attrgetter
from typing import Protocol

from bakeoff import features
from bakeoff.errors import BakeoffError, ResultsError, RunInvalid
from bakeoff.plan import Plan, epoch_draft
from bakeoff.plan.schedule import first_plan, with_longer_slices
from bakeoff.plan.timing import EpochCost, epoch_time, report_seconds
from bakeoff.results import EpochData, RunDirectory
from bakeoff.results.epoch_data import loading_seconds, wall_time
from bakeoff.results.frame import Frame
from bakeoff.run.arms import MemoryShare
from bakeoff.run.epoch import EpochDone, EpochOrder, Interrupted, run_epoch
from bakeoff.run.epoch_servers import EpochTools
from bakeoff.run.loading import Loader
from bakeoff.run.resume import note_extension, stop_reason
from bakeoff.servers.paths import RUNTIME_ROOT, other_bakeoffs
from bakeoff.spec import Arm, Study
from bakeoff.stats.analysis import analyse, comparisons_so_far
from bakeoff.stats.diagnostics import leaking_cells
from bakeoff.stats.estimate import EpochEstimates, epoch_estimates
from bakeoff.stats.model import Analysis, Comparison, Stop
from bakeoff.stats.progress import Listener
from bakeoff.stats.resolution import PILOT_EPOCHS, noise_card
from bakeoff.stats.stopping import Decision, Progress, rule_of

# Repeatedly discarded epochs are not bad luck; in a bisection, builds next to a broken one may be broken too.
_DISCARDED_IN_A_ROW, _DISCARDED_JOINED = 2, 5
_DECIDE_S = 1.0


class Hosts(Protocol):
    """Where epochs are measured, one at a time per host."""

    def free(self) -> int: ...  # how many epochs could begin now
    def busy(self) -> bool: ...  # whether there is anything to wait for
    def begin(self, order: EpochOrder) -> None: ...
    def wait(self) -> EpochDone | None: ...  # for the next epoch that ends; None if hosts have become free meanwhile
    def leave_out(self, host: str) -> bool: ...  # give a host that fails no further epochs; whether others are left


class Joining(Protocol):
    """How arms join a run: `Joining` in the `added_arms.py` of a feature whose question adds arms."""

    def with_arm(self, tools: EpochTools, study: Study) -> EpochTools: ...  # installs the study's last arm

    # Loads what arms lack of a build; returns why one cannot be loaded, and seconds of repeated loads.
    def load(self, tools: EpochTools, arms: Sequence[str], build: int) -> tuple[str, float]: ...


def joining(share: MemoryShare, loader: Loader, run: RunDirectory) -> Joining | None:
    module = features.part(loader.study.question.kind, "added_arms")
    found: Joining | None = module and module.Joining(share.memory, loader, run, set(run.builds()))
    return found


class ThisMachine:
    """The `Hosts` of a run without a cluster: it measures an epoch while it is waited for."""

    def __init__(self, tools: EpochTools, run: RunDirectory, joining: Joining | None = None) -> None:
        self._tools = tools
        self._run = run
        self._joining = joining
        self._order: EpochOrder | None = None
        self._unusable: dict[str, str] = {}  # arms that joined and cannot be installed, and why

    def free(self) -> int:
        return 0 if self._order else 1

    def busy(self) -> bool:
        return self._order is not None

    def begin(self, order: EpochOrder) -> None:
        self._order = order

    def wait(self) -> EpochDone | None:
        assert self._order
        order, self._order = self._order, None
        failure = next((self._unusable[arm] for arm in order.arms if arm in self._unusable), "")
        reload_s = 0.0
        if self._joining and not failure:
            failure, reload_s = self._joining.load(self._tools, order.arms, order.draft.build)
        done = run_epoch(order, self._tools, self._run, failure=failure)
        if done is None:
            raise Interrupted
        return replace(done, reload_s=reload_s)

    def leave_out(self, _host: str) -> bool:
        return False

    def join(self, study: Study) -> None:
        assert self._joining
        try:
            self._tools = self._joining.with_arm(self._tools, study)
        except ResultsError:
            raise
        except BakeoffError as error:
            self._tools = replace(self._tools, study=study)
            self._unusable[study.arms[-1].name] = str(error)


@dataclass
class StudyRun:
    study: Study
    run_directory: RunDirectory
    hosts: Hosts
    listener: Listener
    stop: threading.Event
    begin: float  # `time.monotonic()` at which the budget began
    builds: int
    at_once: int
    join: Callable[[Study], None] | None = None  # gives an arm that has joined the study to the hosts
    plan: Plan | None = None  # None until the first epoch has measured its pilot
    history: InitVar[Iterable[EpochData]] = ()  # finished epochs of a resumed run, ascending

    def __post_init__(self, history: Iterable[EpochData]) -> None:
        self._rule = rule_of(self.study)
        self._costs: list[EpochCost] = []  # of the valid epochs measured by this process
        self._given: set[int] = set()
        self._numbers = count()
        self._finished = 0  # epochs, valid and discarded
        self._any_valid = False
        self._estimates: list[EpochEstimates] = []  # of the valid ones by number: their slices stay on disk
        self._pilot: list[Frame] = []  # slices of the first ones, for the noise card
        self._discarded: defaultdict[str, list[int]] = defaultdict(list)  # in a row, by host
        self._decision: Decision | None = None
        self._decided_s, self._deciding_s = -math.inf, 0.0
        for data in history:
            self._given.add(data.epoch)
            self._count(data)
        self._resumed = self._finished > 0

    def run(self) -> Analysis:
        """Measure epochs until the stopping rule ends it; the analysis is written before returning.

        Epochs in flight then are waited for and count, because leaving out the slow ones would be a choice.
        """
        decision = self._decide() if self.plan and self._resumed else None
        stop = decision.stop if decision else Stop.RUNNING
        note_extension(self.run_directory, self.study, goes_on=stop is Stop.RUNNING)
        try:
            while True:
                while stop is Stop.RUNNING and self._may_begin():
                    self._begin_epoch(decision)
                if not self.hosts.busy():
                    break
                done = self.hosts.wait()
                if done is None:
                    continue
                decision = self._take(done)
                if stop is Stop.RUNNING and decision:
                    stop = decision.stop
        except Interrupted:
            stop = Stop.ABORTED
        if stop is Stop.RUNNING:
            raise RunInvalid("no host is left to measure on.")
        if not self._estimates:
            if self.stop.is_set():
                raise KeyboardInterrupt
            raise RunInvalid("no epoch could be used.", hint=f"See {self.run_directory.path}/epochs.")
        return self._finish(stop)

    def _finish(self, stop: Stop) -> Analysis:
        directory, ended = self.run_directory, stop_reason(stop, self.run_directory)
        analysis = analyse(
            directory.load_epochs(),
            self.study,
            plan=self.plan,
            ended=ended,
            network=directory.network(),
        )
        directory.write_json("analysis.json", analysis)
        outcomes = [directory.outcome(epoch) for epoch in directory.finished_epochs()]
        directory.write_json("wall.json", wall_time(directory.builds(), outcomes))
        return analysis

    def _may_begin(self) -> bool:
        is_first_in_flight = self.plan is None and len(self._given) > self._finished  # it makes the plan
        return self.hosts.free() > 0 and not is_first_in_flight

    def _begin_epoch(self, decision: Decision | None) -> None:
        if decision and decision.joins and self.plan:
            self._join(self.plan, decision.joins)
        number = next(number for number in self._numbers if number not in self._given)
        plan = self.plan or first_plan(self.study, at_once=self.at_once, builds=self.builds)
        self._given.add(number)
        self.hosts.begin(
            EpochOrder(
                plan,
                epoch_draft(plan, self.study, number, settled=decision.settled if decision else frozenset()),
                share=decision.share if decision else 1.0,
                pilot=self.plan is None,
                compare_rows=not self._any_valid,
                used_s=self._elapsed_s(),
            )
        )

    def _join(self, plan: Plan, arm: Arm) -> None:
        assert self.join
        study = self.study.with_arms((*self.study.arms, arm))
        try:
            self.join(study)
        except KeyboardInterrupt:
            raise Interrupted from None
        self.study, self.plan = study, plan.with_arms(each.name for each in study.arms)
        self.listener.arm_joins(arm)
        self.run_directory.write_json("plan.json", self.plan)
        begun = self.run_directory.study()  # a resumed run keeps the budget that it began with
        self.run_directory.write_json("study.json", begun.with_arms(self.study.arms))

    def _take(self, done: EpochDone) -> Decision | None:
        data = self.run_directory.load_epoch(done.number, whole=False)
        self._count(data)
        self.begin += done.reload_s  # what was loaded again counts once
        if done.plan:
            self.plan = done.plan
        if done.cost:
            self._costs.append(done.cost)
        discarded = self._discarded[done.host]
        if data.valid:
            discarded.clear()
        else:
            discarded.append(done.number)
        limit = _DISCARDED_JOINED if self.study.question.adds_arms else _DISCARDED_IN_A_ROW
        if len(discarded) >= limit and not self.hosts.leave_out(done.host):
            raise RunInvalid(
                f"epochs {discarded[-2]} and {discarded[-1]} both had to be discarded: {data.discard_reason}.",
                hint=f"Look at {self.run_directory.path}/epochs/*/servers/*/error.log.",
            )
        return self._after_epoch(data)

    def _count(self, data: EpochData) -> None:
        self._finished += 1
        self._any_valid = self._any_valid or data.valid
        if data.valid:
            insort(self._estimates, epoch_estimates(data, baseline=self.study.baseline.name), key=attrgetter("epoch"))
        self._pilot = [*self._pilot, data.slices] if data.valid and self._finished <= PILOT_EPOCHS else []

    def _after_epoch(self, data: EpochData) -> Decision | None:
        """Ask the stopping rule and report where things stand. Returns None before the first plan.

        While other epochs are being measured it is asked once a second at most, and for a twentieth of the time,
        because it takes longer with each epoch.
        """
        if self.plan is None:
            return None  # the first epoch was discarded
        began_s = time.monotonic()
        others = PILOT_EPOCHS < self._finished < len(self._given)
        if others and began_s - self._decided_s < max(_DECIDE_S, 20 * self._deciding_s):
            return self._decision
        self._decision = self._look(data)
        self._decided_s = time.monotonic()
        self._deciding_s = self._decided_s - began_s
        return self._decision

    def _look(self, data: EpochData) -> Decision:
        assert self.plan
        elapsed_s, estimates = self._elapsed_s(), self._estimates
        decision = self._decide()
        if not data.valid:
            return decision
        comparisons = comparisons_so_far(estimates, self.study, self.plan)
        self.listener.epoch_finished(data.epoch, comparisons, elapsed_s, decision.more_s)
        self._lengthen_slices(comparisons)
        if len(self._pilot) == PILOT_EPOCHS == self._finished:
            slices = Frame.concat(self._pilot)
            note_other_bakeoffs(self.listener)
            self.listener.noise_card(noise_card(estimates, self.study, self.plan, slices=slices))
        return decision

    def _decide(self) -> Decision:
        assert self.plan
        directory, load_s = self.run_directory, 0.0
        newest: tuple[str, ...] = ()
        if self.study.question.adds_arms:
            newest = directory.outcome(directory.finished_epochs()[-1]).start_order
            builds = directory.builds().values()
            load_s = loading_seconds(builds) / max(len(builds), 1)
        return self._rule.decide(
            Progress(
                self._estimates,
                self.study,
                self.plan,
                elapsed_s=self._elapsed_s() + report_seconds(len(self.plan.cells)),
                epoch_time=epoch_time(self._costs),
                load_s=load_s,
                newest=newest,
                aborted=self.stop.is_set(),
            )
        )

    def _lengthen_slices(self, comparisons: Sequence[Comparison]) -> None:
        """Double the slices of cells in which one arm's slice reaches into the next one's."""
        assert self.plan
        longer = with_longer_slices(self.plan, leaking_cells(comparisons, self.study.precision))
        changed = [cell for cell in longer.cells if cell != self.plan.cell(cell.name)]
        if not changed:
            return
        self.plan = longer
        self.run_directory.write_json("plan.json", longer)
        for cell in changed:
            length = f"{cell.slices.slice_ns / 1e6:.0f} ms"
            self.listener.note(f"{cell.name}: slices of {length} from now on; shorter ones disturb each other")

    def _elapsed_s(self) -> float:
        return time.monotonic() - self.begin


def note_other_bakeoffs(listener: Listener) -> None:
    for pid in other_bakeoffs(RUNTIME_ROOT):
        listener.note(f"another bakeoff (process {pid}) runs servers here: they disturb each other's measurements")
