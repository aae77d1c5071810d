"""Find the block device of a folder, and read its counters from /proc/diskstats."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from bakeoff.errors import HostError

_SECTOR_BYTES = 512


@dataclass(frozen=True)
class Device:
    major: int
    minor: int
    name: str  # sda, vda, loop0

    def __str__(self) -> str:
        return f"{self.major}:{self.minor}"


def device_of(folder: Path, sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> Device:
    """Return the block device (not the partition) that holds a folder; HostError if there is none."""
    number = folder.stat().st_dev
    major, minor = os.major(number), os.minor(number)
    if major == 0:  # btrfs, overlay, tmpfs, NFS: look for the device in the mount
        source, kind = _mount_of(folder, proc)
        if not source.startswith("/dev/"):
            raise HostError(
                f"storage: {folder} is on {kind}, which has no block device to limit.",
                hint="Set XDG_CACHE_HOME or data_dir to a folder on a disk.",
            )
        number = Path(source).stat().st_rdev
        major, minor = os.major(number), os.minor(number)
    place = (sys / f"dev/block/{major}:{minor}").resolve()
    if (place / "partition").exists():  # the kernel limits whole devices, not partitions
        place = place.parent
        major, minor = map(int, (place / "dev").read_text("ascii").strip().split(":"))
    return Device(major, minor, place.name)


def _mount_of(folder: Path, proc: Path) -> tuple[str, str]:
    """Return source and type of the file system that a folder is on."""
    found, longest = ("", "an unknown file system"), -1
    for line in (proc / "self/mountinfo").read_text("utf-8", "replace").splitlines():
        before, _, after = line.partition(" - ")
        point, (kind, source, *_) = Path(before.split()[4].encode().decode("unicode_escape")), after.split()
        if folder.resolve().is_relative_to(point) and len(point.parts) >= longest:
            found, longest = (source, kind), len(point.parts)
    return found


def device_counters(device: Device, proc: Path = Path("/proc")) -> dict[str, float]:
    """Return the device's counters since boot, under the names of counters.json."""
    for line in (proc / "diskstats").read_text("ascii").splitlines():
        major, minor, _, *numbers = line.split()
        if (int(major), int(minor)) == (device.major, device.minor):
            values = list(map(int, numbers))
            return {
                "device.reads": values[0],
                "device.read_bytes": values[2] * _SECTOR_BYTES,
                "device.read_ms": values[3],
                "device.writes": values[4],
                "device.write_bytes": values[6] * _SECTOR_BYTES,
                "device.write_ms": values[7],
                "device.busy_ms": values[9],
                "device.queue_ms": values[10],
                "device.elapsed_ms": time.monotonic() * 1000,
            }
    return {}
