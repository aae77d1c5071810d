"""TPC-C's own results: tpmC, response times and mix by transaction, the standard's constraints.

From an epoch's slices (time) and histograms (counts and latencies by operation, as `tpcc.lua` names them: `new_order`,
and beside it `new_order.rollback`, `new_order.retried`, `delivery.skipped`). Definitions: TPC-C revision 5.11;
docs/tpcc.md tells where bakeoff differs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bakeoff.results.epoch_data import EpochData
from bakeoff.results.histogram import decode_histogram
from bakeoff.stats.estimate import with_rates
from bakeoff.stats.interval import standard_deviation, t_interval
from bakeoff.stats.model import Frozen

TPMC_PER_WAREHOUSE_MAX = 12.86
"""New-Orders a minute that a warehouse's ten terminals can enter at the standard's pace (clause 4.1.3)."""

_ALPHA = 0.05
_QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
_NOISE_SD = 3.0  # a share that misses its limit by less than this many of its standard deviations is not judged


@dataclass(frozen=True)
class _Rule:
    """What the standard asks of one type: 90th percentile at most [s] (5.2.5.3), least share of all (5.2.3)."""

    response_s: float
    mix_least: float | None


_RULES = {
    "new_order": _Rule(5.0, None),
    "payment": _Rule(5.0, 0.43),
    "order_status": _Rule(5.0, 0.04),
    "delivery": _Rule(5.0, 0.04),
    "stock_level": _Rule(20.0, 0.04),
}


class Judgement(StrEnum):
    """Whether a constraint is met. Too few: not met by count, but within what chance does to so small a count."""

    OK = "OK"
    NOT_OK = "not OK"
    TOO_FEW = "too few"


class TypeSummary(Frozen):
    """One transaction type of one arm in one cell.

    Attributes:
        name: `new_order`, `payment`, `order_status`, `delivery`, `stock_level`.
        count: completed and counted, rollbacks included.
        per_minute: of all threads together.
        share: of all transactions, 0 to 1.
        mean_ns, max_ns: response time, from the dealt card to the reply to COMMIT, retries included.
        quantiles_ns: "0.5" "0.9" "0.95" "0.99" "0.999", of all epochs together; no intervals.
        retried: transactions that a deadlock or lock wait made run more than once.
        response: 90th percentile within the standard's limit.
        mix: share at least the standard's; OK for New-Order, which has none.
    """

    name: str
    count: int
    per_minute: float
    share: float
    mean_ns: float
    max_ns: int
    quantiles_ns: dict[str, int]
    retried: int
    response_limit_ns: int
    response: Judgement
    mix_least: float | None
    mix: Judgement


class TpccSummary(Frozen):
    """One arm in one cell, over the valid epochs.

    Attributes:
        clock: `service` or `response`, as the histograms say.
        seconds: measured time in all, mean over the connections.
        tpmc: New-Orders a minute, rollbacks included as in clause 5.4: mean of the epochs, with a 95 % t interval over
            epochs (equal to the mean with one epoch).
        tpm_total: transactions of all types a minute, likewise a mean of epochs.
        rollbacks, rollback_share: New-Orders that ended in the standard's rollback, and their share.
        rollback: the share is 0.9 % to 1.1 %.
        skipped_deliveries: Deliveries that found a district without an undelivered order.
        skipped: their share is at most 1 %.
        efficiency: tpmC over 12.86 a warehouse, 0 to 1; None without keying and thinking times, where it means nothing.
        ok: every constraint is met (or too few to tell).
    """

    cell: str
    arm: str
    epochs: int
    clock: str
    seconds: float
    tpmc: float
    tpmc_low: float
    tpmc_high: float
    tpm_total: float
    types: tuple[TypeSummary, ...]
    rollbacks: int
    rollback_share: float
    rollback: Judgement
    skipped_deliveries: int
    skipped: Judgement
    efficiency: float | None

    @property
    def ok(self) -> bool:
        """No constraint is missed."""
        judged = [self.rollback, self.skipped]
        judged += [each for kind in self.types for each in (kind.response, kind.mix)]
        return Judgement.NOT_OK not in judged

    def of(self, name: str) -> TypeSummary:
        """The summary of one type."""
        return next(kind for kind in self.types if kind.name == name)


@dataclass
class _Latencies:
    """Merged histogram of one operation: counts by cell of the histogram."""

    count: int = 0
    sum_ns: float = 0.0
    max_ns: int = 0
    cells: dict[int, int] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        self.count += int(row["count"])
        self.sum_ns += float(row["mean_ns"]) * int(row["count"])
        self.max_ns = max(self.max_ns, int(row["max_ns"]))
        if row["count"]:
            histogram = decode_histogram(row["hdr"])
            for highest, count in zip(histogram.highest_ns.tolist(), histogram.counts.tolist(), strict=True):
                self.cells[highest] = self.cells.get(highest, 0) + count

    def quantiles(self) -> dict[str, int]:
        """Least value that a share of at least q lies at or below; empty without values."""
        if not self.cells:
            return {}
        values: NDArray[np.int64] = np.array(sorted(self.cells), dtype=np.int64)
        below = np.cumsum([self.cells[value] for value in values.tolist()])
        wanted = [max(1, math.ceil(q * below[-1] - 1e-9)) for q in _QUANTILES]
        places = np.searchsorted(below, wanted)
        return {
            f"{q:g}": min(int(values[place]), self.max_ns) for q, place in zip(_QUANTILES, places.tolist(), strict=True)
        }


def tpcc_summaries(epochs: Sequence[EpochData], *, warehouses: int, paced: bool = False) -> tuple[TpccSummary, ...]:
    """Summarise every (cell, arm) of the valid epochs in which a `new_order` was named, in the order first measured.

    Args:
        epochs: of one run; the discarded are left out.
        warehouses: in all table sets together.
        paced: keying or thinking times were on. Time is then the slices' length, since a worker's own window ends with
            its last transaction and leaves out what it thought after it; and efficiency is told.

    Raises:
        ResultsError: a histogram is damaged.
        ValueError: warehouses below 1.
    """
    if warehouses < 1:
        raise ValueError(f"warehouses must be at least 1, not {warehouses}")
    used = [epoch for epoch in epochs if epoch.valid and not epoch.slices.is_empty()]
    seconds: dict[tuple[str, str], list[float]] = {}
    per_epoch: dict[tuple[str, str], list[tuple[int, int]]] = {}
    latencies: dict[tuple[str, str], dict[str, _Latencies]] = {}
    clocks: dict[tuple[str, str], str] = {}
    for epoch in used:
        for key, value in _seconds(epoch.slices, paced=paced).items():
            counts = {row["operation"]: row for row in epoch.histograms if (row["cell"], row["arm"]) == key}
            if "new_order" not in counts or value <= 0:
                continue
            seconds.setdefault(key, []).append(value)
            total = sum(int(counts[name]["count"]) for name in _RULES if name in counts)
            per_epoch.setdefault(key, []).append((int(counts["new_order"]["count"]), total))
            clocks[key] = str(counts["new_order"]["clock"])
            merged = latencies.setdefault(key, {})
            for name, row in counts.items():
                merged.setdefault(name, _Latencies()).add(row)
    return tuple(
        _summary(key, seconds[key], per_epoch[key], latencies[key], clocks[key], warehouses if paced else None)
        for key in seconds
    )


def _seconds(slices: pl.DataFrame, *, paced: bool) -> dict[tuple[str, str], float]:
    timed = slices.with_columns(seconds=pl.col("length_ns") / 1e9) if paced else with_rates(slices)
    sums = timed.group_by("cell", "arm", maintain_order=True).agg(pl.col("seconds").sum())
    return {(cell, arm): float(value) for cell, arm, value in sums.iter_rows()}


def _summary(
    key: tuple[str, str],
    seconds: Sequence[float],
    per_epoch: Sequence[tuple[int, int]],
    latencies: Mapping[str, _Latencies],
    clock: str,
    warehouses: int | None,
) -> TpccSummary:
    tpmc = [orders / time * 60 for (orders, _), time in zip(per_epoch, seconds, strict=True)]
    total = [count / time * 60 for (_, count), time in zip(per_epoch, seconds, strict=True)]
    mean = math.fsum(tpmc) / len(tpmc)
    interval = t_interval(mean, standard_deviation(tpmc), len(tpmc), alpha=_ALPHA)
    time = math.fsum(seconds)
    everything = sum(count for _, count in per_epoch)

    def count(name: str) -> int:
        return latencies[name].count if name in latencies else 0

    types = tuple(
        _type_summary(name, latencies.get(name, _Latencies()), time, everything, count(f"{name}.retried"))
        for name in _RULES
    )
    orders, rollbacks, skipped = count("new_order"), count("new_order.rollback"), count("delivery.skipped")
    return TpccSummary(
        cell=key[0],
        arm=key[1],
        epochs=len(tpmc),
        clock=clock,
        seconds=time,
        tpmc=mean,
        tpmc_low=mean if interval.low is None else max(interval.low, 0.0),
        tpmc_high=mean if interval.high is None else interval.high,
        tpm_total=math.fsum(total) / len(total),
        types=types,
        rollbacks=rollbacks,
        rollback_share=_over(rollbacks, orders),
        rollback=_judge_share(rollbacks, orders, least=0.009, most=0.011, nominal=0.01),
        skipped_deliveries=skipped,
        skipped=_judge_share(skipped, count("delivery"), least=0.0, most=0.01, nominal=0.01),
        efficiency=None if warehouses is None else mean / (TPMC_PER_WAREHOUSE_MAX * warehouses),
    )


def _type_summary(name: str, latencies: _Latencies, seconds: float, everything: int, retried: int) -> TypeSummary:
    rule, quantiles = _RULES[name], latencies.quantiles()
    limit_ns = int(rule.response_s * 1e9)
    response = Judgement.TOO_FEW
    if quantiles:
        response = Judgement.OK if quantiles["0.9"] <= limit_ns else Judgement.NOT_OK
    mix = Judgement.OK
    if rule.mix_least is not None:
        mix = _judge_share(latencies.count, everything, least=rule.mix_least, most=1.0, nominal=rule.mix_least)
    return TypeSummary(
        name=name,
        count=latencies.count,
        per_minute=latencies.count / seconds * 60,
        share=_over(latencies.count, everything),
        mean_ns=_over(latencies.sum_ns, latencies.count),
        max_ns=latencies.max_ns,
        quantiles_ns=quantiles,
        retried=retried,
        response_limit_ns=limit_ns,
        response=response,
        mix_least=rule.mix_least,
        mix=mix,
    )


def _judge_share(count: int, of: int, *, least: float, most: float, nominal: float) -> Judgement:
    """Judge a share; one outside by less than chance explains, if its true value were `nominal`, is too few to tell."""
    if of == 0:
        return Judgement.TOO_FEW
    share = count / of
    if least <= share <= most:
        return Judgement.OK
    missed_by = max(least - share, share - most)
    deviation = math.sqrt(nominal * (1 - nominal) / of)
    return Judgement.TOO_FEW if missed_by < _NOISE_SD * deviation else Judgement.NOT_OK


def _over(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else 0.0


# TPC-C counted twice: the engine's transactions beside the server's own sums over the same stretch.
#
# The server is asked before and after each measured cell (`trial.recount`, kept as `data-check.json`). It also sees what is
# not counted: guards and shadows. So it may have more than the engine counted, and never less.

TYPES = ("new_order", "payment", "order_status", "delivery", "stock_level")


class ServerCounts(Frozen):
    """What the server itself has counted at one moment.

    Attributes:
        next_order_ids: sum of D_NEXT_O_ID over all districts: rises by one for each committed New-Order.
        commits: `Com_commit` of SHOW GLOBAL STATUS.
        rollbacks: `Com_rollback`.
    """

    next_order_ids: int
    commits: int
    rollbacks: int


class CrossCheck(Frozen):
    """The engine's counts beside the server's growth over the same stretch.

    Attributes:
        uncounted_share: of the server's committed New-Orders, those that the engine did not count; 0 to 1.
        agrees: the server has at least what the engine counted.
    """

    counted_new_orders: int
    server_new_orders: int
    counted_commits: int
    server_commits: int
    uncounted_share: float
    agrees: bool

    def __str__(self) -> str:
        return (
            f"the server has {self.server_new_orders:,} more orders and {self.server_commits:,} more commits, "
            f"{self.counted_new_orders:,} and {self.counted_commits:,} were counted"
        )


def compare_counts(
    histograms: Iterable[Mapping[str, Any]], readings: Sequence[tuple[ServerCounts, ServerCounts]]
) -> CrossCheck:
    """Compare what one arm completed in one cell with its server's growth.

    Args:
        histograms: the engine's `histogram` messages of that arm and cell.
        readings: before and after; several when the cell was measured in several rounds.
    """
    counts: dict[str, int] = {}
    for message in histograms:
        counts[message["operation"]] = counts.get(message["operation"], 0) + int(message["count"])
    rollbacks = counts.get("new_order.rollback", 0)
    orders = counts.get("new_order", 0) - rollbacks
    commits = sum(counts.get(name, 0) for name in TYPES) - rollbacks
    server_orders = sum(after.next_order_ids - before.next_order_ids for before, after in readings)
    server_commits = sum(after.commits - before.commits for before, after in readings)
    return CrossCheck(
        counted_new_orders=orders,
        server_new_orders=server_orders,
        counted_commits=commits,
        server_commits=server_commits,
        uncounted_share=1 - orders / server_orders if server_orders > 0 else 0.0,
        agrees=server_orders >= orders and server_commits >= commits,
    )


def cross_checks(epochs: Iterable[EpochData]) -> dict[tuple[str, str], list[CrossCheck]]:
    """Every check of every epoch by (cell, arm); without those of epochs whose servers were not asked."""
    found: dict[tuple[str, str], list[CrossCheck]] = {}
    for epoch in epochs:
        for arm, cells in epoch.server_counts.items():
            for cell, kept in cells.items():
                own = [each for each in epoch.histograms if (each["cell"], each["arm"]) == (cell, arm)]
                readings = [
                    (ServerCounts.model_validate(each["before"]), ServerCounts.model_validate(each["after"]))
                    for each in kept
                ]
                found.setdefault((cell, arm), []).append(compare_counts(own, readings))
    return found
