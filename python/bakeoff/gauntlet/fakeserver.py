"""The fake server as a process: known truth without a database (crates/fakeserver/README.md)."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from bakeoff.engine import ArmAddress, engine_path
from bakeoff.errors import HostError
from bakeoff.gauntlet.model import Finding, Setting

_START_S = 10.0
_END_S = 5.0


def fakeserver_path() -> Path:
    """The fake server's binary: $BAKEOFF_FAKESERVER, else beside this Python or the engine, or on PATH.

    Raises:
        HostError: it is nowhere; it is no part of an installation.
    """
    name = "bakeoff-fakeserver"
    named = os.environ.get("BAKEOFF_FAKESERVER")
    built = Path(__file__).resolve().parents[3] / "target" / "release" / name
    places = [Path(named)] if named else [Path(sys.executable).with_name(name), built]
    with contextlib.suppress(HostError):  # without an engine something else fails first, and says so
        places += [] if named else [engine_path().with_name(name)]
    found: Path | str | None = next((place for place in places if place.exists()), None)
    found = found or (None if named else shutil.which(name))
    if not found:
        raise HostError(
            "bakeoff-fakeserver was not found.",
            hint="In a checkout: cargo build --release -p bakeoff-fakeserver, or set BAKEOFF_FAKESERVER to its path.",
        )
    return Path(found)


class FakeServer:
    """A running fake server; a context manager.

    Args:
        socket: where it listens; a path of at most 107 bytes.
        options: of its command line.

    Raises:
        HostError: no binary, or it does not start.
    """

    def __init__(self, socket: Path, *options: str) -> None:
        self.socket = socket
        self.counters: dict[str, int] = {}
        self._process = subprocess.Popen(
            [fakeserver_path(), "--socket", socket, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        in_time, _, _ = select.select([self._process.stdout], [], [], _START_S)
        if not in_time:
            self._process.kill()
        first = self._process.stdout.readline()
        if not first:
            assert self._process.stderr
            silence = "it said nothing" if in_time else f"it said nothing for {_START_S:g} s"
            said = self._process.stderr.read().strip().splitlines() or [silence]
            self._process.wait()
            raise HostError(f"bakeoff-fakeserver did not start: {said[-1]}")
        self.ready: dict[str, Any] = json.loads(first)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it; `counters` then say what it has done (of one that crashed: nothing). Safe to call twice."""
        self._process.terminate()
        try:
            out, _ = self._process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, _ = self._process.communicate()
        except ValueError:  # closed before
            return
        for line in out.splitlines():
            self.counters = json.loads(line).get("counters", self.counters)

    def address(self, arm: str, *, shadow_per_100: float = 0.0) -> ArmAddress:
        """How the engine reaches it as an arm."""
        return ArmAddress(
            name=arm,
            socket=str(self.socket),
            host=None,
            port=None,
            user="root",
            password="",
            database="sbtest",
            charset="utf8mb4",
            collation=None,
            server_pid=self.pid,
            shadow_per_100=shadow_per_100,
        )


def on_fake_server(run: Callable[[Setting], Finding]) -> Callable[[Setting], Finding]:
    """A check that needs the fake server: without its binary the finding is what to do about it."""

    def checked(setting: Setting) -> Finding:
        try:
            fakeserver_path()
        except HostError as missing:
            return Finding(found=str(missing), passed=None)
        return run(setting)

    return checked
