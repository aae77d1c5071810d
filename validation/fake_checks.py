"""Checks on fake servers, through the real engine and the real analysis."""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import binom, norm

from bakeoff.plan.timing import guard_ns
from bakeoff.results.epoch_data import EpochData, Histogram, decode_histogram
from bakeoff.stats.estimate import PairEstimate, epoch_estimates
from bakeoff.stats.interval import precision_interval, standard_deviation, t_quantile
from bakeoff.stats.model import Interval, Word
from bakeoff.stats.summary import latency_ratios
from validation.check import TOO_BUSY, Checks, Finding, Setting, Size, fewest, most
from validation.fake_server import MS, FakeArm, FakeBench, Load, judge, on_fake_server
from validation.real_epochs import SAME_AT_EVERY_LENGTH, at_every_length
from validation.simulation import misled_by_blocks

FAKE_CHECKS = Checks(*Size, wrap=on_fake_server)

_LATENCY = ("--latency", "lognormal:500us,0.1")
_LOAD = Load(seconds=0.35)
_STEP_S = (_LOAD.slice_ns + min(guard_ns(_LOAD.slice_ns), _LOAD.slice_ns // 10)) / 1e9
_DRIFTS: Mapping[str, str] = {
    "10 % linear": "linear:0.1/0.35s",
    "20 % step": "step:0.2@0.15s",
    "sine of tau": f"sin:0.1/{_STEP_S * 1e3:.3f}ms",
    "sine of 2 tau": f"sin:0.1/{2 * _STEP_S * 1e3:.3f}ms",
    "sine of 4 tau": f"sin:0.1/{4 * _STEP_S * 1e3:.3f}ms",
    "sine of 60 s": "sin:0.1/60s",
}
_IN_REPLAY = ("20 % step", "sine of 2 tau")

_SLOWDOWN_PERCENT = 5.0
_TRUTH = -math.log1p(_SLOWDOWN_PERCENT / 100)
_SHORT_NS = 12 * MS


@FAKE_CHECKS.add("G4", "false claims <= 5 %, no bias beyond chance")
def drifts(setting: Setting) -> Finding:
    """Drifts that both fake servers share."""
    names = _IN_REPLAY if setting.size is Size.REPLAY else tuple(_DRIFTS)
    duels = {Size.REPLAY: 1, Size.QUICK: 1, Size.FULL: 40}[setting.size]
    false: dict[str, int] = {}
    bias: dict[str, float] = {}
    biased = []
    with FakeBench(setting, "drifts") as bench:
        for name in names:
            values: list[float] = []
            false[name] = 0
            for _ in range(duels):
                epochs = []
                for _ in range(6):
                    # The slow sine has one origin for all epochs; other drifts start with each epoch.
                    origin_ns = 0 if name == "sine of 60 s" else time.monotonic_ns()
                    law = (*_LATENCY, "--drift", _DRIFTS[name], "--origin-ns", str(origin_ns))
                    epochs.append(bench.epoch({"A": FakeArm(law), "B": FakeArm(law)}, _LOAD))
                (comparison,) = judge(epochs, _LOAD).comparisons
                values += [point.value for point in comparison.points]
                false[name] += comparison.verdict.claims
            bias[name] = math.fsum(values) / len(values)
            # At 99.9 %, because all of several drifts must hold.
            if abs(bias[name]) > t_quantile(0.9995, len(values) - 1) * standard_deviation(values) / len(values) ** 0.5:
                biased.append(name)
    runs, claims = duels * len(names), sum(false.values())
    return Finding(
        found=(
            f"{claims} false claims in {runs} duels; largest bias {max(map(abs, bias.values())):.2%}, "
            + (f"beyond chance for {', '.join(biased)}" if biased else "none beyond chance")
        ),
        passed=claims <= most(runs, 0.05) and not biased,
        figures={"duels": runs, "false_claims": false, "bias": bias},
    )


@FAKE_CHECKS.add("G13", SAME_AT_EVERY_LENGTH)
def slice_lengths(setting: Setting) -> Finding:
    """An injected 5 % in slices of 12, 48 and 192 ms on the fake server."""
    epochs = {Size.REPLAY: 6, Size.QUICK: 6, Size.FULL: 60}[setting.size]
    arms = {"A": FakeArm(_LATENCY), "B": FakeArm(_LATENCY, slowdown_percent=_SLOWDOWN_PERCENT)}
    estimates = {}
    with FakeBench(setting, "slice lengths", together=True) as bench:
        for factor in (1, 4, 16):
            length_ns = factor * _SHORT_NS
            load = Load(seconds=max(0.35, 4 * length_ns / 1e9), slice_ns=length_ns)  # one block at least
            (comparison,) = judge([bench.epoch(arms, load) for _ in range(epochs)], load).comparisons
            estimates[f"{length_ns // MS} ms"] = comparison.estimate
    return at_every_length(estimates, _TRUTH)


# Latencies much longer than a round trip; many connections, for enough events.
_MEDIAN_NS, _SIGMA, _THREADS = 20_000_000, 0.5, 64
_LAW = ("--latency", f"lognormal:{_MEDIAN_NS // MS}ms,{_SIGMA}")
_BASE = ("--latency", f"constant:{_MEDIAN_NS // MS}ms")
_QUANTILES = ("0.5", "0.95", "0.99")
_SLOW = 1.10
_RESOLUTION = 0.001
_TAIL = 0.001  # three quantiles must hold, and machines have hiccups
_HICCUP = 0.02  # largest wander of round trips, as a share of the median, at which a law can be checked


@FAKE_CHECKS.add("G10", "those of the law within chance; error of the code <= 0.1 %")
def law(setting: Setting) -> Finding:
    """Quantiles of a fake server's law."""
    seconds = {Size.REPLAY: 1.2, Size.QUICK: 4.0, Size.FULL: 30.0}[setting.size]
    load = Load(seconds=seconds, slice_ns=int(seconds * 1e9 / 4), threads=_THREADS)
    with FakeBench(setting, "law") as bench:
        epoch = bench.epoch({"A": FakeArm(_BASE), "B": FakeArm(_LAW)}, load)
    base, drawn = (_event_row(epoch, arm) for arm in "AB")
    round_trip_ns = base["quantiles_ns"]["0.5"] - _MEDIAN_NS
    wander = (base["quantiles_ns"]["0.95"] - base["quantiles_ns"]["0.5"]) / _MEDIAN_NS
    outside, shares = [], {}
    for name in _QUANTILES:
        share = float(norm.cdf(math.log((drawn["quantiles_ns"][name] - round_trip_ns) / _MEDIAN_NS) / _SIGMA))
        shares[name] = share
        low, high = binom.ppf([_TAIL / 2, 1 - _TAIL / 2], drawn["count"], float(name)) / drawn["count"]
        if not low <= share <= high:
            outside.append(name)
    error = _sorting_error(decode_histogram(drawn["hdr"]), drawn["quantiles_ns"])
    too_noisy = bool(outside) and error <= _RESOLUTION and wander > _HICCUP
    shown = ", ".join(f"p{float(name) * 100:g} at {share:.2%} of the law" for name, share in shares.items())
    return Finding(
        found=f"{shown} ({drawn['count']:,} events); against an exact sort {error:.3%}"
        + (f"{TOO_BUSY} (round trips wander by {wander:.0%})" if too_noisy else ""),
        passed=None if too_noisy else not outside and error <= _RESOLUTION,
        figures={"shares": shares, "events": drawn["count"], "sorting_error": error, "wander": wander},
    )


@FAKE_CHECKS.add("G10", "coverage of each >= 93 %")
def intervals(setting: Setting) -> Finding:
    """Intervals of p50, p95, p99 ratios on fake servers."""
    duels, seconds = {Size.REPLAY: (3, 0.8), Size.QUICK: (3, 0.8), Size.FULL: (40, 4.5)}[setting.size]
    load = Load(seconds=seconds, slice_ns=int(seconds * 1e9 / 8), threads=_THREADS)
    arms = {"A": FakeArm(_LAW), "B": FakeArm((*_LAW, "--slow-factor", str(_SLOW)))}
    held, known = dict.fromkeys(_QUANTILES, 0), dict.fromkeys(_QUANTILES, 0)
    with FakeBench(setting, "quantile intervals") as bench:
        for _ in range(duels):
            ratios = latency_ratios(
                [bench.epoch(arms, load) for _ in range(6)],
                baseline="A",
                interval_of=precision_interval,
                cells=[load.cell],
            )
            for ratio in ratios:
                name = f"{ratio.quantile:g}"
                if ratio.operation == "event" and name in known and ratio.estimate is not None:
                    known[name] += 1
                    held[name] += ratio.estimate.interval.holds(math.log(_SLOW))
    total = sum(known.values())
    holds = total > 0 and sum(held.values()) >= max(1, fewest(total, 0.93))
    # Good quantiles must not hide a bad one.
    holds = holds and all(held[name] >= fewest(known[name], 0.93) for name in _QUANTILES)
    # Quantiles with too few events are not judged; in size full all must be.
    lacking = [name for name in _QUANTILES if known[name] < duels and setting.size is Size.FULL]
    return Finding(
        found=f"the injected {_SLOW - 1:.0%} held by {sum(held.values())} of {total} intervals: "
        + ", ".join(f"p{float(name) * 100:g} {held[name]} of {known[name]}" for name in _QUANTILES)
        + (f"; too few events in some of {duels} duels" if lacking else ""),
        passed=None if holds and lacking else holds,
        figures={"duels": duels, "intervals": known, "held": held},
    )


def _sorting_error(histogram: Histogram, quantiles_ns: Mapping[str, float]) -> float:
    """Return the largest relative error of the engine's quantiles against a sort, including a cell's width."""
    values = np.sort(np.repeat(histogram.highest_ns, histogram.counts))
    apart = [
        abs(quantiles_ns[name] / values[max(0, math.ceil(float(name) * len(values) - 1e-9) - 1)] - 1)
        for name in _QUANTILES
    ]
    # A cell is 1/1024 of its power of two wide and is represented by its highest value.
    cells = np.maximum(histogram.highest_ns, 1)
    width = 2.0 ** np.maximum(np.floor(np.log2(cells)) - 10, 0) - 1
    return float(max(apart) + (width / cells).max())


def _event_row(epoch: EpochData, arm: str = "A") -> Mapping[str, Any]:
    return next(row for row in epoch.histograms if row["operation"] == "event" and row["arm"] == arm)


_STALLED = -0.02  # 20 ms in each second, or 5 ms in each 250
_STEADY = ("--latency", "constant:200us")
# Replay has shorter stalls, four times as often, to save minutes.
_STALLS = {
    Size.REPLAY: ("5ms/250ms", Load(seconds=1.0, slice_ns=13 * MS, threads=4), 8, 1),
    Size.QUICK: ("20ms/1s", Load(seconds=3.0, slice_ns=50 * MS, threads=4), 8, 1),
    Size.FULL: ("20ms/1s", Load(seconds=6.0, slice_ns=50 * MS, threads=4), 12, 20),
}

# Freeze, its period, seconds measured.
_FREEZES = {
    Size.REPLAY: ("200ms/2s", 2.0, 4.0),
    Size.QUICK: ("200ms/10s", 10.0, 20.0),
    Size.FULL: ("200ms/10s", 10.0, 120.0),
}
_FREEZE_S = 0.2
# Few requests for many connections: the requests of a freeze are done within a millisecond after it.
_RATE_PER_S = 1000.0
_OPEN_THREADS = 16
_DELAY_QUANTILES = ("0.95", "0.99", "0.999")
_TOLERANCE = 0.10


@FAKE_CHECKS.add("G8", "primary -2 %, trimmed about 0, DISAGREE raised >= 95 %")
def stalls(setting: Setting) -> Finding:
    """One fake server stalls for 2 % of the time."""
    stall, load, epochs, duels = _STALLS[setting.size]
    arms = {"A": FakeArm(_STEADY), "B": FakeArm((*_STEADY, "--stall", stall))}
    raised = 0
    primary: list[float] = []
    trimmed: list[float] = []
    with FakeBench(setting, "stalls", together=True) as bench:
        for _ in range(duels):
            (comparison,) = judge([bench.epoch(arms, load) for _ in range(epochs)], load).comparisons
            raised += comparison.disagree
            primary += [point.value for point in comparison.points]
            trimmed.append(comparison.trimmed.mean)
    mean, free = math.fsum(primary) / len(primary), math.fsum(trimmed) / len(trimmed)
    error = standard_deviation(primary) / math.sqrt(len(primary))
    # Three standard errors, plus what the edge of a slice may hide of a stall.
    near = abs(mean - _STALLED) <= 3 * error + 0.002 and abs(free) <= 3 * error + 0.004
    found = f"primary {math.expm1(mean):+.2%} ± {error:.2%}, trimmed {math.expm1(free):+.2%}; DISAGREE {raised}/{duels}"
    too_noisy = near and error > abs(_STALLED) / 4
    return Finding(
        found=found + (TOO_BUSY if too_noisy else ""),
        passed=None if too_noisy else near and raised >= max(1, fewest(duels, 0.95)),
        figures={"primary": mean, "standard_error": error, "trimmed": free, "disagree": raised, "duels": duels},
    )


@FAKE_CHECKS.add("G9", "p99 and p99.9 within 10 % of uniform delays over the freeze; closed loop labelled")
def omission(setting: Setting) -> Finding:
    """A fake server that freezes repeatedly, in an open and a closed loop."""
    freeze, period_s, seconds = _FREEZES[setting.size]
    law = ("--latency", "constant:100us")
    # Freezes must be in the middle of slices, because the drain at the end of a slice would cut one short.
    origin_ns = time.monotonic_ns() - int(period_s * 1e9 / 2)
    frozen = (*law, "--stall", freeze, "--origin-ns", str(origin_ns))
    schedule = Load(
        seconds=seconds, slice_ns=int(period_s * 1e9), threads=_OPEN_THREADS, rate_per_s=_RATE_PER_S, arrivals="fixed"
    )
    # A closed loop has only as many requests in a freeze as threads, so it shows almost nothing of it.
    closed = Load(seconds=period_s / 2, slice_ns=int(period_s * 1e9 / 8), threads=4)
    with FakeBench(setting, "omission") as bench:
        opened = _event_row(bench.epoch({"A": FakeArm(frozen)}, schedule))
        undisturbed = _event_row(bench.epoch({"A": FakeArm(law)}, replace(schedule, seconds=1.0, slice_ns=500 * MS)))
        pair = bench.epoch({"A": FakeArm(frozen), "B": FakeArm(frozen)}, closed)
    row = _event_row(pair)
    share = _FREEZE_S / period_s
    expected = {
        name: _FREEZE_S * (1 - (1 - float(name)) / share) * 1e3 for name in _DELAY_QUANTILES if 1 - float(name) < share
    }
    found = {name: opened["quantiles_ns"][name] / 1e6 for name in expected}
    right = all(abs(found[name] / expected[name] - 1) <= _TOLERANCE for name in expected)
    ratios = latency_ratios(
        [pair], baseline="A", interval_of=lambda *_: Interval(low=None, high=None), cells=[closed.cell]
    )
    clocks = {ratio.clock for ratio in ratios if ratio.estimate is not None}
    labelled = (opened["clock"], row["clock"]) == ("response", "service") and clocks == {"service"}
    hidden_ms = row["quantiles_ns"]["0.99"] / 1e6
    noise_ms = undisturbed["quantiles_ns"]["0.99"] / 1e6
    too_noisy = noise_ms > _TOLERANCE / 2 * expected["0.99"]
    shown = ", ".join(f"p{float(name) * 100:g} {found[name]:.0f} ms (expected {expected[name]:.0f})" for name in found)
    return Finding(
        found=(
            f"{shown}; a closed loop shows p99 {hidden_ms:.1f} ms, "
            + ("labelled as service time at saturation" if labelled else "WITHOUT its label")
            + (f"{TOO_BUSY} (p99 {noise_ms:.0f} ms without any freeze)" if too_noisy else "")
        ),
        passed=labelled and (None if too_noisy else right and hidden_ms < found["0.99"] / 4),
        figures={
            "found_ms": found,
            "expected_ms": expected,
            "closed_p99_ms": hidden_ms,
            "without_freeze_p99_ms": noise_ms,
            "labelled": labelled,
        },
    )


_EPOCHS = 6
_SLOWDOWNS = {"B": 2, "C": 5, "D": 10}
_INSTANCE_SD_MIN = 0.01
# With levels this much wider than the noise within a start, an interval within one pair fails 60 % of the time.
_INSTANCE_SD_PER_WITHIN = 4.0
_MISLED = (0.4, 0.9)


@FAKE_CHECKS.add("G3", "the interval holds the truth >= 93 %; no claim of the wrong sign")
def injected(setting: Setting) -> Finding:
    """Injected 2, 5, 10 % on the fake server, through the engine."""
    duels = {Size.REPLAY: 2, Size.QUICK: 4, Size.FULL: 60}[setting.size]
    arms = {"A": FakeArm(_LATENCY)} | {name: FakeArm(_LATENCY, slowdown_percent=k) for name, k in _SLOWDOWNS.items()}
    load = Load(seconds=0.5)
    held = claimed = wrong = intervals = 0
    with FakeBench(setting, "injected") as bench:
        for _ in range(duels):
            analysis = judge([bench.epoch(arms, load) for _ in range(_EPOCHS)], load)
            for comparison in analysis.comparisons:
                truth = -math.log1p(_SLOWDOWNS[comparison.contender] / 100)
                intervals += 1
                held += comparison.estimate.interval.holds(truth)
                claimed += Word.SLOWER in comparison.verdict.words
                wrong += Word.FASTER in comparison.verdict.words
    return Finding(
        found=f"truth held by {held} of {intervals} intervals; {claimed} claimed, {wrong} with the wrong sign",
        passed=held >= fewest(intervals, 0.93) and wrong == 0,
        figures={"intervals": intervals, "held": held, "claimed": claimed, "wrong_sign": wrong},
    )


@FAKE_CHECKS.add("G6", "false claims <= 5 %; the interval within a start fails 40 to 90 %")
def restarts(setting: Setting) -> Finding:
    """Starts of a fake server that differ in their level."""
    duels = {Size.REPLAY: 2, Size.QUICK: 4, Size.FULL: 60}[setting.size]
    load = Load(seconds=0.35)
    with FakeBench(setting, "restarts") as bench:
        equal = [bench.epoch({"A": FakeArm(_LATENCY), "B": FakeArm(_LATENCY)}, load) for _ in range(5)]
        within = _within_sd([epoch_estimates(epoch, baseline="A").pairs[0] for epoch in equal])
        sd = max(_INSTANCE_SD_MIN, _INSTANCE_SD_PER_WITHIN * within)
        arm = FakeArm((*_LATENCY, "--instance-sd", f"{sd:.4f}"))
        epochs = [bench.epoch({"A": arm, "B": arm}, load) for _ in range(duels * _EPOCHS)]
    misled = sum(misled_by_blocks(epoch_estimates(epoch, baseline="A").pairs[0]) for epoch in epochs)
    false = 0
    for first in range(0, len(epochs), _EPOCHS):
        (comparison,) = judge(epochs[first : first + _EPOCHS], load).comparisons
        false += comparison.verdict.claims
    misled_as_often = fewest(len(epochs), _MISLED[0]) <= misled <= most(len(epochs), _MISLED[1])
    return Finding(
        found=(
            f"starts of SD {sd:.1%}: {false} false claims in {duels} duels; the interval within one start claims a "
            f"difference in {misled} of {len(epochs)}"
        ),
        passed=false <= most(duels, 0.05) and misled_as_often,
        figures={
            "instance_sd": sd,
            "duels": duels,
            "false_claims": false,
            "starts": len(epochs),
            "within_start_claims": misled,
        },
    )


def _within_sd(pairs: Sequence[PairEstimate]) -> float:
    """Return the median over starts, which one disturbance of the machine cannot move."""
    known = [math.sqrt(pair.variance_of_mean) for pair in pairs if pair.variance_of_mean is not None]
    return statistics.median(known) if known else 0.0
