"""A server's share of the machine, from before its start until it is removed."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bakeoff.errors import HostError
from bakeoff.machine import huge_pages, images
from bakeoff.machine.devices import Device, device_counters, device_of
from bakeoff.machine.groups import Group, find_tree
from bakeoff.machine.undo import Undo
from bakeoff.spec.machine import NOTHING, Machine

_CACHES = ("innodb_buffer_pool_size", "key_buffer_size", "rocksdb_block_cache_size")
_BESIDES_CACHES_BYTES = 400 * 2**20  # for everything else in the server, and its page cache


@dataclass
class Place:
    """No limits by default. `huge_pages` holds flags of PR_SET_THP_DISABLE."""

    machine: Machine = NOTHING
    cpus: frozenset[int] | None = None
    huge_pages: int | None = None
    group: Group | None = None
    device: Device | None = None  # once storage is limited
    undo: Undo | None = None
    name: str = ""  # of its control group, and of its steps in undo.json

    def limit_storage(self, datadir: Path, variables: Mapping[str, str], engine: str) -> str:
        """Begin to limit storage. Return a note if memory had to be limited too, because reads use the page cache."""
        storage = self.machine.storage
        if not (self.group and storage.limits):
            return ""
        note = ""
        if self.machine.memory_bytes is None and not reads_directly(variables, engine):
            caches = sum(int(variables.get(name, 0)) for name in _CACHES)
            self.group.limit_memory(caches + _BESIDES_CACHES_BYTES)
            note = f"tables of {engine} are read through the page cache, so memory is limited to its caches and 400 MiB"
        self.device = device_of(datadir)
        self.group.limit_storage(self.device, storage)
        return note

    def counters(self) -> dict[str, float]:
        if not (self.group and self.device):
            return {}
        return self.group.storage_counters(self.device) | device_counters(self.device)

    def close(self) -> None:
        if self.undo:
            self.undo.take_back(self.name)


def open_place(machine: Machine, home: Path, *, data_bytes: int, undo: Undo, mode: str = "") -> Place:
    """Set up the share of a server at `home`, an empty folder. `mode` is the default for huge pages."""
    name = f"bakeoff-{home.parent.name.rpartition('-')[2]}-{home.name}"
    place = Place(machine, cpus_of(machine), huge_pages.restriction(machine.thp or mode), undo=undo, name=name)
    try:
        if machine.file_system or machine.storage.latency_ms:
            images.mount_image(
                home,
                machine.file_system or images.DEFAULT,
                size_bytes=2 * data_bytes + images.SPARE_BYTES,
                latency_ms=machine.storage.latency_ms or 0,
                undo=undo,
                name=name,
            )
        if machine.grouped:
            controllers = ("io", "memory") if machine.storage.limits else ("memory",)
            place.group = Group(name, controllers, undo)
            if machine.memory_bytes is not None:
                place.group.limit_memory(machine.memory_bytes)
    except BaseException:
        place.close()
        raise
    return place


def require(machines: Iterable[Machine], root: Path) -> None:
    """Raise HostError if this machine cannot give what is asked for. `root` is the default for `data_dir`."""
    asked = list(machines)
    huge_pages.require(each.thp for each in asked)
    for machine in asked:
        cpus_of(machine)
        data_dir = Path(machine.data_dir or root)
        if machine.data_dir and not (data_dir.is_dir() and os.access(data_dir, os.W_OK | os.X_OK)):
            raise HostError(f"data_dir {data_dir} is not a folder that bakeoff may write to.", hint="Mount or make it.")
        if machine.storage.latency_ms:
            images.require_delay()
        if machine.file_system or machine.storage.latency_ms:
            images.require(machine.file_system or images.DEFAULT)
        elif machine.storage.limits:
            device_of(next(each for each in (data_dir, *data_dir.parents) if each.exists()))
        for controller in ("io", "memory") if machine.storage.limits else ("memory",) if machine.grouped else ():
            find_tree(controller)


def cpus_of(machine: Machine, sys: Path = Path("/sys")) -> frozenset[int] | None:
    """Return the CPUs of a server, one thread of every core first; None for all."""
    if machine.cpus is None:
        return None
    usable = os.sched_getaffinity(0)
    if machine.cpus > len(usable):
        raise HostError(f"cpus: {machine.cpus} requested, but only {len(usable)} are usable.", hint="Ask for fewer.")
    return frozenset(sorted(usable, key=lambda cpu: (_siblings_before(cpu, usable, sys), cpu))[: machine.cpus])


def _siblings_before(cpu: int, usable: set[int], sys: Path) -> int:
    with suppress(OSError, ValueError):
        text = (sys / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text("ascii").strip()
        siblings: list[int] = []
        for part in text.split(","):
            first, _, last = part.partition("-")
            siblings += range(int(first), int(last or first) + 1)
        return sum(sibling < cpu and sibling in usable for sibling in siblings)
    return 0


def reads_directly(variables: Mapping[str, str], engine: str) -> bool:
    """Whether a server bypasses the page cache when it reads its tables."""
    if engine == "rocksdb":
        return variables.get("rocksdb_use_direct_reads", "OFF") == "ON"
    direct = variables.get("innodb_flush_method", "").upper().startswith("O_DIRECT")
    return engine == "innodb" and (direct or variables.get("innodb_data_file_buffering") == "OFF")


def evict(folder: Path) -> None:
    """Drop a folder's files from the page cache; they are on disk already."""
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                descriptor = os.open(Path(path) / name, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(descriptor)
