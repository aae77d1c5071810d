"""TPC-C's results (revision 5.11): tpmC, response times, mix, constraints, and a check against the server's counts.

Histograms have operations named as in `tpcc.lua`: `new_order` and the other types, `new_order.rollback`,
`new_order.retried`, `delivery.skipped`.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bakeoff.results.epoch_data import EpochData, Reading, quantiles_of
from bakeoff.results.frame import Frame
from bakeoff.stats import hosts
from bakeoff.stats.estimate import quotient, with_rates
from bakeoff.stats.interval import Moments, throughput_interval
from bakeoff.stats.model import Frozen

_QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
_NOISE_SD = 3.0  # a share is not judged when it misses its limit by fewer of its standard deviations


@dataclass(frozen=True)
class _Rule:
    """The standard's limits for one type: 90th percentile in seconds (5.2.5.3), least share of all (5.2.3)."""

    response_s: float
    mix_least: float | None


_RULES = {
    "new_order": _Rule(5.0, None),
    "payment": _Rule(5.0, 0.43),
    "order_status": _Rule(5.0, 0.04),
    "delivery": _Rule(5.0, 0.04),
    "stock_level": _Rule(20.0, 0.04),
}
TYPES = tuple(_RULES)


class Judgement(StrEnum):
    """Whether a constraint is met. TOO_FEW: missed by so little that chance may explain it."""

    OK = "OK"
    NOT_OK = "not OK"
    TOO_FEW = "too few"


class TypeSummary(Frozen):
    """One transaction type of one arm in one cell.

    Attributes:
        count: including rollbacks.
        quantiles_ns: "0.5" "0.9" "0.95" "0.99" "0.999" of the response time, from the choice of the transaction to the
            reply to COMMIT, retries included.
        retried: transactions that ran again after a deadlock or lock wait.
        response: 90th percentile within the standard's limit.
        mix: share at least the standard's; OK for New-Order, which has none.
    """

    name: str
    count: int
    share: float
    quantiles_ns: dict[str, int]
    retried: int
    response: Judgement
    mix: Judgement


class TpccSummary(Frozen):
    """One arm in one cell, over the valid epochs.

    Attributes:
        tpmc: New-Orders per minute, including rollbacks as in clause 5.4: mean of the epochs, with a 95 % t interval
            over epochs or hosts.
        tpm_total: transactions of all types per minute.
        rollback: the share of New-Orders that roll back is 0.9 % to 1.1 %.
        skipped: at most 1 % of Deliveries found a district without an undelivered order.
    """

    cell: str
    arm: str
    epochs: int
    tpmc: float
    tpmc_low: float
    tpmc_high: float
    tpm_total: float
    types: tuple[TypeSummary, ...]
    rollback_share: float
    rollback: Judgement
    skipped: Judgement


