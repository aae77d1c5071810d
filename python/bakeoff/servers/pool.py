"""The server pool makes servers, keeps snapshots of their data, and removes everything at the end.

    /tmp/bakeoff-TOKEN/       owner.json, NNN/s.sock                 short, for the 107 bytes of a socket's path
    WORK_ROOT/pool-TOKEN/     owner.json, NNN/{data,tmp,…}, snapshots/NNN
    WORK_ROOT/load-HASH/      owner.json, NAME/{data,tmp,…}          data that outlives the pool (`keep`)
    DATA_DIR/pool-TOKEN/      NNN/{data,tmp,…}                       of servers with a data_dir

If bakeoff is killed, the kernel kills its servers, and the next pool removes the folders of dead owners.
"""

import os
import secrets
import shlex
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bakeoff.errors import ServerError
from bakeoff.machine import Place, Undo, evict, open_place, raise_machine, require, undo
from bakeoff.servers import paths
from bakeoff.servers.catalog import Installation
from bakeoff.servers.client import THIS_MACHINE, Access, Account
from bakeoff.servers.datadir import clone_template, copy_tree
from bakeoff.servers.fetch import Progress, no_progress
from bakeoff.servers.install import install
from bakeoff.servers.instance import Instance
from bakeoff.servers.process import ProcessId, server_identity
from bakeoff.servers.profile import ServerMemory, Settings, settings_for, table_engine
from bakeoff.spec import Data, Profile, ServerSpec
from bakeoff.spec.machine import NOTHING, Machine

_STOP_POLL_S = 0.5  # longer than code that checks the stop flag needs to end


@dataclass(frozen=True)
class Snapshot:
    label: str
    path: Path
    bytes_on_disk: int


