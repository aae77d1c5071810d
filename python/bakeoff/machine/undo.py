"""Record what a pool is about to change outside its own folder, so that it is undone even after a kill.

`undo.json` lies in the pool's folder. A pool undoes everything when it ends; if its owner was killed, the next
bakeoff does. Steps are undone in reverse order, and what is already gone is skipped.
"""

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

from bakeoff.files import write_atomically
from bakeoff.machine.loop_devices import unmount

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_FILE = "undo.json"
_GROUP_S, _POLL_S = 10.0, 0.05  # a killed server's threads take a moment to leave their group
_PROGRAM_S = 60.0


def system_environment() -> dict[str, str]:
    """Return our environment with the folders of system programs, which `su` may leave out of PATH."""
    return os.environ | {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}


class Undo:
    """The record of one pool. Call `note` before each change; `take_back` undoes those for one server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._steps: list[list[str]] = []
        self._lock = threading.Lock()  # servers are made in threads

    def note(self, kind: str, value: str, server: str = "") -> None:
        with self._lock:
            self._write([*self._steps, [kind, value, server]])

    def take_back(self, server: str) -> None:
        own = [step for step in self._steps if step[2] == server]
        for kind, value, _ in reversed(own):
            _STEPS[kind](value)
        with self._lock:
            self._write([step for step in self._steps if step not in own])

    def _write(self, steps: list[list[str]]) -> None:
        if steps != self._steps:
            write_atomically(self._folder / _FILE, json.dumps(steps).encode())
        self._steps = steps


def undo(folder: Path) -> None:
    """Undo what the pool of a folder has noted."""
    steps: list[list[str]] = []
    with contextlib.suppress(OSError, ValueError):
        steps = json.loads((folder / _FILE).read_bytes())
    for kind, value, _ in reversed(steps):
        _STEPS[kind](value)


def _remove_group(path: str) -> None:
    end_s = time.monotonic() + _GROUP_S
    while Path(path).is_dir() and time.monotonic() < end_s:
        with contextlib.suppress(OSError):
            Path(path).rmdir()
            return
        time.sleep(_POLL_S)


def _unmount(folder: str) -> None:
    unmount(Path(folder))


def _remove_image(path: str) -> None:
    Path(path).unlink(missing_ok=True)  # its loop device has gone with the mount


def _remove_delay(name: str) -> None:
    if Path("/dev/mapper", name).exists():
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            command = ["dmsetup", "remove", "--retry", name]
            subprocess.run(command, capture_output=True, check=False, timeout=_PROGRAM_S, env=system_environment())


def _remove_folder(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _restore_huge_pages(before: str) -> None:
    with contextlib.suppress(OSError):
        HUGE_PAGES.write_text(before)


_STEPS = {
    "group": _remove_group,
    "mount": _unmount,
    "delay": _remove_delay,
    "image": _remove_image,
    "folder": _remove_folder,
    "huge pages": _restore_huge_pages,
}
