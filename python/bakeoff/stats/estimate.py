"""Reduce one epoch's slices to one log ratio for each comparison, D_e, and to what explains its spread.

D_e = ln(N_B / T_B) - ln(N_A / T_A) with sums over the epoch's counted slices: events N, and time T in seconds, the mean
over connections of the time they were busy (in an open loop the whole slice: `with_open_loop_time`). The observations
of a study are the D_e of its epochs, never slices (docs/method-reference.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bakeoff.plan.model import ROUND_BLOCKS
from bakeoff.results.epoch_data import EpochData

_TRIM = 0.2  # share of half blocks left out on each side of the secondary estimate
_EVENTS_FLOOR = 0.5  # events a slice with none is given in the secondary estimate, so that its logarithm exists
_BATCHES = 8  # autocorrelated blocks are averaged in that many batches
_AUTOCORRELATION_MAX = 0.1
_KEYS = ["cell", "block", "arm"]


@dataclass(frozen=True)
class PairEstimate:
    """One contender against the baseline in one cell of one epoch; log ratios.

    Attributes:
        value: D_e. Not finite when an arm completed nothing in the whole epoch.
        trimmed: 20 % trimmed mean of the half blocks' log ratios: the ratio without rare stalls and bursts.
        blocks: whole blocks it rests on; `cut` are left out because a `cancel` or a crash cut them short.
        variance_of_mean: how much of the variance of `value` comes from within the epoch; None below 3 blocks.
        seconds: measured wall seconds of the cell, all arms.
        slice_s: median length of a slice, its drain included; the median, so that one stalled slice does not change it.
        carry_over: arm -> mean log throughput of a slice after one of the same arm, minus after another arm.
        trend: D of the first half of the blocks minus D of the second; None below 4 blocks.
        least_per_s: throughput of the slower arm.
    """

    cell: str
    contender: str
    epoch: int
    build: int
    value: float
    trimmed: float
    blocks: int
    cut: int
    variance_of_mean: float | None
    seconds: float
    slice_s: float
    carry_over: dict[str, float]
    trend: float | None
    least_per_s: float = math.inf


@dataclass(frozen=True)
class EpochEstimates:
    """A whole epoch: `pairs` in the order of cells as they were measured, then of contenders by name."""

    epoch: int
    build: int
    pairs: tuple[PairEstimate, ...]


def epoch_estimates(epoch: EpochData, *, baseline: str) -> EpochEstimates:
    """Reduce one epoch.

    Args:
        epoch: its slices need `cell`, `arm`, `block`, `start_ns`, `length_ns`, `busy_ns`, `connections`, `events`.
        baseline: name of the arm that the ratios are over.

    Returns:
        A pair for every cell and contender that were measured together with the baseline; none of an empty epoch. When
        the arms took several rounds, each with the baseline, a contender is compared with that of its own round.
    """
    order = {cell: i for i, cell in enumerate(epoch.slices["cell"].unique(maintain_order=True))}
    numbered = epoch.slices.with_columns(round=pl.col("block") // ROUND_BLOCKS)
    by_round = numbered.partition_by("round", include_key=False, maintain_order=True)
    pairs = [pair for slices in by_round for pair in _round_pairs(replace(epoch, slices=slices), baseline)]
    pairs.sort(key=lambda pair: (order[pair.cell], pair.contender))
    return EpochEstimates(epoch=epoch.epoch, build=epoch.build, pairs=tuple(pairs))


def by_comparison(history: Sequence[EpochEstimates]) -> dict[tuple[str, str], list[PairEstimate]]:
    """The history by (cell, contender), each in the order of epochs."""
    found: dict[tuple[str, str], list[PairEstimate]] = {}
    for epoch in history:
        for pair in epoch.pairs:
            found.setdefault((pair.cell, pair.contender), []).append(pair)
    return found


def _round_pairs(epoch: EpochData, baseline: str) -> list[PairEstimate]:
    """The pairs of arms that ran together."""
    whole, cut = _whole_blocks(epoch.slices)
    slices = with_rates(whole)
    rates = _rates(slices, ["cell", "arm"])
    halves = _rates(_with_half(slices), ["cell", "arm", "half"])
    contrasts = _contrasts(slices, baseline)
    carried = _carry_over(slices)
    start, length = pl.col("start_ns"), pl.col("length_ns")
    times = slices.group_by("cell").agg(((start + length).max() - start.min()) / 1e9, length.median() / 1e9)
    seconds = {cell: (wall_s, slice_s) for cell, wall_s, slice_s in times.iter_rows()}
    pairs = []
    for cell, arm in rates:
        if arm == baseline or (cell, baseline) not in rates:
            continue
        blocks, halves_of_blocks = contrasts.get((cell, arm), (np.empty(0), np.empty(0)))
        pairs.append(
            PairEstimate(
                cell=cell,
                contender=arm,
                epoch=epoch.epoch,
                build=epoch.build,
                value=log_ratio(rates[cell, arm], rates[cell, baseline]),
                trimmed=trimmed_mean(halves_of_blocks),
                blocks=blocks.size,
                cut=cut.get(cell, 0),
                variance_of_mean=variance_of_mean(blocks),
                seconds=seconds[cell][0],
                slice_s=seconds[cell][1],
                carry_over={name: carried[cell, name] for name in (baseline, arm) if (cell, name) in carried},
                trend=_trend(halves, cell, arm, baseline),
                least_per_s=min(rates[cell, arm], rates[cell, baseline]),
            )
        )
    return pairs


def with_rates(slices: pl.DataFrame) -> pl.DataFrame:
    """Add `seconds` (time of a slice, mean over its connections) and `log_rate` (with the floor of half an event).

    A slice in which nothing was counted has no busy time: its time went to an event that had begun in the guard, and
    such events count in no slice. Counting that time would exaggerate differences of events nearly as long as slices,
    since the slower arm has more such slices. An arm without any busy time did nothing: all of its slices count.
    """
    group = [name for name in ("cell", "arm", "epoch") if name in slices.columns]
    events = pl.col("events").fill_null(0).cast(pl.Float64)
    busy = pl.col("busy_ns").fill_null(0).cast(pl.Float64)
    connections = pl.col("connections").fill_null(1).clip(lower_bound=1).cast(pl.Float64)
    length_s = pl.col("length_ns").fill_null(0).cast(pl.Float64) / 1e9
    busy_s = busy / connections / 1e9
    worked = (busy.sum().over(group) if group else busy.sum()) > 0
    above_zero_s = pl.when(busy > 0).then(busy_s).otherwise(length_s)
    return slices.with_columns(
        events=events,
        seconds=pl.when(worked).then(busy_s).otherwise(length_s),
        log_rate=(events.clip(lower_bound=_EVENTS_FLOOR) / above_zero_s).log(),
    )


def quotient(numerator: float, denominator: float) -> float:
    """The ratio of two sums; 0 when nothing was counted in the denominator."""
    return numerator / denominator if denominator > 0 else 0.0


def log_ratio(contender: float, baseline: float) -> float:
    """ln(contender / baseline); +/-inf when one side is 0, nan when both are or one is missing."""
    if math.isnan(contender) or math.isnan(baseline) or (contender <= 0 and baseline <= 0):
        return math.nan
    if contender <= 0:
        return -math.inf
    return math.inf if baseline <= 0 else math.log(contender) - math.log(baseline)


def trimmed_mean(values: NDArray[np.float64]) -> float:
    """Mean without the lowest and the highest fifth (rounded down); nan of nothing."""
    if values.size == 0:
        return math.nan
    cut = int(_TRIM * values.size)
    return float(np.mean(np.sort(values)[cut : values.size - cut]))


def variance_of_mean(values: NDArray[np.float64]) -> float | None:
    """Variance of the mean of a series of block contrasts; None below 3.

    Autocorrelated blocks (lag 1, above 0.1) are first averaged in 8 batches.
    """
    values = values[np.isfinite(values)]
    if values.size < 3:
        return None
    if values.size >= 2 * _BATCHES and _lag_one(values) > _AUTOCORRELATION_MAX:
        values = np.array([batch.mean() for batch in np.array_split(values, _BATCHES)])
    return float(np.var(values, ddof=1) / values.size)


def _lag_one(values: NDArray[np.float64]) -> float:
    centred = values - values.mean()
    total = float(centred @ centred)
    return float(centred[1:] @ centred[:-1]) / total if total > 0 else 0.0


def _whole_blocks(slices: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """Blocks in which every arm of the cell had all its slices; how many others were left out, by cell."""
    counts = slices.group_by(_KEYS).len()
    blocks = (
        counts.group_by("cell", "block")
        .agg(arms=pl.len(), fewest=pl.col("len").min(), most=pl.col("len").max())
        .with_columns(full=pl.col("most").max().over("cell"), together=pl.col("arms").max().over("cell"))
        .with_columns(whole=(pl.col("fewest") == pl.col("full")) & (pl.col("arms") == pl.col("together")))
    )
    cut = blocks.group_by("cell").agg((~pl.col("whole")).sum().alias("cut"))
    kept = slices.join(blocks.filter("whole").select("cell", "block"), on=["cell", "block"], how="semi")
    return kept, dict(cut.iter_rows())


def _rates(slices: pl.DataFrame, keys: list[str]) -> dict[tuple[Any, ...], float]:
    sums = slices.group_by(keys).agg(pl.col("events").sum(), pl.col("seconds").sum())
    return {tuple(row[:-2]): row[-2] / row[-1] if row[-1] > 0 else math.nan for row in sums.iter_rows()}


def _with_half(slices: pl.DataFrame) -> pl.DataFrame:
    """First and second half of each cell's blocks, a middle one left out."""
    rank = pl.col("block").rank("dense").over("cell").cast(pl.Int64) - 1
    count = pl.col("block").n_unique().over("cell").cast(pl.Int64)
    half = pl.when(rank < count // 2).then(0).when(rank >= count - count // 2).then(1)
    return slices.with_columns(half=half).filter(pl.col("half").is_not_null() & (count >= 4))


def _trend(halves: dict[tuple[Any, ...], float], cell: str, arm: str, baseline: str) -> float | None:
    keys = [(cell, name, half) for half in (0, 1) for name in (arm, baseline)]
    if not all(key in halves for key in keys):
        return None
    first, first_base, second, second_base = (halves[key] for key in keys)
    trend = log_ratio(first, first_base) - log_ratio(second, second_base)
    return trend if math.isfinite(trend) else None


def _contrasts(
    slices: pl.DataFrame, baseline: str
) -> dict[tuple[str, str], tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Log ratios by (cell, contender): of each block, in order, and of each half of a block.

    A half is an arm's first slice in the block beside the baseline's first, or second beside second. Stalls that reach
    a tenth of an arm's slices reach a tenth of the halves, but a fifth of the blocks: as many as the trimming takes.
    """
    numbered = slices.with_columns(half=pl.col("start_ns").rank("ordinal").over(_KEYS))
    base = numbered.filter(pl.col("arm") == baseline).select("cell", "block", "half", base="log_rate")
    grouped = (
        numbered.filter(pl.col("arm") != baseline)
        .join(base, on=["cell", "block", "half"])
        .group_by("cell", "arm", "block")
        .agg(contrast=pl.col("log_rate") - pl.col("base"))
        .sort("cell", "arm", "block")
        .group_by("cell", "arm", maintain_order=True)
        .agg(blocks=pl.col("contrast").list.mean(), halves=pl.col("contrast").list.explode())
    )
    return {(cell, arm): (np.asarray(blocks), np.asarray(halves)) for cell, arm, blocks, halves in grouped.iter_rows()}


def _carry_over(slices: pl.DataFrame) -> dict[tuple[str, str], float]:
    """By (cell, arm): mean log rate after a slice of the same arm minus after another's, a linear drift removed."""
    key, time = ["cell", "arm"], pl.col("start_ns").cast(pl.Float64)
    spread = time.var().over(key)
    slope = pl.when(spread > 0).then(pl.cov(time, "log_rate").over(key) / spread).otherwise(0.0)
    level = pl.col("log_rate") - slope * (time - time.mean().over(key))
    same, other = pl.col("level").filter(pl.col("same")).mean(), pl.col("level").filter(~pl.col("same")).mean()
    means = (
        slices.sort("cell", "start_ns")
        .with_columns(same=pl.col("arm") == pl.col("arm").shift(1).over("cell"), level=level)
        .group_by(key)
        .agg(carry_over=same - other)
        .drop_nulls()
    )
    return {(cell, arm): value for cell, arm, value in means.iter_rows() if math.isfinite(value)}


def epoch_rates(slices: pl.LazyFrame | pl.DataFrame) -> pl.DataFrame:
    """Events per second of every arm in every cell and epoch: columns cell, arm, epoch, tps; sorted by these.

    Arms that completed nothing in an epoch are left out. `slices` are of the valid epochs, as in `slices.parquet`.
    """
    needed = ["cell", "arm", "epoch", "events", "busy_ns", "connections", "length_ns"]
    rated = with_rates(slices.lazy().select(needed).collect(engine="streaming"))
    return (
        rated.group_by("cell", "arm", "epoch")
        .agg((pl.col("events").sum() / pl.col("seconds").sum()).alias("tps"))
        .filter(pl.col("tps").is_finite() & (pl.col("tps") > 0))
        .sort("cell", "arm", "epoch")
    )
