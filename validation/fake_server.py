"""Starts the fake server (fakeserver/README.md) and measures whole epochs against it through the real engine."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bakeoff.engine import ArmAddress, Engine, engine_path
from bakeoff.engine_messages import MeasureRequest
from bakeoff.errors import HostError
from bakeoff.plan.epochs import seed_for
from bakeoff.plan.timing import guard_ns
from bakeoff.results.epoch_data import EpochData, slices_frame
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Analysis, Stop
from validation.check import Finding, Setting
from validation.simulation import simulated_study

_START_S = 10.0
_END_S = 5.0


def fakeserver_path() -> Path:
    """Find the binary: $BAKEOFF_FAKESERVER, else beside this Python or the engine, in target/, or on PATH."""
    name = "bakeoff-fakeserver"
    named = os.environ.get("BAKEOFF_FAKESERVER")
    built = [Path(__file__).resolve().parents[1] / "target" / profile / name for profile in ("release", "debug")]
    places = [Path(named)] if named else [Path(sys.executable).with_name(name), *built]
    with contextlib.suppress(HostError):  # a missing engine is reported by whatever needs it
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
    """Context manager of a running fake server. The path of its socket has at most 107 bytes."""

    def __init__(self, socket: Path, *options: str, cpu: int | None = None) -> None:
        self.socket = socket
        self.counters: dict[str, int] = {}
        self._process = subprocess.Popen(
            [fakeserver_path(), "--socket", socket, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        in_time, _, _ = select.select([self._process.stdout], [], [], _START_S)
        if not in_time:
            self._process.kill()
        if not self._process.stdout.readline():
            assert self._process.stderr
            silence = "it printed nothing" if in_time else f"it printed nothing for {_START_S:g} s"
            lines = self._process.stderr.read().strip().splitlines() or [silence]
            self._process.wait()
            raise HostError(f"bakeoff-fakeserver did not start: {lines[-1]}")
        if cpu is not None:
            for thread in Path(f"/proc/{self.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {cpu})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
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

    def address(self, arm: str, *, slowdown_percent: float = 0.0) -> ArmAddress:
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
            slowdown_percent=slowdown_percent,
        )


def on_fake_server(run: Callable[[Setting], Finding]) -> Callable[[Setting], Finding]:
    """Wrap a check that needs the fake server: without its binary the finding says what to do."""

    def checked(setting: Setting) -> Finding:
        try:
            fakeserver_path()
        except HostError as missing:
            return Finding(found=str(missing), passed=None)
        return run(setting)

    return checked


_SCRIPT = "oltp_point_select"  # one statement per event
MS = 1_000_000


@dataclass(frozen=True)
class FakeArm:
    """An arm on a fake server. The true ratio is 100 / (100 + slowdown_percent)."""

    law: tuple[str, ...] = ("--latency", "lognormal:500us,0.1")
    slowdown_percent: float = 0.0


@dataclass(frozen=True)
class Load:
    seconds: float = 0.4
    slice_ns: int = 20 * MS
    threads: int = 8
    rate_per_s: float | None = None
    arrivals: str = "poisson"

    @property
    def cell(self) -> str:
        return f"{_SCRIPT}/{self.threads}"


class FakeBench:
    """Context manager of an engine that measures fake servers.

    Args:
        name: of the check, so that two checks draw different numbers.
        together: run engine and servers on one CPU, like the threads of paired connections. Otherwise the kernel may
            place the threads of one arm better than those of the other in all epochs.
    """

    def __init__(
        self, setting: Setting, name: str, *, cpus: frozenset[int] | None = None, together: bool = False
    ) -> None:
        self._cpu = max(os.sched_getaffinity(0)) if together else None
        cpus = cpus if self._cpu is None else frozenset({self._cpu})
        self._seed = seed_for(setting.seed, "validation", name)
        self._folder = Path(tempfile.mkdtemp(prefix="bakeoff-fake-"))  # a socket path has at most 107 bytes
        try:
            self._engine = Engine(cpus=cpus)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._epochs = 0
        self.counters: dict[str, dict[str, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def epoch(self, arms: Mapping[str, FakeArm], load: Load) -> EpochData:
        """Start a server for every arm, measure, stop them, and keep their `counters`."""
        number, self._epochs = self._epochs, self._epochs + 1
        servers: dict[str, FakeServer] = {}
        try:
            for index, (name, arm) in enumerate(arms.items()):
                start = seed_for(self._seed, "start", number, name)
                servers[name] = FakeServer(
                    self._folder / f"{index}.sock", *arm.law, "--seed", str(start), cpu=self._cpu
                )
            self._engine.open(
                servers[name].address(name, slowdown_percent=arm.slowdown_percent) for name, arm in arms.items()
            )
            measured = self._engine.measure(self._request(list(arms), load, number))
        finally:
            for server in servers.values():
                server.close()
            self.counters = {name: server.counters for name, server in servers.items()}
        return EpochData(
            epoch=number, slices=slices_frame(measured.slices, epoch=number, build=0), histograms=measured.histograms
        )

    def _request(self, arms: list[str], load: Load, number: int) -> MeasureRequest:
        model: dict[str, str | float] = {"model": "closed"}
        if load.rate_per_s is not None:
            model = {"model": "open", "rate_per_s": load.rate_per_s, "arrivals": load.arrivals}
        return {
            "cell": load.cell,
            "script": _SCRIPT,
            "options": {"tables": 1, "table_size": 1000},
            "threads": load.threads,
            "arms": arms,
            "seconds": load.seconds,
            "blocks": None,
            "slice_ns": load.slice_ns,
            "guard_ns": min(guard_ns(load.slice_ns), load.slice_ns // 10),
            "order_seed": seed_for(self._seed, "order", number),
            "key_seed": seed_for(self._seed, "keys", number),
            "load": model,
            "placement": "free",
            "freeze": False,
        }


def judge(epochs: Sequence[EpochData], load: Load) -> Analysis:
    """Analyse epochs as a run at the end of its budget; the first arm by name is the baseline."""
    arms = tuple(sorted(set(epochs[0].slices["arm"])))
    return analyse(epochs, simulated_study(arms=arms, cells=(load.threads,)), ended=Stop.BUDGET)