def _counts(histograms: Iterable[Mapping[str, Any]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for row in histograms:
        counts[row["operation"]] += int(row["count"])
    return counts


@dataclass
class _Measured:
    """One arm in one cell: values by epoch, and histograms by operation."""

    hosts: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)
    transactions: list[int] = field(default_factory=list)
    histograms: defaultdict[str, list[Mapping[str, Any]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, host: str, seconds: float, histograms: Sequence[Mapping[str, Any]]) -> None:
        counts = _counts(histograms)
        self.hosts.append(host)
        self.seconds.append(seconds)
        self.orders.append(counts["new_order"])
        self.transactions.append(sum(counts[name] for name in TYPES))
        for row in histograms:
            self.histograms[row["operation"]].append(row)

    def count(self, operation: str) -> int:
        return sum(int(row["count"]) for row in self.histograms[operation])

    def per_minute(self, counts: Sequence[int]) -> Moments:
        return hosts.moments([n / seconds * 60 for n, seconds in zip(counts, self.seconds, strict=True)], self.hosts)


def tpcc_summaries(epochs: Sequence[EpochData]) -> tuple[TpccSummary, ...]:
    """Summarize every (cell, arm) of the valid epochs that ran `new_order`, in the order first measured."""
    measured: defaultdict[tuple[str, str], _Measured] = defaultdict(_Measured)
    for epoch in epochs:
        if not epoch.valid:
            continue
        for (cell, arm), seconds in _seconds(epoch.slices).items():
            rows = [row for row in epoch.histograms if (row["cell"], row["arm"]) == (cell, arm)]
            if seconds > 0 and any(row["operation"] == "new_order" for row in rows):
                measured[cell, arm].add(epoch.host, seconds, rows)
    return tuple(_summary(cell, arm, found) for (cell, arm), found in measured.items())


def _seconds(slices: Frame) -> dict[tuple[str, str], float]:
    by = slices.by("cell", "arm")
    return by.by_key(by.sum(with_rates(slices)["seconds"]))


def _summary(cell: str, arm: str, measured: _Measured) -> TpccSummary:
    count = measured.count
    tpmc, tpmc_low, tpmc_high = throughput_interval(measured.per_minute(measured.orders))
    rollbacks = count("new_order.rollback")
    return TpccSummary(
        cell=cell,
        arm=arm,
        epochs=len(measured.seconds),
        tpmc=tpmc,
        tpmc_low=tpmc_low,
        tpmc_high=tpmc_high,
        tpm_total=measured.per_minute(measured.transactions).mean,
        types=tuple(_type_summary(name, measured) for name in TYPES),
        rollback_share=quotient(rollbacks, count("new_order")),
        rollback=_judge_share(rollbacks, count("new_order"), least=0.009, most=0.011, nominal=0.01),
        skipped=_judge_share(count("delivery.skipped"), count("delivery"), least=0.0, most=0.01, nominal=0.01),
    )


def _type_summary(name: str, measured: _Measured) -> TypeSummary:
    rule, histograms = _RULES[name], measured.histograms[name]
    count, total = measured.count(name), sum(measured.transactions)
    max_ns = max((int(row["max_ns"]) for row in histograms), default=0)
    found = quantiles_of(histograms, _QUANTILES)
    quantiles = {f"{q:g}": min(value, max_ns) for q, value in zip(_QUANTILES, found, strict=bool(found))}
    limit_ns = int(rule.response_s * 1e9)
    response = Judgement.TOO_FEW
    if quantiles:
        response = Judgement.OK if quantiles["0.9"] <= limit_ns else Judgement.NOT_OK
    mix = Judgement.OK
    if rule.mix_least is not None:
        mix = _judge_share(count, total, least=rule.mix_least, most=1.0, nominal=rule.mix_least)
    return TypeSummary(
        name=name,
        count=count,
        share=quotient(count, total),
        quantiles_ns=quantiles,
        retried=measured.count(f"{name}.retried"),
        response=response,
        mix=mix,
    )


def _judge_share(count: int, of: int, *, least: float, most: float, nominal: float) -> Judgement:
    """Judge a share. TOO_FEW if chance explains how far it lies outside, for a true value of `nominal`."""
    if of == 0:
        return Judgement.TOO_FEW
    share = count / of
    if least <= share <= most:
        return Judgement.OK
    missed_by = max(least - share, share - most)
    deviation = math.sqrt(nominal * (1 - nominal) / of)
    return Judgement.TOO_FEW if missed_by < _NOISE_SD * deviation else Judgement.NOT_OK


class CrossCheck(Frozen):
    """The engine's counts beside the growth of the server's own, which includes guards and ends of slices."""

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


def compare_counts(histograms: Iterable[Mapping[str, Any]], readings: Sequence[Reading]) -> CrossCheck:
    """Compare what one arm completed in one cell with its server's growth, over one reading per round."""
    counts = _counts(histograms)
    rollbacks = counts["new_order.rollback"]
    orders = counts["new_order"] - rollbacks
    commits = sum(counts[name] for name in TYPES) - rollbacks
    server_orders = sum(each.after.next_order_ids - each.before.next_order_ids for each in readings)
    server_commits = sum(each.after.commits - each.before.commits for each in readings)
    return CrossCheck(
        counted_new_orders=orders,
        server_new_orders=server_orders,
        counted_commits=commits,
        server_commits=server_commits,
        uncounted_share=1 - orders / server_orders if server_orders > 0 else 0.0,
        agrees=server_orders >= orders and server_commits >= commits,
    )


def cross_checks(epochs: Iterable[EpochData]) -> dict[tuple[str, str], list[CrossCheck]]:
    """Return the checks of all epochs by (cell, arm)."""
    found: dict[tuple[str, str], list[CrossCheck]] = {}
    for epoch in epochs:
        for arm, cells in epoch.server_counts.items():
            for cell, readings in cells.items():
                own = [each for each in epoch.histograms if (each["cell"], each["arm"]) == (cell, arm)]
                found.setdefault((cell, arm), []).append(compare_counts(own, readings))
    return found
