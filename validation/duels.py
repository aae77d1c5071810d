"""Runs complete duels on real servers, as a user types them, and other load beside them.

A run directory is deleted once its numbers are read: hundreds of them would fill the disk.
"""

import contextlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

from bakeoff.results import RunDirectory
from bakeoff.results.frame import Frame
from bakeoff.stats.model import Analysis, Comparison, Flag, Frozen, Interval, Stop, Word
from bakeoff.units import parse_duration_s

_OTHERS_LIMIT_S = 300.0  # beyond three times the budget, for downloading and loading on a crowded machine
_END_S = 30.0  # from one signal to the next, harder one


class Duel(Frozen):
    """A duel to run.

    Attributes:
        kind: purpose: `aa`, `slow2`, `swap-ab` …
        number: counts from 0 within a kind and its servers.
        slowdown_percent: uncounted events per 100 counted, injected into the last server.
    """

    kind: str
    number: int
    servers: tuple[str, ...]
    seed: int
    slowdown_percent: float = 0.0
    workloads: tuple[str, ...] = ("oltp_point_select",)
    threads: tuple[int, ...] = (4,)
    tables: int = 1
    table_size: int = 10_000
    builds: int = 1
    precision: str = "2%"
    warm_up: str = "2s"
    budget: str = "60s"

    @property
    def key(self) -> str:
        """Name in a journal. Duels with the same key ask the same question, whatever their seeds."""
        cells = f"{'+'.join(self.workloads)}/{'+'.join(map(str, self.threads))}"
        asked = f"{self.precision} {self.warm_up} {self.budget} {self.tables}x{self.table_size}x{self.builds}"
        return f"{self.kind} {' '.join(self.servers)} {cells} {asked} #{self.number}"

    @property
    def truth(self) -> float | None:
        """True log ratio of every cell; None between servers that really differ."""
        return -math.log1p(self.slowdown_percent / 100) if len(set(self.servers)) == 1 else None

    def command(self, runs: Path) -> tuple[str, ...]:
        injected = ("--inject-slowdown", f"{self.slowdown_percent:g}%") if self.slowdown_percent else ()
        return (
            "duel", *self.servers,
            "--workload", ",".join(self.workloads), "--threads", ",".join(map(str, self.threads)),
            "--tables", str(self.tables), "--table-size", str(self.table_size), "--builds", str(self.builds),
            "--precision", self.precision, "--warm-up", self.warm_up, "--budget", self.budget, "--no-verdict",
            "--seed", str(self.seed), *injected, "--runs", str(runs), "--format", "json", "--quiet",
        )  # fmt: skip


class Judgement(Frozen):
    """What bakeoff's analysis says of one cell; log ratios, contender over baseline.

    Attributes:
        low, high: the reported interval; None below two epochs.
        live: the anytime-valid interval.
        points: one value per epoch, in order.
    """

    cell: str
    mean: float
    low: float | None
    high: float | None
    live: Interval
    words: tuple[Word, ...]
    stop: Stop
    points: tuple[float, ...]
    flags: tuple[Flag, ...]

    @classmethod
    def of(cls, comparison: Comparison) -> "Judgement":
        return cls(
            cell=comparison.cell,
            mean=comparison.estimate.mean,
            low=comparison.estimate.interval.low,
            high=comparison.estimate.interval.high,
            live=comparison.live,
            words=comparison.verdict.words,
            stop=comparison.stop,
            points=tuple(point.value for point in comparison.points),
            flags=comparison.flags,
        )

    @property
    def claim(self) -> int:
        """1 if FASTER, -1 if SLOWER, else 0."""
        return (Word.FASTER in self.words) - (Word.SLOWER in self.words)

    @property
    def half_width(self) -> float:
        return math.inf if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def has_interval(self) -> bool:
        return math.isfinite(self.half_width)

    def covers(self, truth: float) -> bool:
        return Interval(low=self.low, high=self.high).holds(truth)


def other_share(slices: Frame) -> float | None:
    """Return the share of all processors' time that other work took; None if the kernel's ticks were too coarse."""
    names = [name for name in slices.columns if name.startswith(("host_", "client_", "server_cpu_"))]
    sums = {name: float(np.nansum(slices[name])) for name in names}
    whole = sum(value for name, value in sums.items() if name.startswith("host_"))
    if not whole:
        return None
    busy = sums["host_user_ns"] + sums["host_system_ns"]
    ours = sums["client_user_ns"] + sums["client_system_ns"] + sums["server_cpu_ns"]
    return round(max(busy - ours, 0) / whole, 4)


