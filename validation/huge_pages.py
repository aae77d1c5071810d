"""Move a server's buffer pool to huge pages, to find out how much the place of its small pages in memory matters."""

import ctypes
import os
import re
from pathlib import Path

_AREA_MIN_BYTES = 32 * 2**20  # buffer pools and the largest heaps; no stack, and no arena of an allocator
_PAGE_BYTES = 2 * 2**20
_PROCESS_MADVISE = 440  # the system call has this number on every architecture
_MADV_COLLAPSE = 25

_AREA = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 .*\n"  # private, without a file
    r"(?:[A-Z].*\n)*?Rss: +(\d+) kB\n"
    r"(?:[A-Z].*\n)*?AnonHugePages: +(\d+) kB",
    re.MULTILINE,
)
_libc = ctypes.CDLL(None, use_errno=True)


class _Range(ctypes.Structure):
    """The kernel's `struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def use_huge_pages(pid: int) -> float:
    """Have the kernel (6.1 or newer) move the large areas of a process to huge pages.

    It takes the capability CAP_SYS_NICE, which root has. A process that has switched huge pages off for itself, as
    MariaDB 10.11.19 does, stays as it is. Memory that is filled later is as the system's settings say.

    Returns:
        The share of these areas' memory that is in huge pages afterwards; 0 when there are no such areas.

    Raises:
        OSError: there is no such process, or it is another account's.
    """
    process = os.pidfd_open(pid)
    try:
        for low, high, _, _ in _large_areas(pid):
            # Page by page: the kernel ends at the first that was never touched, or that it cannot move.
            for place in range(-(-low // _PAGE_BYTES) * _PAGE_BYTES, high - _PAGE_BYTES + 1, _PAGE_BYTES):
                _madvise(process, ctypes.byref(_Range(place, _PAGE_BYTES)), 1, _MADV_COLLAPSE, 0)
    finally:
        os.close(process)
    areas = _large_areas(pid)
    return sum(huge for _, _, _, huge in areas) / max(sum(used for _, _, used, _ in areas), 1)


def _madvise(process: int, ranges: object, count: int, advice: int, flags: int) -> None:
    """The system call process_madvise; what it refuses stays as it is."""
    call, length = ctypes.c_long(_PROCESS_MADVISE), ctypes.c_size_t(count)
    _libc.syscall(call, ctypes.c_int(process), ranges, length, ctypes.c_int(advice), ctypes.c_uint(flags))


def _large_areas(pid: int) -> list[tuple[int, int, int, int]]:
    """(first, end, kB in use, kB in huge pages) of each large private area without a file."""
    found = _AREA.findall(Path(f"/proc/{pid}/smaps").read_text("utf-8", "replace"))
    areas = [(int(low, 16), int(high, 16), int(used_kb), int(huge_kb)) for low, high, used_kb, huge_kb in found]
    return [area for area in areas if area[1] - area[0] >= _AREA_MIN_BYTES]
