"""G8 and G9 through the real engine: stalls are charged to who has them, and no latency is left out."""

import math
import time
from dataclasses import replace
from typing import Any

from bakeoff.gauntlet.bounds import fewest
from bakeoff.gauntlet.fake_epochs import MS, FakeArm, FakeBench, Load, judge
from bakeoff.gauntlet.fakeserver import on_fake_server
from bakeoff.gauntlet.model import Check, Finding, Setting, Size
from bakeoff.results.epoch import EpochData
from bakeoff.stats.interval import standard_deviation
from bakeoff.stats.latency import latency_ratios
from bakeoff.stats.model import Interval

_STALLED = -0.02  # 20 ms in each second, or 5 ms in each 250
_LATENCY = ("--latency", "constant:200us")
# The literal stall needs minutes for enough of them; replay runs the same share on a clock four times as fast.
_STALLS = {
    Size.REPLAY: ("5ms/250ms", Load(seconds=1.0, slice_ns=13 * MS, threads=4), 8, 1),
    Size.QUICK: ("20ms/1s", Load(seconds=3.0, slice_ns=50 * MS, threads=4), 8, 1),
    Size.FULL: ("20ms/1s", Load(seconds=6.0, slice_ns=50 * MS, threads=4), 12, 20),
}

# Freezes of 200 ms: the stall, its period, seconds measured. Replay has them more often instead of measuring for long.
_FREEZES = {
    Size.REPLAY: ("200ms/2s", 2.0, 4.0),
    Size.QUICK: ("200ms/10s", 10.0, 20.0),
    Size.FULL: ("200ms/10s", 10.0, 120.0),
}
_FREEZE_S = 0.2
# Few requests for many connections, so that what a freeze holds up is done in a millisecond afterwards.
_RATE_PER_S = 1000.0
_OPEN_THREADS = 16
_QUANTILES = ("0.95", "0.99", "0.999")
_TOLERANCE = 0.10


def stalls(setting: Setting) -> Finding:
    """One arm stands still for 2 % of the time."""
    stall, load, epochs, duels = _STALLS[setting.size]
    arms = {"A": FakeArm(_LATENCY), "B": FakeArm((*_LATENCY, "--stall", stall))}
    raised = 0
    primary: list[float] = []
    trimmed: list[float] = []
    with FakeBench(setting, "stalls") as bench:
        for _ in range(duels):
            (comparison,) = judge([bench.epoch(arms, load) for _ in range(epochs)], load).comparisons
            raised += comparison.disagree
            primary += [point.value for point in comparison.points]
            trimmed.append(comparison.trimmed.mean)
    mean, free = math.fsum(primary) / len(primary), math.fsum(trimmed) / len(trimmed)
    error = standard_deviation(primary) / math.sqrt(len(primary))
    # Three standard errors, and what a slice's edge may hide of a stall.
    near = abs(mean - _STALLED) <= 3 * error + 0.002 and abs(free) <= 3 * error + 0.004
    found = f"primary {math.expm1(mean):+.2%} ± {error:.2%}, trimmed {math.expm1(free):+.2%}; DISAGREE {raised}/{duels}"
    # Stalls hide in noise that is larger than they are: then no estimator can tell the two apart.
    too_noisy = near and error > abs(_STALLED) / 4
    return Finding(
        found=found + ("; the machine is too busy to tell" if too_noisy else ""),
        passed=None if too_noisy else near and raised >= fewest(duels, 0.95),
        figures={"primary": mean, "standard_error": error, "trimmed": free, "disagree": raised, "duels": duels},
    )


def omission(setting: Setting) -> Finding:
    """A server that freezes for 200 ms again and again, in an open and in a closed loop."""
    freeze, period_s, seconds = _FREEZES[setting.size]
    law = ("--latency", "constant:100us")
    # A freeze at a slice's edge would be cut: the drain waits for its end, and no request is sent into its rest. So
    # freezes come in the middle of slices, which begin soon after the server's start.
    origin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - int(period_s * 1e9 / 2)
    frozen = (*law, "--stall", freeze, "--origin-ns", str(origin_ns))
    # One arm alone takes two slices a block; each holds whole periods.
    schedule = Load(
        seconds=seconds, slice_ns=int(period_s * 1e9), threads=_OPEN_THREADS, rate_per_s=_RATE_PER_S, arrivals="fixed"
    )
    # As many requests a freeze as threads: a closed loop sees next to nothing of it.
    closed = Load(seconds=period_s / 2, slice_ns=int(period_s * 1e9 / 8), threads=4)
    with FakeBench(setting, "omission") as bench:
        opened = _event_row(bench.epoch({"A": FakeArm(frozen)}, schedule))
        undisturbed = _event_row(bench.epoch({"A": FakeArm(law)}, replace(schedule, seconds=1.0, slice_ns=500 * MS)))
        pair = bench.epoch({"A": FakeArm(frozen), "B": FakeArm(frozen)}, closed)
    row = _event_row(pair)
    share = _FREEZE_S / period_s
    # Delays are uniform over the freeze.
    expected = {
        name: _FREEZE_S * (1 - (1 - float(name)) / share) * 1e3 for name in _QUANTILES if 1 - float(name) < share
    }
    found = {name: opened["quantiles_ns"][name] / 1e6 for name in expected}
    right = all(abs(found[name] / expected[name] - 1) <= _TOLERANCE for name in expected)
    notes = {
        ratio.note
        for ratio in latency_ratios(
            [pair], baseline="A", interval_of=lambda *_: Interval(low=None, high=None), cells=[closed.cell]
        )
        if ratio.estimate is not None
    }
    labelled = (
        (opened["clock"], row["clock"]) == ("response", "service")
        and bool(notes)
        and all("service time at saturation" in note for note in notes)
    )
    hidden_ms = row["quantiles_ns"]["0.99"] / 1e6
    noise_ms = undisturbed["quantiles_ns"]["0.99"] / 1e6
    too_noisy = noise_ms > _TOLERANCE / 2 * expected["0.99"]
    shown = ", ".join(f"p{float(name) * 100:g} {found[name]:.0f} ms (expected {expected[name]:.0f})" for name in found)
    return Finding(
        found=(
            f"{shown}; a closed loop shows p99 {hidden_ms:.1f} ms, "
            + ("labelled as service time at saturation" if labelled else "WITHOUT its label")
            + (f"; the machine is too busy to tell (p99 {noise_ms:.0f} ms without any freeze)" if too_noisy else "")
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


def _event_row(epoch: EpochData) -> dict[str, Any]:
    return next(row for row in epoch.histograms if row["operation"] == "event" and row["arm"] == "A")


CHECKS = (
    Check(
        test="G8",
        what="one fake server stands still for 2 % of the time",
        target="primary -2 %, trimmed about 0, DISAGREE raised >= 95 %",
        sizes=frozenset(Size),
        run=on_fake_server(stalls),
    ),
    Check(
        test="G9",
        what="a fake server freezes for 200 ms again and again, open loop",
        target="p99 and p99.9 as uniform delays over the freeze have them, within 10 %; closed loop labelled",
        sizes=frozenset(Size),
        run=on_fake_server(omission),
    ),
)