class ServerPool:
    """Context manager that owns instances and snapshots. `root` is on the disk to measure.

    Once `stop` is set, snapshots are no longer restored.
    """

    def __init__(
        self,
        root: Path | None = None,
        progress: Progress = no_progress,
        *,
        access: Access = THIS_MACHINE,
        stop: threading.Event | None = None,
    ) -> None:
        self._root = root or paths.work_root()
        self._progress = progress
        self._access = access
        self._stop = stop or threading.Event()
        self._identity = server_identity()
        self._instances: list[Instance] = []
        self._snapshots = 0
        self._processes: list[ProcessId] = []
        self._lock = threading.Lock()
        self.runtime = Path()
        self.work = Path()
        self._undo = Undo(self.work)
        self._huge_pages = ""  # mode of the machine before it was changed

    def __enter__(self) -> Self:
        paths.make_open_folder(self._root)
        paths.require_reachable(self._root, self._identity.uid, self._identity.gid)
        paths.remove_stale(paths.RUNTIME_ROOT, self._root)
        token = secrets.token_hex(4)
        self.runtime = paths.RUNTIME_ROOT / f"bakeoff-{token}"
        self.work = self._root / f"pool-{token}"
        try:
            for folder in (self.runtime, self.work):
                paths.share(folder.name)
                self._make_closed(folder)
            self._record()
            self._undo = Undo(self.work)
        except BaseException:
            self._remove_all()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove_all()

    def create(
        self,
        name: str,
        installation: Installation,
        settings: Settings,
        *,
        snapshot: Snapshot | None = None,
        machine: Machine = NOTHING,
        padding_bytes: int = 0,
        home: Path | None = None,
    ) -> Instance:
        """Make a server, not started, with a fresh data directory or a copy of a snapshot.

        `home`, inside a folder made by `keep`, holds its files; existing data is used as it is. `machine` is its share
        of this machine; call `prepare` first.
        """
        with self._lock:
            self._instances = [each for each in self._instances if not each.removed]
            taken = {each.socket_path.parent.name for each in self._instances}
            slot = next(f"{number:03d}" for number in range(1000) if f"{number:03d}" not in taken)
            home, sockets = home or self._folder_on(machine.data_dir) / slot, self.runtime / slot
            instance = Instance(name, installation, settings, (home, sockets), Place(), padding_bytes, self._spawned)
            instance.access = self._access
            self._instances.append(instance)
        try:
            home.mkdir(mode=0o755, exist_ok=True)
            data_bytes = snapshot.bytes_on_disk if snapshot else 0
            instance.place = open_place(
                machine, home, data_bytes=data_bytes, undo=self._undo, mode=self._huge_pages
            )  # it may mount a file system there
            for folder in (home, home / "tmp", sockets):
                folder.mkdir(mode=0o755, exist_ok=True)
                self._identity.own(folder)
            if instance.datadir.exists():
                return instance
            if snapshot:
                what = f"restoring {snapshot.label} for {name}"
                self._progress(what, 0, snapshot.bytes_on_disk)
                copy_tree(snapshot.path, instance.datadir, what, watch=self._heed_stop)
            else:
                clone_template(installation, settings.init_options, instance.datadir, self._progress)
            (instance.datadir / "auto.cnf").unlink(missing_ok=True)  # copies must not share the server's UUID
            if machine.grouped:  # else it would use cached pages that are charged to bakeoff
                evict(instance.datadir)
        except BaseException:
            instance.remove()
            raise
        return instance

    def prepare(self, machines: Iterable[Machine]) -> None:
        """Change settings of the whole machine before the first server needs them; closing the pool restores them."""
        self._huge_pages = raise_machine((each.thp for each in machines), self._undo)

    def _folder_on(self, data_dir: str) -> Path:
        if not data_dir:
            return self.work
        folder = Path(data_dir) / self.work.name
        if not folder.exists():
            paths.require_reachable(folder.parent, self._identity.uid, self._identity.gid)
            self._undo.note("folder", str(folder))
            self._make_closed(folder)
        return folder

    def snapshot(self, instance: Instance, label: str) -> Snapshot:
        """Take over a cleanly stopped server's data until the pool closes; the instance can then only be removed."""
        if instance.running or not instance.stopped_cleanly:
            raise ServerError(
                f"server {instance.name} was not stopped cleanly; its data would need recovery at every start.",
                hint="Call stop() first.",
            )
        path = instance.datadir
        if instance.home.parent == self.work:
            with self._lock:  # several are taken at the same time
                self._snapshots += 1
                path = self.work / "snapshots" / f"{self._snapshots:03d}"
            path.parent.mkdir(exist_ok=True)
            self._progress(f"keeping {label}", 0, 0)
            instance.datadir.rename(path)
        instance.stopped_cleanly = False
        return Snapshot(label, path, paths.bytes_on_disk(path))

    def keep(self, key: str, run: Path) -> Path:
        """Make a folder for servers that outlives the pool, for a run that may be resumed. `key` has 8 hex digits."""
        folder = self._root / f"load-{key}"
        paths.share(folder.name)
        if not folder.exists():
            self._make_closed(folder)
        paths.Owner.current((), kept_for=str(run)).write(folder)
        return folder

    def start_all(self, instances: Iterable[Instance]) -> None:
        self._for_all(instances, Instance.start)

    def remove_all(self, instances: Iterable[Instance]) -> None:
        self._for_all(instances, Instance.remove)

    @contextmanager
    def killed_once(self, stop: threading.Event) -> Iterator[None]:
        """Kill every server once `stop` is set inside the block, so that threads waiting for one fail at once."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_STOP_POLL_S):
                for instance in self._instances if stop.is_set() else ():
                    instance.kill()

        watcher = threading.Thread(target=watch, name="bakeoff-stop", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    def _heed_stop(self) -> None:
        if self._stop.is_set():
            raise ServerError("stopped while data was being restored.")

    def _for_all(self, instances: Iterable[Instance], act: Callable[[Instance], object]) -> None:
        chosen = list(instances)
        if not chosen:
            return
        with ThreadPoolExecutor(max_workers=len(chosen), thread_name_prefix="bakeoff-servers") as pool:
            for future in [pool.submit(act, each) for each in chosen]:
                future.result()

    def _make_closed(self, folder: Path) -> None:
        """Make a folder that only servers may pass through."""
        folder.mkdir(mode=0o700)
        if self._identity.switch:
            os.chown(folder, 0, self._identity.gid)
            folder.chmod(0o710)

    def _spawned(self, process: ProcessId) -> None:
        with self._lock:
            self._processes = [each for each in self._processes if each.alive()] + [process]
            self._record()

    def _record(self) -> None:
        owner = paths.Owner.current(tuple(self._processes))
        for folder in (self.runtime, self.work):
            owner.write(folder)

    def _remove_all(self) -> None:
        for instance in self._instances:
            instance.kill()
        self._instances = []
        if self.work != Path():
            undo(self.work)
        for folder in (self.runtime, self.work):
            if folder != Path():
                shutil.rmtree(folder, ignore_errors=True)
                paths.remove_lock(folder.name)


@dataclass(frozen=True)
class Sandbox:
    instance: Instance
    tcp_account: Account
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        program = next((name for name in ("mysql", "mariadb") if shutil.which(name)), "mysql")
        client = [program, "--no-defaults"]
        at_socket = [*client, "--user=root", f"--socket={self.instance.socket_path}"]
        at_port = [*client, f"--user={self.tcp_account.user}", f"--password={self.tcp_account.password}"]
        at_port += ["--host=127.0.0.1", f"--port={self.instance.port}"]
        return [
            f"server   {self.instance.installation.name} ({self.instance.version_string}), pid {self.instance.pid}",
            f"socket   {self.instance.socket_path}",
            f"port     127.0.0.1:{self.instance.port}",
            f"data     {self.instance.datadir}  (removed when it stops)",
            f"log      {self.instance.error_log}",
            f"connect  {shlex.join(at_socket)}",
            f"         {shlex.join(at_port)}",
            f"url      mysql://root@localhost/?socket={self.instance.socket_path}",
            *(f"note     {note}" for note in self.notes),
        ]


@contextmanager
def sandbox(
    spec: ServerSpec, *, profile: Profile = Profile.STOCK, progress: Progress = no_progress
) -> Iterator[Sandbox]:
    require([spec.machine], paths.work_root())
    installation = install(spec, progress)
    memory = ServerMemory(buffer_pool_bytes=128 * 2**20, redo_bytes=96 * 2**20)
    settings = settings_for(installation, spec, profile, Data(), memory, connections=100)
    with ServerPool(progress=progress) as pool:
        pool.prepare([spec.machine])
        instance = pool.create("sandbox", installation, settings, machine=spec.machine)
        instance.start()
        instance.place.limit_storage(instance.datadir, instance.variables(), table_engine(spec, Data(), installation))
        ignored = tuple(f"{line} (ignored by the server)" for line in instance.ignored_settings())
        yield Sandbox(instance, instance.account("tcp"), (*settings.notes, *ignored))
