"""Run one epoch from its order to its outcome; the first of a run also makes the plan from its pilot."""

import math
import time
from dataclasses import dataclass

from bakeoff.errors import BakeoffError, EngineError
from bakeoff.plan import CellPilot, EpochDraft, Plan, pilot_slice_max_ns
from bakeoff.plan.epochs import rounds
from bakeoff.plan.schedule import plan_after_pilot
from bakeoff.plan.timing import EpochCost
from bakeoff.results import RunDirectory
from bakeoff.results.epoch_data import slices_frame
from bakeoff.results.frame import Frame, quotients
from bakeoff.run.epoch import Epoch, Interrupted, broken_off, discards_epoch
from bakeoff.run.epoch_servers import EpochTools
from bakeoff.run.measuring import UnreliableCountError
from bakeoff.stats.slice_length import choose_slice_length, pilot_slice_ns
from bakeoff.units import format_duration

# Longest pilot of a cell, and of all cells together.
_PILOT_S, _PILOTS_S = 2.0, 12.0


@dataclass(frozen=True)
class EpochOrder:
    plan: Plan  # of the run; with `pilot` what is known before one: cells, orders, builds
    draft: EpochDraft
    share: float = 1.0  # the part of the planned measuring that fits into the budget
    pilot: bool = False  # make the plan proper from a pilot before measuring
    compare_rows: bool = False  # check first that the arms hold the same rows
    used_s: float = 0.0  # wall seconds of the budget used when it begins

    @property
    def arms(self) -> tuple[str, ...]:
        wanted = {arm for cell in self.draft.cells for arm in cell.arms}
        return tuple(arm for arm in self.plan.arms if arm in wanted)


@dataclass(frozen=True)
class EpochDone:
    number: int
    host: str = ""
    plan: Plan | None = None  # made by it; None if it had one, or failed before
    cost: EpochCost | None = None  # None if it was discarded
    reload_s: float = 0.0  # spent before it on loads that the run had made before it was resumed


def run_epoch(order: EpochOrder, tools: EpochTools, run: RunDirectory, *, failure: str = "") -> EpochDone | None:
    """Measure one epoch and write it; None if the user ended it.

    With `failure` it cannot be measured and is written as discarded, for this reason. Errors that would be the same in
    every epoch are raised; other failures discard the epoch.
    """
    return _Running(order, tools, run).run(failure)


class _Running:
    def __init__(self, order: EpochOrder, tools: EpochTools, run: RunDirectory) -> None:
        self.order = order
        self.tools = tools
        self.directory = run
        self.made: Plan | None = None
        self.begin = time.monotonic() - order.used_s

    def run(self, reason: str) -> EpochDone | None:
        tools, draft = self.tools, self.order.draft
        writer = self.directory.epoch(draft.epoch, draft.build)
        epoch = Epoch(tools, draft, writer)
        in_turn = rounds(self.order.arms, at_once=tools.at_once, seed=tools.study.seed, epoch=draft.epoch)
        try:
            for together in () if reason else in_turn:
                with epoch.round(together):
                    self._run_round(epoch)
        except Interrupted:
            return None
        except (BakeoffError, UnreliableCountError) as error:
            if not discards_epoch(error):
                raise
            if broken_off(tools.stop):
                return None
            reason = str(error)
        if reason:
            tools.listener.note(f"epoch {draft.epoch} is discarded for all arms: {reason}")
        outcome = epoch.outcome(discard_reason=reason)
        writer.finish(outcome)
        cost = None
        if not reason:
            overhead_s = outcome.wall_s - outcome.measured_s - outcome.phases_s.get("pilot", 0.0)
            cost = EpochCost(overhead_s, outcome.measured_s, epoch.planned_s)
        return EpochDone(draft.epoch, tools.host, self.made, cost)

    def _run_round(self, epoch: Epoch) -> None:
        if self.order.compare_rows:
            epoch.compare_rows()
        if self.order.pilot and self.made is None:
            self.made = self._plan(epoch, self._warm_for_pilot(epoch))
        plan, share = self.made or self.order.plan, self.order.share
        epoch.measure_all(lambda cell: plan.arm_seconds(cell) * share, plan)
        epoch.check_data()

    def _warm_for_pilot(self, epoch: Epoch) -> Plan:
        """Warm every workload; if a connection cannot be paired, all connections of all arms run free."""
        plan = self.order.plan
        try:
            epoch.warm(plan.cells, for_pilot=True)
        except EngineError as error:
            if error.code != "not_paired":
                raise
            self.tools.listener.note(f"{error}; all connections of all arms run where the kernel puts them")
            plan = plan.all_free(str(error))
            epoch.warm(plan.cells, for_pilot=True)
        return plan

    def _plan(self, epoch: Epoch, first: Plan) -> Plan:
        # The pilot's phase holds only its warm-up so far, which takes as long as an epoch's own.
        begun_s = sum(epoch.phases.seconds.get(phase, 0.0) for phase in ("restore", "start", "readiness", "pilot"))
        pilots = self._pilot(epoch, first)
        elapsed_s = time.monotonic() - self.begin
        plan = plan_after_pilot(first, self.tools.study, pilots, begun_s=begun_s, elapsed_s=elapsed_s)
        self.directory.write_json("plan.json", plan)
        if not plan.fits:
            self.tools.listener.note(
                f"the budget is too small for {plan.epochs_min} epochs and a verdict; about "
                f"{format_duration(plan.budget_needed_s)} would do"
            )
        return plan

    def _pilot(self, epoch: Epoch, first: Plan) -> dict[str, CellPilot]:
        pilots, curves = {}, {}
        longest_ns = pilot_slice_max_ns(budget_s=first.budget_s, cells=len(first.cells), turns=first.turns)
        pilot_s = max(1.0, min(_PILOT_S, min(_PILOTS_S, 0.1 * first.budget_s) / len(first.cells)))
        for cell in first.cells:
            if cell.writes or cell.open_loop:
                continue
            pilot_ns = pilot_slice_ns(slices_frame(epoch.warmed[cell.workload_index], epoch=0, build=0))
            measured = slices_frame(epoch.pilot(cell, pilot_s, pilot_ns), epoch=0, build=0)
            choice = choose_slice_length(measured, cell=cell.name, pilot_ns=pilot_ns, ceiling_ns=longest_ns)
            pilots[cell.name] = CellPilot(choice.slices, choice.variance_rate_s, _least_per_s(measured))
            curves[cell.name] = choice.model_dump(mode="json")
        self.directory.write_json("pilot.json", curves)
        return pilots


def _least_per_s(slices: Frame) -> float:
    by = slices.by("arm")
    return float(quotients(by.sum(slices["events"]), by.sum(slices["length_ns"])).min(initial=math.inf)) * 1e9
