"""A whole run: install, load, plan, epochs until the rule says stop, analysis. Everything is written as it happens."""

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from bakeoff.engine import Engine
from bakeoff.errors import BakeoffError, EngineError, TrialInvalid
from bakeoff.plan import (
    EpochDraft,
    Plan,
    SliceLength,
    epoch_draft,
    needed_seconds,
    pilot_slice_max_ns,
    plan_study,
    precise_seconds,
    share_seconds,
    with_longer_slices,
)
from bakeoff.plan.model import rounds, turns
from bakeoff.plan.timing import EpochCost, pace_of
from bakeoff.results import EpochData, RunDirectory
from bakeoff.results.epoch_data import joined, slices_frame, wall_time
from bakeoff.run.arms import check_workloads, prepare_arms, servers_by_aio, share_memory
from bakeoff.run.epoch import CountsDisagree, Epoch, Interrupted, TooManyErrors, discards_epoch
from bakeoff.run.epoch_servers import EpochTools
from bakeoff.run.listener import Listener
from bakeoff.run.loading import Loader
from bakeoff.run.resume import (
    Before,
    check_machine,
    check_servers,
    ended_as,
    keep_memory,
    note_extension,
    kept_memory,
    read_before,
)
from bakeoff.servers import ServerPool
from bakeoff.servers.paths import work_root
from bakeoff.spec import Study
from bakeoff.stats.analysis import analyse
from bakeoff.stats.diagnostics import leaking_cells
from bakeoff.stats.estimate import epoch_estimates
from bakeoff.stats.model import Analysis, Stop
from bakeoff.stats.resolution import PILOT_EPOCHS, better_seconds, noise_card
from bakeoff.stats.slice_length import choose_slice_length, pilot_slice_ns
from bakeoff.stats.stopping import Decision, decide

# Of a cell; a cell of many has less, since seconds are shared among them by what all pilots found.
_PILOT_S, _PILOTS_S = 2.0, 12.0
_STOP_S = 0.5  # what stopping the servers will take, before the first epoch has shown it
# What analysis and report take after the last epoch: the budget ends with the verdict.
_REPORT_S, _REPORT_CELL_S, _REPORT_CELLS = 3.0, 0.5, 12
# Of the budget: while loading takes no more of it, further builds are loaded.
_LOADING_SHARE = 0.5
# An epoch discarded again and again is not bad luck.
_DISCARDED_IN_A_ROW = 2


def run_study(
    study: Study,
    runs_root: Path,
    *,
    listener: Listener,
    stop: threading.Event,
    passwords: Mapping[str, str],
    command_line: Sequence[str],
    resume: RunDirectory | None = None,
) -> tuple[RunDirectory, Analysis]:
    """Run a study to its end, or until `stop` is set; returns the run directory and the analysis.

    Whatever happens no server is left behind, and a new run without a finished epoch leaves no directory.

    Args:
        study: the question; of a resumed run its own (`trial.resume.resumed_study`).
        runs_root: where a new run directory is made.
        listener: told what happens.
        stop: set it to end in order.
        passwords: of servers named by URL, by arm name.
        command_line: for the manifest.
        resume: a run to go on with; its finished epochs count and are not measured again.

    Raises:
        BakeoffError: it could not be started, or what came out cannot be used.
        KeyboardInterrupt: `stop` was set before there was an epoch to tell of.
    """
    if resume is not None:
        check_machine(resume)
    check_workloads(study.workloads, study.arms)
    share = (kept_memory(resume) if resume else None) or share_memory(study, at_most=servers_by_aio())
    setups = prepare_arms(study, share.memory, passwords=passwords, on_progress=_fetching(listener, stop), stop=stop)
    with ServerPool(work_root()) as pool, Engine(stop=stop, on_log=listener.note) as engine:
        run = resume or RunDirectory.create(
            runs_root,
            study,
            command=command_line,
            engine=engine.hello,
            data_path=work_root(),
            secrets=tuple(passwords.values()),
        )
        with run.hold():
            try:
                before = read_before(run) if resume else Before()
                check_servers(before, setups)
                keep_memory(run, share)
                for sentence in study.design.fraction.sentences() if study.design and study.design.fraction else ():
                    listener.note(sentence)
                begin = time.monotonic()
                loader = Loader(study, pool, run, listener, engine, stop)
                snapshots = loader.load_all(
                    setups, limit_s=math.inf if before.plan else study.budget_s * _LOADING_SHARE
                )
                builds = max((build + 1 for _, build in snapshots), default=study.builds)
                for setup in setups:
                    if setup.remote:
                        loader.load_remote(setup, measured=before.plan is not None or bool(before.history))
                if before.used_s:
                    begin = time.monotonic() - before.used_s
                tools = EpochTools(
                    study,
                    setups,
                    pool,
                    snapshots,
                    listener,
                    stop,
                    at_once=max(share.at_once, 2),
                )
                engine.close()
                history = list(before.history)
                trial = _Trial(
                    study, run, tools, begin, builds, plan=before.plan, history=history, resumed=bool(history)
                )
                analysis = trial.run()
            except BaseException:
                if resume is None:
                    run.discard_if_empty()
                raise
    return run, analysis


