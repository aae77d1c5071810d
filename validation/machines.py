"""Machines whose truth is known, from which complete runs are replayed: simulated noise, or traces of real servers.

Why a duel can be emulated from the slices of one server. In a recording (`validation.record`) a server was started many
times. Each start was measured in slices of 20 ms, in turn with a reference server that was started once. So the log
throughput of a slice splits into two parts:

    level of the start   l_r = ln(rate of start r) - ln(rate of the reference beside it)
    machine              the rest: other work, clocks, scheduling, counting noise, stalls

An emulated epoch takes the levels of two *different starts* for its arms. Its machine is the moments of a third start,
in the order in which they happened. A random ABBA or BAAB order assigns slices of five neighbouring moments to the
arms, as in a real epoch. Both arms meet the same real noise and keep their level for the whole epoch. They are
exchangeable: whatever the noise, the true difference between equal arms is 0, and an injected effect of x is x. Levels
include the error of 12 s of measuring, so they are shrunk to the variance without it.

Replay cannot show how the load of one arm affects the other's slices. That takes real servers (quick, full).
"""

import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bakeoff.errors import ResultsError
from bakeoff.files import write_atomically
from bakeoff.results.epoch_data import EpochData
from bakeoff.stats.estimate import variance_of_mean
from bakeoff.stats.model import Frozen
from validation.simulation import (
    BASELINE,
    CLOUD,
    CONTENDER,
    LOADED,
    QUIET,
    Conditions,
    Floats,
    Noise,
    Slices,
    Stall,
    arm_orders,
    epoch_of_slices,
    simulate_epoch,
)

TRACES = Path(__file__).parent / "traces"
"""Shipped sets of traces: `NAME.npz`, and `NAME.json` with the `Origin`."""

SLICE_S = 0.1
_STEP_S = 0.105  # with its guard
EPOCH_S = 8.0
OVERHEAD_S = 12.0
"""Wall seconds of an epoch in which nothing is measured; real duels take 8 to 14 s here."""

LAWS = {
    "quiet": QUIET,
    "cloud": CLOUD,
    "loaded": LOADED,
    "calm": Noise(restart_sd=0.001, wander_sd=0.01, slice_sd=0.002),
    "starts of 1%": replace(QUIET, restart_sd=0.01),
}

Disturbance = Callable[[np.random.Generator, int, Floats], Floats]
"""(source of randomness, runs, seconds of the epoch) -> log level of the machine, (runs, slices)."""


def bursts(rng: np.random.Generator, runs: int, time_s: Floats) -> Floats:
    """Draw bursts of 1 to 20 s that take 0 to 100 % of the cores, and up to 60 % of the throughput."""
    count = int(time_s[-1]) + 3
    lengths = rng.uniform(1, 20, (runs, count))
    ends = np.cumsum(lengths, axis=1) - rng.uniform(0, 1, (runs, 1)) * lengths[:, :1]
    shares = rng.uniform(0, 1, (runs, count))
    now = np.array([np.searchsorted(row, time_s, side="right") for row in ends])
    return np.log(1 - 0.6 * np.take_along_axis(shares, now, axis=1))


def _same_for_all(law: Callable[[Floats], Floats]) -> Disturbance:
    return lambda rng, runs, time_s: np.broadcast_to(law(time_s), (runs, time_s.size))


def _sine(period_s: float) -> Disturbance:
    return lambda rng, runs, time_s: 0.1 * np.sin(2 * np.pi * (time_s / period_s + rng.uniform(0, 1, (runs, 1))))


def _step(rng: np.random.Generator, runs: int, time_s: Floats) -> Floats:
    moment = rng.uniform(0, time_s[-1], (runs, 1))
    return np.where(time_s > moment, rng.choice((-0.2, 0.2), (runs, 1)), 0.0)


DISTURBANCES: dict[str, Disturbance] = {
    "": _same_for_all(np.zeros_like),
    "bursts": bursts,
    "linear +10%": _same_for_all(lambda time_s: 0.1 * time_s / EPOCH_S),
    "linear -10%": _same_for_all(lambda time_s: -0.1 * time_s / EPOCH_S),
    "sine of a slice": _sine(_STEP_S),
    "sine of 2 slices": _sine(2 * _STEP_S),
    "sine of 4 slices": _sine(4 * _STEP_S),
    "sine of 60 s": _sine(60.0),
    "step of 20%": _step,
}

DRIFTS = tuple(name for name in DISTURBANCES if name and name != "bursts")


class EpochSource(Protocol):
    """Source of epochs. It is sent to other processes, so it holds names, not functions."""

    def levels(self, rng: np.random.Generator, runs: int) -> Floats:
        """Draw the log level of each server's start, (runs, 2)."""

    def epoch(
        self, rng: np.random.Generator, *, number: int, cells: Sequence[str], levels: Floats, effect: float
    ) -> EpochData:
        """Draw an epoch of independent cells with these levels; `effect` is the contender's true log effect."""


@dataclass(frozen=True)
class Simulated:
    """A law of LAWS under one of DISTURBANCES; with `stalls` the contender stalls for 20 ms in each second."""

    law: str
    disturbance: str = ""
    stalls: bool = False

    def __str__(self) -> str:
        return f"the simulated law {self.law}" + (f" under {self.disturbance}" if self.disturbance else "")

    def levels(self, rng: np.random.Generator, runs: int) -> Floats:
        return rng.normal(0, LAWS[self.law].restart_sd, (runs, 2))

    def epoch(
        self, rng: np.random.Generator, *, number: int, cells: Sequence[str], levels: Floats, effect: float
    ) -> EpochData:
        disturb = DISTURBANCES[self.disturbance]
        noise = replace(LAWS[self.law], drift=lambda time_s: disturb(rng, len(cells), time_s))
        conditions = Conditions(noise, seconds=EPOCH_S, stalls={CONTENDER: Stall()} if self.stalls else {})
        effects = {BASELINE: 0.0, CONTENDER: effect}
        return simulate_epoch(rng, effects, conditions, epoch=number, cells=cells, levels=levels)


@dataclass(frozen=True)
class Recorded:
    """A set of traces (a shipped set, or an `.npz`); `starts_sd` adds a random level to every start."""

    name: str
    disturbance: str = ""
    starts_sd: float = 0.0

    def __str__(self) -> str:
        return f"the traces {Path(self.name).stem}" + (f" under {self.disturbance}" if self.disturbance else "")

    def levels(self, rng: np.random.Generator, runs: int) -> Floats:
        pool = moments(self.name).levels
        first = rng.integers(0, pool.size, runs)
        second = (first + rng.integers(1, pool.size, runs)) % pool.size
        drawn: Floats = pool[np.stack([first, second], axis=1)]
        return drawn + rng.normal(0, self.starts_sd, drawn.shape)

    def epoch(
        self, rng: np.random.Generator, *, number: int, cells: Sequence[str], levels: Floats, effect: float
    ) -> EpochData:
        recorded, runs = moments(self.name), len(cells)
        together = round(SLICE_S / recorded.moment_s)
        blocks = round(EPOCH_S / (4 * _STEP_S))
        starts, length = recorded.seconds.shape
        begin = rng.integers(0, length, (runs, 1))
        which = rng.integers(0, starts, (runs, 1))
        place = (begin + np.arange(4 * blocks * together)) % length
        shape = (runs, 4 * blocks, together)
        seconds = recorded.seconds[which, place].reshape(shape).sum(axis=2)
        events = recorded.events[which, place].reshape(shape).sum(axis=2)
        order = np.array([arm_orders(rng, arms=2, blocks=blocks).ravel() for _ in range(runs)])
        time_s: Floats = np.arange(4 * blocks, dtype=np.float64) * _STEP_S
        level = np.take_along_axis(levels + np.array([0.0, effect]), order, axis=1)
        level += DISTURBANCES[self.disturbance](rng, runs, time_s)
        slices = Slices(order, (time_s * 1e9).astype(np.int64), seconds, events * np.exp(level))
        return epoch_of_slices(slices, epoch=number, arms=(BASELINE, CONTENDER), cells=cells)


