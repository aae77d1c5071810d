"""Checks of replayed runs: equal arms, injected differences, quantiles."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bakeoff.results import decode_histogram
from validation.check import Bias, Checks, Count, Finding, Setting, Size, finding, scaled, seed_of
from validation.histograms import encode_values
from validation.machines import DRIFTS, EPOCH_S, OVERHEAD_S, EpochSource, Recorded, Simulated, recorded_sets
from validation.methods import NO_RESTARTS, SOUND, Method
from validation.replay_runs import End, Question, complete_runs, single_runs
from validation.simulation import ONE_CELL, Floats, peeking

REPLAY_CHECKS = Checks(Size.REPLAY)

_FALSE_CLAIMS = 0.05
_COVERAGE = 0.93
_PRECISION = 0.01
_WIDE = 0.03  # a loaded machine reaches this target, so the rule's own stop is tried as well


class _Runs:
    def __init__(self, test: str, setting: Setting, method: Method, scale: float) -> None:
        self._test, self._setting, self._method, self._scale = test, setting, method, scale

    def of(self, machine: EpochSource, question: Question, runs: float, *names: object) -> list[End]:
        return single_runs(
            machine,
            question,
            runs=scaled(runs, self._scale),
            seed=seed_of(self._setting, self._test, *(names or (machine,))),
            method=self._method,
        )


def claims(ends: Sequence[End]) -> int:
    return sum(end.claim != 0 for end in ends)


def false_claims(what: str, ends: Sequence[End]) -> Count:
    return Count(f"{what}:", claims(ends), len(ends), at_most=_FALSE_CLAIMS)


def _agree(one: End, other: End, *, opposite: bool = False) -> bool:
    """Return whether two estimates (or one and the other's inverse) differ by no more than both intervals allow."""
    difference = one.mean + other.mean if opposite else one.mean - other.mean
    return abs(difference) <= math.hypot(one.half_width, other.half_width)


@REPLAY_CHECKS.add("G1", "false claims <= 5%")
def equal_arms(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """Equal arms, complete runs, on traces and laws."""
    runs, sets = _Runs("G1", setting, method, scale), recorded_sets()
    counts = []
    every: list[End] = []
    for machine in sets:
        for precision in (_PRECISION, _WIDE):
            ends = runs.of(machine, Question(precision=precision), 2000 / len(sets) / 2, machine, precision)
            every += ends
            counts.append(false_claims(f"{machine}, target {precision:.0%}", ends))
    laws = Simulated("quiet"), Simulated("cloud"), Simulated("loaded")
    counts += [false_claims(str(law), runs.of(law, Question(), 500)) for law in laws]
    return finding([false_claims("all traces", every), *counts])


@REPLAY_CHECKS.add("G2", "false claims <= 5%")
def bursty_load(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """Equal arms under bursts of other work that takes 0 to 100% of the cores."""
    runs = _Runs("G2", setting, method, scale)
    machines: list[EpochSource] = [Recorded(each.name, "bursts") for each in recorded_sets()]
    machines.append(Simulated("quiet", "bursts"))
    return finding(
        [false_claims(str(machine), runs.of(machine, Question(precision=_WIDE), 400)) for machine in machines]
    )


@REPLAY_CHECKS.add("G4", "false claims <= 5%, bias <= w/10")
def drift(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """Drift of the machine: linear, sines, step."""
    runs = _Runs("G4", setting, method, scale)
    counts: list[Count] = []
    biases: list[Bias] = []
    every: list[End] = []
    for name in DRIFTS:
        ends = runs.of(Simulated("quiet", name), Question(), 300, name)
        every += ends
        counts.append(false_claims(name, ends))
        values = [value for end in ends for value in end.values]
        biases.append(Bias.of(f"bias under {name}", values, truth=0.0, at_most=_PRECISION / 10))
    results: list[Count | Bias] = [*counts, *biases]
    worst = max(counts, key=lambda count: count.share)
    largest = max(biases, key=lambda bias: abs(bias.bias))
    broken = "; ".join(str(result) for result in results if not result.kept)
    text = f"{len(DRIFTS)} drifts: {false_claims('in all', every)}; most: {worst}; {largest}"
    return replace(finding(results), found=f"{text}; not kept: {broken}" if broken else text)


@REPLAY_CHECKS.add("G6", "false claims <= 5%; an interval within one pair fails in 40 to 90%")
def instances(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """Starts that differ in their level, SD 1%."""
    machine = Simulated("starts of 1%")
    ends = _Runs("G6", setting, method, scale).of(machine, Question(), 800)
    one_pair = _Runs("G6", setting, NO_RESTARTS, scale).of(machine, Question(), 150, "one pair")
    misled = sum(end.misled for end in ends)
    return finding(
        [
            false_claims("restarted for every epoch", ends),
            Count("one pair of starts, its own interval fails:", misled, len(ends), at_most=0.9, at_least=0.4),
            Count("one pair of starts through all epochs claims:", claims(one_pair), len(one_pair), at_least=0.4),
        ]
    )


@REPLAY_CHECKS.add("G7", "false claims <= 5%")
def adversary(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """A user who ends the run as soon as that gives a claim."""
    runs = _Runs("G7", setting, method, scale)
    machines: list[tuple[EpochSource, float, int]] = [(each, _PRECISION, 500) for each in recorded_sets()]
    machines.append((Simulated("cloud"), 0.004, 1500))
    counts = [
        false_claims(
            str(machine), runs.of(machine, Question(precision=precision, epochs_max=14, adversary=True), number)
        )
        for machine, precision, number in machines
    ]
    ever = peeking(np.random.default_rng(seed_of(setting, "G7", "ever")), runs=scaled(2000, scale))
    counts.append(Count("live interval ever excludes 1 in 500 looks:", ever.hits, ever.runs, at_most=_FALSE_CLAIMS))
    return finding(counts)


@REPLAY_CHECKS.add("G11", "any claim <= 5%")
def grid(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """A grid of 24 equal, independent cells."""
    ends = complete_runs(
        Simulated("quiet"),
        Question(precision=_PRECISION, cells=24, epochs_max=8),
        runs=scaled(240, scale),
        seed=seed_of(setting, "G11"),
        method=method,
    )
    any_claim = sum(any(end.claim for end in run) for run in ends)
    return finding([Count("grids with any claim:", any_claim, len(ends), at_most=_FALSE_CLAIMS)])


_TRACES_MIN = 4.0  # minutes; a crowded machine does not reach such a target in ten either
_WRONG_SIGNS_UNRESOLVED = 0.025
_ABOUT_ZERO = 0.005  # a quarter of what the stalls cost


def slowed_by(percent: float) -> float:
    """Return the log effect of `percent` uncounted events per 100 counted ones."""
    return math.log(100 / (100 + percent))


@REPLAY_CHECKS.add(
    "G3", "held >= 93%; cloud-class: claimed 2% >= 90% in 10 min, 5% >= 99% in 5 min, wrong signs 0; elsewhere <= 2.5%"
)
def injected(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """1, 2, 5 and 10% slower."""
    runs = _Runs("G3", setting, method, scale)
    held, right, wrong = [], [], []
    machines: list[EpochSource] = [Simulated("cloud"), *recorded_sets()]
    for machine in machines:
        cloud = isinstance(machine, Simulated)
        label = "cloud" if cloud else str(machine)
        opposite = total = 0
        for percent, minutes, claimed in ((1, 10.0, None), (2, 10.0, 0.9), (5, 5.0, 0.99), (10, 5.0, 0.99)):
            truth, epochs = slowed_by(percent), int(60 * (minutes if cloud else _TRACES_MIN) / (EPOCH_S + OVERHEAD_S))
            question = Question(precision=_PRECISION, epochs_max=epochs, effect=truth)
            ends = runs.of(machine, question, 300, machine, percent)
            covered, found = sum(end.holds(truth) for end in ends), sum(end.claim < 0 for end in ends)
            held.append(Count(f"held {percent}%, {label}:", covered, len(ends), at_least=_COVERAGE))
            promised = claimed if cloud else None
            right.append(Count(f"claimed {percent}%, {label}:", found, len(ends), at_least=promised))
            opposite += sum(end.claim > 0 for end in ends)
            total += len(ends)
        # If the interval is many times wider than the effect, half of the false claims have the wrong sign.
        limit = 0.0 if cloud else _WRONG_SIGNS_UNRESOLVED
        wrong.append(Count(f"wrong signs, {label}:", opposite, total, at_most=limit))
    least = min(held, key=lambda count: count.share)
    broken = [count for count in (*held, *right, *wrong) if not count.kept]
    shown = [f"least often {least}", *right[:4], *wrong, *(["not kept:", *broken] if broken else [])]
    return replace(finding([*held, *right, *wrong]), found="; ".join(map(str, shown)))


@REPLAY_CHECKS.add("G5", "opposite within both intervals in >= 93%")
def swapped(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """B over A, and A over B."""
    runs = _Runs("G5", setting, method, scale)
    counts = []
    machines: list[EpochSource] = [Simulated("cloud"), *recorded_sets()]
    for machine in machines:
        there, back = (
            runs.of(machine, Question(effect=effect), 300, machine, effect) for effect in (slowed_by(3), -slowed_by(3))
        )
        agree = sum(_agree(one, other, opposite=True) for one, other in zip(there, back, strict=True))
        counts.append(Count(f"{machine}: opposite within both intervals", agree, len(there), at_least=_COVERAGE))
    return finding(counts)


@REPLAY_CHECKS.add("G8", "primary holds -2%, trimmed about 0 (within 0.5%), DISAGREE >= 95%")
def stalls(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """One arm stalls for 20 ms of each second."""
    runs = _Runs("G8", setting, method, scale)
    truth, question = math.log(0.98), Question(precision=0.002, epochs_max=8)
    stalled, calm = (
        runs.of(Simulated("calm", stalls=with_them), question, 300, with_them) for with_them in (True, False)
    )
    return finding(
        [
            Count("-2% held", sum(end.holds(truth) for end in stalled), len(stalled), at_least=_COVERAGE),
            Bias.of("trimmed", [end.trimmed for end in stalled], truth=0.0, at_most=_ABOUT_ZERO),
            Count("DISAGREE", sum(end.disagree for end in stalled), len(stalled), at_least=0.95),
            Count("DISAGREE without stalls", sum(end.disagree for end in calm), len(calm), at_most=0.05),
        ]
    )


@REPLAY_CHECKS.add("G16", "pairs within both intervals in >= 93%")
def repeated(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """20 repeats in calm, busy and crowded hours."""
    hours: list[EpochSource] = [Simulated("quiet"), Simulated("cloud"), Simulated("loaded"), *recorded_sets()]
    groups = scaled(40, scale)
    runs = _Runs("G16", setting, method, 1.0)
    by_hour = [runs.of(hour, Question(effect=slowed_by(2)), groups * -(-20 // len(hours))) for hour in hours]
    together = [end for ends in zip(*by_hour, strict=True) for end in ends]
    agree = pairs = apart = 0
    for begin in range(0, 20 * groups, 20):
        repeats = together[begin : begin + 20]
        agree += sum(_agree(one, other) for one, other in combinations(repeats, 2))
        pairs += math.comb(len(repeats), 2)
        apart += sum(_agree(one, other) for one, other in zip(repeats[::2], repeats[1::2], strict=True))
    return finding(
        [
            Count("disjoint pairs agree:", apart, 10 * groups, at_least=_COVERAGE),
            Count("all pairs agree:", agree, pairs),
        ]
    )


_QUANTILES = (0.5, 0.95, 0.99)
_ERROR_MAX = 0.001
_TRUTH = math.log(1.03)
_EPOCHS = 8
_REQUESTS = 5000  # per arm and epoch: 50 beyond the 99th percentile, the fewest accepted
_START_SD = 0.02  # of an arm's latency from start to start


@REPLAY_CHECKS.add("G10", "error <= 0.1%; p50, p95, p99 held in 93 to 97%")
def quantiles(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """Quantiles compared with an exact sort, and their intervals."""
    rng = np.random.default_rng(seed_of(setting, "G10"))
    error = max(_worst_error(np.rint(_latencies(rng, 1, 200_000)[0]).astype(np.int64)) for _ in range(5))
    runs = scaled(600, scale)
    held = dict.fromkeys(_QUANTILES, 0)
    for _ in range(runs):
        baseline = _latencies(rng, _EPOCHS, _REQUESTS)
        contender = _latencies(rng, _EPOCHS, _REQUESTS) * math.exp(_TRUTH)
        for quantile in _QUANTILES:
            held[quantile] += method.quantile_interval(baseline, contender, quantile, ONE_CELL).holds(_TRUTH)
    counts = [
        Count(f"p{quantile * 100:g} held", hits, runs, at_least=_COVERAGE, at_most=0.97)
        for quantile, hits in held.items()
    ]
    found = finding(counts)
    return Finding(
        found=f"largest error {error:.3%}; {found.found}",
        passed=found.passed and error <= _ERROR_MAX,
        figures={**found.figures, "largest error": error},
    )


def _latencies(rng: np.random.Generator, epochs: int, requests: int) -> Floats:
    """Draw latencies in ns, about 0.1 ms with a long tail; starts differ in their level."""
    level = rng.normal(0, _START_SD, (epochs, 1))
    tail = np.where(rng.random((epochs, requests)) < 0.03, rng.exponential(1.0, (epochs, requests)), 0.0)
    return 1e5 * np.exp(level + 0.4 * rng.standard_normal((epochs, requests)) + tail)


def _worst_error(values: NDArray[np.int64]) -> float:
    """Return the largest relative difference of a decoded histogram's quantiles from those of the sorted values."""
    asked = np.array([0.001, 0.01, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999])
    decoded = decode_histogram(encode_values(values)).quantiles(asked)
    exact = np.quantile(values, asked, method="inverted_cdf")
    return float(np.max(np.abs(decoded - exact) / exact))
