"""Reduce one epoch's slices to one log ratio for each comparison, D_e, and to what explains its spread.

D_e = ln(N_B / T_B) - ln(N_A / T_A). N sums the events of the epoch's counted slices, T the time that connections were
busy, averaged over connections (in an open loop, the whole slice).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bakeoff.plan.epochs import ROUND_BLOCKS
from bakeoff.results.epoch_data import EpochData
from bakeoff.results.frame import Column, Frame, quotients

_TRIM = 0.2  # share of half blocks left out on each side of the secondary estimate
_EVENTS_FLOOR = 0.5  # events assumed for a slice with none in the secondary estimate, so that its logarithm exists
_BATCHES = 8  # autocorrelated blocks are averaged in that many batches
_AUTOCORRELATION_MAX = 0.1
_KEYS = ["cell", "block", "arm"]


@dataclass(frozen=True)
class PairEstimate:
    """One contender against the baseline in one cell of one epoch; log ratios."""

    cell: str
    contender: str
    epoch: int
    build: int
    value: float  # D_e; not finite if an arm completed nothing in the whole epoch
    trimmed: float  # 20% trimmed mean over half blocks: the ratio without rare stalls and bursts
    blocks: int
    variance_of_mean: float | None  # the part of the variance of `value` from within the epoch; None below 3 blocks
    seconds: float  # measured wall seconds of the cell, all arms
    slice_s: float  # median length of a slice, drain included
    carry_over: dict[str, float]  # by arm, mean log throughput after a slice of the same arm minus after another
    trend: float | None  # D of the first half of the blocks minus D of the second; None below 4 blocks
    switched: float = 0.5  # share of the two arms' slices that follow another arm
    least_per_s: float = math.inf  # throughput of the slower arm
    host: str = ""  # empty on a single machine


@dataclass(frozen=True)
class EpochEstimates:
    epoch: int
    pairs: tuple[PairEstimate, ...]  # in the order in which cells were measured, then by contender


def epoch_estimates(epoch: EpochData, *, baseline: str) -> EpochEstimates:
    """Reduce one epoch to a pair for every cell and contender, which is compared with the baseline of its round."""
    order = {cell: i for i, cell in enumerate(dict.fromkeys(epoch.slices["cell"]))}
    needed = epoch.slices.select("cell", "arm", "block", "start_ns", "length_ns", "busy_ns", "connections", "events")
    by_round = needed.with_columns(round=needed["block"] // ROUND_BLOCKS).by("round").frames()
    pairs = [pair for slices in by_round.values() for pair in _round_pairs(replace(epoch, slices=slices), baseline)]
    pairs.sort(key=lambda pair: (order[pair.cell], pair.contender))
    return EpochEstimates(epoch=epoch.epoch, pairs=tuple(pairs))


def by_comparison(history: Sequence[EpochEstimates]) -> dict[tuple[str, str], list[PairEstimate]]:
    """Group the history by (cell, contender), each in the order of epochs."""
    found: dict[tuple[str, str], list[PairEstimate]] = {}
    for epoch in history:
        for pair in epoch.pairs:
            found.setdefault((pair.cell, pair.contender), []).append(pair)
    return found


def _round_pairs(epoch: EpochData, baseline: str) -> list[PairEstimate]:
    slices = with_rates(_whole_blocks(epoch.slices))
    rates = _rates(slices, "cell", "arm")
    halves = _rates(_with_half(slices), "cell", "arm", "half")
    contrasts = _contrasts(slices, baseline)
    carried, switched = _carry_over(slices)
    start_ns, length_ns, cells = slices["start_ns"], slices["length_ns"], slices.by("cell")
    wall_s = cells.by_key((cells.max(start_ns + length_ns) - cells.min(start_ns)) / 1e9)
    slice_s = cells.by_key(cells.median(length_ns) / 1e9)
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
                variance_of_mean=variance_of_mean(blocks),
                seconds=wall_s[cell],
                slice_s=slice_s[cell],
                carry_over={name: carried[cell, name] for name in (baseline, arm) if (cell, name) in carried},
                trend=_trend(halves, cell, arm, baseline),
                switched=(switched[cell, baseline] + switched[cell, arm]) / 2,
                least_per_s=min(rates[cell, arm], rates[cell, baseline]),
                host=epoch.host,
            )
        )
    return pairs


def with_rates(slices: Frame) -> Frame:
    """Add `seconds` (time of a slice, mean over its connections) and `log_rate` (with a floor of half an event).

    A slice that counted nothing has no busy time, because an event that began in the guard took all of it.
    """
    by = slices.by(*(name for name in ("cell", "arm", "epoch") if name in slices.columns))
    events, busy_ns = (np.nan_to_num(slices[name].astype(np.float64)) for name in ("events", "busy_ns"))
    busy_s, length_s = busy_ns / np.maximum(slices["connections"], 1) / 1e9, slices["length_ns"] / 1e9
    worked = by.sum(busy_ns)[by.ids] > 0
    return slices.with_columns(
        events=events,
        seconds=np.where(worked, busy_s, length_s),
        log_rate=np.log(np.maximum(events, _EVENTS_FLOOR) / np.where(busy_ns > 0, busy_s, length_s)),
    )


def quotient(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else 0.0


def log_ratio(contender: float, baseline: float) -> float:
    """Return ln(contender / baseline); ±inf if one is 0, NaN if both are or one is NaN."""
    if math.isnan(contender) or math.isnan(baseline) or (contender <= 0 and baseline <= 0):
        return math.nan
    if contender <= 0:
        return -math.inf
    return math.inf if baseline <= 0 else math.log(contender) - math.log(baseline)


def trimmed_mean(values: NDArray[np.float64]) -> float:
    if values.size == 0:
        return math.nan
    cut = int(_TRIM * values.size)
    return float(np.mean(np.sort(values)[cut : values.size - cut]))


def variance_of_mean(values: NDArray[np.float64]) -> float | None:
    """Estimate the variance of the mean of a series of block contrasts; None below 3.

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


