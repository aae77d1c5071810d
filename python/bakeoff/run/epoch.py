"""Run one epoch from its order to its outcome: start servers from restored data, measure every open cell, stop them.

The first epoch of a run also makes the plan from its pilot. The epoch is the unit of replication: a mechanical failure
inside it discards it for every arm.
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from operator import attrgetter

from bakeoff.engine import Engine, Measurement
from bakeoff.engine_messages import SliceMessage
from bakeoff.errors import BakeoffError, EngineError, RunInvalid, ServerError, UnreachableError
from bakeoff.plan import Cell, CellPilot, EpochDraft, Plan, SliceLength, guard_ns, pilot_slice_max_ns, whole_blocks
from bakeoff.plan.epochs import ROUND_BLOCKS, rounds
from bakeoff.plan.schedule import plan_after_pilot
from bakeoff.plan.timing import EpochCost, turn_seconds_min, warm_seconds
from bakeoff.results import EpochWriter, Outcome, RunDirectory
from bakeoff.results.epoch_data import CHANGES, RESTART, CellChanges, slices_frame
from bakeoff.results.frame import quotients
from bakeoff.run.arms import ArmSetup
from bakeoff.run.counters import CellCounts, read_after, read_before
from bakeoff.run.data_check import ask_tables, judge_rows
from bakeoff.run.epoch_servers import EpochServers, EpochTools, Phases
from bakeoff.run.loading import check_data, databases, families
from bakeoff.run.measuring import CellRun, ThroughputReporter, UnreliableCountError, declares, measuring_of
from bakeoff.run.restart import RESTART_SLICES, restart_limit_s, start_cold, throughput, while_busy
from bakeoff.servers.paths import RUNTIME_ROOT, other_bakeoffs
from bakeoff.spec.fields import Cache
from bakeoff.stats.diagnostics import is_warm
from bakeoff.stats.differences import changes, changes_text
from bakeoff.stats.slice_length import choose_slice_length, pilot_slice_ns
from bakeoff.units import format_duration

_WARM_LIMIT = 4  # longest warm-up, in multiples of the study's, while the arms still drift apart
_WARM_SLICES = SliceLength(slice_ns=20_000_000, guard_ns=2_000_000)
# Stopping a server takes a millisecond or two.
_WARM_WRITE_SLICES = SliceLength(slice_ns=50_000_000, guard_ns=5_000_000)
_ASKED_EVERY_S = 0.1
_PILOT_S, _PILOTS_S = 2.0, 12.0  # longest pilot of a cell, and of all cells together
_SIGNAL_S = 0.1  # by then a signal to all processes of a job has reached this one
# Errors that discard one epoch. All others (refused password, bad script) would recur and end the run.
_DISCARDING = frozenset(
    {"engine_lost", "server_lost", "sql_error", "connect_failed", "thread_init_timeout", "not_paired"}
)


class Interrupted(Exception):
    """The user ended the run inside an epoch, which is dropped."""


Watch = Callable[[EpochServers, Cell], contextlib.AbstractContextManager[Callable[[SliceMessage], None]]]


def discards_epoch(error: Exception) -> bool:
    if isinstance(error, EngineError):
        return error.code in _DISCARDING
    return isinstance(error, (ServerError, UnreachableError, UnreliableCountError))


def broken_off(stop: threading.Event) -> bool:
    """Whether a failure may have come from the user ending the run.

    A signal to all processes of a job (`systemctl stop`) also ends the engine and the servers, maybe a moment earlier.
    """
    if not stop.is_set():
        time.sleep(_SIGNAL_S)  # not `stop.wait`: a signal handler inside it may deadlock
    return stop.is_set()


class Epoch:
    """One epoch in one or several rounds: `with epoch.round(arms)`, then `warm` and `measure` inside it."""

    servers: EpochServers

    def __init__(
        self, tools: EpochTools, draft: EpochDraft, writer: EpochWriter, *, watch: Watch | None = None
    ) -> None:
        self._watch = watch
        self.phases = Phases()
        self.planned_s = 0.0  # of measuring, asked for so far
        self.warmed: dict[int, list[SliceMessage]] = {}  # before the pilot, by workload
        self._tools = tools
        self._draft = draft
        self._writer = writer
        self._started_at = datetime.now(UTC)
        self._begin = time.monotonic()
        self._round = -1
        self._measured: list[str] = []  # cells, in this round
        self._loaded: int | None = None  # the workload that this round ran last
        self._cell_order: dict[str, None] = {}
        self._ends_ns: dict[str, int] = {}  # by cell, of the rounds before
        self._costs = CellCounts(writer)
        self._changes: dict[str, CellChanges] = {}  # by arm
        self._other_bakeoffs: set[int] = set()
        self._cache_line_ns: dict[str, int] = {}  # by cell
        self._engine: Engine

    @contextlib.contextmanager
    def round(self, arms: Sequence[str]) -> Iterator[None]:
        self._round += 1
        self._measured = []
        self._loaded = None
        setups = tuple(setup for setup in self._tools.setups if setup.arm.name in arms)
        tools = replace(self._tools, setups=setups)
        self.servers = EpochServers(tools, self._draft, self._writer, self.phases)
        running = contextlib.ExitStack()
        try:
            running.callback(self.servers.remove)
            self.servers.start()
            self.servers.make_ready()
            self.servers.limit_storage()
            self._engine = running.enter_context(tools.engine(stop=tools.stop, on_log=tools.listener.note))
            self._other_bakeoffs.update(other_bakeoffs(RUNTIME_ROOT))
            yield
        finally:
            self.servers.keep_logs()
            with self.phases.measure("stop"):
                running.close()
            self._other_bakeoffs.update(other_bakeoffs(RUNTIME_ROOT))

    def compare_rows(self) -> None:
        """Check before measuring that the restored servers hold the same rows, by a few rows of each table."""
        study = self._tools.study
        with self.phases.measure("check"):
            answers = {
                name: ask_tables(server, databases(study, server), quick=True)
                for name, server in self.servers.all.items()
            }
        for name, found in answers.items():
            tables = {table: {query: each.answer for query, each in asked.items()} for table, asked in found.items()}
            self._writer.write_server_json(name, "rows.json", tables)
        judge_rows(self._tools.study, answers, self._tools.listener)

    def warm(self, cells: Sequence[Cell], *, for_pilot: bool = False) -> None:
        """Run each cell's workload at its highest concurrency for the study's warm-up.

        If all only read, it ends once the arms stop drifting apart. With `for_pilot` its slices go to `warmed`, and
        count as the warm-up curve of the workload measured first if the pilot ended with it: it is warm already.
        """
        hottest: dict[int, Cell] = {}
        for cell in cells:
            known = hottest.get(cell.workload_index)
            if known is None or cell.threads > known.threads:
                hottest[cell.workload_index] = cell
        seconds = warm_seconds(self._tools.study.warm_s)
        with self.phases.measure("pilot" if for_pilot else "warm"):
            for cell in hottest.values():
                if cell.workload_index == self._loaded and not for_pilot:
                    self._writer.warm_up.extend(self.warmed[cell.workload_index])
                    continue
                self._report(f"warming {cell.name}")
                reads = not cell.long_slices
                short = min(_WARM_SLICES, cell.slices, key=attrgetter("slice_ns"))
                slices = short if reads else _WARM_WRITE_SLICES
                warmed = self._measure(
                    self._cell_run(cell, self.servers.setups, slices, changes_nothing=True),
                    seconds=_WARM_LIMIT * seconds if reads else seconds,
                    seeds=(0, self._draft.seeds.padding),
                    until=_now_and_then(partial(is_warm, planned_s=seconds)) if reads else None,
                )
                if for_pilot:
                    self.warmed[cell.workload_index] = warmed.slices
                else:
                    self._writer.warm_up.extend(warmed.slices)

    def pilot(self, cell: Cell, seconds: float, slice_ns: int) -> list[SliceMessage]:
        self._tools.listener.stage(f"choosing the slice length of {cell.name}")
        run = self._cell_run(cell, self.servers.setups, SliceLength(slice_ns=slice_ns, guard_ns=guard_ns(slice_ns)))
        with self.phases.measure("pilot"):
            return self._measure(run, seconds=seconds, seeds=(1, self._draft.seeds.padding + 1)).slices

    def measure_all(self, arm_s: Callable[[str], float], plan: Plan) -> None:
        # Warm up right before measuring: what another workload leaves behind (the adaptive hash index) takes seconds to
        # change, on some versions longer than on others.
        for _, same_workload in groupby(map(plan.cell, self._draft.cell_order), key=attrgetter("workload")):
            cells = tuple(same_workload)
            self.warm(cells)
            for cell in cells:
                self.measure(cell, arm_s(cell.name))
                if not self._watch:  # explaining changes variables itself
                    self._keep_changes(cell)
        self.servers.keep_status()

    def measure(self, cell: Cell, arm_s: float) -> None:
        draft = next(draft for draft in self._draft.cells if draft.cell == cell.name)
        setups = [setup for setup in self.servers.setups if setup.arm.name in (draft.arms or self.servers.all)]
        if len(setups) < 2:
            return
        seconds = len(setups) * max(arm_s, turn_seconds_min(cell.slices))
        self.planned_s += seconds
        if self._measured and cell.writes:
            self.servers.flush()
        self._report(f"measuring {cell.name}")
        slices, blocks = cell.slices, None
        if not cell.fixed_work:
            slices, blocks = whole_blocks(slices, seconds=seconds, turns=len(setups))
        run = self._cell_run(cell, setups, slices)
        end = measuring_of(cell.script).begin(run)
        ours = {setup.arm.name: server for setup in setups if (server := self.servers.ours.get(setup.arm.name))}
        if cache_line_ns := self._engine.cache_line_ns():
            self._cache_line_ns[cell.name] = cache_line_ns
        idle = read_before(ours)
        watch = self._watch(self.servers, cell) if self._watch else contextlib.nullcontext()
        with self.phases.measure("measure"), watch as on_slice:
            seeds = draft.order_seed, draft.key_seed
            measured = self._measure(run, seconds=seconds, blocks=blocks, seeds=seeds, on_slice=on_slice)
        self._costs.add(cell.name, measured.slices, idle, read_after(ours))
        self._measured.append(cell.name)
        self._cell_order[cell.name] = None
        self._writer.slices.extend(self._in_this_round(cell.name, measured.slices))
        # A contender's latencies are compared with the baseline's in the same round.
        mark = {"round": self._round} if self._round else {}
        self._writer.histograms.extend(message | mark for message in measured.histograms)
        self._writer.failures.extend(measured.failures)
        end(measured)

    def _keep_changes(self, cell: Cell) -> None:
        """Note variables that have changed since the start: a script may set them, on one arm alone."""
        for setup in self.servers.setups:
            name = setup.arm.name
            if found := changes(self.servers.variables[name], self.servers.all[name].variables()):
                kept = self._changes.setdefault(name, {})
                kept.setdefault(cell.name, {}).update(found)
                self._writer.write_server_json(name, CHANGES, kept)
                self._tools.note_once(f"{setup.arm.label}: while it was measured, {changes_text(found)}")

    def restart(self, plan: Plan) -> None:
        """Restart each arm alone with empty caches, and note how long it takes to be as fast as before in one cell."""
        closed = [each for each in plan.cells if not (each.fixed_work or each.open_loop)]
        if not closed:
            self._tools.note_once("restarts are not timed: that takes a workload in a closed loop")
            return
        first = min(each.workload_index for each in closed)
        cell = max((each for each in closed if each.workload_index == first), key=attrgetter("threads"))
        limit_s = restart_limit_s(plan)
        by_name = {setup.arm.name: setup for setup in self.servers.setups}
        for name in self._draft.start_order:
            warm_per_s = throughput(self._writer.slices, cell.name, name)
            if not (warm_per_s and name in self.servers.ours and name in by_name):
                continue
            self._report(f"restarting {by_name[name].arm.label}")
            with self.phases.measure("restart"):
                timed = start_cold(self.servers.ours[name])
                measure = partial(
                    self._measure,
                    self._cell_run(cell, [by_name[name]], RESTART_SLICES, changes_nothing=True),
                    seconds=limit_s,
                    seeds=(0, self._draft.seeds.padding),
                    until=timed.until_warm(warm_per_s),
                    on_slice=timed.see,
                )
                while_busy(measure, limit_s, self._tools.stop)
            self._writer.write_server_json(name, RESTART, timed.record(cell.name, warm_per_s, limit_s))

    def check_data(self) -> None:
        """Have scripts that can check their own data do so; RunInvalid if the server lost or invented something."""
        study = self._tools.study
        with self.phases.measure("check"):
            for database, workload in families(study):
                if not declares(workload.script, "commands", "check"):
                    continue
                self._report(f"checking the data of {database}")
                self._engine.open(self.servers.addresses(workload))
                for setup in self.servers.setups:
                    try:
                        check_data(self._engine, study, setup, workload)
                    except EngineError as error:
                        if error.code != "script_error":
                            raise
                        raise RunInvalid(
                            f"{setup.arm.label}: {workload.script} finds its data inconsistent after the load: {error}"
                        ) from None
                    if self._tools.stop.is_set():  # an interrupted check looks like a passed one
                        raise Interrupted

    def outcome(self, *, discard_reason: str = "") -> Outcome:
        return Outcome(
            epoch=self._draft.epoch,
            build=self._draft.build,
            valid=not discard_reason,
            discard_reason=discard_reason,
            started_at=self._started_at,
            wall_s=time.monotonic() - self._begin,
            measured_s=self.phases.seconds.get("measure", 0.0),
            phases_s=self.phases.seconds,
            start_order=self._draft.start_order,
            cell_order=tuple(self._cell_order),
            seeds=self._draft.seeds.model_dump(),
            other_bakeoffs=tuple(sorted(self._other_bakeoffs)),
            cache_line_ns=self._cache_line_ns,
            host=self._tools.host,
        )

    def _report(self, text: str) -> None:
        self._tools.listener.stage(f"{self._tools.called} {self._draft.epoch}: {text}")

    def _in_this_round(self, cell: str, slices: list[SliceMessage]) -> list[SliceMessage]:
        begin_ns = self._ends_ns.get(cell, 0)
        self._ends_ns[cell] = begin_ns + max((each["start_ns"] + each["length_ns"] for each in slices), default=0)
        if self._round == 0:
            return slices
        first = self._round * ROUND_BLOCKS
        return [each | {"block": first + each["block"], "start_ns": begin_ns + each["start_ns"]} for each in slices]

    def _measure(
        self,
        run: CellRun,
        *,
        seconds: float,
        seeds: tuple[int, int],
        blocks: int | None = None,
        until: Callable[[list[SliceMessage]], bool] | None = None,
        on_slice: Callable[[SliceMessage], None] | None = None,
    ) -> Measurement:
        """Have the engine measure a cell for a number of blocks or of seconds; `until` may end it sooner."""
        cell, slices = run.cell, run.slices
        fields = measuring_of(cell.script).request(run)
        if fields is None:
            return Measurement([], [])
        self._engine.open(self.servers.addresses(run.workload))
        measured = self._engine.measure(
            {
                "cell": cell.name,
                **fields,
                "threads": cell.threads,
                "arms": list(run.arms),
                "seconds": None if blocks else seconds,
                "blocks": blocks,
                "slice_ns": slices.slice_ns,
                "guard_ns": 0 if cell.fixed_work else slices.guard_ns,
                "order_seed": seeds[0],
                "key_seed": seeds[1],
                "placement": cell.placement,
                "freeze": cell.freeze and len(self.servers.ours) == len(self.servers.all),
            },
            on_slice=on_slice or ThroughputReporter(cell, self._tools.listener).add_slice,
            until=until,
        )
        if self._tools.stop.is_set():
            raise Interrupted
        self._loaded = cell.workload_index
        if length_ns := sum(each["length_ns"] for each in measured.slices):
            events = sum(each["events"] for each in measured.slices)
            self._tools.rates[cell.name, run.reads_only] = 1e9 * events / length_ns
        return measured

    def _cell_run(
        self, cell: Cell, setups: Sequence[ArmSetup], slices: SliceLength, *, changes_nothing: bool = False
    ) -> CellRun:
        return CellRun(
            study=self._tools.study,
            cell=cell,
            slices=slices,
            arms={setup.arm.name: setup.arm for setup in setups},
            engines={setup.arm.name: setup.table_engine for setup in setups},
            servers=self.servers.all,
            writer=self._writer,
            rates=self._tools.rates,
            note_once=self._tools.note_once,
            changes_nothing=changes_nothing,
        )


def _now_and_then(until: Callable[[list[SliceMessage]], bool]) -> Callable[[list[SliceMessage]], bool]:
    asked_s = time.monotonic()

    def ask(slices: list[SliceMessage]) -> bool:
        nonlocal asked_s
        if time.monotonic() - asked_s < _ASKED_EVERY_S:
            return False
        answer = until(slices)
        asked_s = time.monotonic()
        return answer

    return ask


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


@dataclass
class _Running:
    order: EpochOrder
    tools: EpochTools
    directory: RunDirectory
    made: Plan | None = None
    begin: float = field(default_factory=time.monotonic)

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
        if self.tools.study.cache is Cache.COLD:
            epoch.restart(plan)
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
        elapsed_s = self.order.used_s + time.monotonic() - self.begin
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
            if cell.long_slices:
                continue
            pilot_ns = pilot_slice_ns(slices_frame(epoch.warmed[cell.workload_index], epoch=0, build=0))
            measured = slices_frame(epoch.pilot(cell, pilot_s, pilot_ns), epoch=0, build=0)
            choice = choose_slice_length(measured, cell=cell.name, pilot_ns=pilot_ns, ceiling_ns=longest_ns)
            by = measured.by("arm")
            rates = quotients(by.sum(measured["events"]), by.sum(measured["length_ns"])) * 1e9
            pilots[cell.name] = CellPilot(choice.slices, choice.variance_rate_s, float(rates.min(initial=math.inf)))
            curves[cell.name] = choice.model_dump(mode="json")
        self.directory.write_json("pilot.json", curves)
        return pilots
