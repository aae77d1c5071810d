"""Simulates epochs of servers whose true ratio is known, and checks the promises of the stopping rule.

`simulate_epoch` returns an `EpochData` with a row for each slice, like a measured epoch, so the code that decides about
real servers is under test. The noise has the parts that real machines showed: a level for every start of a server, slow
changes of the machine that both arms feel, bursts, drift, stalls of one arm, and counting noise.

Run test G24 whenever a constant of `stats.interval` or `stats.stopping` changes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bakeoff.results.epoch_data import EpochData
from bakeoff.results.frame import Frame
from bakeoff.spec import Arm, Study, Workload, parse_server
from bakeoff.stats import interval as iv
from bakeoff.stats.estimate import PairEstimate
from bakeoff.stats.interval import t_quantile
from bakeoff.stats.model import Interval, Stop
from bakeoff.stats.stopping import stop_state
from bakeoff.stats.verdict import AnalysisContext, may_claim
from validation.check import Checks, Count, Finding, Setting, Size, summarised

Floats = NDArray[np.float64]

RULE_CHECKS = Checks(Size.REPLAY)

BASELINE, CONTENDER = "A", "B"


@dataclass(frozen=True)
class Noise:
    """Sizes of the noise in log units.

    Attributes:
        restart_sd: of a server's level, drawn at every start.
        wander_sd, wander_s: of the machine's level, an Ornstein-Uhlenbeck process with this correlation time.
        slice_sd: of one slice, on top of counting noise.
        bursts_per_s, burst_s: how often a neighbour takes `burst_depth` of the throughput, and for how long on average.
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
    """A server that stops for `length_s` every `period_s` of its loaded time."""

    period_s: float = 1.0
    length_s: float = 0.02


QUIET = Noise(restart_sd=0.002, wander_sd=0.01, slice_sd=0.003)
CLOUD = Noise(restart_sd=0.006, wander_sd=0.08, wander_s=2.0, slice_sd=0.01, bursts_per_s=0.05, burst_depth=0.25)
LOADED = Noise(restart_sd=0.01, wander_sd=0.25, wander_s=1.0, slice_sd=0.03, bursts_per_s=0.3, burst_depth=0.5)


@dataclass(frozen=True)
class Conditions:
    """How a simulated epoch is measured.

    Attributes:
        seconds: measured wall seconds per cell.
        slice_ns, guard_ns: counted and uncounted part of a slice.
        rate_per_s: throughput at level 0.
        stalls: arm -> its stalls.
    """

    noise: Noise = QUIET
    seconds: float = 8.0
    slice_ns: int = 100_000_000
    guard_ns: int = 5_000_000
    rate_per_s: float = 50_000.0
    connections: int = 4
    stalls: Mapping[str, Stall] = field(default_factory=dict)


CALM = Conditions()


@dataclass(frozen=True)
class Slices:
    """Slices of shape (cells, slices); `start_ns` has shape (slices). `order` holds the index of each slice's arm."""

    order: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    seconds: Floats
    events: NDArray[np.float64] | NDArray[np.int64]


def arm_orders(rng: np.random.Generator, *, arms: int, blocks: int) -> NDArray[np.int64]:
    """Draw the arm index by (block, position), as the engine does.

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
    effects: Mapping[str, float],
    conditions: Conditions = CALM,
    *,
    epoch: int = 0,
    build: int = 0,
    cells: Sequence[str] = ("oltp_point_select/4",),
    levels: Floats | None = None,
) -> EpochData:
    """Draw one epoch.

    Args:
        effects: arm -> true log level; the first arm is the baseline.
        cells: names. Each is an independent machine, so many cells simulate many runs.
        levels: log level at which each server starts, (cells, arms); None draws it.
    """
    arms, noise = list(effects), conditions.noise
    positions = 2 * len(arms)
    tau_s, step_s = conditions.slice_ns / 1e9, (conditions.slice_ns + conditions.guard_ns) / 1e9
    blocks = max(1, round(conditions.seconds / (positions * step_s)))
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
    rate = np.exp(log_rate) * (1 - noise.burst_depth * _burst_share(rng, noise, runs, count, step_s))
    rate *= conditions.rate_per_s * (1 - _stalled_share(rng, order, arms, conditions.stalls, tau_s))
    slices = Slices(order, (time_s * 1e9).astype(np.int64), np.full((runs, count), tau_s), rng.poisson(rate * tau_s))
    return epoch_of_slices(slices, epoch=epoch, build=build, arms=arms, cells=cells, connections=conditions.connections)


def epoch_of_slices(
    slices: Slices, *, epoch: int, build: int = 0, arms: Sequence[str], cells: Sequence[str], connections: int = 4
) -> EpochData:
    runs, count = slices.order.shape
    positions = 2 * len(arms)
    nanoseconds = (slices.seconds.ravel() * 1e9).astype(np.int64)
    frame = Frame(
        {
            "epoch": np.full(runs * count, epoch, dtype=np.int32),
            "build": np.full(runs * count, build, dtype=np.int32),
            "cell": np.repeat(np.array(cells, dtype=object), count),
            "arm": np.array(arms, dtype=object)[slices.order.ravel()],
            "block": np.tile(np.arange(count, dtype=np.int32) // positions, runs),
            "position": np.tile(np.arange(count, dtype=np.int32) % positions, runs),
            "start_ns": np.tile(slices.start_ns, runs),
            "length_ns": nanoseconds,
            "busy_ns": nanoseconds * connections,
            "connections": np.full(runs * count, connections, dtype=np.int32),
            "events": slices.events.ravel(),
        }
    )
    return EpochData(epoch=epoch, build=build, slices=frame)


def pair_of(cell: str, epoch: int, value: float, *, contender: str = CONTENDER) -> PairEstimate:
    """Make an epoch's estimate for rules that read nothing but its log ratio."""
    return PairEstimate(
        cell=cell, contender=contender, epoch=epoch, build=0, value=value, trimmed=value, blocks=10,
        variance_of_mean=None, seconds=5.0, slice_s=0.1, carry_over={}, trend=None,
    )  # fmt: skip


