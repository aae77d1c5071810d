"""One epoch: servers freshly started from restored data, every open cell measured once, everything stopped again.

The epoch is the unit of replication: whatever goes wrong mechanically inside it discards it for every arm at once.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from bakeoff.engine import Engine, Measurement, Message, declares
from bakeoff.errors import EngineError, ServerError, TrialInvalid
from bakeoff.plan import Cell, EpochDraft, SliceLength, guard_ns, whole_blocks
from bakeoff.plan.model import ROUND_BLOCKS
from bakeoff.results import EpochWriter, Outcome
from bakeoff.run.arms import ArmSetup
from bakeoff.run.data_check import ask_tables, judge_rows
from bakeoff.run.epoch_servers import EpochServers, EpochTools, HostWatch, Phases
from bakeoff.run.listener import Listener
from bakeoff.run.loading import check_data, database_of, families, script_options
from bakeoff.servers import Server
from bakeoff.spec import Workload
from bakeoff.stats.diagnostics import is_warm
from bakeoff.stats.tpcc import ServerCounts, compare_counts

# An arm's throughput while it is measured, for whoever watches.


class Ticker:
    """Tells each arm's throughput about twice a second, from its slices since the last time."""

    _PERIOD_NS = 500_000_000

    def __init__(self, cell: str, listener: Listener) -> None:
        self._cell = cell
        self._listener = listener
        self._events: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._told_ns = 0

    def see(self, message: Message) -> None:
        """Take one `slice` message."""
        arm = message["arm"]
        self._events[arm] = self._events.get(arm, 0) + message["events"]
        self._seconds[arm] = self._seconds.get(arm, 0.0) + message["busy_ns"] / message["connections"] / 1e9
        now_ns = message["start_ns"] + message["length_ns"]
        if now_ns - self._told_ns < self._PERIOD_NS:
            return
        self._told_ns = now_ns
        for name, seconds in self._seconds.items():
            if seconds > 0:
                self._listener.throughput(self._cell, name, self._events[name] / seconds)
        self._events.clear()
        self._seconds.clear()


# Asks TPC-C's servers what they have counted themselves, before and after each measured cell.

SCRIPT = "tpcc"


class CountsDisagree(Exception):
    """A server has fewer transactions than the engine counted: one of the two counts is wrong."""


def read_counts(server: Server, database: str, options: dict[str, Any]) -> ServerCounts:
    """The server's sums at this moment.

    Args:
        server: at rest, but for its own background work.
        database: where the tables are.
        options: of the script; they name the tables.

    Raises:
        ServerError: the server is gone.
    """
    sums = " + ".join(f"(SELECT SUM(d_next_o_id) FROM `{database}`.{table})" for table in _districts(options))
    status = server.status()
    return ServerCounts(
        next_order_ids=int(server.query(f"SELECT {sums}")[0][0]),
        commits=int(status["Com_commit"]),
        rollbacks=int(status["Com_rollback"]),
    )


def _districts(options: dict[str, Any]) -> list[str]:
    sets = int(options.get("tables") or 1)
    if sets == 1 and options.get("table_suffix", "auto") == "auto":
        return ["district"]
    return [f"district{number}" for number in range(1, sets + 1)]


# What discards an epoch for all its arms, after which the run goes on, and what ends the run.

# More errors than this, per event, and the arm measures failing rather than working.
_ERROR_SHARE = 0.01
# Errors that say "this epoch went wrong"; the others (refused password, bad script) would be the same every time.
_VOIDING = frozenset({"server_lost", "sql_error", "connect_failed", "thread_init_timeout", "not_paired"})


class TooManyErrors(Exception):
    """An arm's statements failed too often for its throughput to mean anything."""


def discards_epoch(error: Exception) -> bool:
    """Whether an error discards the epoch (and the run goes on), rather than ending the run."""
    if isinstance(error, EngineError):
        return error.code in _VOIDING
    return isinstance(error, (ServerError, TooManyErrors, CountsDisagree))


