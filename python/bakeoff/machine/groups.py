"""Control groups of servers: limit storage and memory, and count what a server reads and writes.

Version 2 has one tree, version 1 one per controller. Groups are made below bakeoff's own if that is permitted, so that
the limits of a container or a service also apply to the servers.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

from bakeoff.errors import HostError
from bakeoff.machine.devices import Device
from bakeoff.machine.undo import Undo
from bakeoff.spec.machine import Storage

MOUNT, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_OLD_NAMES = {"io": "blkio", "memory": "memory"}  # of controllers in version 1
_V1_FILES = {
    "read_iops": "read_iops_device",
    "write_iops": "write_iops_device",
    "read_bandwidth": "read_bps_device",
    "write_bandwidth": "write_bps_device",
}
_V2_KEYS = {"read_iops": "riops", "write_iops": "wiops", "read_bandwidth": "rbps", "write_bandwidth": "wbps"}
_V2_COUNTERS = {"reads": "rios", "writes": "wios", "read_bytes": "rbytes", "write_bytes": "wbytes"}
_SHRINK_TRIES, _SHRINK_POLL_S = 20, 0.1
_NEED = "Run bakeoff as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes bakeoff …"


@dataclass(frozen=True)
class Tree:
    """Where groups of one controller are made. `v2`: one tree holds all controllers."""

    parent: Path
    v2: bool


def find_tree(controller: str, mount: Path = MOUNT, own: Path = OWN) -> Tree:
    """Return where bakeoff may make groups with this controller (io, memory); HostError with the reason if nowhere."""
    if not (mount / "cgroup.controllers").exists():
        old = _OLD_NAMES[controller]
        if not (mount / old / "cgroup.procs").exists():
            raise HostError(
                f"this machine has no control groups for {controller} at {mount}.",
                hint="Leave storage and memory out, or mount them: a container needs --privileged or --cgroupns=host.",
            )
        return Tree(_writable(_below(mount / old, _own_group(own, old)), controller), v2=False)
    group = _below(mount, _own_group(own, ""))
    reasons = []
    for parent in dict.fromkeys((group, mount)):
        if reason := _enable(parent, controller):
            reasons.append(reason)
        else:
            return Tree(_writable(parent, controller), v2=True)
    raise HostError(f"the control group of {controller} cannot be used: {'; '.join(reasons)}.", hint=_NEED)


def _own_group(own: Path, controller: str) -> PurePath:
    with contextlib.suppress(OSError, ValueError):
        for line in own.read_text("utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                return PurePath(path.lstrip("/"))
    return PurePath()


def _below(mount: Path, group: PurePath) -> Path:
    inside = ".." not in group.parts and (mount / group / "cgroup.procs").exists()
    return mount / group if inside else mount


def _writable(parent: Path, controller: str) -> Path:
    if not os.access(parent, os.W_OK | os.X_OK):
        raise HostError(f"bakeoff may not make a control group for {controller} in {parent}.", hint=_NEED)
    return parent


def _enable(parent: Path, controller: str) -> str:
    """Enable a controller for the groups below. Return why that is impossible, or an empty string.

    A group with processes cannot. Those in a delegated group (bakeoff and its children) are moved to a group below it.
    """
    if controller in (parent / "cgroup.subtree_control").read_text("ascii").split():
        return ""
    if controller not in (parent / "cgroup.controllers").read_text("ascii").split():
        return f"{parent} does not have it"
    try:
        _add(parent, controller)
        return ""
    except OSError:
        if os.geteuid() == 0:  # the caller tries the root group next, which may hold processes
            return f"{parent} has processes"
    try:
        inner = parent / "bakeoff-self"
        inner.mkdir(exist_ok=True)
        for pid in (parent / "cgroup.procs").read_text("ascii").split():
            (inner / "cgroup.procs").write_text(pid)
        _add(parent, controller)
    except OSError as problem:
        return f"{parent} may not be changed ({problem.strerror})"
    return ""


def _add(parent: Path, controller: str) -> None:
    (parent / "cgroup.subtree_control").write_text(f"+{controller}")


class Group:
    """The control group of one server: a folder in each tree that it needs."""

    def __init__(self, name: str, controllers: Iterable[str], undo: Undo, mount: Path = MOUNT, own: Path = OWN) -> None:
        trees = {each: find_tree(each, mount, own) for each in controllers}
        self._folders = {each: (tree.parent / name, tree.v2) for each, tree in trees.items()}
        for folder in self.folders:
            undo.note("group", str(folder), name)
            folder.mkdir(exist_ok=True)

    @property
    def folders(self) -> list[Path]:
        return list(dict.fromkeys(folder for folder, _ in self._folders.values()))

    @property
    def procs(self) -> tuple[str, ...]:
        """Files into which a process writes 0 to join."""
        return tuple(str(folder / "cgroup.procs") for folder in self.folders)

    def limit_memory(self, limit_bytes: int) -> None:
        """Limit memory, page cache included; what is above the limit is reclaimed."""
        folder, v2 = self._folders["memory"]
        file = folder / ("memory.max" if v2 else "memory.limit_in_bytes")
        for attempt in range(_SHRINK_TRIES):
            try:
                file.write_text(str(limit_bytes))
            except OSError as problem:  # EBUSY of version 1: it could not reclaim enough at once
                if attempt == _SHRINK_TRIES - 1:
                    raise HostError(
                        f"memory: the limit of {limit_bytes:,} bytes cannot be set: {problem.strerror}.",
                        hint="The server holds more than that; give it more memory, or a smaller buffer pool.",
                    ) from None
                time.sleep(_SHRINK_POLL_S)
            else:
                break
        if v2:
            with contextlib.suppress(OSError):
                (folder / "memory.swap.max").write_text("0")

    def killed_at_memory_limit(self) -> bool:
        if "memory" not in self._folders:
            return False
        folder, v2 = self._folders["memory"]
        with contextlib.suppress(OSError):
            said = (folder / ("memory.events" if v2 else "memory.oom_control")).read_text("ascii")
            return re.search(r"^oom_kill [1-9]", said, re.MULTILINE) is not None
        return False

    def limit_storage(self, device: Device, storage: Storage) -> None:
        folder, v2 = self._folders["io"]
        try:
            if v2:
                words = (f"{_V2_KEYS[name]}={value}" for name, value in storage.limits.items())
                (folder / "io.max").write_text(f"{device} {' '.join(words)}")
            else:
                for name, value in storage.limits.items():
                    (folder / f"blkio.throttle.{_V1_FILES[name]}").write_text(f"{device} {value}")
        except OSError as problem:
            raise HostError(
                f"storage: {device.name} ({device}) cannot be limited: {problem.strerror}.",
                hint="The kernel needs CONFIG_BLK_DEV_THROTTLING; use another device, or leave storage out.",
            ) from None

    def storage_counters(self, device: Device) -> dict[str, float]:
        """Return what the group has read and written on a device, under the names of counters.json."""
        folder, v2 = self._folders["io"]
        found = {f"storage.{name}": 0.0 for name in _V2_COUNTERS}
        if v2:
            for line in (folder / "io.stat").read_text("ascii").splitlines():
                words = line.split()
                values = dict(word.split("=") for word in words if "=" in word)
                # Linux 5.14 to 5.18 puts the numbers of idle devices in front of another device's line.
                if [word for word in words if "=" not in word][-1:] == [str(device)]:
                    for name, key in _V2_COUNTERS.items():
                        found[f"storage.{name}"] = int(values.get(key, 0))
            return found
        for file, suffix in (("io_serviced", "s"), ("io_service_bytes", "_bytes")):
            for line in (folder / f"blkio.throttle.{file}").read_text("ascii").splitlines():
                number, *words = line.split()
                if number == str(device) and words[0] in ("Read", "Write"):
                    found[f"storage.{words[0].lower()}{suffix}"] = int(words[1])
        return found
