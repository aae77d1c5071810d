"""Latency over all quantiles: from the full histograms, or else from the few quantiles of the summaries."""

import math

import numpy as np
from numpy.typing import NDArray

from bakeoff.report.context import Context
from bakeoff.results import decode_histogram
from bakeoff.stats.latency import TAIL_MIN

_POINTS = 60
_FIRST = 0.2  # the least quantile drawn

Curve = list[tuple[float, float]]
"""(quantile below 1, latency in ns), ascending."""


def latency_curves(context: Context) -> dict[tuple[str, str], Curve]:
    """(cell, arm) -> its curve: in each epoch the quantile, over epochs their geometric mean.

    A curve ends where fewer than 50 events of the shortest epoch lie beyond: further out it would be chance.
    """
    texts: dict[tuple[str, str], list[str]] = {}
    wanted = set(context.detail_cells)
    for epoch in context.valid_epochs:
        for message in context.run.histograms(epoch):
            if message["operation"] == "event" and message["cell"] in wanted and message["hdr"]:
                texts.setdefault((message["cell"], message["arm"]), []).append(message["hdr"])
    curves = {key: _curve(found) for key, found in texts.items()}
    for summary in context.analysis.arms:
        key = (summary.cell, summary.arm)
        if summary.cell in wanted and not curves.get(key):
            points = ((float(quantile), ns) for quantile, ns in summary.quantiles_ns.items())
            curves[key] = sorted((quantile, ns) for quantile, ns in points if 0 <= quantile < 1)
    return curves


def _curve(texts: list[str]) -> Curve:
    histograms = [decode_histogram(text) for text in texts]
    fewest = min(histogram.total for histogram in histograms)
    if fewest <= 2 * TAIL_MIN:
        return []
    nines = np.linspace(-math.log10(1 - _FIRST), math.log10(fewest / TAIL_MIN), _POINTS)
    quantiles: NDArray[np.float64] = 1 - 10.0**-nines
    logs = np.log(np.maximum([histogram.quantiles(quantiles) for histogram in histograms], 1))
    means = np.exp(logs.mean(axis=0))
    return list(zip(quantiles.tolist(), means.tolist(), strict=True))