def check_errors(slices: Sequence[Message]) -> None:
    """Look at the errors that a measuring counted.

    Raises:
        TooManyErrors: more than one in a hundred events, in an arm.
    """
    events: dict[str, int] = {}
    errors: dict[str, dict[str, int]] = {}
    for message in slices:
        arm = message["arm"]
        events[arm] = events.get(arm, 0) + message["events"]
        for code, count in message["errors"].items():
            by_code = errors.setdefault(arm, {})
            by_code[code] = by_code.get(code, 0) + count
    for arm, by_code in errors.items():
        total = sum(by_code.values())
        if total > _ERROR_SHARE * max(events[arm], 1):
            codes = ", ".join(f"{code} × {count}" for code, count in sorted(by_code.items()))
            raise TooManyErrors(f"arm {arm}: {total} errors in {events[arm]} events ({codes})")


_WARM_CELL_MIN_S = 2.0
_WARM_STRETCH = 4  # of a warm-up in which the arms are seen to move apart
_WARM_SLICES = SliceLength(slice_ns=20_000_000, guard_ns=2_000_000)
_WARM_WRITE_SLICES = SliceLength(
    slice_ns=50_000_000, guard_ns=5_000_000
)  # stopping a server takes a millisecond or two
_BLOCKS_MIN = 2  # of a cell in a round, each arm twice in each


class Interrupted(Exception):
    """The user ended the run inside an epoch: it is dropped."""


class Epoch:
    """Servers up and ready, engine connected: `with Epoch(...) as epoch`, then `measure` cell by cell.

    Args:
        draft: orders, build, padding and seeds of this epoch.
        writer: where its evidence goes.
        previous: the round before this one, when the arms do not all fit into memory at once.

    Attributes:
        phases: wall seconds so far.
        planned_s: seconds of measuring that were asked for so far.
        warmed: the slices of the warm-up, by the workload's place in the study.
    """

    def __init__(
        self, tools: EpochTools, draft: EpochDraft, writer: EpochWriter, *, previous: "Epoch | None" = None
    ) -> None:
        self.phases = Phases()
        self.planned_s = 0.0
        self.warmed: dict[int, list[Message]] = {}
        self.servers = EpochServers(tools, draft, writer, self.phases)
        self._tools = tools
        self._draft = draft
        self._writer = writer
        self._started_at = datetime.now(UTC)
        self._begin = time.monotonic()
        self._measured: list[str] = []
        self._round: int = previous._round + 1 if previous else 0
        self._ends_ns: dict[str, int] = previous._ends_ns if previous else {}
        self._recounts: dict[str, dict[str, list[Any]]] = previous._recounts if previous else {}
        self._first_begin: float = previous._first_begin if previous else self._begin
        self._exit = contextlib.ExitStack()
        self._engine: Engine
        self._host: HostWatch | None = None

    def __enter__(self) -> "Epoch":
        try:
            self._exit.callback(self.servers.remove)
            self.servers.start()
            self.servers.make_ready()
            self._host = self._exit.enter_context(HostWatch(self.servers.pids))
            self._engine = self._exit.enter_context(Engine(stop=self._tools.stop, on_log=self._tools.listener.note))
            return self
        except BaseException:
            self.servers.keep_logs()
            self._exit.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.servers.keep_logs()
        with self.phases.measure("stop"):
            self._exit.close()

    def compare_rows(self) -> None:
        """See that the restored servers answer alike; a few rows of each table, before anything is measured.

        Raises:
            TrialInvalid: as `bakeoff.run.data_check.judge_rows`.
        """
        databases = dict.fromkeys(database_of(workload) for workload in self._tools.study.workloads)
        with self.phases.measure("check"):
            answers = {name: ask_tables(server, databases, quick=True) for name, server in self.servers.all.items()}
        for name, found in answers.items():
            tables = {table: {query: each.answer for query, each in asked.items()} for table, asked in found.items()}
            self._writer.write_server_json(name, "rows.json", tables)
        judge_rows(self._tools.study, answers, self._tools.listener)

    def warm(self, cells: tuple[Cell, ...]) -> None:
        """Load every workload at its highest concurrency for the study's seconds; reads less or longer, as they show.

        The slices are kept apart: the warm-up curve.
        """
        hottest: dict[int, Cell] = {}
        for cell in cells:
            known = hottest.get(cell.workload_index)
            if known is None or cell.threads > known.threads:
                hottest[cell.workload_index] = cell
        seconds = max(_WARM_CELL_MIN_S, self._tools.study.warm_s / len(hottest))
        with self.phases.measure("warm"):
            for cell in hottest.values():
                self._tools.listener.stage(f"epoch {self._draft.epoch}: warming {cell.name}")
                reads = not (cell.writes or cell.open_loop)
                warmed = self._measure(
                    cell,
                    _WARM_STRETCH * seconds if reads else seconds,
                    order_seed=0,
                    key_seed=self._draft.seeds.padding,
                    slices=_WARM_SLICES if reads else _WARM_WRITE_SLICES,
                    until=partial(is_warm, planned_s=seconds) if reads else None,
                )
                self.warmed[cell.workload_index] = warmed.slices
                self._writer.add_warm_up(warmed.slices)

    def pilot(self, cell: Cell, seconds: float, slice_ns: int) -> list[Message]:
        """Short slices, from which the slice length is chosen; not evidence."""
        with self.phases.measure("pilot"):
            self._tools.listener.stage(f"choosing the slice length of {cell.name}")
            slices = SliceLength(slice_ns=slice_ns, guard_ns=guard_ns(slice_ns))
            return self._measure(
                cell, seconds, order_seed=1, key_seed=self._draft.seeds.padding + 1, slices=slices
            ).slices

    def measure(self, cell: Cell, arm_s: float) -> None:
        """Measure one cell and keep what comes; nothing when none of its contenders is in this round.

        Args:
            cell: its arms are those of the draft that run in this round.
            arm_s: seconds an arm; two blocks are measured at least.

        Raises:
            Interrupted: the stop flag was set.
            EngineError: as the engine says.
            CountsDisagree: a server has done less than was counted.
        """
        draft = next(draft for draft in self._draft.cells if draft.cell == cell.name)
        setups = [setup for setup in self._tools.setups if setup.arm.name in (draft.arms or self.servers.all)]
        if len(setups) < 2:
            return
        seconds = len(setups) * max(arm_s, _BLOCKS_MIN * 2 * (cell.slices.slice_ns + cell.slices.guard_ns) / 1e9)
        self.planned_s += seconds
        self._tools.listener.stage(f"epoch {self._draft.epoch}: measuring {cell.name}")
        if self._measured and cell.writes:
            self.servers.flush()
        before = self._counts(cell, setups)
        slices, blocks = whole_blocks(cell.slices, seconds=seconds, arms=len(setups))
        with self.phases.measure("measure"):
            measured = self._measure(
                cell,
                seconds,
                order_seed=draft.order_seed,
                key_seed=draft.key_seed,
                slices=slices,
                blocks=blocks,
                setups=setups,
            )
        self._measured.append(cell.name)
        self._writer.add_slices(self._in_this_round(cell.name, measured.slices))
        # A round after the first is told: its contenders' latencies belong to its own baseline's.
        mark = {"round": self._round} if self._round else {}
        self._writer.add_histograms(message | mark for message in measured.histograms)
        check_errors(measured.slices)
        self._recount(cell, measured.histograms, before, self._counts(cell, setups))

    def check_data(self) -> None:
        """Have the scripts that can check their own data do so, now that the load has gone over it.

        Raises:
            TrialInvalid: a condition does not hold: the server lost or invented something.
            Interrupted: the stop flag was set.
        """
        study = self._tools.study
        with self.phases.measure("check"):
            for database, workload in families(study.workloads):
                if not declares(workload.script, "commands", "check"):
                    continue
                self._tools.listener.stage(f"epoch {self._draft.epoch}: checking the data of {database}")
                self._engine.open(self.servers.addresses(workload))
                for setup in self._tools.setups:
                    try:
                        check_data(self._engine, study, setup, workload)
                    except EngineError as error:
                        if error.code != "script_error":
                            raise
                        raise TrialInvalid(
                            f"{setup.arm.label}: {workload.script} finds its data inconsistent after the load: {error}"
                        ) from None
                    if self._tools.stop.is_set():  # a check that was cut short says the same as one that holds
                        raise Interrupted

    def outcome(self, *, discard_reason: str = "") -> Outcome:
        """What happened, for outcome.json; ask after everything was stopped."""
        if self._host:
            later_ns = int((self._begin - self._first_begin) * 1e9)
            self._writer.add_host_samples(
                sample | {"time_ns": sample["time_ns"] + later_ns} for sample in self._host.samples
            )
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
            cell_order=tuple(self._measured),
            seeds=self._draft.seeds.model_dump(),
            readiness={
                name: ready.as_record() | {"between_cells": list(self.servers.unfinished.get(name, []))}
                for name, ready in self.servers.readiness.items()
            },
        )

    def _counts(self, cell: Cell, setups: Sequence[ArmSetup]) -> dict[str, ServerCounts]:
        """What the servers have counted until now; empty for workloads that no server counts."""
        study = self._tools.study
        workload = study.workloads[cell.workload_index]
        if workload.script != SCRIPT:
            return {}
        return {
            setup.arm.name: read_counts(
                self.servers.all[setup.arm.name],
                database_of(workload),
                script_options(study, workload, setup.arm.data),
            )
            for setup in setups
        }

    def _recount(
        self,
        cell: Cell,
        histograms: Sequence[Message],
        before: Mapping[str, ServerCounts],
        after: Mapping[str, ServerCounts],
    ) -> None:
        """Keep the servers' counts, and hold the engine's against them."""
        wrong = []
        for arm, counts in before.items():
            kept = self._recounts.setdefault(arm, {}).setdefault(cell.name, [])
            kept.append({"before": counts.model_dump(), "after": after[arm].model_dump()})
            self._writer.write_server_json(arm, "data-check.json", self._recounts[arm])
            compared = compare_counts([each for each in histograms if each["arm"] == arm], [(counts, after[arm])])
            if not compared.agrees:
                wrong.append(f"arm {arm}, {cell.name}: {compared}")
        if wrong:
            raise CountsDisagree("; ".join(wrong))

    def _in_this_round(self, cell: str, slices: list[Message]) -> list[Message]:
        """Slices with blocks and times that follow those of the rounds before."""
        begin_ns = self._ends_ns.get(cell, 0)
        self._ends_ns[cell] = begin_ns + max((each["start_ns"] + each["length_ns"] for each in slices), default=0)
        if self._round == 0:
            return slices
        first = self._round * ROUND_BLOCKS
        return [each | {"block": first + each["block"], "start_ns": begin_ns + each["start_ns"]} for each in slices]

    def _measure(
        self,
        cell: Cell,
        seconds: float,
        *,
        order_seed: int,
        key_seed: int,
        slices: SliceLength = _WARM_SLICES,
        blocks: int | None = None,
        setups: Sequence[ArmSetup] = (),
        until: Callable[[list[Message]], bool] | None = None,
    ) -> Measurement:
        study = self._tools.study
        setups = setups or self._tools.setups
        workload = study.workloads[cell.workload_index]
        self._engine.open(self.servers.addresses(workload))
        measured = self._engine.measure(
            {
                "cell": cell.name,
                "script": cell.script,
                "options": script_options(study, workload, study.baseline.data.model_copy(update={"options": ()})),
                "arm_options": {
                    setup.arm.name: dict(setup.arm.data.options) for setup in setups if setup.arm.data.options
                },
                "threads": cell.threads,
                "arms": [setup.arm.name for setup in setups],
                "seconds": None if blocks else seconds,
                "blocks": blocks,
                "slice_ns": slices.slice_ns,
                "guard_ns": slices.guard_ns,
                "order_seed": order_seed,
                "key_seed": key_seed,
                "load": _load(workload),
                "placement": cell.placement,
                "freeze": cell.freeze and len(self.servers.ours) == len(self.servers.all),
                "settle_ns": 0,
            },
            on_slice=Ticker(cell.name, self._tools.listener).see,
            until=until,
        )
        if self._tools.stop.is_set():
            raise Interrupted
        return measured


def _load(workload: Workload) -> dict[str, Any]:
    if workload.rate_per_s is None:
        return {"model": "closed"}
    return {"model": "open", "rate_per_s": workload.rate_per_s, "arrivals": "poisson"}
