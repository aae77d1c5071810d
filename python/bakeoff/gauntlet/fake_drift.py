"""G4 and G13 through the real engine: what both arms share cancels, and no slice length changes the answer."""

import math
import time
from collections.abc import Mapping

from bakeoff.gauntlet.bounds import most
from bakeoff.gauntlet.fake_epochs import MS, FakeArm, FakeBench, Load, judge
from bakeoff.gauntlet.fakeserver import on_fake_server
from bakeoff.gauntlet.model import Check, Finding, Setting, Size
from bakeoff.plan.timing import guard_ns
from bakeoff.stats.interval import standard_deviation, t_quantile
from bakeoff.stats.model import Comparison, Word

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

_SHADOW = 5.0
_TRUTH = -math.log1p(_SHADOW / 100)
_SHORT_NS = 12 * MS


def drifts(setting: Setting) -> Finding:
    """Equal arms on servers that speed up and slow down together."""
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
                    # A slow one begins where it happens to be; the others with the epoch.
                    origin_ns = 0 if name == "sine of 60 s" else time.monotonic_ns()
                    law = (*_LATENCY, "--drift", _DRIFTS[name], "--origin-ns", str(origin_ns))
                    epochs.append(bench.epoch({"A": FakeArm(law), "B": FakeArm(law)}, _LOAD))
                (comparison,) = judge(epochs, _LOAD).comparisons
                values += [point.value for point in comparison.points]
                false[name] += _claims(comparison)
            bias[name] = math.fsum(values) / len(values)
            # At 99.9 %: several drifts are looked at, and all of them must hold.
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


def slice_lengths(setting: Setting) -> Finding:
    """The same planted 5 % measured in slices of tau, 4 tau and 16 tau."""
    epochs = {Size.REPLAY: 6, Size.QUICK: 6, Size.FULL: 60}[setting.size]
    arms = {"A": FakeArm(_LATENCY), "B": FakeArm(_LATENCY, shadow_per_100=_SHADOW)}
    found: dict[str, dict[str, float]] = {}
    with FakeBench(setting, "slice lengths") as bench:
        for factor in (1, 4, 16):
            length_ns = factor * _SHORT_NS
            load = Load(seconds=max(0.35, 4 * length_ns / 1e9), slice_ns=length_ns)  # one block at least
            (comparison,) = judge([bench.epoch(arms, load) for _ in range(epochs)], load).comparisons
            found[f"{length_ns // MS} ms"] = {
                "mean": comparison.estimate.mean,
                "half_width": comparison.estimate.interval.half_width or math.inf,
            }
    return _invariance(found)


def _invariance(found: Mapping[str, Mapping[str, float]]) -> Finding:
    """Every estimate holds the planted truth, the attenuation within 5 % of the effect or within its interval."""
    shown = [f"{math.expm1(value['mean']):+.2%} ± {value['half_width']:.2%} at {name}" for name, value in found.items()]
    # The three intervals of 95 % are looked at together: half a width more makes that one miss in a hundred.
    apart = [
        name
        for name, value in found.items()
        if abs(value["mean"] - _TRUTH) > max(1.5 * value["half_width"], 0.05 * abs(_TRUTH))
    ]
    widest = max(value["half_width"] for value in found.values())
    too_noisy = not apart and widest > abs(_TRUTH)
    return Finding(
        found=f"planted {math.expm1(_TRUTH):+.2%}: "
        + ", ".join(shown)
        + ("; the machine is too busy to tell" if too_noisy else ""),
        passed=None if too_noisy else not apart,
        figures={"truth": _TRUTH, "by_slice": {name: dict(value) for name, value in found.items()}},
    )


def _claims(comparison: Comparison) -> bool:
    return bool({Word.FASTER, Word.SLOWER} & set(comparison.verdict.words))


CHECKS = (
    Check(
        test="G4",
        what="drifts that both fake servers share",
        target="false claims <= 5 %, no bias beyond chance",
        sizes=frozenset(Size),
        run=on_fake_server(drifts),
    ),
    Check(
        test="G13",
        what="a planted 5 % in slices of 12, 48 and 192 ms on the fake server",
        target="all estimates hold the truth, attenuation < 5 % of the effect",
        sizes=frozenset(Size),
        run=on_fake_server(slice_lengths),
    ),
)
