"""The method under test, and wrong methods in common use that the suite must catch.

`SOUND` is made of the functions that decide about real servers.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bakeoff.plan import Plan
from bakeoff.results.epoch_data import EpochData
from bakeoff.results.frame import Frame
from bakeoff.stats import interval as iv
from bakeoff.stats.estimate import EpochEstimates, PairEstimate, epoch_estimates
from bakeoff.stats.model import Comparison, Interval, Stop, Verdict, Word
from bakeoff.stats.stopping import stop_state
from bakeoff.stats.summary import latency_ratios
from bakeoff.stats.verdict import AnalysisContext, compare
from validation.simulation import BASELINE, CONTENDER, Floats

Pairs = Mapping[tuple[str, str], Sequence[PairEstimate]]
"""(cell, contender) -> its epochs' estimates."""


def one_value_an_epoch(epoch: EpochData) -> tuple[EpochEstimates, ...]:
    return (epoch_estimates(epoch, baseline=BASELINE),)


def stop(values: Sequence[float], precision: float, family: int) -> Stop:
    return stop_state(values, precision=precision, family=family)


def live(values: Sequence[float]) -> Interval:
    return iv.estimate_of(values, iv.live_interval).interval


def quantile_interval(baseline: Floats, contender: Floats, quantile: float, context: AnalysisContext) -> Interval:
    """Return the interval of a quantile's log ratio from latencies of shape (epochs, requests)."""
    epochs = [
        EpochData(
            epoch=number,
            slices=_NO_SLICES,
            histograms=[_histogram(BASELINE, lower, quantile), _histogram(CONTENDER, upper, quantile)],
        )
        for number, (lower, upper) in enumerate(zip(baseline, contender, strict=True))
    ]
    (ratio,) = latency_ratios(epochs, baseline=BASELINE, interval_of=iv.precision_interval, cells=[_CELL])
    return ratio.estimate.interval if ratio.estimate else Interval(low=None, high=None)


_CELL = "cell"
_NO_SLICES = Frame({})


def _histogram(arm: str, latencies: Floats, quantile: float) -> dict[str, object]:
    value = float(np.quantile(latencies, quantile, method="inverted_cdf"))
    row = {"cell": _CELL, "arm": arm, "operation": "event", "clock": "response"}
    return row | {"count": latencies.size, "quantiles_ns": {str(quantile): value}}


@dataclass(frozen=True)
class Method:
    """How a run is measured and judged. The functions belong to modules, so a method can be sent to another process.

    Attributes:
        restarts: whether servers are restarted for every epoch; otherwise one pair of starts serves a whole run.
        reduce: turns an epoch into observations.
        stop: (values so far, target precision, family) -> RUNNING or why the run ends.
        live: interval that a user sees after each epoch.
    """

    restarts: bool = True
    reduce: Callable[[EpochData], tuple[EpochEstimates, ...]] = one_value_an_epoch
    stop: Callable[[Sequence[float], float, int], Stop] = stop
    live: Callable[[Sequence[float]], Interval] = live
    judge: Callable[[Pairs, Plan, AnalysisContext], tuple[Comparison, ...]] = compare
    quantile_interval: Callable[[Floats, Floats, float, AnalysisContext], Interval] = quantile_interval


SOUND = Method()

_RESAMPLES = 1000


def every_block_counts(epoch: EpochData) -> tuple[EpochEstimates, ...]:
    """Count every block of slices as an epoch."""
    return tuple(
        one_value_an_epoch(replace(epoch, slices=slices))[0] for slices in epoch.slices.by("block").frames().values()
    )


def _t_interval(values: Sequence[float]) -> Interval:
    return iv.t_interval(*iv.moments(values), alpha=0.05)


def judge_by_p(pairs: Pairs, plan: Plan, context: AnalysisContext) -> tuple[Comparison, ...]:
    """Claim a difference if p < 0.05, whenever the run stopped."""
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
    return stop_state(values, precision=precision, family=1)


def judge_alone(pairs: Pairs, plan: Plan, context: AnalysisContext) -> tuple[Comparison, ...]:
    return tuple(
        comparison
        for cell in plan.cells
        for comparison in compare(
            {(cell.name, CONTENDER): pairs[cell.name, CONTENDER]},
            plan.model_copy(update={"cells": (cell,)}),
            replace(context, family=1),
        )
    )


def percentiles_of_requests(baseline: Floats, contender: Floats, quantile: float, context: AnalysisContext) -> Interval:
    """Pool the requests of all epochs, resample them, and return the middle 95 % of the log ratios."""
    rng = np.random.default_rng(0)
    upper, lower = (_resampled(rng, np.sort(each.ravel()), quantile) for each in (contender, baseline))
    low, high = np.quantile(np.log(upper / lower), (0.025, 0.975))
    return Interval(low=float(low), high=float(high))


def _resampled(rng: np.random.Generator, pool: Floats, quantile: float) -> Floats:
    """Draw the quantile in resamples of a sorted pool, whose rank follows a beta distribution."""
    place = max(1, math.ceil(quantile * pool.size))
    drawn: Floats = pool[(rng.beta(place, pool.size + 1 - place, _RESAMPLES) * pool.size).astype(np.int64)]
    return drawn


PERCENTILES_OF_REQUESTS: Method = replace(SOUND, quantile_interval=percentiles_of_requests)
SLICES_AS_N: Method = replace(SOUND, reduce=every_block_counts)
NO_RESTARTS: Method = replace(SOUND, restarts=False)
PEEKING_AT_P: Method = replace(SOUND, live=_t_interval, judge=judge_by_p)
NO_HOLM: Method = replace(SOUND, stop=stop_alone, judge=judge_alone)
