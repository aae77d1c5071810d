"""Attach loop devices and mount file systems by system calls.

losetup and mount could outlive a killed bakeoff for a moment, and attach or mount something after the next bakeoff has
cleaned up. The kernel detaches a device that is attached here once nobody has it open or mounted.
"""

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_GET_FREE, _CONFIGURE = 0x4C82, 0x4C0A  # LOOP_CTL_GET_FREE, LOOP_CONFIGURE (Linux 5.8)
# struct loop_config: file, block size, loop_info64 (with flags and the file's name), reserved
_CONFIG = struct.Struct("=II 40x 12x I 64s 64x 32x 16x 64x")
_AUTOCLEAR, _DIRECT_IO = 4, 16
_NOATIME, _DETACH = 1024, 2  # MS_NOATIME, MNT_DETACH
_TRIES = 20


@contextmanager
def attached(image: Path, control: Path = Path("/dev/loop-control")) -> Iterator[str]:
    """Yield an image's loop device, opened with direct I/O. After the block it stays attached only while in use."""
    with image.open("r+b") as file, control.open("rb", buffering=0) as free:
        config = _CONFIG.pack(file.fileno(), 0, _AUTOCLEAR | _DIRECT_IO, str(image).encode()[-63:])
        for attempt in range(_TRIES):
            name = f"/dev/loop{fcntl.ioctl(free, _GET_FREE)}"
            device = os.open(name, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, _CONFIGURE, config)
                break
            except OSError as problem:
                os.close(device)
                if problem.errno != errno.EBUSY or attempt == _TRIES - 1:  # another process took it first
                    raise
        try:
            yield name
        finally:
            os.close(device)


def mount(device: str, folder: Path, kind: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(device.encode(), str(folder).encode(), kind.encode(), ctypes.c_ulong(_NOATIME), None):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def unmount(folder: Path) -> None:
    """Unmount a folder if anything is mounted there, even while a process still uses it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if folder.is_mount() and libc.umount2(str(folder).encode(), 0):
        libc.umount2(str(folder).encode(), _DETACH)