def _fetching(listener: Listener, stop: threading.Event) -> Callable[[str, int, int | None], None]:
    """Downloads as progress; steps of unknown length (unpacking) as what happens now; the end when `stop` is set."""
    interrupted = threading.Event()
    told = ""

    def tell(what: str, done: int, total: int | None) -> None:
        if stop.is_set() and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        if stop.is_set() and not interrupted.is_set():
            # Told by a thread that watches a download; the main thread waits for its end, and only a signal wakes it.
            interrupted.set()
            ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as of a shell's background job
            os.kill(os.getpid(), signal.SIGTERM if ignored else signal.SIGINT)
        nonlocal told
        if total:
            listener.progress(what, done, total)
        elif what != told:
            told = what
            listener.stage(what)

    return tell


@dataclass
class _Trial:
    """The loop over epochs, with what it has learnt so far."""

    study: Study
    run_directory: RunDirectory
    tools: EpochTools
    begin: float
    builds: int
    plan: Plan | None = None
    history: list[EpochData] = field(default_factory=list)
    resumed: bool = False
    costs: list[EpochCost] = field(default_factory=list)

    def run(self) -> Analysis:
        """Epochs until the rule says stop; the analysis is written before returning."""
        history = self.history
        discarded_in_a_row = 0
        next_one = self._where_it_stood()
        stop = next_one.stop if next_one else Stop.RUNNING
        note_extension(self.run_directory, self.study, goes_on=stop is Stop.RUNNING)
        while stop is Stop.RUNNING:
            data = self._one_epoch(len(history), next_one)
            if data is None:
                stop = Stop.ABORTED
                break
            history.append(data)
            discarded_in_a_row = 0 if data.valid else discarded_in_a_row + 1
            if discarded_in_a_row >= _DISCARDED_IN_A_ROW:
                raise TrialInvalid(
                    f"epochs {len(history) - 2} and {len(history) - 1} both had to be discarded: {data.discard_reason}.",
                    hint=f"Look at {self.run_directory.path}/epochs/*/servers/*/error.log.",
                )
            next_one = self._consider(history)
            stop = next_one.stop if next_one else Stop.RUNNING
        if not any(data.valid for data in history):
            if self.tools.stop.is_set():
                raise KeyboardInterrupt
            raise TrialInvalid("no epoch could be used.", hint=f"See {self.run_directory.path}/epochs.")
        analysis = analyse(history, self.study, plan=self.plan, ended=ended_as(stop, self.run_directory))
        self.run_directory.write_analysis(analysis)
        directory = self.run_directory
        outcomes = [directory.outcome(epoch) for epoch in directory.finished_epochs()]
        directory.write_json("wall.json", wall_time(directory.builds(), outcomes))
        return analysis

    def _where_it_stood(self) -> Decision | None:
        """What the rule says of the epochs of a resumed run; its plan is not changed any more."""
        if self.plan is None or not self.history:
            return None
        return self._decide([data for data in self.history if data.valid])

    def _decide(self, valid: Sequence[EpochData]) -> Decision:
        assert self.plan
        report_s = _REPORT_S + _REPORT_CELL_S * min(len(self.plan.cells), _REPORT_CELLS)
        return decide(
            [epoch_estimates(data, baseline=self.study.baseline.name) for data in valid],
            self.study,
            self.plan,
            elapsed_s=self._elapsed_s() + report_s,
            pace=pace_of(self.costs),
            aborted=self.tools.stop.is_set(),
        )

    def _consider(self, history: list[EpochData]) -> Decision | None:
        """Ask the stopping rule, and tell whoever listens where things stand; None before there is a plan."""
        if self.plan is None:
            return None  # the first epoch was discarded
        valid = [data for data in history if data.valid]
        estimates = [epoch_estimates(data, baseline=self.study.baseline.name) for data in valid]
        elapsed_s = self._elapsed_s()
        decision = self._decide(valid)
        if history[-1].valid:
            analysis = analyse(valid, self.study, plan=self.plan, ended=Stop.RUNNING)
            self.tools.listener.epoch_finished(history[-1].epoch, analysis.comparisons, elapsed_s, decision.more_s)
            self._lengthen_slices(analysis)
            if len(valid) == PILOT_EPOCHS == len(history):
                slices = pl.concat([data.slices for data in valid])
                self.tools.listener.noise_card(noise_card(estimates, self.study, self.plan, slices=slices))
                if decision.stop is Stop.RUNNING and not self.resumed:
                    seconds = better_seconds(estimates, self.study, self.plan, elapsed_s=elapsed_s)
                    if seconds is not None:
                        self._start_anew(history, seconds)
                        return self._decide([])
        return decision

    def _lengthen_slices(self, analysis: Analysis) -> None:
        """Double the slices of cells in which one arm's slice reaches into the next one's (method 2.7).

        Both arms are as often first as second, so the ratio is right with either length, and the epochs stay.
        """
        assert self.plan
        longer = with_longer_slices(self.plan, leaking_cells(analysis.comparisons, self.study.precision))
        changed = [cell for cell in longer.cells if cell != self.plan.cell(cell.name)]
        if not changed:
            return
        self.plan = longer
        self.run_directory.write_json("plan.json", longer)
        for cell in changed:
            length = f"{cell.slices.slice_ns / 1e6:.0f} ms"
            self.tools.listener.note(f"{cell.name}: slices of {length} from now on; shorter ones disturb each other")

    def _start_anew(self, history: list[EpochData], seconds: float) -> None:
        """Change the measuring time after the pilot and leave its epochs out: an estimate has one measuring time."""
        assert self.plan
        old = self.plan
        slices = {cell.name: cell.slices for cell in old.cells}
        self.plan = share_seconds(
            plan_study(
                self.study,
                overhead_s=old.overhead_s,
                load_s=self._elapsed_s(),
                seconds_per_cell=seconds,
                turns=old.turns,
                builds=old.builds,
            ).with_slices(slices),
            {cell.name: old.seconds_of(cell.name) for cell in old.cells},
        )
        if old.unpaired:
            self.plan = self.plan.all_free(old.unpaired)
        reason = f"pilot: the measuring time was changed from {old.seconds_per_cell:.0f} s to {seconds:.0f} s after it"
        self.run_directory.set_aside((data.epoch for data in history), reason)
        self.run_directory.write_json("plan.json", self.plan)
        history[:] = [replace(data, valid=False, discard_reason=reason) for data in history]
        self.tools.listener.note(reason)

    def _one_epoch(self, number: int, decided: Decision | None) -> EpochData | None:
        """Run one epoch; a discarded one is written and returned as such, None when the user ended it.

        Args:
            number: from 0.
            decided: what remains to be measured and how long; None: everything.
        """
        settled = decided.settled if decided else frozenset[tuple[str, str]]()
        finished = decided.finished if decided else frozenset[str]()
        share = decided.share if decided else 1.0
        plan = self.plan or self._first_plan()
        draft = epoch_draft(plan, self.study, number, finished=finished, settled=settled)
        wanted = {arm for cell in draft.cells for arm in cell.arms}
        writer = self.run_directory.epoch(number, draft.build)
        done: list[Epoch] = []
        reason = ""
        names = tuple(arm for arm in plan.arms if arm in wanted)
        for arms in rounds(names, at_once=self.tools.at_once, seed=self.study.seed, epoch=number):
            here = replace(self.tools, setups=tuple(each for each in self.tools.setups if each.arm.name in arms))
            done.append(Epoch(here, draft, writer, previous=done[-1] if done else None))
            try:
                self._one_round(done[-1], draft, share)
            except Interrupted:
                return None
            except (BakeoffError, TooManyErrors, CountsDisagree) as error:
                if not discards_epoch(error):
                    raise
                reason = str(error)
                break
        outcome = joined([epoch.outcome(discard_reason=reason) for epoch in done])
        writer.finish(outcome)
        planned_s = sum(epoch.planned_s for epoch in done)
        unplanned_s = outcome.wall_s - outcome.measured_s - outcome.phases_s.get("pilot", 0.0)
        if not reason:
            self.costs.append(EpochCost(unplanned_s, outcome.measured_s, planned_s))
        if outcome.discard_reason:
            self.tools.listener.note(f"epoch {number} is discarded for all arms: {outcome.discard_reason}")
        return self.run_directory.load_epoch(number)

    def _one_round(self, epoch: Epoch, draft: EpochDraft, share: float) -> None:
        """Measure the arms that run together; each arm has the same time in every round."""
        with epoch:
            if draft.epoch == 0:
                epoch.compare_rows()
            if self.plan is None:
                self.plan = self._plan_from(epoch, self._warm_first(epoch))
            else:
                epoch.warm(self.plan.cells)
            for cell in draft.cells:
                epoch.measure(self.plan.cell(cell.cell), self.plan.arm_seconds(cell.cell) * share)
            epoch.servers.keep_status()
            epoch.check_data()

    def _warm_first(self, epoch: Epoch) -> Plan:
        """Warm the first epoch; where a connection cannot be paired, all connections of all arms run free."""
        plan = self._first_plan()
        try:
            epoch.warm(plan.cells)
        except EngineError as error:
            if error.code != "not_paired":
                raise
            self.tools.listener.note(f"{error}; all connections of all arms run where the kernel puts them")
            plan = plan.all_free(str(error))
            epoch.warm(plan.cells)
        return plan

    @property
    def _turns(self) -> int:
        """Arms that take turns in a cell of a whole epoch: the baseline in every round."""
        return turns(len(self.study.arms), at_once=self.tools.at_once)

    @property
    def _rounds(self) -> int:
        """Rounds of a whole epoch: 1 when all servers fit into memory."""
        return self._turns - len(self.study.arms) + 1

    def _first_plan(self) -> Plan:
        """Cells and orders, before anything is known about this machine."""
        return plan_study(self.study, overhead_s=0.0, load_s=0.0, turns=self._turns, builds=self.builds)

    def _plan_from(self, epoch: Epoch, draft: Plan) -> Plan:
        """The plan proper: slice lengths by pilot, seconds a cell by what an epoch costs here."""
        chosen: dict[str, SliceLength] = {}
        noise: dict[str, float | None] = {}
        curves = {}
        needed_s = 0.0
        precise_s: list[float] = []
        longest_ns = pilot_slice_max_ns(budget_s=draft.budget_s, cells=len(draft.cells), turns=draft.turns)
        for cell in draft.cells:
            noise[cell.name] = None
            if cell.writes or self.study.workloads[cell.workload_index].rate_per_s is not None:
                continue
            warm_up = slices_frame(epoch.warmed[cell.workload_index], epoch=0, build=0)
            slices = epoch.pilot(cell, self._pilot_s(draft), pilot_slice_ns(warm_up))
            pilot = slices_frame(slices, epoch=0, build=0)
            choice = choose_slice_length(pilot, cell=cell.name, ceiling_ns=longest_ns)
            chosen[cell.name] = choice.slices
            events_per_s = 1e9 * int(pilot["events"].sum()) / max(int(pilot["length_ns"].sum()), 1)
            needed_s = max(
                needed_s, needed_seconds(slice_ns=choice.slice_ns, events_per_s=events_per_s, turns=draft.turns)
            )
            noise[cell.name] = choice.variance_rate_s
            if choice.variance_rate_s:
                precise_s.append(
                    precise_seconds(variance_rate_s=choice.variance_rate_s, precision=self.study.precision)
                )
            curves[cell.name] = choice.model_dump(mode="json")
        begun_s = sum(epoch.phases.seconds.get(phase, 0.0) for phase in ("restore", "start", "readiness", "warm"))
        plan = plan_study(
            self.study,
            overhead_s=self._rounds * (begun_s + _STOP_S),
            load_s=self._elapsed_s() - begun_s + _REPORT_S + _REPORT_CELL_S * min(len(draft.cells), _REPORT_CELLS),
            turns=self._turns,
            builds=self.builds,
            needed_s=needed_s,
            precise_s=math.fsum(precise_s) / len(precise_s) if precise_s else None,
        )
        plan = share_seconds(plan.with_slices(chosen), noise)
        if draft.unpaired:
            plan = plan.all_free(draft.unpaired)
        self.run_directory.write_json("plan.json", plan)
        self.run_directory.write_json("pilot.json", curves)
        if not plan.fits:
            self.tools.listener.note(
                f"the budget is too small for {plan.epochs_min} epochs; about {plan.budget_needed_s:.0f} s would do"
            )
        return plan

    def _pilot_s(self, draft: Plan) -> float:
        """As long as is useful, and at most a tenth of the budget for all cells together."""
        return max(1.0, min(_PILOT_S, min(_PILOTS_S, 0.1 * self.study.budget_s) / len(draft.cells)))

    def _elapsed_s(self) -> float:
        return time.monotonic() - self.begin