def simulated_study(
    *, arms: Sequence[str] = ("A", "B"), precision: float = 0.01, cells: Sequence[int] = (4,), budget_s: float = 600.0
) -> Study:
    """Make a study whose cells are `oltp_point_select/N`, for simulated epochs."""
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
    """Draw a stationary Ornstein-Uhlenbeck process at the slices' starts, (runs, count)."""
    keep = np.exp(-step_s / noise.wander_s)
    kicks = rng.normal(0, noise.wander_sd, (runs, count))
    kicks[:, 1:] *= np.sqrt(1 - keep**2)
    for i in range(1, count):
        kicks[:, i] += keep * kicks[:, i - 1]
    return kicks


def _burst_share(rng: np.random.Generator, noise: Noise, runs: int, count: int, step_s: float) -> Floats:
    """Draw bursts by slice, 1 while one lasts: on and off with exponential lengths."""
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
    """Return the share of each slice that its arm stalls, at fixed intervals of its loaded time."""
    share = np.zeros(order.shape)
    for arm, stall in stalls.items():
        mine = order == arms.index(arm)
        own_s = np.cumsum(mine, axis=1) * tau_s + rng.uniform(0, stall.period_s, (order.shape[0], 1))
        hit = mine & (np.floor(own_s / stall.period_s) > np.floor((own_s - tau_s) / stall.period_s))
        share[hit] = min(stall.length_s / tau_s, 1.0)
    return share


Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]


