"""G3 and G6 through the real engine: planted differences are held, and starts that differ fool nobody."""

import math
import statistics
from collections.abc import Sequence

from bakeoff.gauntlet.bounds import fewest, most
from bakeoff.gauntlet.fake_epochs import FakeArm, FakeBench, Load, judge
from bakeoff.gauntlet.fakeserver import on_fake_server
from bakeoff.gauntlet.model import Check, Finding, Setting, Size
from bakeoff.stats.estimate import PairEstimate, epoch_estimates
from bakeoff.stats.interval import excludes_zero, t_quantile
from bakeoff.stats.model import Interval, Word

_EPOCHS = 6
_SHADOWS = {"B": 2, "C": 5, "D": 10}
_LAW = ("--latency", "lognormal:500us,0.1")
_INSTANCE_SD_MIN = 0.01
# Restarts that stand out this far from the noise within a start fail the interval within a pair 60 times in 100.
_INSTANCE_SD_PER_WITHIN = 4.0
_BITES = (0.4, 0.9)


def planted(setting: Setting) -> Finding:
    """Duels of six epochs in which three contenders are slowed by uncounted events."""
    duels = {Size.REPLAY: 2, Size.QUICK: 4, Size.FULL: 60}[setting.size]
    arms = {"A": FakeArm(_LAW)} | {name: FakeArm(_LAW, shadow_per_100=k) for name, k in _SHADOWS.items()}
    load = Load(seconds=0.5)
    held = claimed = wrong = intervals = 0
    with FakeBench(setting, "planted") as bench:
        for _ in range(duels):
            analysis = judge([bench.epoch(arms, load) for _ in range(_EPOCHS)], load)
            for comparison in analysis.comparisons:
                truth = -math.log1p(_SHADOWS[comparison.contender] / 100)
                intervals += 1
                held += _holds(comparison.estimate.interval, truth)
                claimed += Word.SLOWER in comparison.verdict.words
                wrong += Word.FASTER in comparison.verdict.words
    return Finding(
        found=f"truth held by {held} of {intervals} intervals; {claimed} claimed, {wrong} with the wrong sign",
        passed=held >= fewest(intervals, 0.93) and wrong == 0,
        figures={"intervals": intervals, "held": held, "claimed": claimed, "wrong_sign": wrong},
    )


def restarts(setting: Setting) -> Finding:
    """Equal arms whose every start has a level of its own: intervals within a start must fail, ours must not."""
    duels = {Size.REPLAY: 2, Size.QUICK: 4, Size.FULL: 60}[setting.size]
    load = Load(seconds=0.35)
    with FakeBench(setting, "restarts") as bench:
        equal = [bench.epoch({"A": FakeArm(_LAW), "B": FakeArm(_LAW)}, load) for _ in range(5)]
        within = _within_sd([epoch_estimates(epoch, baseline="A").pairs[0] for epoch in equal])
        sd = max(_INSTANCE_SD_MIN, _INSTANCE_SD_PER_WITHIN * within)
        arm = FakeArm((*_LAW, "--instance-sd", f"{sd:.4f}"))
        epochs = [bench.epoch({"A": arm, "B": arm}, load) for _ in range(duels * _EPOCHS)]
    fooled = sum(_fooled(epoch_estimates(epoch, baseline="A").pairs[0]) for epoch in epochs)
    false = 0
    for first in range(0, len(epochs), _EPOCHS):
        (comparison,) = judge(epochs[first : first + _EPOCHS], load).comparisons
        false += bool({Word.FASTER, Word.SLOWER} & set(comparison.verdict.words))
    bites = fewest(len(epochs), _BITES[0]) <= fooled <= most(len(epochs), _BITES[1])
    return Finding(
        found=(
            f"starts of SD {sd:.1%}: {false} false claims in {duels} duels; the interval within one start claims a "
            f"difference in {fooled} of {len(epochs)}"
        ),
        passed=false <= most(duels, 0.05) and bites,
        figures={
            "instance_sd": sd,
            "duels": duels,
            "false_claims": false,
            "starts": len(epochs),
            "within_start_claims": fooled,
        },
    )


def _holds(interval: Interval, truth: float) -> bool:
    return interval.low is not None and interval.high is not None and interval.low <= truth <= interval.high


def _within_sd(pairs: Sequence[PairEstimate]) -> float:
    """Median over starts: one hiccup of the machine must not set the size of what is planted."""
    known = [math.sqrt(pair.variance_of_mean) for pair in pairs if pair.variance_of_mean is not None]
    return statistics.median(known) if known else 0.0


def _fooled(pair: PairEstimate) -> bool:
    """Whether a t interval over the blocks of one start, the usual mistake, excludes the truth of 0."""
    if pair.variance_of_mean is None:
        return False
    half = t_quantile(0.975, pair.blocks - 1) * math.sqrt(pair.variance_of_mean)
    return excludes_zero(Interval(low=pair.value - half, high=pair.value + half))


CHECKS = (
    Check(
        test="G3",
        what="planted 2, 5, 10 % on the fake server, through the engine",
        target="the interval holds the truth >= 93 %; no claim of the wrong sign",
        sizes=frozenset(Size),
        run=on_fake_server(planted),
    ),
    Check(
        test="G6",
        what="every start of a fake server has a level of its own",
        target="false claims <= 5 %; the interval within a start fails 40 to 90 %",
        sizes=frozenset(Size),
        run=on_fake_server(restarts),
    ),
)
