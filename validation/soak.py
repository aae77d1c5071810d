"""Soak test: one long duel whose servers crash at random must not grow, lose epochs or leave processes behind."""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bakeoff.errors import ServerError
from bakeoff.results import RunDirectory, open_run
from validation.duels import end_in_order, start_bakeoff

_POLL_S = 1.0
_GROWTH_MAX = 1.15  # of memory, from the second quarter to the last
_GROWTH_FLOOR_BYTES = 20_000_000
_WAIT_MAX_S = 12.0  # from a valid epoch to the next crash; an epoch takes about as long
_LATE_MAX_S = 300.0


@dataclass
class Soak:
    """What a soak test saw; memory is that of bakeoff and its engine, one value per second."""

    crashes: int = 0
    memory_bytes: list[int] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    exit_code: int = -1
    valid: int = 0
    discarded: int = 0

    @property
    def quarters_bytes(self) -> tuple[float, float]:
        """Median memory of the second and the last quarter."""
        quarter = max(len(self.memory_bytes) // 4, 1)
        return statistics.median(self.memory_bytes[quarter : 2 * quarter]), statistics.median(
            self.memory_bytes[-quarter:]
        )

    @property
    def wrong(self) -> list[str]:
        early, late = self.quarters_bytes
        checks = {
            f"the duel ended with exit code {self.exit_code}": self.exit_code != 0,
            f"processes were left: {', '.join(self.left)}": bool(self.left),
            f"memory grew from {early / 1e6:.0f} to {late / 1e6:.0f} MB": late
            > max(_GROWTH_MAX * early, early + _GROWTH_FLOOR_BYTES),
            f"{self.discarded} epochs were discarded after {self.crashes} crashes": self.discarded > self.crashes,
            "no epoch counts": self.valid == 0,
            "nothing crashed": self.crashes == 0,
        }
        return [text for text, failed in checks.items() if failed]


def soak(folder: Path, *, server: str, minutes: float, seed: int, report: Callable[[str], None]) -> Soak:
    """Run a duel of equal servers with this budget, and kill one of its servers after every valid epoch."""
    chance, earlier = random.Random(seed), _studies(folder)
    options = ["--budget", f"{minutes}m", "--precision", "0.05%", "--tables", "1", "--table-size", "10000", "--quiet"]
    process = start_bakeoff(["duel", server, server, "-w", "oltp_read_write", *options, "--runs", str(folder)])
    seen = Soak()
    watched = psutil.Process(process.pid)
    known: set[psutil.Process] = set()
    good, crash_at = 0, 0.0
    deadline = time.monotonic() + 60 * minutes + _LATE_MAX_S
    try:
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            children = {child: name for child, name in _children(watched)}
            known |= children.keys()
            seen.memory_bytes.append(sum(map(_resident_bytes, [watched, *_named(children, "bakeoff-engine")])))
            # One crash per valid epoch, because two discarded epochs in a row end a run.
            if (finished := _valid_epochs(_runs(folder, earlier))) > good:
                good, crash_at = finished, time.monotonic() + chance.uniform(0, _WAIT_MAX_S)
            if crash_at and time.monotonic() > crash_at and (servers := _named(children, "mysqld", "mariadbd")):
                chance.choice(servers).kill()
                seen.crashes, crash_at = seen.crashes + 1, 0.0
                report(f"crash {seen.crashes} after {good} epochs; {seen.memory_bytes[-1] / 1e6:.0f} MB")
    except BaseException:  # SIGTERM or Ctrl-C
        end_in_order(process)
        raise
    if process.poll() is None:
        process.kill()
    seen.exit_code = process.wait()
    time.sleep(_POLL_S)
    seen.left = [" ".join(child.cmdline()[:1]) for child in known if child.is_running()]
    runs = _runs(folder, earlier)
    if not runs:
        raise ServerError("the duel left no run directory.", hint="Its messages are above.")
    outcomes = [runs[-1].outcome(epoch) for epoch in runs[-1].finished_epochs()]
    seen.valid = sum(outcome.valid for outcome in outcomes)
    seen.discarded = len(outcomes) - seen.valid
    return seen


def _children(process: psutil.Process) -> list[tuple[psutil.Process, str]]:
    try:
        return [(child, child.name()) for child in process.children(recursive=True)]
    except psutil.Error:
        return []


def _named(children: dict[psutil.Process, str], *names: str) -> list[psutil.Process]:
    return [child for child, name in children.items() if name in names]


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _studies(folder: Path) -> set[Path]:
    return set(folder.glob("*/study.json"))


def _runs(folder: Path, earlier: set[Path]) -> list[RunDirectory]:
    return [open_run(path.parent) for path in sorted(_studies(folder) - earlier)]


def _valid_epochs(runs: Sequence[RunDirectory]) -> int:
    return sum(run.outcome(epoch).valid for run in runs for epoch in run.finished_epochs())
