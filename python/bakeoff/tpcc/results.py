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

from bakeoff.results.epoch_data import EpochData, quantiles_of
from bakeoff.results.frame import Frame
from bakeoff.stats import hosts
from bakeoff.stats.estimate import quotient, with_rates
from bakeoff.stats.interval import Moments, throughput_interval
from bakeoff.stats.model import Frozen

_QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
_NOISE_SD = 3.0  # a share that misses its limit by fewer standard deviations is not judged


# The standard's limits: 90th percentile in seconds (5.2.5.3), least share of all transactions (5.2.3).
_RULES = {
    "new_order": (5.0, 0.0),
    "payment": (5.0, 0.43),
    "order_status": (5.0, 0.04),
    "delivery": (5.0, 0.04),
    "stock_level": (20.0, 0.04),
}
TYPES = tuple(_RULES)


class Judgement(StrEnum):
    """Whether a constraint is met. TOO_FEW: missed by so little that chance may explain it."""

    OK = "OK"
    NOT_OK = "not OK"
    TOO_FEW = "too few"


class TypeSummary(Frozen):
    """One transaction type of one arm in one cell.

    Counts include rollbacks. Response times last from the choice of the transaction to the reply to COMMIT, retries
    included.
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

    `tpmc` is New-Orders per minute, including rollbacks as in clause 5.4: the epochs' mean with a 95 % t interval over
    epochs or hosts.
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


def tpcc_summaries(epochs: Iterable[EpochData]) -> tuple[TpccSummary, ...]:
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
    (response_s, mix_least), histograms = _RULES[name], measured.histograms[name]
    count, total = measured.count(name), sum(measured.transactions)
    max_ns = max((int(row["max_ns"]) for row in histograms), default=0)
    found = quantiles_of(histograms, _QUANTILES)
    quantiles = {f"{q:g}": min(value, max_ns) for q, value in zip(_QUANTILES, found, strict=bool(found))}
    response = Judgement.TOO_FEW
    if quantiles:
        response = Judgement.OK if quantiles["0.9"] <= int(response_s * 1e9) else Judgement.NOT_OK
    return TypeSummary(
        name=name,
        count=count,
        share=quotient(count, total),
        quantiles_ns=quantiles,
        retried=measured.count(f"{name}.retried"),
        response=response,
        mix=_judge_share(count, total, least=mix_least, most=1.0, nominal=mix_least) if mix_least else Judgement.OK,
    )


def _judge_share(count: int, of: int, *, least: float, most: float, nominal: float) -> Judgement:
    """Judge a share. TOO_FEW if chance could put it that far outside when its true value is `nominal`."""
    if of == 0:
        return Judgement.TOO_FEW
    share = count / of
    if least <= share <= most:
        return Judgement.OK
    missed_by = max(least - share, share - most)
    deviation = math.sqrt(nominal * (1 - nominal) / of)
    return Judgement.TOO_FEW if missed_by < _NOISE_SD * deviation else Judgement.NOT_OK


class ServerCounts(Frozen):
    """Transactions as a server counts them; `next_order_ids` is the sum of D_NEXT_O_ID over all districts."""

    next_order_ids: int
    commits: int
    rollbacks: int


def missing_on_server(histograms: Iterable[Mapping[str, Any]], before: ServerCounts, after: ServerCounts) -> str:
    """Say that the server counted less than the engine; empty if not. Guards and ends of slices add to its count."""
    counts = _counts(histograms)
    rollbacks = counts["new_order.rollback"]
    orders = counts["new_order"] - rollbacks
    commits = sum(counts[name] for name in TYPES) - rollbacks
    server_orders, server_commits = after.next_order_ids - before.next_order_ids, after.commits - before.commits
    if server_orders >= orders and server_commits >= commits:
        return ""
    return (
        f"the server has {server_orders:,} more orders and {server_commits:,} more commits, "
        f"{orders:,} and {commits:,} were counted"
    )
