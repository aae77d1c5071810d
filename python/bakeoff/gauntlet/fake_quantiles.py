"""G10 through the real engine: quantiles of a known law, and intervals of their ratios."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import binom, norm

from bakeoff.gauntlet.bounds import fewest
from bakeoff.gauntlet.fake_epochs import MS, FakeArm, FakeBench, Load
from bakeoff.gauntlet.fakeserver import on_fake_server
from bakeoff.gauntlet.model import Check, Finding, Setting, Size
from bakeoff.results.epoch import EpochData
from bakeoff.results.histogram import Histogram, decode_histogram
from bakeoff.stats.interval import around, precision_half_width
from bakeoff.stats.latency import latency_ratios

# Long enough that a round trip is a small part, so many connections that there is enough of it.
_MEDIAN_NS, _SIGMA, _THREADS = 20_000_000, 0.5, 64
_LAW = ("--latency", f"lognormal:{_MEDIAN_NS // MS}ms,{_SIGMA}")
_BASE = ("--latency", f"constant:{_MEDIAN_NS // MS}ms")
_QUANTILES = ("0.5", "0.95", "0.99")
_SLOW = 1.10
_RESOLUTION = 0.001
_TAIL = 0.001  # three quantiles are looked at, and a machine has hiccups of its own
_HICCUP = 0.02  # share of the median by which a round trip may wander before nothing can be told of a law


def law(setting: Setting) -> Finding:
    """Quantiles against those of the law, and against the exact order of what the histogram holds."""
    seconds = {Size.REPLAY: 1.2, Size.QUICK: 4.0, Size.FULL: 30.0}[setting.size]
    load = Load(seconds=seconds, slice_ns=int(seconds * 1e9 / 4), threads=_THREADS)
    with FakeBench(setting, "law") as bench:
        # Both arms in the same blocks, so that both meet the same round trips.
        epoch = bench.epoch({"A": FakeArm(_BASE), "B": FakeArm(_LAW)}, load)
    base, drawn = (_row(epoch, arm) for arm in "AB")
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
        + (f"; the machine is too busy to tell (round trips wander by {wander:.0%})" if too_noisy else ""),
        passed=None if too_noisy else not outside and error <= _RESOLUTION,
        figures={"shares": shares, "events": drawn["count"], "sorting_error": error, "wander": wander},
    )


def intervals(setting: Setting) -> Finding:
    """Duels of six epochs: how often the interval of a quantile's ratio holds a planted 10 %."""
    duels, seconds = {Size.REPLAY: (1, 0.8), Size.QUICK: (3, 0.8), Size.FULL: (40, 3.0)}[setting.size]
    load = Load(seconds=seconds, slice_ns=int(seconds * 1e9 / 8), threads=_THREADS)
    arms = {"A": FakeArm(_LAW), "B": FakeArm((*_LAW, "--slow-factor", str(_SLOW)))}
    held = told = 0
    with FakeBench(setting, "quantile intervals") as bench:
        for _ in range(duels):
            ratios = latency_ratios(
                [bench.epoch(arms, load) for _ in range(6)],
                baseline="A",
                interval_of=lambda mean, sd, n: around(mean, precision_half_width(sd, n)),
                cells=[load.cell],
            )
            for ratio in ratios:
                if ratio.operation != "event" or f"{ratio.quantile:g}" not in _QUANTILES or ratio.estimate is None:
                    continue
                told += 1
                interval = ratio.estimate.interval
                held += interval.low is not None and interval.low <= math.log(_SLOW) <= (interval.high or math.inf)
    return Finding(
        found=f"the planted {_SLOW - 1:.0%} held by {held} of {told} intervals of p50, p95 and p99",
        passed=told > 0 and held >= fewest(told, 0.93),
        figures={"duels": duels, "intervals": told, "held": held},
    )


def _sorting_error(histogram: Histogram, quantiles_ns: Mapping[str, float]) -> float:
    """Largest relative error of the engine's quantiles against a sort of all values, a cell's width included."""
    values = np.sort(np.repeat(histogram.highest_ns, histogram.counts))
    apart = [
        abs(quantiles_ns[name] / values[max(0, math.ceil(float(name) * len(values) - 1e-9) - 1)] - 1)
        for name in _QUANTILES
    ]
    # A cell of three digits is 1/1024 of its power of two wide, and stands for its highest value.
    cells = np.maximum(histogram.highest_ns, 1)
    width = 2.0 ** np.maximum(np.floor(np.log2(cells)) - 10, 0) - 1
    return float(max(apart) + (width / cells).max())


def _row(epoch: EpochData, arm: str) -> dict[str, Any]:
    return next(row for row in epoch.histograms if row["operation"] == "event" and row["arm"] == arm)


CHECKS = (
    Check(
        test="G10",
        what="quantiles of a fake server's law",
        target="those of the law within chance; error of the code <= 0.1 %",
        sizes=frozenset(Size),
        run=on_fake_server(law),
    ),
    Check(
        test="G10",
        what="intervals of p50, p95, p99 ratios on fake servers",
        target="coverage >= 93 %",
        sizes=frozenset(Size),
        run=on_fake_server(intervals),
    ),
)
