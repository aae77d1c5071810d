"""Instructions that a process executes outside the kernel, by the CPU's own counters (perf_event_open).

They hardly depend on what else the machine does, so they tell two clients apart on a busy one. Counting makes every
context switch dearer: it is done in separate windows, never in those that CPU time is taken from.
"""

import ctypes
import os
import platform
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

_SYSCALL = {"x86_64": 298, "aarch64": 241}
_HARDWARE, _INSTRUCTIONS = 0, 1
_EXCLUDE_KERNEL_AND_HYPERVISOR = 1 << 5 | 1 << 6
_ATTRIBUTE_BYTES = 64  # of struct perf_event_attr as it first was; the kernel takes any version's size


class UserInstructions:
    """Counts for all threads that the process has now. Use it as a context manager.

    Raises:
        OSError: the machine or the kernel does not allow it.
    """

    def __init__(self, pid: int) -> None:
        self._files: list[int] = []
        number = _SYSCALL.get(platform.machine())
        if number is None:
            raise OSError(f"perf_event_open is not known for {platform.machine()}")
        libc = ctypes.CDLL(None, use_errno=True)
        attribute = struct.pack(
            "=IIQQQQQ", _HARDWARE, _ATTRIBUTE_BYTES, _INSTRUCTIONS, 0, 0, 0, _EXCLUDE_KERNEL_AND_HYPERVISOR
        ).ljust(_ATTRIBUTE_BYTES, b"\0")
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                file = libc.syscall(number, attribute, int(task.name), -1, -1, 0)
                if file < 0:
                    raise OSError(ctypes.get_errno(), f"perf_event_open: {os.strerror(ctypes.get_errno())}")
                self._files.append(file)
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def total(self) -> int:
        """Return the count of all threads since counting started."""
        return sum(int.from_bytes(os.read(file, 8), "little") for file in self._files)

    def _close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []
