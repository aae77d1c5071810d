"""A machine and two servers that do not exist, with noise whose truth is known: for proving the method, never a result.

`simulate_epoch` gives what a measured epoch gives, an `EpochData` with a row a slice, so that the code that decides
about real servers is what is tested. The noise model has what real machines showed (docs/method.md): a level of its own
for every start of a server, wandering of the machine that both arms feel, bursts, drift, stalls of one arm, counting
noise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bakeoff.results.epoch import EpochData
from bakeoff.spec import Arm, Study, Workload, parse_server

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """Sizes of the noise; log units unless the name says otherwise.

    Attributes:
        restart_sd: of a server's level, drawn anew at every start.
        wander_sd: of the machine's level (an Ornstein-Uhlenbeck process), `wander_s` its correlation time.
        slice_sd: of one slice, on top of counting noise.
        bursts_per_s: how often a neighbour takes `burst_depth` of the throughput away, for `burst_s` on average.
        drift: log level of the machine at a second of the epoch.
    """

    restart_sd: float = 0.004
    wander_sd: float = 0.05
    wander_s: float = 3.0
    slice_sd: float = 0.005
    bursts_per_s: float = 0.0
    burst_s: float = 1.0
    burst_depth: float = 0.3
    drift: Callable[[Floats], Floats] = field(default=lambda time_s: np.zeros_like(time_s))


@dataclass(frozen=True)
class Stall:
    """A server that stops for `length_s` every `period_s` of its own loaded time."""

    period_s: float = 1.0
    length_s: float = 0.02


QUIET = Noise(restart_sd=0.002, wander_sd=0.01, slice_sd=0.003)
CLOUD = Noise(restart_sd=0.006, wander_sd=0.08, wander_s=2.0, slice_sd=0.01, bursts_per_s=0.05, burst_depth=0.25)
LOADED = Noise(restart_sd=0.01, wander_sd=0.25, wander_s=1.0, slice_sd=0.03, bursts_per_s=0.3, burst_depth=0.5)


def arm_orders(rng: np.random.Generator, *, arms: int, blocks: int) -> NDArray[np.int64]:
    """Arm index by (block, position), as the engine draws it.

    Two arms: ABBA or BAAB, two of each in every four blocks. More arms: a random permutation and its reverse.
    """
    if arms == 2:
        coins = np.concatenate([rng.permutation([0, 0, 1, 1]) for _ in range(-(-blocks // 4))])[:blocks]
        first = coins[:, None]
        return np.concatenate([first, 1 - first, 1 - first, first], axis=1)
    halves = np.array([rng.permutation(arms) for _ in range(blocks)])
    return np.concatenate([halves, halves[:, ::-1]], axis=1)


def simulate_epoch(
    rng: np.random.Generator,
    *,
    epoch: int,
    effects: Mapping[str, float],
    cells: Sequence[str] = ("oltp_point_select/4",),
    noise: Noise = QUIET,
    seconds: float = 8.0,
    slice_ns: int = 100_000_000,
    guard_ns: int = 5_000_000,
    rate_per_s: float = 50_000.0,
    connections: int = 4,
    stalls: Mapping[str, Stall] | None = None,
    build: int = 0,
    levels: Floats | None = None,
) -> EpochData:
    """Draw one epoch.

    Args:
        rng: the source of all that is random here.
        epoch: its number.
        effects: arm -> true log level; the first is the baseline.
        cells: names; each is a machine of its own, so many cells stand for many independent runs.
        noise: the model's sizes.
        seconds: measured wall seconds a cell.
        slice_ns: counted part of a slice.
        guard_ns: uncounted part.
        rate_per_s: throughput at level 0.
        connections: of each arm.
        stalls: arm -> its stalls.
        build: which load of the data it is.
        levels: log level at which each server came up, (cells, arms); None: drawn.

    Returns:
        A valid epoch without histograms and variables.
    """
    arms = list(effects)
    positions = 2 * len(arms)
    tau_s, step_s = slice_ns / 1e9, (slice_ns + guard_ns) / 1e9
    blocks = max(1, round(seconds / (positions * step_s)))
    count = blocks * positions
    runs = len(cells)
    order = np.array([arm_orders(rng, arms=len(arms), blocks=blocks).ravel() for _ in cells])  # (runs, count)
    time_s: Floats = np.arange(count, dtype=np.float64) * step_s
    if levels is None:
        levels = rng.normal(0, noise.restart_sd, (runs, len(arms)))
    level: Floats = np.asarray(list(effects.values())) + levels
    log_rate: Floats = np.take_along_axis(level, order, axis=1) + noise.drift(time_s)
    log_rate += _wander(rng, noise, runs, count, step_s)
    log_rate += rng.normal(0, noise.slice_sd, (runs, count))
    rate = rate_per_s * np.exp(log_rate) * (1 - noise.burst_depth * _burst_share(rng, noise, runs, count, step_s))
    rate *= 1 - _stalled_share(rng, order, arms, stalls or {}, tau_s)
    events = rng.poisson(rate * tau_s)
    start_ns = (time_s * 1e9).astype(np.int64)
    seconds_of_slices = np.full((runs, count), tau_s)
    return epoch_of_slices(
        epoch, arms=arms, cells=cells, order=order, start_ns=start_ns, seconds=seconds_of_slices, events=events,
        connections=connections, build=build,
    )  # fmt: skip


def epoch_of_slices(
    epoch: int,
    *,
    arms: Sequence[str],
    cells: Sequence[str],
    order: NDArray[np.int64],
    start_ns: NDArray[np.int64],
    seconds: Floats,
    events: NDArray[np.float64] | NDArray[np.int64],
    connections: int = 4,
    build: int = 0,
) -> EpochData:
    """An epoch of slices that are given as arrays of shape (cells, slices).

    Args:
        epoch: its number.
        arms: names; `order` holds their indexes.
        cells: names.
        order: whose slice it is.
        start_ns: of each slice, (slices).
        seconds: that each slice took.
        events: completed in it.
        connections: of each arm.
        build: which load of the data it is.
    """
    runs, count = order.shape
    positions = 2 * len(arms)
    nanoseconds = (seconds.ravel() * 1e9).astype(np.int64)
    slices = pl.DataFrame(
        {
            "epoch": np.full(runs * count, epoch, dtype=np.int32),
            "build": np.full(runs * count, build, dtype=np.int32),
            "cell": np.repeat(np.array(cells, dtype=object), count).tolist(),
            "arm": np.array(arms, dtype=object)[order.ravel()].tolist(),
            "block": np.tile(np.arange(count, dtype=np.int32) // positions, runs),
            "position": np.tile(np.arange(count, dtype=np.int32) % positions, runs),
            "start_ns": np.tile(start_ns, runs),
            "length_ns": nanoseconds,
            "busy_ns": nanoseconds * connections,
            "connections": np.full(runs * count, connections, dtype=np.int32),
            "events": events.ravel(),
        }
    )
    return EpochData(epoch=epoch, build=build, valid=True, void_reason="", slices=slices, histograms=[], variables={})


def simulated_study(
    *, arms: Sequence[str] = ("A", "B"), precision: float = 0.01, cells: Sequence[int] = (4,), budget_s: float = 600.0
) -> Study:
    """A study whose cells are `oltp_point_select/N`, for simulated epochs."""
    server = parse_server("mysql:8.0")
    return Study(
        title="simulated",
        arms=tuple(Arm(name=name, label=f"server {name}", server=server) for name in arms),
        workloads=(Workload(script="oltp_point_select"),),
        threads=tuple(cells),
        precision=precision,
        equivalence=precision,
        budget_s=budget_s,
    )


def _wander(rng: np.random.Generator, noise: Noise, runs: int, count: int, step_s: float) -> Floats:
    """Stationary Ornstein-Uhlenbeck process at the slices' starts, (runs, count)."""
    keep = np.exp(-step_s / noise.wander_s)
    kicks = rng.normal(0, noise.wander_sd, (runs, count))
    kicks[:, 1:] *= np.sqrt(1 - keep**2)
    for i in range(1, count):
        kicks[:, i] += keep * kicks[:, i - 1]
    return kicks