def _whole_blocks(slices: Frame) -> Frame:
    """Leave out blocks that a crash or a `cancel` shortened."""
    turns = slices.by(*_KEYS)
    blocks = turns.keys.by("cell", "block")
    cells = blocks.keys.by("cell")
    arms, fewest, most = blocks.count, blocks.min(turns.count), blocks.max(turns.count)
    whole = (fewest == cells.max(most)[cells.ids]) & (arms == cells.max(arms)[cells.ids])
    return slices.rows(whole[blocks.ids][turns.ids])


def _rates(slices: Frame, *keys: str) -> dict[Any, float]:
    by = slices.by(*keys)
    return by.by_key(quotients(by.sum(slices["events"]), by.sum(slices["seconds"])))


def _with_half(slices: Frame) -> Frame:
    blocks = slices.by("cell", "block")
    cells = blocks.keys.by("cell")
    rank, count = cells.rank(blocks.keys["block"]), cells.count[cells.ids]
    chosen = (count >= 4) & ((rank < count // 2) | (rank >= count - count // 2))
    return slices.with_columns(half=(rank >= count // 2)[blocks.ids].astype(int)).rows(chosen[blocks.ids])


def _trend(halves: dict[tuple[Any, ...], float], cell: str, arm: str, baseline: str) -> float | None:
    keys = [(cell, name, half) for half in (0, 1) for name in (arm, baseline)]
    if not all(key in halves for key in keys):
        return None
    first, first_base, second, second_base = (halves[key] for key in keys)
    trend = log_ratio(first, first_base) - log_ratio(second, second_base)
    return trend if math.isfinite(trend) else None


def _contrasts(slices: Frame, baseline: str) -> dict[tuple[str, str], tuple[Column, Column]]:
    """Return log ratios by (cell, contender): of each block, and of each half of a block.

    A half is an arm's first slice in the block beside the baseline's first, or second beside second.
    """
    slices = slices.with_columns(half=slices.by(*_KEYS).rank(slices["start_ns"])).sort(*_KEYS)
    halves, of_baseline = slices.by("cell", "block", "half"), slices["arm"] == baseline
    base = np.full(halves.count.size, np.nan)
    base[halves.ids[of_baseline]] = slices["log_rate"][of_baseline]
    slices = slices.with_columns(contrast=slices["log_rate"] - base[halves.ids])
    slices = slices.rows(~of_baseline & ~np.isnan(slices["contrast"]))
    arms, blocks = slices.by("cell", "arm"), slices.by(*_KEYS)
    by_arm = blocks.keys.by("cell", "arm")
    means = by_arm.split(blocks.mean(slices["contrast"]))
    return arms.by_key(list(zip(means, arms.split(slices["contrast"]), strict=True)))


def _carry_over(slices: Frame) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Return the mean log rate after the same arm minus after another, without linear drift; and `switched`."""
    slices = slices.sort("cell", "start_ns")
    by, log_rate = slices.by("cell", "arm"), slices["log_rate"] - _level_of_same_work(slices)
    time_ns = slices["start_ns"] - by.mean(slices["start_ns"])[by.ids]
    slope = np.nan_to_num(quotients(by.sum(time_ns * log_rate), by.sum(time_ns**2)))
    level = log_rate - slope[by.ids] * time_ns
    follows, same = (np.append(False, slices[key][1:] == slices[key][:-1])[: len(slices)] for key in ("cell", "arm"))
    after = [by.mean(np.where(follows & kind, level, np.nan)) for kind in (same, ~same)]
    switched = by.by_key(quotients(by.sum(follows & ~same), by.sum(follows)))
    return {key: value for key, value in by.by_key(after[0] - after[1]).items() if math.isfinite(value)}, switched


def _level_of_same_work(slices: Frame) -> NDArray[np.float64]:
    """Return the mean log rate of the replay chunk that all arms run in the same turn; 0 unless it is a replay."""
    turn = slices.by("cell", "block", "arm").rank(slices["start_ns"])
    chunks = slices.with_columns(turn=turn).by("cell", "block", "turn")
    equal = (chunks.max(slices["events"]) == chunks.min(slices["events"]))[chunks.ids]
    cells = slices.by("cell")
    replays = cells.min(equal.astype(int))[cells.ids] == 1
    return np.where(replays, chunks.mean(slices["log_rate"])[chunks.ids], 0.0)


def epoch_rates(slices: Frame) -> dict[tuple[str, str], dict[int, float]]:
    """Return events/s by (cell, arm) and epoch, without epochs in which the arm completed nothing."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for (cell, arm, epoch), per_s in sorted(_rates(with_rates(slices), "cell", "arm", "epoch").items()):
        if per_s > 0:
            found.setdefault((cell, arm), {})[epoch] = per_s
    return found