def _two_states(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    """Draw D_e of servers that start in one of two states, which make most of its variance."""
    states = rng.integers(0, 2, size) - rng.integers(0, 2, size)
    return math.sqrt(1.9) * states + math.sqrt(0.05) * rng.standard_normal(size)


SHAPES: Mapping[str, Draw] = {
    "normal": lambda rng, size: rng.standard_normal(size),
    "t3": lambda rng, size: rng.standard_t(3, size) / math.sqrt(3),
    "two states": _two_states,
    "coin": lambda rng, size: 0.9 * rng.choice((-1.0, 1.0), size) + math.sqrt(0.19) * rng.standard_normal(size),
}
"""Distributions of D_e about its mean, of variance 1. The coin between ABBA and BAAB makes all of them symmetric.

`coin` is about the worst that a symmetric distribution can do to a t interval; servers with two states do less.
"""

LIMITS: Mapping[str, float] = {"coin": 0.08}
"""Known limits of the method: rates that hold where the promised 5 % does not."""


@dataclass(frozen=True)
class End:
    n: int
    stop: Stop
    interval: Interval
    claimed: bool


ONE_CELL = AnalysisContext(study=simulated_study(), family=1, control=None, ended=Stop.BUDGET, epoch_s=20.0)
"""Context of a run of one cell whose budget ends with its last epoch."""


def stopped(values: Sequence[float], hosts: Sequence[str] = (), *, precision: float) -> tuple[Stop, int]:
    """Apply the stopping rule after every epoch; return why and after how many epochs the run ends."""
    for n in range(iv.N_MIN_DECISIVE, len(values) + 1):
        stop = stop_state(values[:n], hosts[:n], precision=precision, family=1)
        if stop is not Stop.RUNNING:
            return stop, n
    return Stop.BUDGET, len(values)


def run_to_end(values: Sequence[float], *, precision: float) -> End:
    """Judge these epochs when the rule ends the run."""
    stop, n = stopped(values, precision=precision)
    used = iv.moments(values[:n])
    interval = iv.precision_interval(*used)
    claimed = may_claim(n=n, stop=stop, p_adjusted=iv.p_value(*used), anytime_claim=False)
    return End(n=n, stop=stop, interval=interval, claimed=claimed and iv.excludes_zero(interval))


def rule(
    rng: np.random.Generator,
    *,
    runs: int,
    spread: float,
    shape: str = "normal",
    effect: float = 0.0,
    epochs_max: int = 60,
) -> tuple[Count, Count]:
    """Apply the whole rule to values drawn directly; count false (or wrong-sign) claims and missed coverage.

    `effect` and `spread` are mean and standard deviation of D_e in units of the target precision.
    """
    precision = 0.01
    values = precision * (effect + spread * SHAPES[shape](rng, (runs, epochs_max)))
    ends = [run_to_end(row.tolist(), precision=precision) for row in values]
    false = sum(end.claimed and (effect == 0 or (end.interval.low or 0.0) * effect < 0) for end in ends)
    missed = sum(not end.interval.holds(effect * precision) for end in ends)
    epochs = sum(end.n for end in ends) / runs
    label = f"{shape}, sd = {spread:g} w, effect = {effect:g} w"
    note = f"{epochs:.1f} epochs"
    limit = LIMITS.get(shape, 0.05)
    what = "false claims" if effect == 0 else "claims of the wrong sign"
    return (
        Count(f"{what} ({label})", false, runs, at_most=limit if effect == 0 else 0.001, note=note),
        Count(f"interval misses the truth ({label})", missed, runs, at_most=limit, note=note),
    )


def running(x: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Return n, and the mean and standard deviation of the first n values of each run."""
    n = np.arange(1, x.shape[1] + 1)
    mean = np.cumsum(x, axis=1) / n
    sd = np.sqrt(np.maximum(np.cumsum(x**2, axis=1) - n * mean**2, 0) / np.maximum(n - 1, 1))
    return n, mean, sd


def peeking(rng: np.random.Generator, *, runs: int, shape: str = "normal", epochs_max: int = 500) -> Count:
    """Count runs in which the live interval ever excludes 'equal', where a watching user would stop."""
    n, mean, sd = running(SHAPES[shape](rng, (runs, epochs_max)))
    multiplier = np.array([iv.anytime_multiplier(int(each), iv.ALPHA_LIVE) for each in n])
    with np.errstate(invalid="ignore"):
        excluded = (np.abs(mean) > multiplier * sd / np.sqrt(n)) & np.isfinite(multiplier)
    hits = int(excluded.any(axis=1).sum())
    return Count(f"live interval ever excludes 1 ({shape}, {epochs_max} looks)", hits, runs, LIMITS.get(shape, 0.05))


def naive_peeking(rng: np.random.Generator, *, runs: int, looks: int = 40) -> Count:
    """Negative control: count runs that stopping at p < 0.05 would claim."""
    n, mean, sd = running(rng.standard_normal((runs, looks)))
    t = np.array([math.inf, *(t_quantile(0.975, int(each) - 1) for each in n[1:])])
    with np.errstate(invalid="ignore"):
        stopped = (np.abs(mean) > t * sd / np.sqrt(n))[:, 2:].any(axis=1)
    what = f"'stop when p < 0.05' claims ({looks} looks): negative control"
    return Count(what, int(stopped.sum()), runs, at_least=0.2)


def family(rng: np.random.Generator, *, runs: int, cells: int = 24, epochs: int = 8) -> tuple[Count, Count]:
    """Count grids of equal cells with any claim by Holm, and by each cell alone (negative control)."""
    corrected = alone = 0
    for _ in range(runs):
        x = rng.standard_normal((cells, epochs))
        p = [iv.p_value(float(row.mean()), float(row.std(ddof=1)), epochs) for row in x]
        corrected += any(q is not None and q <= iv.ALPHA_PRECISE for q in iv.holm(p))
        alone += min(p) <= iv.ALPHA_PRECISE
    return (
        Count(f"any claim in a grid of {cells} equal cells", corrected, runs, at_most=0.05),
        Count(f"the same uncorrected ({cells} cells): negative control", alone, runs, at_least=0.3),
    )


def misled_by_blocks(pair: PairEstimate) -> bool:
    """Return whether a t interval over the blocks of one start, the usual mistake, excludes the truth of 0."""
    if pair.variance_of_mean is None:
        return False
    return abs(pair.value) > t_quantile(0.975, pair.blocks - 1) * math.sqrt(pair.variance_of_mean)


@RULE_CHECKS.add("G24", "every promise kept: false claims <= 5 % (coin 8 %), wrong signs <= 0.1 %")
def promises(setting: Setting, scale: float = 0.25) -> Finding:
    """Promises of the stopping rule on values drawn directly."""
    return summarised(all_promises(setting.seed, scale=scale))


def all_promises(seed: int, *, scale: float) -> list[Count]:
    """Check every promise, with runs in proportion to `scale` (1 takes under a minute)."""
    rng = np.random.default_rng(seed)

    def count(runs: int) -> int:
        return max(50, int(runs * scale))

    counts: list[Count] = []
    for spread in (0.5, 0.75, 1.0, 1.5, 2.0, 3.0):
        counts += rule(rng, runs=count(8000), spread=spread)
    for shape in ("t3", "two states", "coin"):
        for spread in (0.75, 1.5, 3.0):
            counts += rule(rng, runs=count(4000), spread=spread, shape=shape)
    for effect in (1.0, 3.0, 10.0):
        counts += rule(rng, runs=count(4000), spread=1.0, effect=effect)
    counts += [peeking(rng, runs=count(4000), shape=shape) for shape in SHAPES]
    counts.append(naive_peeking(rng, runs=count(4000)))
    counts += family(rng, runs=count(2000))
    return counts
