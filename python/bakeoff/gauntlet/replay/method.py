"""The method under test, as a value: what is done with epochs, and what is said of them.

The tests of the gauntlet run against any `Method`. `SOUND` is bakeoff's own, made of the functions that decide about
real servers; `broken` holds methods that must be caught. Every part is a function of a module, so that a method can be
sent to another process.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from bakeoff.plan import Plan
from bakeoff.results.epoch import EpochData
from bakeoff.stats.comparison import Context, compare
from bakeoff.stats.estimate import EpochEstimates, PairEstimate, epoch_estimates
from bakeoff.stats.latency import latency_ratios
from bakeoff.stats.model import Comparison, Interval, Stop
from bakeoff.stats.simulate import Floats
from bakeoff.stats.stopping import progress_of, stop_state

Pairs = Mapping[tuple[str, str], Sequence[PairEstimate]]
"""(cell, contender) -> its epochs' estimates."""

BASELINE, CONTENDER = "A", "B"


def one_value_an_epoch(epoch: EpochData) -> tuple[EpochEstimates, ...]:
    """An epoch is one observation of each of its comparisons."""
    return (epoch_estimates(epoch, baseline=BASELINE),)


def stop(values: Sequence[float], precision: float, family: int) -> Stop:
    """The stopping rule."""
    return stop_state(values, precision=precision, family=family)


def live(values: Sequence[float]) -> Interval:
    """The interval that a user sees while it runs."""
    return progress_of(values, cell="", contender=CONTENDER, is_control=False, precision=math.inf, family=1).live


def judge(pairs: Pairs, plan: Plan, context: Context) -> tuple[Comparison, ...]:
    """The verdicts over a whole family."""
    return compare(pairs, plan, context)


def quantile_interval(baseline: Floats, contender: Floats, quantile: float, context: Context) -> Interval:
    """Interval of a quantile's log ratio; the latencies have shape (epochs, requests)."""
    epochs = [
        EpochData(
            epoch=number,
            build=0,
            valid=True,
            void_reason="",
            slices=_NO_SLICES,
            histograms=[_histogram(BASELINE, lower, quantile), _histogram(CONTENDER, upper, quantile)],
            variables={},
        )
        for number, (lower, upper) in enumerate(zip(baseline, contender, strict=True))
    ]
    (ratio,) = latency_ratios(epochs, baseline=BASELINE, interval_of=context.quick_interval, cells=[_CELL])
    return ratio.estimate.interval if ratio.estimate else Interval(low=None, high=None)


_CELL = "cell"
_NO_SLICES = pl.DataFrame()


def _histogram(arm: str, latencies: Floats, quantile: float) -> dict[str, object]:
    """What the engine says of an arm's epoch."""
    value = float(np.quantile(latencies, quantile, method="inverted_cdf"))
    row = {"cell": _CELL, "arm": arm, "operation": "event", "clock": "response"}
    return row | {"count": latencies.size, "quantiles_ns": {str(quantile): value}}


@dataclass(frozen=True)
class Method:
    """How a run is measured and judged.

    Attributes:
        restarts: servers are started anew for every epoch; else one pair of starts serves a whole run.
        reduce: what of an epoch counts as observations.
        stop: (values so far, target precision, family) -> RUNNING or why it ends.
        live: what a user sees after each epoch, and may act upon.
        judge: what is said in the end.
        quantile_interval: of the log ratio of a latency quantile.
    """

    restarts: bool = True
    reduce: Callable[[EpochData], tuple[EpochEstimates, ...]] = one_value_an_epoch
    stop: Callable[[Sequence[float], float, int], Stop] = stop
    live: Callable[[Sequence[float]], Interval] = live
    judge: Callable[[Pairs, Plan, Context], tuple[Comparison, ...]] = judge
    quantile_interval: Callable[[Floats, Floats, float, Context], Interval] = quantile_interval


SOUND = Method()
"""bakeoff's."""
