"""Make a loop image with a fresh file system for every server start, on a device-mapper delay if one is asked for.

The loop device opens its image with direct I/O, so that the page cache of the machine does not hold the data a second
time. Options of mkfs and mount: docs/reference/machine.md.
"""

import os
import shutil
import subprocess
from pathlib import Path

from bakeoff.errors import HostError
from bakeoff.machine.loop_devices import attached, mount
from bakeoff.machine.undo import Undo, system_environment

_MKFS: dict[str, tuple[str, ...]] = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}
_PACKAGES = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}
_PROGRAM_S = 300.0
_SECTOR_BYTES = 512
DEFAULT = "ext4"  # for an image that only storage.latency needs
SPARE_BYTES = 4 * 2**30  # beyond twice the data; images are sparse
STEP_BYTES = 2**20
_HINT = "`losetup --list` shows the loop devices, `dmesg` what the kernel says."


def require(kind: str, proc: Path = Path("/proc"), dev: Path = Path("/dev")) -> None:
    if os.geteuid() != 0:
        raise HostError(
            f"file_system {kind}: only root can mount an image.", hint="Run bakeoff as root, or use data_dir."
        )
    environment = system_environment()
    if not shutil.which(_MKFS[kind][0], path=environment["PATH"]):
        raise HostError(
            f"file_system {kind}: {_MKFS[kind][0]} is not installed.", hint=f"Run: apt-get install {_PACKAGES[kind]}"
        )
    if not (dev / "loop-control").exists():
        raise HostError(
            f"file_system {kind}: this machine has no loop devices.",
            hint="Load the kernel's module loop; a container needs --privileged.",
        )
    known = (proc / "filesystems").read_text("ascii").split()
    modprobe = shutil.which("modprobe", path=environment["PATH"])
    if kind not in known and (not modprobe or subprocess.run([modprobe, "-q", kind], check=False).returncode):
        raise HostError(f"file_system {kind}: this kernel does not know it.", hint=f"Choose another, or load {kind}.")


def require_delay(dev: Path = Path("/dev")) -> None:
    targets, environment = "", system_environment()
    if (dev / "mapper/control").exists() and shutil.which("dmsetup", path=environment["PATH"]):
        asked = subprocess.run(["dmsetup", "targets"], capture_output=True, text=True, check=False, env=environment)
        targets = asked.stdout
    if not any(line.startswith("delay") for line in targets.splitlines()):
        raise HostError(
            "storage.latency: this kernel has no device-mapper target `delay`, which makes requests wait.",
            hint="Load the module dm-delay and install dmsetup, or leave the latency out.",
        )


def mount_image(home: Path, kind: str, *, size_bytes: int, latency_ms: int, undo: Undo, name: str) -> None:
    """Make an image beside the folder `home`, which exists, and mount it there for the server `name`."""
    image = home.with_name(f"{home.name}.img")
    size_bytes = -(-size_bytes // STEP_BYTES) * STEP_BYTES
    undo.note("image", str(image), name)
    with image.open("wb") as file:
        file.truncate(size_bytes)
    step = "attaching its image"
    try:
        with attached(image) as device:
            if latency_ms:
                undo.note("delay", name, name)
                table = f"0 {size_bytes // _SECTOR_BYTES} delay {device} 0 {latency_ms}"
                _run("with storage.latency", "dmsetup", "create", name, "--table", table)
                device = f"/dev/mapper/{name}"
            _run(kind, *_MKFS[kind], device)
            undo.note("mount", str(home), name)
            step = "mounting it"
            mount(device, home, kind)
    except OSError as problem:
        raise HostError(f"file_system {kind}: {step} failed: {problem.strerror}.", hint=_HINT) from None


def _run(kind: str, *command: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROGRAM_S, check=False, env=system_environment()
        )
    except subprocess.TimeoutExpired:
        raise HostError(f"file_system {kind}: {command[0]} did not end within {_PROGRAM_S:g} s.", hint=_HINT) from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise HostError(f"file_system {kind} could not be made: {command[0]}: {said}.", hint=_HINT)