class Outcome(Frozen):
    """Result of a duel.

    Attributes:
        judgements: one per cell; empty if the duel failed.
        wall_s: duration of the whole command; `measured_s` of it was spent measuring.
        other_share: share of the processors that other work took during measurement.
        background: whether `Background` ran beside it.
        error: last line of a failed command.
    """

    duel: Duel
    judgements: tuple[Judgement, ...] = ()
    started_at: datetime
    wall_s: float
    measured_s: float = 0.0
    other_share: float | None = None
    background: bool = False
    error: str | None = None

    @property
    def only(self) -> Judgement:
        (judgement,) = self.judgements
        return judgement

    def __str__(self) -> str:
        name = f"{self.duel.kind} {self.duel.servers[-1]} #{self.duel.number}"
        if self.error:
            return f"{name}: {self.error}"
        beside = "" if self.other_share is None else f", others {self.other_share:.0%} of the processors"
        if len(self.judgements) > 1:
            return f"{name}: {len(self.judgements)} cells, {self.wall_s:.0f} s{beside}"
        width = f"± {self.only.half_width:.2%}" if self.only.has_interval else "without an interval"
        return (
            f"{name}: {self.only.mean:+.2%} {width}, {'+'.join(self.only.words)}, n = {len(self.only.points)}, "
            f"{self.only.stop}, {self.wall_s:.0f} s{beside}"
        )


def run_duel(duel: Duel, folder: Path, *, background: bool = False) -> Outcome:
    """Run a duel for at most three times its budget plus five minutes; delete its run directory."""
    folder.mkdir(parents=True, exist_ok=True)
    started_at = datetime.now(UTC)
    begin = time.monotonic()
    code, out, err = run_bakeoff(duel.command(folder), 3 * parse_duration_s(duel.budget) + _OTHERS_LIMIT_S)
    wall_s = round(time.monotonic() - begin, 2)
    facts: dict[str, Any] = {"duel": duel, "started_at": started_at, "background": background, "wall_s": wall_s}
    try:
        if code != 0:
            return Outcome(**facts, error=f"exit code {code}: {_last_line(err)}")
        path = Path(json.loads(out)["directory"])
        return Outcome(**facts, **_read_run(RunDirectory(path)))
    except (ValueError, KeyError) as error:
        return Outcome(**facts, error=f"its output cannot be read: {str(error).splitlines()[0]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read_run(run: RunDirectory) -> dict[str, Any]:
    analysis = Analysis.model_validate(run.read_json("analysis.json"))
    return {
        "other_share": other_share(run.slices()),
        "judgements": tuple(Judgement.of(each) for each in analysis.comparisons if not each.is_control),
        "measured_s": sum(run.outcome(epoch).measured_s for epoch in run.finished_epochs()),
    }


def start_bakeoff(
    words: Sequence[str], *, stdout: int | None = None, stderr: int | None = None
) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bakeoff.cli.start", *words]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, text=True, start_new_session=True,
        env=os.environ | {"NO_COLOR": "1"},
    )  # fmt: skip


def run_bakeoff(words: Sequence[str], limit_s: float) -> tuple[int, str, str]:
    process = start_bakeoff(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        out, err = end_in_order(process)
        return 124, out, f"{err}\nbakeoff: it was ended after {limit_s:.0f} s"
    except BaseException:
        end_in_order(process)
        raise
    return process.returncode, out, err


def end_in_order(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """End a bakeoff and its servers, by force after a minute; return the rest of its piped output."""
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=_END_S)
    return "", ""


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("bakeoff:")] or text.strip().splitlines()
    return lines[-1].strip() if lines else "it printed nothing"


BURST_S = (1.0, 20.0)
"""Shortest and longest burst of background load."""

# Counts until its time is over or its parent is gone, so no burner outlives the campaign.
_BURNER = """
import os, sys, time
end, parent = time.monotonic() + float(sys.argv[1]), int(sys.argv[2])
while time.monotonic() < end and os.getppid() == parent:
    for _ in range(200_000):
        pass
"""


class Background:
    """Context manager that runs bursts of load one after the other, each on a random number of processors."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="background", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._ended.is_set():
            seconds = self._random.uniform(*BURST_S)
            burners = [_burner(seconds) for _ in range(self._random.randint(0, os.cpu_count() or 1))]
            self._ended.wait(seconds)
            for burner in burners:
                burner.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    burner.wait(timeout=5)


def _burner(seconds: float) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", _BURNER, f"{seconds + 5}", str(os.getpid())])