def _burst_share(rng: np.random.Generator, noise: Noise, runs: int, count: int, step_s: float) -> Floats:
    """1 while a burst lasts, by slice: on and off with exponential lengths."""
    active = np.zeros((runs, count))
    if noise.bursts_per_s <= 0:
        return active
    state = rng.random(runs) < noise.bursts_per_s * noise.burst_s / (1 + noise.bursts_per_s * noise.burst_s)
    starts, ends = 1 - np.exp(-noise.bursts_per_s * step_s), 1 - np.exp(-step_s / noise.burst_s)
    for i in range(count):
        active[:, i] = state
        dice = rng.random(runs)
        state = np.where(state, dice >= ends, dice < starts)
    return active


def _stalled_share(
    rng: np.random.Generator, order: NDArray[np.int64], arms: Sequence[str], stalls: Mapping[str, Stall], tau_s: float
) -> Floats:
    """Share of each slice that its arm stands still: at fixed intervals of its loaded time, at a random phase."""
    share = np.zeros(order.shape)
    for arm, stall in stalls.items():
        mine = order == arms.index(arm)
        own_s = np.cumsum(mine, axis=1) * tau_s + rng.uniform(0, stall.period_s, (order.shape[0], 1))
        hit = mine & (np.floor(own_s / stall.period_s) > np.floor((own_s - tau_s) / stall.period_s))
        share[hit] = min(stall.length_s / tau_s, 1.0)
    return share