class Origin(Frozen):
    """Where a set of traces comes from; `load` is the mean share of the machine's CPU time that other work took."""

    server: str
    workload: str
    threads: int
    restarts: int
    slice_ms: float
    guard_ms: float
    seconds: float
    recorded_at: str
    machine: str
    load: float
    bakeoff: str
    commit: str | None
    command: str


@dataclass(frozen=True)
class Traces:
    """A series of slices for each of many starts of one server; arrays of shape (restarts, slices).

    Attributes:
        taken_us: mean time that a slice's connections were busy.
        reference: whether the slice was of the second server, which was started once.
    """

    origin: Origin
    events: NDArray[np.uint16]
    taken_us: NDArray[np.uint32]
    reference: NDArray[np.bool_]

    @classmethod
    def read(cls, name: str | Path) -> "Traces":
        """Read a shipped set by name, or another by the path of its `.npz`."""
        path = Path(name) if str(name).endswith(".npz") else TRACES / f"{name}.npz"
        try:
            with np.load(path) as arrays:
                origin = Origin.model_validate(json.loads(path.with_suffix(".json").read_text(encoding="utf-8")))
                return cls(origin, arrays["events"], arrays["taken_us"], arrays["reference"])
        except (OSError, ValueError, KeyError) as error:
            raise ResultsError(f"{path}: {error}.", hint="Record it again: python -m validation record.") from None

    def write(self, path: Path) -> None:
        packed = io.BytesIO()
        np.savez_compressed(packed, events=self.events, taken_us=self.taken_us, reference=self.reference)
        write_atomically(path, packed.getvalue())
        write_atomically(path.with_suffix(".json"), (self.origin.model_dump_json(indent=1) + "\n").encode())


def shipped_traces() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in TRACES.glob("*.npz")))


@dataclass(frozen=True)
class Moments:
    """A recording split into machine and levels.

    Attributes:
        events, seconds: of every moment at the reference's level, (starts, moments).
        levels: centred log level of each start over the reference, without the error of measuring, (starts).
    """

    events: Floats
    seconds: Floats
    levels: Floats
    moment_s: float


@cache
def moments(name: str) -> Moments:
    recorded = Traces.read(name)
    events, seconds = recorded.events.astype(np.float64), recorded.taken_us / 1e6

    def level(mine: NDArray[np.bool_]) -> Floats:
        rate: Floats = np.log((events * mine).sum(axis=1) / (seconds * mine).sum(axis=1))
        return rate

    levels = level(~recorded.reference) - level(recorded.reference)
    at_reference = events * np.exp(np.where(recorded.reference, 0.0, -levels[:, None]))
    levels = _without_error(levels - levels.mean(), events, seconds, recorded.reference)
    return Moments(at_reference, seconds, levels, recorded.origin.slice_ms / 1e3)


def _without_error(levels: Floats, events: Floats, seconds: Floats, reference: NDArray[np.bool_]) -> Floats:
    """Shrink levels to the variance without the error of measuring, estimated from blocks of four slices."""
    log_rate = np.log(np.maximum(events, 0.5) / seconds)
    signed = np.where(reference, -log_rate, log_rate).reshape(len(levels), -1, 4).sum(axis=2) / 2
    added = np.mean([variance_of_mean(contrasts) or 0.0 for contrasts in signed])
    variance = levels.var(ddof=1)
    return levels * math.sqrt(max(variance - added, 0.0) / variance)


def recorded_sets() -> tuple[Recorded, ...]:
    return tuple(Recorded(name) for name in shipped_traces())
