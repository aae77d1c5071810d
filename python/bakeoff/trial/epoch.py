"""One epoch: servers freshly started from restored data, every open cell measured once, everything stopped again.

The epoch is the unit of replication: whatever goes wrong mechanically inside it voids it for every arm at once.
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bakeoff.engine import Engine, Measurement, Message, declares
from bakeoff.errors import EngineError, ServerError, TrialInvalid
from bakeoff.plan import Cell, EpochDraft, SliceLength, whole_blocks
from bakeoff.plan.rounds import ROUND_BLOCKS
from bakeoff.results import EpochWriter, Outcome
from bakeoff.servers import Gates, Instance, Reading, ServerHouse, Snapshot, gates
from bakeoff.spec import Study, Workload
from bakeoff.stats.recount import ServerCounts, compare_counts
from bakeoff.trial import recount
from bakeoff.trial.arms import ArmSetup, address_of
from bakeoff.trial.host import HostWatch
from bakeoff.trial.listener import Listener
from bakeoff.trial.loading import SnapshotKey, check_data, database_of, families, script_options
from bakeoff.trial.same_rows import ask_tables, judge_rows

_SETTLE_LIMIT_S = 60.0
# Between two writing cells: an old server may take minutes to write everything; what is left is spread over both arms
# by the interleaving.
_SETTLE_BETWEEN_S = 10.0
_PATIENCE_S = 2.5  # old servers purge and flush in steps of a second
_WARM_CELL_MIN_S = 1.5
_WARM_SLICES = SliceLength(slice_ns=50_000_000, guard_ns=5_000_000)
_BLOCKS_MIN = 2  # of a cell in a round, each arm twice in each
# More errors than this, per event, and the arm measures failing rather than working.
_ERROR_SHARE = 0.01
# Errors that say "this epoch went wrong"; the others (refused password, bad script) would be the same every time.
_VOIDING = frozenset({"server_lost", "sql_error", "connect_failed", "thread_init_timeout"})


class Interrupted(Exception):
    """The user ended the run inside an epoch: it is dropped."""


@dataclass
class Phases:
    """Wall seconds of an epoch by phase."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the block's time to a phase."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start


@dataclass(frozen=True)
class EpochTools:
    """What every epoch of a run works with.

    Attributes:
        setups: arms of the study, or of one round of it.
        at_once: how many servers fit into memory; more arms than that take rounds.
    """

    study: Study
    setups: tuple[ArmSetup, ...]
    house: ServerHouse
    snapshots: Mapping[SnapshotKey, Snapshot]
    listener: Listener
    stop: threading.Event
    client_cpus: frozenset[int] | None
    server_cpus: frozenset[int] | None
    at_once: int


