"""Run a whole study: install, load, plan, epochs until the stopping rule ends it, analysis.

`run_study` prepares, `_StudyRun.run` loops over epochs, `bakeoff.run.epoch` measures one of them and
`bakeoff.run.epoch_servers` starts and stops its servers. Everything is written to the run directory as it happens.
"""

import errno
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bakeoff.engine import Engine
from bakeoff.errors import BakeoffError, EngineError, HostError, RunInvalid
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
from bakeoff.plan.timing import EpochCost, epoch_time, report_seconds
from bakeoff.results import EpochData, RunDirectory
from bakeoff.results.epoch_data import slices_frame, wall_time
from bakeoff.results.frame import Frame
from bakeoff.run.answers import compare_answers
from bakeoff.run.arms import check_workloads, prepare_arms, servers_by_aio, share_memory
from bakeoff.run.captures import with_captures
from bakeoff.run.data_check import CountsDisagree
from bakeoff.run.epoch import Epoch, Interrupted, TooManyErrors, discards_epoch
from bakeoff.run.epoch_servers import EpochTools
from bakeoff.run.explain import Explaining, explain
from bakeoff.run.kept_loads import KeptLoads
from bakeoff.run.listener import Listener, download_reporter
from bakeoff.run.loading import Loader
from bakeoff.run.own_data import take_snapshots
from bakeoff.run.resume import (
    Before,
    check_machine,
    check_servers,
    ended_as,
    keep_memory,
    kept_memory,
    note_extension,
    read_before,
)
from bakeoff.servers import ServerPool
from bakeoff.servers.paths import RUNTIME_ROOT, other_bakeoffs, work_root
from bakeoff.spec import Study
from bakeoff.stats.analysis import analyse
from bakeoff.stats.diagnostics import leaking_cells
from bakeoff.stats.estimate import EpochEstimates, epoch_estimates
from bakeoff.stats.gate import forecast_sentence
from bakeoff.stats.model import Analysis, Stop
from bakeoff.stats.resolution import PILOT_EPOCHS, better_seconds, noise_card
from bakeoff.stats.slice_length import choose_slice_length, pilot_slice_ns
from bakeoff.stats.stopping import Decision, decide
from bakeoff.units import format_duration

# Of one cell, and of all cells together: a cell of many has less, since the pilots' findings are shared.
_PILOT_S, _PILOTS_S = 2.0, 12.0
_STOP_S = 0.5  # what stopping the servers will take, before the first epoch has shown it
# Of the budget: while loading takes no more of it, further builds are loaded.
_LOADING_SHARE = 0.5
# An epoch that is discarded again and again is not bad luck.
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
    explaining: Explaining | None = None,
) -> tuple[RunDirectory, Analysis]:
    """Run a study to its end, or until `stop` is set; returns the run directory and the analysis.

    No server is left behind in any case, and a new run without a finished epoch leaves no directory, unless loads of
    one's own data are kept for it.

    Args:
        study: the question; of a resumed run its own (`bakeoff.run.resume.resumed_study`).
        runs_root: where a new run directory is made.
        listener: receives what happens.
        stop: set it to end in order.
        passwords: of servers named by URL, by arm name; of those whose data is taken by the data's source.
        command_line: for the manifest.
        resume: a run to go on with; its finished epochs count and are not measured again.
        explaining: what verdicts are explained, once they are written.

    Raises:
        BakeoffError: it could not be started, or its measurements cannot be used.
        KeyboardInterrupt: `stop` was set before an epoch was finished.
    """
    if resume is not None:
        check_machine(resume)
    else:
        study = take_snapshots(study, listener, passwords, stop)
    study = with_captures(study)
    check_workloads(study.workloads, study.arms)
    share = (kept_memory(resume) if resume else None) or share_memory(study, at_most=servers_by_aio())
    setups = prepare_arms(
        study, share.memory, passwords=passwords, on_progress=download_reporter(listener, stop), stop=stop
    )
    with ServerPool(work_root()) as pool, Engine(stop=stop, on_log=listener.note) as engine:
        run = resume or RunDirectory.create(
            runs_root,
            study,
            command=command_line,
            engine=engine.hello,
            data_path=work_root(),
            secrets=tuple(passwords.values()),
        )
        kept = KeptLoads(pool, run, listener, program=str(engine.hello.get("build")), resumed=resume is not None)
        loader = Loader(study, pool, run, listener, engine, stop, kept=kept)
        with run.hold(), kept:
            try:
                before = read_before(run) if resume else Before()
                check_servers(before, setups)
                keep_memory(run, share)
                for sentence in study.design.fraction.sentences() if study.design and study.design.fraction else ():
                    listener.note(sentence)
                _note_other_bakeoffs(listener)
                begin = time.monotonic()
                limit_s = math.inf if before.plan else study.budget_s * _LOADING_SHARE
                snapshots = loader.load_all(setups, limit_s=limit_s)
                for setup in setups:
                    if setup.remote:
                        loader.load_remote(setup, measured=before.plan is not None or bool(before.history))
                engine.close()  # every epoch starts one of its own
                if before.used_s:
                    begin = time.monotonic() - before.used_s
                tools = EpochTools(study, setups, pool, snapshots, listener, stop, max(share.at_once, 2))
                if explaining and explaining.only:
                    return run, explain(explaining, tools, run)
                compare_answers(tools, run)
                analysis = _StudyRun(
                    study,
                    run,
                    tools,
                    begin,
                    builds=max((build + 1 for _, build in snapshots), default=study.builds),
                    plan=before.plan,
                    history=list(before.history),
                ).run()
                return run, explain(explaining, tools, run) if explaining else analysis
            except BaseException as error:
                if run.finished_epochs():
                    raise _with_what_is_kept(error, run) from None
                raise
            finally:
                for sentence in loader.left.values():
                    listener.left_behind(sentence)


