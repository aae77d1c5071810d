"""Run a whole study: install, load, plan, epochs until the stopping rule ends it, analysis."""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from bakeoff import features, machine
from bakeoff.engine import Engine
from bakeoff.plan import Plan
from bakeoff.redaction import Redactor
from bakeoff.results import RunDirectory
from bakeoff.run.arms import ArmSetup, MemoryShare, download_reporter, max_servers_for_aio, prepare_arms, share_memory
from bakeoff.run.client_host import ClientHost
from bakeoff.run.epoch_servers import EpochTools
from bakeoff.run.kept_loads import KeptLoads
from bakeoff.run.loading import Loader
from bakeoff.run.measuring import check_workloads, resolved
from bakeoff.run.own_data import keep_snapshots, take_snapshots
from bakeoff.run.resume import budget_began, check_machine, keep_memory, keeping, kept_memory, read_checked
from bakeoff.run.study_run import StudyRun, ThisMachine, joining, note_other_bakeoffs
from bakeoff.servers import ServerPool
from bakeoff.servers.client import THIS_MACHINE
from bakeoff.servers.paths import work_root
from bakeoff.spec import Study
from bakeoff.spec.machine import Machine
from bakeoff.stats.model import Analysis
from bakeoff.stats.progress import Listener

LOADING_SHARE = 0.5  # stop loading more builds once loading has used this share of the budget


class AfterVerdict(Protocol):
    """Runs once the verdicts are written, for example to explain them. It calls `load` if it measures anything.

    `only`: the run is finished and nothing else is measured; `command` does only this.
    """

    @property
    def only(self) -> bool: ...
    @property
    def command(self) -> str: ...
    def __call__(self, run: RunDirectory, listener: Listener, load: Callable[[], EpochTools]) -> Analysis: ...


@dataclass(frozen=True)
class Invocation:
    command_line: Sequence[str]
    passwords: Mapping[str, str] = field(default_factory=dict)  # by arm name, or by the source of data
    resume: RunDirectory | None = None  # a run to continue; its finished epochs count
    after_verdict: AfterVerdict | None = None


def run_study(
    study: Study, runs_root: Path, asked: Invocation, *, listener: Listener, stop: threading.Event
) -> tuple[RunDirectory, Analysis]:
    """Run a study to its end, or until `stop` is set.

    No server is left behind in any case. A new run without a finished epoch leaves no directory, unless loads of your
    own data are kept for it. KeyboardInterrupt if `stop` was set before an epoch was finished.
    """
    resume, after_verdict, passwords = asked.resume, asked.after_verdict, asked.passwords
    study = _checked(study, asked, listener, stop)
    client = ClientHost.connect(study, listener, stop) if study.client else None
    share = (kept_memory(resume) if resume else None) or share_memory(study, at_most=max_servers_for_aio())
    initial_study = study.with_arms(study.starting_arms)
    setups = prepare_arms(
        initial_study, share.memory, passwords=passwords, on_progress=download_reporter(listener, stop), stop=stop
    )
    access = client.access if client else THIS_MACHINE
    with ServerPool(work_root(), access=access, stop=stop) as pool, Engine(stop=stop, on_log=listener.note) as engine:
        # Includes those from MYSQL_PWD and ~/.my.cnf.
        secrets = [*passwords.values(), *(each.remote.account().password for each in setups if each.remote)]
        if resume:
            run = RunDirectory(resume.path, redactor=Redactor(secrets, study))
        else:
            command, facts = asked.command_line, engine.hello.facts()
            run = RunDirectory.create(
                runs_root, study, command=command, engine=facts, data_path=work_root(), secrets=secrets
            )
        again = after_verdict.command if after_verdict and after_verdict.only else "bakeoff run --resume"
        program = str(engine.hello.build)
        kept = KeptLoads(pool, run, listener, program=program, resumed=resume is not None, again=again)
        loader = Loader(study, pool, run, listener, engine, stop, kept=kept)
        with keeping(run, is_new=resume is None, again=again), contextlib.ExitStack() as loads:
            try:
                before = read_checked(run, study, setups)
                keep_memory(run, share)
                if client:
                    client.keep_network(run)
                loads.enter_context(kept)  # not before: it may delete loads, and a refused run keeps its own
                begin_notes(study, listener)
                begin = time.monotonic()
                limit_s = math.inf if before.plan else study.budget_s * LOADING_SHARE
                loading = partial(load, loader, setups, share, limit_s=limit_s, client=client)
                if after_verdict and after_verdict.only:
                    return run, after_verdict(run, listener, loading)
                tools = loading()
                begin = budget_began(run, before, begin)
                before_epochs(tools, run)
                here = ThisMachine(tools, run, joining(share, loader, run))
                for arms in range(len(initial_study.arms), len(study.arms)):  # that joined before it was resumed
                    here.join(study.with_arms(study.arms[: arms + 1]))
                analysis = StudyRun(
                    study,
                    run,
                    here,
                    listener,
                    stop,
                    begin,
                    builds=builds_of(tools),
                    at_once=tools.at_once,
                    join=here.join,
                    plan=before.plan and before.plan.with_arms(arm.name for arm in study.arms),
                    history=run.load_epochs(),
                ).run()
                return run, after_verdict(run, listener, lambda: tools) if after_verdict else analysis
            finally:
                for sentence in loader.left.values():
                    listener.left_behind(sentence)


def _checked(study: Study, asked: Invocation, listener: Listener, stop: threading.Event) -> Study:
    if asked.resume is not None:
        check_machine(asked.resume)
    else:
        study = take_snapshots(study, listener, asked.passwords, stop)
    keep_snapshots(study)
    study = resolved(study)
    check_workloads(study)
    machine.require(_machines(study), work_root())
    return study


def _machines(study: Study) -> list[Machine]:
    """Return the shares of all servers started here: `thp` of one arm changes the mode of those that ask for none."""
    return [arm.server.machine for arm in study.arms if not arm.server.is_running]


def begin_notes(study: Study, listener: Listener) -> None:
    for sentence in study.design.fraction.sentences() if study.design and study.design.fraction else ():
        listener.note(sentence)
    if study.client:
        listener.note(f"client on {study.client}: the kernels place the threads, and resting servers are not stopped")
    note_other_bakeoffs(listener)


def load(
    loader: Loader,
    setups: tuple[ArmSetup, ...],
    share: MemoryShare,
    *,
    limit_s: float = math.inf,
    host: str = "",
    client: ClientHost | None = None,
) -> EpochTools:
    """Load all data on this machine, builds after the first within `limit_s`, and close the loader's engine."""
    measured = bool(loader.run.read("plan.json", Plan) or loader.run.finished_epochs())
    if machines := _machines(loader.study):
        machine.require(machines, work_root())  # in a cluster each host is asked
        loader.pool.prepare(machines)
    snapshots = loader.load_all(setups, limit_s=limit_s)
    for setup in setups:
        if setup.remote:
            loader.load_remote(setup, measured=measured)
    loader.engine.close()
    # Running servers take no memory here.
    at_once = len(loader.study.arms) if share.at_once >= share.servers else max(share.at_once, 2)
    engine = client.engine if client else Engine
    return EpochTools(
        loader.study, setups, loader.pool, snapshots, loader.listener, loader.stop, at_once, host=host, engine=engine
    )


def before_epochs(tools: EpochTools, run: RunDirectory) -> None:
    for feature in features.parts("before_epochs"):
        feature.before_epochs(tools, run)


def builds_of(tools: EpochTools) -> int:
    return max((build + 1 for _, build in tools.snapshots), default=tools.study.builds)
