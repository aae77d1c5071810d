"""Cleaning up after bakeoffs that were killed: servers that outlived them (they should not), sockets, data directories.

Only folders that belong to our own user, carry a bakeoff's name and an owner.json, and whose owner is dead are touched;
and in the cache what was being made under a lock that nobody holds any more.
"""

import json
import os
import re
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bakeoff.servers.places import locked, locked_if_free
from bakeoff.servers.supervise import ProcessId

OWNER_FILE = "owner.json"
_FOLDER = re.compile(r"(bakeoff|house)-[0-9a-f]{8}")
_UNFINISHED = re.compile(r"\.(?P<lock>.+)\.[a-z0-9_]{8}")  # as tempfile ends its names
_UNFINISHED_S = 3600.0  # a folder without owner.json may be about to get one


@dataclass(frozen=True)
class Owner:
    """Who made a folder.

    Attributes:
        boot: the kernel's boot id; process numbers of another boot mean nothing.
        servers: children started from there.
    """

    token: str
    boot: str
    process: ProcessId
    servers: tuple[ProcessId, ...]

    @classmethod
    def current(cls, token: str, servers: tuple[ProcessId, ...]) -> "Owner":
        """This process."""
        process = ProcessId.of(os.getpid())
        assert process is not None
        return cls(token, _boot_id(), process, servers)

    def as_json(self) -> dict[str, Any]:
        """As written to owner.json."""
        return {
            "token": self.token,
            "boot": self.boot,
            "process": [self.process.pid, self.process.start_ticks],
            "servers": [[each.pid, each.start_ticks] for each in self.servers],
        }

    @classmethod
    def read(cls, folder: Path) -> "Owner | None":
        """The owner of a folder; None when there is no readable owner.json."""
        try:
            raw = json.loads((folder / OWNER_FILE).read_text("utf-8"))
            return cls(
                raw["token"],
                raw["boot"],
                ProcessId(*raw["process"]),
                tuple(ProcessId(*each) for each in raw["servers"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def dead(self) -> bool:
        """Whether nobody can come back to this folder."""
        return self.boot != _boot_id() or not self.process.alive()


def sweep(*roots: Path) -> list[Path]:
    """Remove what dead bakeoffs left below `roots`, and kill servers of theirs that still run.

    Returns:
        Folders removed.
    """
    removed: list[Path] = []
    with locked("sweep"):
        for root in roots:
            for folder in sorted(root.iterdir()) if root.is_dir() else ():
                if _FOLDER.fullmatch(folder.name) and _ours(folder) and _abandoned(folder):
                    shutil.rmtree(folder, ignore_errors=True)
                    removed.append(folder)
    return removed


def sweep_unfinished(folder: Path) -> list[Path]:
    """Remove what killed bakeoffs left half made in a folder of the cache: `.NAME.xxxxxxxx`, made under the lock NAME.

    Returns:
        Folders removed.
    """
    removed: list[Path] = []
    for each in sorted(folder.iterdir()) if folder.is_dir() else ():
        made_under = _UNFINISHED.fullmatch(each.name)
        if made_under:
            with locked_if_free(made_under["lock"]) as free:
                if free:
                    shutil.rmtree(each, ignore_errors=True)
                    removed.append(each)
    return removed


def _ours(folder: Path) -> bool:
    try:
        return not folder.is_symlink() and folder.is_dir() and folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _abandoned(folder: Path) -> bool:
    owner = Owner.read(folder)
    if owner is None:
        try:
            return time.time() - folder.stat().st_mtime > _UNFINISHED_S
        except FileNotFoundError:  # its owner has just left it
            return False
    if not owner.dead():
        return False
    if owner.boot == _boot_id():
        for server in owner.servers:
            if server.alive():
                os.kill(server.pid, signal.SIGKILL)
    return True


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