def _note_other_bakeoffs(listener: Listener) -> None:
    for pid in other_bakeoffs(RUNTIME_ROOT):
        listener.note(f"another bakeoff (process {pid}) runs servers here: each disturbs the other's measurement")


def _with_what_is_kept(error: BaseException, run: RunDirectory) -> BaseException:
    """The error that ends a run early, with the epochs that were kept and the commands that use them."""
    kept = f"Finished epochs are kept: {len(run.finished_epochs())}"
    use = f"`bakeoff report {run.path}` gives their verdict, `bakeoff run --resume {run.path}` goes on."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = Path(error.filename).parent if isinstance(error.filename, str) else run.path
        return HostError(f"the disk of {place} is full.", hint=f"Make room there. {kept}; {use}")
    if isinstance(error, BakeoffError):
        error.hint = f"{error.hint} {kept}; {use}".strip()
    return error


@dataclass
class _StudyRun:
    """The loop over epochs, and what it has learnt so far.

    Attributes:
        begin: `time.monotonic()` at which the budget began.
        builds: loads of the data that there are.
        plan: None until the first epoch has measured its pilot.
        history: finished epochs, valid and discarded.
        costs: wall seconds of the valid epochs measured by this process.
    """

    study: Study
    run_directory: RunDirectory
    tools: EpochTools
    begin: float
    builds: int
    plan: Plan | None = None
    history: list[EpochData] = field(default_factory=list)
    costs: list[EpochCost] = field(default_factory=list)

    def run(self) -> Analysis:
        """Measure epochs until the stopping rule ends it; the analysis is written before returning.

        Raises:
            RunInvalid: epochs are discarded again and again, or none could be used.
            KeyboardInterrupt: the user ended it before an epoch was finished.
        """
        resumed = bool(self.history)
        decision = self._decide(self._estimates()) if self.plan and resumed else None
        stop = decision.stop if decision else Stop.RUNNING
        note_extension(self.run_directory, self.study, goes_on=stop is Stop.RUNNING)
        discarded_in_a_row = 0
        while stop is Stop.RUNNING:
            data = self._run_epoch(decision)
            if data is None:
                stop = Stop.ABORTED
                break
            self.history.append(data)
            discarded_in_a_row = 0 if data.valid else discarded_in_a_row + 1
            if discarded_in_a_row >= _DISCARDED_IN_A_ROW:
                number = len(self.history) - 1
                raise RunInvalid(
                    f"epochs {number - 1} and {number} both had to be discarded: {data.discard_reason}.",
                    hint=f"Look at {self.run_directory.path}/epochs/*/servers/*/error.log.",
                )
            decision = self._after_epoch(may_start_anew=not resumed)
            stop = decision.stop if decision else Stop.RUNNING
        if not any(data.valid for data in self.history):
            if self.tools.stop.is_set():
                raise KeyboardInterrupt
            raise RunInvalid("no epoch could be used.", hint=f"See {self.run_directory.path}/epochs.")
        return self._finish(stop)

    def _finish(self, stop: Stop) -> Analysis:
        directory = self.run_directory
        analysis = analyse(self.history, self.study, plan=self.plan, ended=ended_as(stop, directory))
        directory.write_analysis(analysis)
        outcomes = [directory.outcome(epoch) for epoch in directory.finished_epochs()]
        directory.write_json("wall.json", wall_time(directory.builds(), outcomes))
        return analysis

    # ---- one epoch ---------------------------------------------------------------------------------------------

    def _run_epoch(self, decision: Decision | None) -> EpochData | None:
        """Run one epoch; a discarded one is written and returned as such, None when the user ended it.

        Args:
            decision: what remains to be measured and how long; None: everything.
        """
        number = len(self.history)
        plan = self.plan or self._first_plan()
        finished, settled = (decision.finished, decision.settled) if decision else (frozenset(), frozenset())
        draft = epoch_draft(plan, self.study, number, finished=finished, settled=settled)
        wanted = {arm for cell in draft.cells for arm in cell.arms}
        arms = tuple(arm for arm in plan.arms if arm in wanted)
        writer = self.run_directory.epoch(number, draft.build)
        epoch = Epoch(self.tools, draft, writer)
        reason = ""
        try:
            for together in rounds(arms, at_once=self.tools.at_once, seed=self.study.seed, epoch=number):
                with epoch.round(together):
                    self._run_round(epoch, draft, share=decision.share if decision else 1.0)
        except Interrupted:
            return None
        except (BakeoffError, TooManyErrors, CountsDisagree) as error:
            if not discards_epoch(error):
                raise
            reason = str(error)
            self.tools.listener.note(f"epoch {number} is discarded for all arms: {reason}")
        outcome = epoch.outcome(discard_reason=reason)
        writer.finish(outcome)
        if not reason:
            overhead_s = outcome.wall_s - outcome.measured_s - outcome.phases_s.get("pilot", 0.0)
            self.costs.append(EpochCost(overhead_s, outcome.measured_s, epoch.planned_s))
        return self.run_directory.load_epoch(number)

    def _run_round(self, epoch: Epoch, draft: EpochDraft, *, share: float) -> None:
        """Measure the arms that run together; each arm has the same time in every round."""
        if draft.epoch == 0:
            epoch.compare_rows()
        if self.plan is None:
            self.plan = self._make_plan(epoch, self._warm_for_pilot(epoch))
        plan = self.plan
        epoch.measure_all(lambda cell: plan.arm_seconds(cell) * share, plan)
        epoch.check_data()

    # ---- the plan, from the first epoch's pilot ----------------------------------------------------------------

    @property
    def _turns(self) -> int:
        """Arms that take turns in a cell of a whole epoch: the baseline in every round."""
        return turns(len(self.study.arms), at_once=self.tools.at_once)

    def _first_plan(self) -> Plan:
        """Cells and orders, before anything is known about this machine."""
        return plan_study(self.study, overhead_s=0.0, load_s=0.0, turns=self._turns, builds=self.builds)

    def _warm_for_pilot(self, epoch: Epoch) -> Plan:
        """Warm every workload; where a connection cannot be paired, all connections of all arms run free."""
        plan = self._first_plan()
        try:
            epoch.warm(plan.cells, for_pilot=True)
        except EngineError as error:
            if error.code != "not_paired":
                raise
            self.tools.listener.note(f"{error}; all connections of all arms run where the kernel puts them")
            plan = plan.all_free(str(error))
            epoch.warm(plan.cells, for_pilot=True)
        return plan

    def _make_plan(self, epoch: Epoch, first: Plan) -> Plan:
        """Make the plan proper: slice lengths by pilot, seconds of a cell by what an epoch costs here."""
        study = self.study
        # The pilot's phase holds only its warm-up so far, which takes as long as an epoch's own.
        begun_s = sum(epoch.phases.seconds.get(phase, 0.0) for phase in ("restore", "start", "readiness", "pilot"))
        chosen: dict[str, SliceLength] = {}
        noise: dict[str, float | None] = dict.fromkeys(cell.name for cell in first.cells)
        curves = {}
        needed_s = 0.0
        longest_ns = pilot_slice_max_ns(budget_s=first.budget_s, cells=len(first.cells), turns=first.turns)
        pilot_s = max(1.0, min(_PILOT_S, min(_PILOTS_S, 0.1 * study.budget_s) / len(first.cells)))
        for cell in first.cells:
            if cell.writes or cell.open_loop:
                continue
            warm_up = slices_frame(epoch.warmed[cell.workload_index], epoch=0, build=0)
            pilot = slices_frame(epoch.pilot(cell, pilot_s, pilot_slice_ns(warm_up)), epoch=0, build=0)
            choice = choose_slice_length(pilot, cell=cell.name, ceiling_ns=longest_ns)
            chosen[cell.name] = choice.slices
            noise[cell.name] = choice.variance_rate_s
            curves[cell.name] = choice.model_dump(mode="json")
            events_per_s = 1e9 * int(pilot["events"].sum()) / max(int(pilot["length_ns"].sum()), 1)
            cell_s = needed_seconds(slice_ns=choice.slice_ns, events_per_s=events_per_s, turns=first.turns)
            needed_s = max(needed_s, cell_s)
        precise_s = [
            precise_seconds(variance_rate_s=rate, precision=study.precision) for rate in noise.values() if rate
        ]
        rounds_of_epoch = self._turns - len(study.arms) + 1
        plan = plan_study(
            study,
            overhead_s=rounds_of_epoch * (begun_s + _STOP_S),
            load_s=self._elapsed_s() - begun_s + report_seconds(len(first.cells)),
            turns=self._turns,
            builds=self.builds,
            needed_s=needed_s,
            precise_s=math.fsum(precise_s) / len(precise_s) if precise_s else None,
        )
        plan = share_seconds(plan.with_slices(chosen), noise)
        if first.unpaired:
            plan = plan.all_free(first.unpaired)
        self.run_directory.write_json("plan.json", plan)
        self.run_directory.write_json("pilot.json", curves)
        if not plan.fits:
            self.tools.listener.note(
                f"the budget is too small for {plan.epochs_min} epochs and a verdict; about "
                f"{format_duration(plan.budget_needed_s)} would do"
            )
        return plan

    # ---- after an epoch ----------------------------------------------------------------------------------------

    def _after_epoch(self, *, may_start_anew: bool) -> Decision | None:
        """Ask the stopping rule and report where things stand; None while there is no plan.

        Args:
            may_start_anew: the measuring time may be changed after the pilot epochs.
        """
        if self.plan is None:
            return None  # the first epoch was discarded
        elapsed_s = self._elapsed_s()
        estimates = self._estimates()
        decision = self._decide(estimates)
        if not self.history[-1].valid:
            return decision
        valid = [data for data in self.history if data.valid]
        analysis = analyse(valid, self.study, plan=self.plan, ended=Stop.RUNNING)
        self.tools.listener.epoch_finished(self.history[-1].epoch, analysis.comparisons, elapsed_s, decision.more_s)
        self._lengthen_slices(analysis)
        if len(valid) == PILOT_EPOCHS == len(self.history):
            slices = Frame.concat([data.slices for data in valid])
            _note_other_bakeoffs(self.tools.listener)
            card = noise_card(estimates, self.study, self.plan, slices=slices)
            self.tools.listener.noise_card(card)
            if sentence := forecast_sentence(card, self.study, self.plan):
                self.tools.listener.note(sentence)
            if decision.stop is Stop.RUNNING and may_start_anew:
                seconds = better_seconds(estimates, self.study, self.plan, elapsed_s=elapsed_s)
                if seconds is not None:
                    self._start_anew(self.plan, seconds)
                    return self._decide([])
        return decision

    def _estimates(self) -> list[EpochEstimates]:
        baseline = self.study.baseline.name
        return [epoch_estimates(data, baseline=baseline) for data in self.history if data.valid]

    def _decide(self, estimates: Sequence[EpochEstimates]) -> Decision:
        assert self.plan
        return decide(
            estimates,
            self.study,
            self.plan,
            elapsed_s=self._elapsed_s() + report_seconds(len(self.plan.cells)),
            epoch_time=epoch_time(self.costs),
            aborted=self.tools.stop.is_set(),
        )

    def _lengthen_slices(self, analysis: Analysis) -> None:
        """Double the slices of cells in which one arm's slice reaches into the next one's (CARRY-OVER).

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

    def _start_anew(self, old: Plan, seconds: float) -> None:
        """Change the measuring time after the pilot and leave its epochs out: an estimate has one measuring time."""
        plan = plan_study(
            self.study,
            overhead_s=old.overhead_s,
            load_s=self._elapsed_s(),
            seconds_per_cell=seconds,
            turns=old.turns,
            builds=old.builds,
        ).with_slices({cell.name: cell.slices for cell in old.cells})
        plan = share_seconds(plan, {cell.name: old.seconds_of(cell.name) for cell in old.cells})
        self.plan = plan.all_free(old.unpaired) if old.unpaired else plan
        reason = f"pilot: the measuring time was changed from {old.seconds_per_cell:.0f} s to {seconds:.0f} s after it"
        self.run_directory.set_aside((data.epoch for data in self.history), reason)
        self.run_directory.write_json("plan.json", self.plan)
        self.history = [replace(data, valid=False, discard_reason=reason) for data in self.history]
        self.tools.listener.note(reason)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self.begin
