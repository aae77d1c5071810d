"""Restore, start, prepare and stop the servers of one epoch, and keep their logs."""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from bakeoff.engine import ArmAddress, Engine
from bakeoff.errors import UnreachableError
from bakeoff.plan import EpochDraft
from bakeoff.plan.workloads import database_on, kind_of
from bakeoff.results import EpochWriter
from bakeoff.run.arms import ArmSetup, address_of
from bakeoff.run.loading import SnapshotKey, databases
from bakeoff.servers import Instance, RemoteServer, Server, ServerPool, Snapshot, readiness
from bakeoff.spec import Study, Workload
from bakeoff.stats.progress import Listener

_READINESS_LIMIT_S = 60.0
# Between two writing cells. An old server may take minutes to write everything; interleaving spreads what is left over
# both arms.
_FLUSH_BETWEEN_CELLS_S = 10.0
_PATIENCE_S = 2.5  # old servers purge and flush in steps of a second
_BACK_LIMIT_S, _BACK_POLL_S = 60.0, 0.5  # a running server may just be starting again


@dataclass
class Phases:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def measure(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start


@dataclass(frozen=True)
class EpochTools:
    study: Study
    setups: tuple[ArmSetup, ...]  # of the study, or of one round of it
    pool: ServerPool
    snapshots: dict[SnapshotKey, Snapshot]  # loaded data; a bisection adds and removes loads
    listener: Listener
    stop: threading.Event
    at_once: int  # servers that fit into memory; more arms take rounds
    rates: dict[tuple[str, bool], float] = field(default_factory=dict)
    noted: set[str] = field(default_factory=set)
    called: str = "epoch"  # in progress messages
    host: str = ""  # this machine's name in a cluster
    engine: Callable[..., Engine] = Engine

    def note_once(self, text: str, *, about: str = "") -> None:
        """Show a note once per run. `about` identifies it if its figures vary."""
        if (about or text) not in self.noted:
            self.noted.add(about or text)
            self.listener.note(text)


class EpochServers:
    """The servers of one round of an epoch: those started here and running ones, by arm."""

    def __init__(self, tools: EpochTools, draft: EpochDraft, writer: EpochWriter, phases: Phases) -> None:
        self.setups = tools.setups
        self.all: dict[str, Server] = {}
        self.variables: dict[str, dict[str, str]] = {}
        self._tools = tools
        self._draft = draft
        self._writer = writer
        self._phases = phases
        self._restored: list[Instance] = []

    @property
    def ours(self) -> dict[str, Instance]:
        return {name: server for name, server in self.all.items() if isinstance(server, Instance)}

    @property
    def pids(self) -> dict[str, int]:
        return {name: server.pid for name, server in self.ours.items()}

    def addresses(self, workload: Workload) -> list[ArmAddress]:
        study = self._tools.study
        pids = {} if study.client else self.pids  # the engine cannot see them from there
        addresses = [
            address_of(
                setup,
                self.all[setup.arm.name],
                database_on(study, workload, setup.arm.server),
                pid=pids.get(setup.arm.name),
                transport="tcp" if study.client else "",
            )
            for setup in self.setups
        ]
        refusing = study.has_running_server and not (kind_of(workload.script).fills_tables or workload.writes)
        return [replace(each, read_only=True) for each in addresses] if refusing else addresses

    def start(self) -> None:
        """Restore the data, start our servers in the draft's order, and keep settings and counters of all."""
        tools, draft = self._tools, self._draft
        with self._phases.measure("start"):
            for setup in self.setups:
                if setup.remote:
                    self._wait_for(setup.remote, setup.arm.label)
        by_name = {setup.arm.name: setup for setup in self.setups if setup.installation}
        starting = [by_name[name] for name in draft.start_order if name in by_name]
        with self._phases.measure("restore"):
            self._report("restoring the data")
            with ThreadPoolExecutor(max_workers=max(1, len(starting))) as pool:
                instances = list(pool.map(self._restore, starting))
        with self._phases.measure("start"):
            self._report("starting servers")
            with tools.pool.killed_once(tools.stop):
                tools.pool.start_all(instances)
        for setup, instance in zip(starting, instances, strict=True):
            self.all[setup.arm.name] = instance
            self._writer.write_server_text(setup.arm.name, "my.cnf", instance.my_cnf)
            self._keep_notes(setup, instance)
        self.all |= {setup.arm.name: setup.remote for setup in self.setups if setup.remote}
        for name, server in self.all.items():
            self.variables[name] = server.variables()
            self._writer.write_server_json(name, "variables.json", self.variables[name])
            self._writer.write_server_json(name, "status-before.json", server.status())

    def _keep_notes(self, setup: ArmSetup, instance: Instance) -> None:
        assert setup.settings
        notes = (*setup.settings.notes, *instance.ignored_settings())
        files = {"files": setup.settings.from_files} if setup.settings.from_files else {}
        provenance = setup.installation.provenance if setup.installation else ""
        binaries = {"binaries": [provenance]} if provenance else {}
        self._writer.write_server_json(setup.arm.name, "notes.json", {"settings": notes, **files, **binaries})
        for text in notes:
            self._tools.note_once(f"{setup.arm.label}: {text}")

    def _wait_for(self, server: RemoteServer, label: str) -> None:
        began_s = time.monotonic()
        for attempt in itertools.count():
            try:
                server.connect().close()
                return
            except UnreachableError:
                if self._tools.stop.is_set() or time.monotonic() - began_s > _BACK_LIMIT_S:
                    raise
            if attempt == 0:
                self._report(f"waiting for {label}")
            time.sleep(_BACK_POLL_S)

    def _report(self, text: str) -> None:
        self._tools.listener.stage(f"{self._tools.called} {self._draft.epoch}: {text}")

    def make_ready(self) -> None:
        """Fill buffer pools, purge and flush on all arms at once, so that none of it happens in a slice."""

        def make_one_ready(server: Instance) -> None:
            stop, limit = self._tools.stop, readiness.STARTED_DIRTY_LIMIT
            for database in databases(self._tools.study, server):
                readiness.warm(server, database, stop)
            readiness.finish_pending_work(server, _READINESS_LIMIT_S, dirty_limit=limit, stop=stop)

        self._report("warming buffer pools")
        with self._phases.measure("readiness"):
            self._on_ours(make_one_ready)

    def limit_storage(self) -> None:
        """Begin to limit the storage of arms, once servers are ready: restoring and starting run at full speed."""
        for setup in self.setups:
            if instance := self.ours.get(setup.arm.name):
                variables = self.variables[setup.arm.name]
                if note := instance.place.limit_storage(instance.datadir, variables, setup.table_engine):
                    self._tools.note_once(f"{setup.arm.label}: {note}")

    def flush(self) -> None:
        def flush_one(server: Instance) -> None:
            readiness.finish_pending_work(server, _FLUSH_BETWEEN_CELLS_S, patience_s=_PATIENCE_S, stop=self._tools.stop)

        self._report("flushing")
        with self._phases.measure("flush"):
            self._on_ours(flush_one)

    def _on_ours(self, work: Callable[[Instance], None]) -> None:
        ours = self.ours
        killed = self._tools.pool.killed_once(self._tools.stop)
        with killed, ThreadPoolExecutor(max_workers=max(1, len(ours))) as pool:
            list(pool.map(work, ours.values()))  # raises what one of them raised

    def keep_status(self) -> None:
        for name, server in self.all.items():
            self._writer.write_server_json(name, "status-after.json", server.status())

    def keep_logs(self) -> None:
        for server in self._restored:
            log = server.error_log_tail()
            if log:
                with contextlib.suppress(OSError):
                    self._writer.write_server_text(server.name, "error.log", log)

    def remove(self) -> None:
        self._tools.pool.remove_all(self._restored)

    def _restore(self, setup: ArmSetup) -> Instance:
        assert setup.installation
        assert setup.settings
        instance = self._tools.pool.create(
            setup.arm.name,
            setup.installation,
            setup.settings,
            snapshot=self._tools.snapshots[(setup.load_key, self._draft.build)],
            machine=setup.arm.server.machine,
            padding_bytes=self._draft.padding_bytes[setup.arm.name],
        )
        self._restored.append(instance)
        return instance
