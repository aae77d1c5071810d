"""Methods that are in use and wrong. The gauntlet must catch each of them; the tests see that it does."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bakeoff.gauntlet.replay.method import CONTENDER, SOUND, Method, Pairs, one_value_an_epoch
from bakeoff.plan import Plan
from bakeoff.results.epoch import EpochData
from bakeoff.stats import interval as iv
from bakeoff.stats.comparison import Context, compare
from bakeoff.stats.estimate import EpochEstimates
from bakeoff.stats.model import Comparison, Interval, Stop, Verdict, Word
from bakeoff.stats.simulate import Floats
from bakeoff.stats.stopping import stop_state

_RESAMPLES = 1000


def every_block_counts(epoch: EpochData) -> tuple[EpochEstimates, ...]:
    """Every block of slices as if it were an epoch of its own."""
    return tuple(
        one_value_an_epoch(replace(epoch, slices=slices))[0]
        for slices in epoch.slices.partition_by("block", maintain_order=True)
    )


def _t_interval(values: Sequence[float]) -> Interval:
    n = len(values)
    return iv.t_interval(math.fsum(values) / n, iv.standard_deviation(values), n, alpha=0.05)


def judge_by_p(pairs: Pairs, plan: Plan, context: Context) -> tuple[Comparison, ...]:
    """A difference is claimed when p < 0.05, whenever and why ever one stopped."""
    judged = []
    for comparison in compare(pairs, plan, context):
        interval = _t_interval([point.value for point in comparison.points])
        claimed = Word.FASTER if (interval.low or 0.0) > 0 else Word.SLOWER
        words = (claimed,) if iv.excludes_zero(interval) else (Word.INCONCLUSIVE,)
        verdict = Verdict(words=words, at_least=None, sentence="")
        estimate = comparison.estimate.model_copy(update={"interval": interval})
        judged.append(comparison.model_copy(update={"verdict": verdict, "estimate": estimate}))
    return tuple(judged)


def stop_alone(values: Sequence[float], precision: float, family: int) -> Stop:
    """Every cell as if it were the only one."""
    return stop_state(values, precision=precision, family=1)


def judge_alone(pairs: Pairs, plan: Plan, context: Context) -> tuple[Comparison, ...]:
    """Every cell as if it were the only one: no correction over the family."""
    return tuple(
        comparison
        for cell in plan.cells
        for comparison in compare(
            {(cell.name, CONTENDER): pairs[cell.name, CONTENDER]},
            plan.model_copy(update={"cells": (cell,)}),
            replace(context, family=1),
        )
    )


def percentiles_of_requests(baseline: Floats, contender: Floats, quantile: float, context: Context) -> Interval:
    """All requests of all epochs in one pot, resampled; the middle 95 % of the log ratios is taken for the interval."""
    rng = np.random.default_rng(0)
    upper, lower = (_resampled(rng, np.sort(each.ravel()), quantile) for each in (contender, baseline))
    low, high = np.quantile(np.log(upper / lower), (0.025, 0.975))
    return Interval(low=float(low), high=float(high))


def _resampled(rng: np.random.Generator, pot: Floats, quantile: float) -> Floats:
    """The quantile in resamples of a sorted pot: its place is drawn, whose law is a beta distribution."""
    place = max(1, math.ceil(quantile * pot.size))
    drawn: Floats = pot[(rng.beta(place, pot.size + 1 - place, _RESAMPLES) * pot.size).astype(np.int64)]
    return drawn


PERCENTILES_OF_REQUESTS: Method = replace(SOUND, quantile_interval=percentiles_of_requests)
SLICES_AS_N: Method = replace(SOUND, reduce=every_block_counts)
NO_RESTARTS: Method = replace(SOUND, restarts=False)
PEEKING_AT_P: Method = replace(SOUND, live=_t_interval, judge=judge_by_p)
NO_HOLM: Method = replace(SOUND, stop=stop_alone, judge=judge_alone)
