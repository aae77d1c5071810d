"""G12 and G13 for workloads that write: what a resting server still owes, and whose slices pay for it.

The arms are the same binary. In G12 they differ in how eagerly they write in the background, so that the debt is
unequal; the truth is the serial measurement, in which each arm is alone on the machine. In G13 one arm is slowed by a
planted 5 %.
"""

import math

from bakeoff.gauntlet.estimates import agrees, by_way, mean_of, rate, shown
from bakeoff.gauntlet.model import Check, Finding, Setting, Size
from bakeoff.gauntlet.real_epochs import RealBench, Way, question
from bakeoff.results.epoch import EpochData
from bakeoff.stats.model import Estimate
from bakeoff.stats.side_tests import carry_over, carry_over_flag

_SCRIPT = "oltp_write_only"
_EAGER = "innodb_io_capacity=4000,innodb_io_capacity_max=8000,innodb_purge_threads=4"
_LAZY = "innodb_io_capacity=100,innodb_io_capacity_max=200,innodb_purge_threads=1"
_SLICE_NS = 2_000_000_000
_WIDEST = 0.10  # agreeing with a serial interval wider than this says nothing
_SHADOW = 5.0
_TRUTH = -math.log1p(_SHADOW / 100)
_PRECISION = math.log(1.01)


def unequal_debt(setting: Setting) -> Finding:
    """Interleaved with freezing and without, against each arm alone after a restart of its own."""
    epochs = 12
    study = question(f"{setting.server},{_EAGER}", f"{setting.server},{_LAZY}", workloads=(_SCRIPT,), seed=setting.seed)
    frozen = Way("freeze", _SLICE_NS, 16.0, freeze=True)
    running = Way("no freeze", _SLICE_NS, 16.0)
    together: list[EpochData] = []
    alone: list[float] = []
    with RealBench(study, setting.folder, tell=setting.tell) as bench:
        for number in range(epochs):
            # Each way has servers of its own: a debt left by one must not be paid by the other.
            together += [bench.epoch([way]) for way in ((frozen, running) if number % 2 else (running, frozen))]
            rates = {}
            for arm in "AB" if number % 2 else "BA":
                rates[arm] = rate(bench.epoch([Way("alone", _SLICE_NS, 8.0, arms=(arm,))], arms=(arm,)))
            alone.append(math.log(rates["B"] / rates["A"]))
    pairs = by_way(together)
    serial = mean_of(alone)
    told = [f"alone {shown(serial)}"]
    figures = {"alone": _figures(serial)}
    agree: dict[str, bool] = {}
    flags: dict[str, bool] = {}
    for name, found in pairs.items():
        estimate = mean_of([pair.value for pair in found])
        agree[name] = agrees(estimate, serial)
        flags[name] = carry_over_flag(carry_over(found), _PRECISION) is not None
        told.append(f"{name} {shown(estimate)}" + (" CARRY-OVER" if flags[name] else ""))
        figures[name] = _figures(estimate) | {"agrees": agree[name], "carry_over_flag": flags[name]}
    held = agree["freeze"] or flags["freeze"]
    too_noisy = held and (serial.interval.half_width or math.inf) > _WIDEST
    return Finding(
        found="B over A: " + ", ".join(told) + ("; the machine is too busy to tell" if too_noisy else ""),
        passed=None if too_noisy else held,
        figures=figures,
    )


def slice_lengths(setting: Setting) -> Finding:
    """A planted 5 % in slices of tau and 4 tau, with freezing."""
    epochs = 12
    study = question(setting.server, shadow_per_100=_SHADOW, workloads=(_SCRIPT,), seed=setting.seed)
    ways = [Way(f"{length_ns / 1e9:g} s", length_ns, 16.0, freeze=True) for length_ns in (500_000_000, _SLICE_NS)]
    with RealBench(study, setting.folder, tell=setting.tell) as bench:
        found = by_way([bench.epoch(ways) for _ in range(epochs)])
    estimates = {name: mean_of([pair.value for pair in pairs]) for name, pairs in found.items()}
    apart = []
    for name, estimate in estimates.items():
        half = estimate.interval.half_width or math.inf
        if abs(estimate.mean - _TRUTH) > max(1.5 * half, 0.05 * abs(_TRUTH)):
            apart.append(name)
    widest = max(estimate.interval.half_width or math.inf for estimate in estimates.values())
    too_noisy = not apart and widest > abs(_TRUTH)
    return Finding(
        found=f"planted {math.expm1(_TRUTH):+.2%}: "
        + ", ".join(f"{shown(estimate)} at {name}" for name, estimate in estimates.items())
        + ("; the machine is too busy to tell" if too_noisy else ""),
        passed=None if too_noisy else not apart,
        figures={"truth": _TRUTH} | {name: _figures(estimate) for name, estimate in estimates.items()},
    )


def _figures(estimate: Estimate) -> dict[str, object]:
    return {"mean": estimate.mean, "half_width": estimate.interval.half_width, "n": estimate.n}


CHECKS = (
    Check(
        test="G12",
        what="writes with unequal background debt (io_capacity, purge threads)",
        target="interleaved with freeze = serial within the intervals, or CARRY-OVER",
        sizes=frozenset({Size.FULL}),
        run=unequal_debt,
    ),
    Check(
        test="G13",
        what="a planted 5 % on writes with freeze, in slices of 0.5 and 2 s",
        target="both hold the truth, attenuation < 5 % of the effect",
        sizes=frozenset({Size.FULL}),
        run=slice_lengths,
    ),
)
