"""Transparent huge pages per server. The kernel has one mode for the machine; a process can only be restricted.

So the machine gets the highest mode that any arm asks for, and the processes of the other arms are restricted by
PR_SET_THP_DISABLE. Arms with different modes can share the machine, and are measured side by side.
"""

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

from bakeoff.errors import HostError
from bakeoff.machine.undo import HUGE_PAGES, Undo
from bakeoff.spec.machine import HUGE_PAGES as MODES

PR_SET_THP_DISABLE = 41
_EVER, _EXCEPT_ADVISED = 0, 2  # flags of PR_SET_THP_DISABLE; the second since Linux 6.18


def mode_now(file: Path = HUGE_PAGES) -> str:
    """Return always, madvise or never; empty if the kernel has no huge pages."""
    try:
        return file.read_text("ascii").partition("[")[2].partition("]")[0]
    except OSError:
        return ""


def require(modes: Iterable[str], file: Path = HUGE_PAGES) -> None:
    """Raise HostError if servers cannot have these modes. An empty one stands for the machine's mode."""
    asked, now = set(modes), mode_now(file)
    if asked <= {""}:
        return
    if not now:
        raise HostError("thp: this kernel has no transparent huge pages.", hint="Leave thp out.")
    wanted = {each or now for each in asked}
    highest = _highest([*wanted, now])
    if highest != now and not os.access(file, os.W_OK):
        raise HostError(f"thp: this machine is at {now}, and only root may change that.", hint="Run bakeoff as root.")
    if highest == "always" and "madvise" in wanted and not _knows_advised():
        raise HostError(
            "thp: madvise and always cannot run side by side here: that takes Linux 6.18.",
            hint="Compare never with one of the two.",
        )


def raise_machine(modes: Iterable[str], undo: Undo, file: Path = HUGE_PAGES) -> str:
    """Set the machine to the highest mode asked for. Return its previous mode; empty if none is asked for."""
    wanted, before = [each for each in modes if each], mode_now(file)
    if not wanted or not before:
        return ""
    highest = _highest([*wanted, before])
    if highest != before:
        undo.note("huge pages", before)
        file.write_text(highest)
    return before


def restriction(mode: str, file: Path = HUGE_PAGES) -> int | None:
    """Return the flags of PR_SET_THP_DISABLE that give a process its mode; None if it needs none."""
    if mode == "never":
        return _EVER
    return _EXCEPT_ADVISED if mode == "madvise" and mode_now(file) == "always" else None


def _highest(modes: Iterable[str]) -> str:
    return min(modes, key=MODES.index)  # the highest comes first


def _knows_advised() -> bool:
    """Try it in a child, because a process cannot ask without doing it."""
    pid = os.fork()
    if pid == 0:
        os._exit(ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, _EXCEPT_ADVISED, 0, 0) != 0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