class Epoch:
    """Servers up, gates passed, engine connected: `with Epoch(...) as epoch`, then `measure` cell by cell.

    Args:
        draft: orders, build, padding and seeds of this epoch.
        writer: where its evidence goes.
        previous: the round before this one, when the arms do not all fit into memory at once.
    """

    def __init__(
        self, tools: EpochTools, draft: EpochDraft, writer: EpochWriter, *, previous: "Epoch | None" = None
    ) -> None:
        self.phases = Phases()
        self.gates: dict[str, Gates] = {}
        self.planned_s = 0.0
        self._unsettled: dict[str, list[str]] = {}
        self._tools = tools
        self._draft = draft
        self._writer = writer
        self._started_at = datetime.now(UTC)
        self._begin = time.monotonic()
        self._servers: dict[str, Reading] = {}
        self._restored: list[Instance] = []
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
            self._start_servers()
            self._pass_gates()
            self._host = self._exit.enter_context(HostWatch(self._pids()))
            self._engine = self._exit.enter_context(
                Engine(stop=self._tools.stop, cpus=self._tools.client_cpus, on_log=self._tools.listener.note)
            )
            return self
        except BaseException:
            self._keep_logs()
            self._exit.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._keep_logs()
        with self.phases.measure("stop"):
            self._exit.close()

    def compare_rows(self) -> None:
        """See that the restored servers answer alike; a few rows of each table, before anything is measured.

        Raises:
            TrialInvalid: as `bakeoff.trial.same_rows.judge_rows`.
        """
        databases = dict.fromkeys(database_of(workload) for workload in self._tools.study.workloads)
        with self.phases.measure("check"):
            answers = {name: ask_tables(server, databases, quick=True) for name, server in self._servers.items()}
        for name, found in answers.items():
            tables = {table: {query: each.answer for query, each in asked.items()} for table, asked in found.items()}
            self._writer.write_server_json(name, "rows.json", tables)
        judge_rows(self._tools.study, answers, self._tools.listener)

    def warm(self, cells: tuple[Cell, ...]) -> None:
        """Load every workload for a while, at its highest concurrency; its slices are kept apart: the warm-up curve."""
        hottest: dict[int, Cell] = {}
        for cell in cells:
            known = hottest.get(cell.workload_index)
            if known is None or cell.threads > known.threads:
                hottest[cell.workload_index] = cell
        seconds = max(_WARM_CELL_MIN_S, self._tools.study.warm_s / len(hottest))
        with self.phases.measure("warm"):
            for cell in hottest.values():
                self._tools.listener.stage(f"epoch {self._draft.epoch + 1}: warming {cell.name}")
                warmed = self._measure(cell, seconds, order_seed=0, key_seed=self._draft.seeds.padding)
                self._writer.add_warm_up(warmed.slices)

    def pilot(self, cell: Cell, seconds: float) -> list[Message]:
        """Slices of 50 ms, from which the slice length is chosen; not evidence."""
        with self.phases.measure("pilot"):
            self._tools.listener.stage(f"choosing the slice length of {cell.name}")
            return self._measure(cell, seconds, order_seed=1, key_seed=self._draft.seeds.padding + 1).slices

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
        setups = [setup for setup in self._tools.setups if setup.arm.name in (draft.arms or self._servers)]
        if len(setups) < 2:
            return
        seconds = len(setups) * max(arm_s, _BLOCKS_MIN * 2 * (cell.slices.slice_ns + cell.slices.guard_ns) / 1e9)
        self.planned_s += seconds
        self._tools.listener.stage(f"epoch {self._draft.epoch + 1}: measuring {cell.name}")
        if self._measured and cell.writes:
            self._settle()
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
        _check_errors(measured.slices)
        self._recount(cell, measured.histograms, before, self._counts(cell, setups))

    def check_data(self) -> None:
        """Have the scripts that can check their own data do so, now that the load has gone over it.

        Raises:
            TrialInvalid: a condition does not hold: the server lost or invented something.
        """
        study = self._tools.study
        with self.phases.measure("check"):
            for database, workload in families(study.workloads):
                if not declares(workload.script, "commands", "check"):
                    continue
                self._tools.listener.stage(f"epoch {self._draft.epoch + 1}: checking the data of {database}")
                self._engine.open(self._addresses(workload))
                for setup in self._tools.setups:
                    try:
                        check_data(self._engine, study, setup, workload)
                    except EngineError as error:
                        if error.code != "script_error":
                            raise
                        raise TrialInvalid(
                            f"{setup.arm.label}: {workload.script} finds its data inconsistent after the load: {error}"
                        ) from None

    def read_status(self) -> None:
        """Keep the servers' counters as they are after measuring.

        Raises:
            ServerError: a server is gone.
        """
        for name, server in self._servers.items():
            self._writer.write_server_json(name, "status-after.json", server.status())

    def outcome(self, *, void_reason: str = "") -> Outcome:
        """What happened, for outcome.json; ask after everything was stopped."""
        if self._host:
            later_ns = int((self._begin - self._first_begin) * 1e9)
            self._writer.add_host_samples(
                sample | {"time_ns": sample["time_ns"] + later_ns} for sample in self._host.samples
            )
        return Outcome(
            epoch=self._draft.epoch,
            build=self._draft.build,
            valid=not void_reason,
            void_reason=void_reason,
            started_at=self._started_at,
            wall_s=time.monotonic() - self._begin,
            measured_s=self.phases.seconds.get("measure", 0.0),
            phases_s=self.phases.seconds,
            start_order=self._draft.start_order,
            cell_order=tuple(self._measured),
            seeds=self._draft.seeds.model_dump(),
            gates={
                name: passed.as_record() | {"between_cells": list(self._unsettled.get(name, []))}
                for name, passed in self.gates.items()
            },
        )

    def _counts(self, cell: Cell, setups: Sequence[ArmSetup]) -> dict[str, ServerCounts]:
        """What the servers have counted until now; empty for workloads that no server counts."""
        study = self._tools.study
        workload = study.workloads[cell.workload_index]
        if workload.script != recount.SCRIPT:
            return {}
        return {
            setup.arm.name: recount.read_counts(
                self._servers[setup.arm.name],
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
            self._writer.write_server_json(arm, "recount.json", self._recounts[arm])
            compared = compare_counts([each for each in histograms if each["arm"] == arm], [(counts, after[arm])])
            if not compared.agrees:
                wrong.append(f"arm {arm}, {cell.name}: {compared}")
        if wrong:
            raise recount.CountsDisagree("; ".join(wrong))

    def _in_this_round(self, cell: str, slices: list[Message]) -> list[Message]:
        """Slices with blocks and times that follow those of the rounds before."""
        begin_ns = self._ends_ns.get(cell, 0)
        self._ends_ns[cell] = begin_ns + max((each["start_ns"] + each["length_ns"] for each in slices), default=0)
        if self._round == 0:
            return slices
        first = self._round * ROUND_BLOCKS
        return [each | {"block": first + each["block"], "start_ns": begin_ns + each["start_ns"]} for each in slices]

    def _start_servers(self) -> None:
        tools, draft = self._tools, self._draft
        ours = [setup for setup in self._in_start_order() if setup.installation]
        with self.phases.measure("restore"):
            tools.listener.stage(f"epoch {draft.epoch + 1}: restoring the data")
            self._exit.callback(tools.house.remove_all, self._restored)
            with ThreadPoolExecutor(max_workers=max(1, len(ours))) as pool:
                instances = list(pool.map(self._restore, ours))
        with self.phases.measure("start"):
            tools.listener.stage(f"epoch {draft.epoch + 1}: starting servers")
            tools.house.start_all(instances)
        for setup, instance in zip(ours, instances, strict=True):
            self._servers[setup.arm.name] = instance
            self._writer.write_server_text(setup.arm.name, "my.cnf", instance.my_cnf)
            for text in instance.ignored_settings():
                tools.listener.note(f"{setup.arm.label}: {text}")
        for setup in tools.setups:
            if setup.remote:
                self._servers[setup.arm.name] = setup.remote
        for name, server in self._servers.items():
            self._writer.write_server_json(name, "variables.json", server.variables())
            self._writer.write_server_json(name, "status-before.json", server.status())

    def _restore(self, setup: ArmSetup) -> Instance:
        assert setup.installation
        assert setup.settings
        tools, draft = self._tools, self._draft
        instance = tools.house.restore(
            setup.arm.name,
            tools.snapshots[(setup.build_key, draft.build)],
            setup.installation,
            setup.settings,
            env=dict(setup.arm.server.env),
            cpus=tools.server_cpus,
            padding_bytes=draft.padding_bytes[setup.arm.name],
        )
        self._restored.append(instance)
        return instance

    def _pass_gates(self) -> None:
        """Buffer pool warm, purge and flushing done, on all arms at once: each would disturb the other's slices."""
        databases = dict.fromkeys(database_of(workload) for workload in self._tools.study.workloads)

        def pass_one(server: Instance) -> Gates:
            warmths = [gates.warm(server, database) for database in databases]
            return gates.settle(server, _SETTLE_LIMIT_S, warmths[-1])

        self._tools.listener.stage(f"epoch {self._draft.epoch + 1}: warming buffer pools")
        ours = {name: server for name, server in self._servers.items() if isinstance(server, Instance)}
        with self.phases.measure("gates"), ThreadPoolExecutor(max_workers=max(1, len(ours))) as pool:
            self.gates = dict(zip(ours, pool.map(pass_one, ours.values()), strict=True))

    def _settle(self) -> None:
        self._tools.listener.stage(f"epoch {self._draft.epoch + 1}: letting writes settle")
        ours = {name: server for name, server in self._servers.items() if isinstance(server, Instance)}
        with self.phases.measure("settle"), ThreadPoolExecutor(max_workers=max(1, len(ours))) as pool:
            settled = pool.map(
                lambda server: gates.settle(server, _SETTLE_BETWEEN_S, patience_s=_PATIENCE_S), ours.values()
            )
            for name, passed in zip(ours, settled, strict=True):
                self._unsettled.setdefault(name, []).extend(passed.notes)

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
    ) -> Measurement:
        study = self._tools.study
        setups = setups or self._tools.setups
        workload = study.workloads[cell.workload_index]
        self._engine.open(self._addresses(workload))
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
                "freeze": cell.freeze and all(isinstance(server, Instance) for server in self._servers.values()),
                "settle_ns": 0,
            },
            on_slice=Ticker(cell.name, self._tools.listener).see,
        )
        if self._tools.stop.is_set():
            raise Interrupted
        return measured

    def _addresses(self, workload: Workload) -> list[Any]:
        pids = self._pids()
        return [
            address_of(setup, self._servers[setup.arm.name], database_of(workload), pid=pids.get(setup.arm.name))
            for setup in self._tools.setups
        ]

    def _pids(self) -> dict[str, int]:
        return {name: server.pid for name, server in self._servers.items() if isinstance(server, Instance)}

    def _in_start_order(self) -> list[ArmSetup]:
        by_name = {setup.arm.name: setup for setup in self._tools.setups}
        return [by_name[name] for name in self._draft.start_order if name in by_name]

    def _keep_logs(self) -> None:
        for name, server in self._servers.items():
            if isinstance(server, Instance):
                with contextlib.suppress(OSError):
                    self._writer.write_server_text(name, "error.log", server.error_log_tail())


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


def is_voiding(error: Exception) -> bool:
    """Whether an error voids the epoch (and the run goes on), rather than ending the run."""
    if isinstance(error, EngineError):
        return error.code in _VOIDING
    return isinstance(error, (ServerError, TooManyErrors, recount.CountsDisagree))


class TooManyErrors(Exception):
    """An arm's statements failed too often for its throughput to mean anything."""


def _check_errors(slices: list[Message]) -> None:
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


def _load(workload: Workload) -> dict[str, Any]:
    if workload.rate_per_s is None:
        return {"model": "closed"}
    return {"model": "open", "rate_per_s": workload.rate_per_s, "arrivals": "poisson"}
