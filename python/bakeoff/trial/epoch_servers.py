"""The servers of one epoch: restored, started, brought to rest; their logs kept and their processes ended."""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from bakeoff.engine import ArmAddress
from bakeoff.plan import EpochDraft
from bakeoff.results import EpochWriter
from bakeoff.servers import Gates, Instance, Reading, ServerHouse, Snapshot, gates
from bakeoff.spec import Study, Workload
from bakeoff.trial.arms import ArmSetup, address_of
from bakeoff.trial.listener import Listener
from bakeoff.trial.loading import SnapshotKey, database_of

_SETTLE_LIMIT_S = 60.0
# Between two writing cells: an old server may take minutes to write everything; what is left is spread over both arms
# by the interleaving.
_SETTLE_BETWEEN_S = 10.0
_PATIENCE_S = 2.5  # old servers purge and flush in steps of a second


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
    at_once: int


class EpochServers:
    """Every arm's server, ours and remote ones.

    Args:
        draft: start order, build and padding.
        writer: where their settings, counters and logs go.
        phases: where the time is noted.

    Attributes:
        all: by arm, from `start` on.
        gates: how ours were found at rest, by arm, from `pass_gates` on.
        unsettled: what was left unpaid between writing cells, by arm.
    """

    def __init__(self, tools: EpochTools, draft: EpochDraft, writer: EpochWriter, phases: Phases) -> None:
        self.all: dict[str, Reading] = {}
        self.gates: dict[str, Gates] = {}
        self.unsettled: dict[str, list[str]] = {}
        self._tools = tools
        self._draft = draft
        self._writer = writer
        self._phases = phases
        self._restored: list[Instance] = []

    @property
    def ours(self) -> dict[str, Instance]:
        """Those that this epoch has started, by arm."""
        return {name: server for name, server in self.all.items() if isinstance(server, Instance)}

    @property
    def pids(self) -> dict[str, int]:
        """Of ours, by arm."""
        return {name: server.pid for name, server in self.ours.items()}

    def addresses(self, workload: Workload) -> list[ArmAddress]:
        """Where the engine finds each arm's data of a workload."""
        pids = self.pids
        return [
            address_of(setup, self.all[setup.arm.name], database_of(workload), pid=pids.get(setup.arm.name))
            for setup in self._tools.setups
        ]

    def start(self) -> None:
        """Restore the data and start ours in the draft's order; keep every server's settings and counters.

        Raises:
            ServerError: one does not start or does not answer.
        """
        tools, draft = self._tools, self._draft
        by_name = {setup.arm.name: setup for setup in tools.setups if setup.installation}
        starting = [by_name[name] for name in draft.start_order if name in by_name]
        with self._phases.measure("restore"):
            tools.listener.stage(f"epoch {draft.epoch}: restoring the data")
            with ThreadPoolExecutor(max_workers=max(1, len(starting))) as pool:
                instances = list(pool.map(self._restore, starting))
        with self._phases.measure("start"):
            tools.listener.stage(f"epoch {draft.epoch}: starting servers")
            tools.house.start_all(instances)
        for setup, instance in zip(starting, instances, strict=True):
            self.all[setup.arm.name] = instance
            self._writer.write_server_text(setup.arm.name, "my.cnf", instance.my_cnf)
            for text in instance.ignored_settings():
                tools.listener.note(f"{setup.arm.label}: {text}")
        self.all |= {setup.arm.name: setup.remote for setup in tools.setups if setup.remote}
        for name, server in self.all.items():
            self._writer.write_server_json(name, "variables.json", server.variables())
            self._writer.write_server_json(name, "status-before.json", server.status())

    def pass_gates(self) -> None:
        """Buffer pool warm, purge and flushing done, on all arms at once: each would disturb the other's slices."""
        databases = dict.fromkeys(database_of(workload) for workload in self._tools.study.workloads)

        def pass_one(server: Instance) -> Gates:
            warmths = [gates.warm(server, database) for database in databases]
            return gates.settle(
                server, _SETTLE_LIMIT_S, warmths[-1], dirty_limit=gates.STARTED_DIRTY_LIMIT, stop=self._tools.stop
            )

        self._tools.listener.stage(f"epoch {self._draft.epoch}: warming buffer pools")
        ours = self.ours
        with self._phases.measure("gates"), ThreadPoolExecutor(max_workers=max(1, len(ours))) as pool:
            self.gates = dict(zip(ours, pool.map(pass_one, ours.values()), strict=True))

    def settle(self) -> None:
        """Let what a writing cell has left behind be purged and written, as far as that goes in a few seconds."""
        self._tools.listener.stage(f"epoch {self._draft.epoch}: letting writes settle")
        ours = self.ours
        with self._phases.measure("settle"), ThreadPoolExecutor(max_workers=max(1, len(ours))) as pool:
            settled = pool.map(
                lambda server: gates.settle(server, _SETTLE_BETWEEN_S, patience_s=_PATIENCE_S, stop=self._tools.stop),
                ours.values(),
            )
            for name, passed in zip(ours, settled, strict=True):
                self.unsettled.setdefault(name, []).extend(passed.notes)

    def keep_status(self) -> None:
        """Keep the counters as they are after measuring.

        Raises:
            ServerError: a server is gone.
        """
        for name, server in self.all.items():
            self._writer.write_server_json(name, "status-after.json", server.status())

    def keep_logs(self) -> None:
        """Keep the end of each error log, as far as there is one; also of a server that did not start."""
        for server in self._restored:
            log = server.error_log_tail()
            if log:
                with contextlib.suppress(OSError):
                    self._writer.write_server_text(server.name, "error.log", log)

    def remove(self) -> None:
        """End ours and delete their files, also when not all of them came to run."""
        self._tools.house.remove_all(self._restored)

    def _restore(self, setup: ArmSetup) -> Instance:
        assert setup.installation
        assert setup.settings
        instance = self._tools.house.restore(
            setup.arm.name,
            self._tools.snapshots[(setup.build_key, self._draft.build)],
            setup.installation,
            setup.settings,
            env=dict(setup.arm.server.env),
            padding_bytes=self._draft.padding_bytes[setup.arm.name],
        )
        self._restored.append(instance)
        return instance
