"""Summarise the arms of a run: throughput, cost of an event, errors, latency quantiles, stability. Not for verdicts."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import geometric_mean
from typing import Any

import polars as pl

from bakeoff.results.epoch_data import EpochData
from bakeoff.stats import interval as iv
from bakeoff.stats.estimate import quotient, with_rates
from bakeoff.stats.model import ArmSummary, Estimate, Flag, LatencyRatio

_SERVER = ("server_cpu_ns", "server_read_bytes", "server_write_bytes")
_CLIENT = (
    "reads", "writes", "other", "retries", "late_starts", "dropped", "received_bytes", "client_user_ns",
    "client_system_ns",
)  # fmt: skip
_HOST = ("host_user_ns", "host_system_ns", "host_iowait_ns", "host_steal_ns", "host_idle_ns")
_COUNTED = (*_CLIENT, *_HOST, "context_switches")

TAIL_MIN = 50
"""Observations beyond a quantile that every arm and epoch must have: N (1 - q) >= 50."""

STALL = 0.5
"""A slice below that share of its epoch's throughput counts as a stall."""

_FALSE_DISCOVERY = 0.05
_CLIENT_SHARE_OF_CPUS = 0.7
_CLIENT_SHARE_OF_EVENT = 0.4  # of the CPU time that client and server use for an event
_LATE_PER_MILLION = 10_000


def arm_summaries(epochs: Sequence[EpochData]) -> tuple[ArmSummary, ...]:
    """Summarise every (cell, arm) of the valid epochs, in the order in which they were first measured.

    Throughput is the mean of the epochs' values; costs are sums over sums. Columns that a slice table lacks count as 0,
    the server's as unknown.
    """
    used = [epoch for epoch in epochs if epoch.valid and not epoch.slices.is_empty()]
    if not used:
        return ()
    per_epoch = pl.concat([_sums(epoch) for epoch in used])
    errors: Counter[tuple[str, str]] = Counter()
    latencies: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for epoch in used:
        errors += _errors(epoch.slices)
        for row in epoch.histograms:
            if row.get("operation") == "event":
                latencies.setdefault((row["cell"], row["arm"]), []).append(row)
    return tuple(
        _summary(str(cell), str(arm), group, errors[str(cell), str(arm)], latencies.get((str(cell), str(arm)), []))
        for (cell, arm), group in per_epoch.group_by("cell", "arm", maintain_order=True)
    )


def _sums(epoch: EpochData) -> pl.DataFrame:
    defaults = dict.fromkeys(_COUNTED, pl.lit(0)) | dict.fromkeys(_SERVER, pl.lit(None, dtype=pl.Int64))
    slices = with_rates(epoch.slices)
    slices = slices.with_columns(**{name: value for name, value in defaults.items() if name not in slices.columns})
    # A sum of nulls is 0 in polars; a server elsewhere must stay unknown.
    server = [pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name) for name in _SERVER]
    sums = slices.group_by("cell", "arm", maintain_order=True).agg(
        pl.col("events", "seconds", *_COUNTED).sum(), *server
    )
    return sums.with_columns(pl.col(*_COUNTED, *_SERVER).cast(pl.Float64))


def _errors(slices: pl.DataFrame) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    if "errors" not in slices.columns:
        return found
    texts = slices.filter(pl.col("errors").is_not_null() & (pl.col("errors") != "{}"))
    for cell, arm, text, times in texts.group_by("cell", "arm", "errors").len().iter_rows():
        found[cell, arm] += times * sum(json.loads(text).values())
    return found


def _summary(
    cell: str, arm: str, group: pl.DataFrame, errors: int, latencies: Sequence[Mapping[str, Any]]
) -> ArmSummary:
    per_epoch = [quotient(events, seconds) for events, seconds in group.select("events", "seconds").iter_rows()]
    tps, tps_low, tps_high = iv.throughput_interval(per_epoch)
    total = group.select(pl.col("events", "seconds", *_COUNTED).sum()).row(0, named=True)
    events, seconds = total["events"], total["seconds"]
    client_ns = total["client_user_ns"] + total["client_system_ns"]
    host_ns = math.fsum(total[name] for name in _HOST)

    def of_server(name: str) -> float | None:
        known = group.filter(pl.col(name).is_not_null())
        return None if known.is_empty() else quotient(float(known[name].sum()), float(known["events"].sum()))

    return ArmSummary(
        cell=cell,
        arm=arm,
        epochs=len(per_epoch),
        tps=tps,
        tps_low=tps_low,
        tps_high=tps_high,
        qps=quotient(total["reads"] + total["writes"] + total["other"], seconds),
        quantiles_ns=_quantiles(latencies),
        clock=str(latencies[0]["clock"]) if latencies else "service",
        server_cpu_ns_per_event=of_server("server_cpu_ns"),
        client_cpu_ns_per_event=quotient(client_ns, events),
        context_switches_per_event=quotient(total["context_switches"], events),
        server_read_bytes_per_event=of_server("server_read_bytes"),
        server_write_bytes_per_event=of_server("server_write_bytes"),
        received_bytes_per_event=quotient(total["received_bytes"], events),
        errors_per_million=quotient(errors * 1e6, events),
        retries_per_million=quotient(total["retries"] * 1e6, events),
        late_starts_per_million=quotient(total["late_starts"] * 1e6, events),
        dropped_per_million=quotient(total["dropped"] * 1e6, events + total["dropped"]),
        client_cpu_share=quotient(client_ns, host_ns),
        steal_share=quotient(total["host_steal_ns"], host_ns),
    )


def _quantiles(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Geometric mean over epochs of each quantile that all of them have."""
    quantiles = [row["quantiles_ns"] for row in rows]
    names = [name for name in quantiles[0] if all(each.get(name, 0) > 0 for each in quantiles)] if quantiles else []
    return {name: geometric_mean(each[name] for each in quantiles) for name in names}


def dropped_flag(arms: Sequence[ArmSummary]) -> Flag | None:
    """A flag when events of an open loop were never begun; names the arm with most of them."""
    worst = max(arms, key=lambda arm: arm.dropped_per_million, default=None)
    if worst is None or worst.dropped_per_million == 0:
        return None
    text = (
        f"arm {worst.arm} never began {worst.dropped_per_million:,.0f} of a million events that were due; it fell "
        "behind the rate, and its response times are without them."
    )
    return Flag(kind="DROPPED", text=text)


def client_flag(arms: Sequence[ArmSummary]) -> Flag | None:
    """A flag when the client itself limited the throughput, so that the ratio of the servers is not the one measured.

    It did when it used two fifths of the CPU time that an event took on client and server, or kept 70 % of the CPUs
    busy; in an open loop also when it began more than a hundredth of the events late. `arms`: those compared in a cell.
    """
    for arm in arms:
        if arm.late_starts_per_million > _LATE_PER_MILLION:
            text = (
                f"client overloaded, {arm.late_starts_per_million / 1e6:.1%} of the events of arm {arm.arm} "
                "began late although a connection was free; its response times hold delays of the client."
            )
            return Flag(kind="CLIENT", text=text)
        client_ns, server_ns = arm.client_cpu_ns_per_event, arm.server_cpu_ns_per_event
        if server_ns is not None and client_ns > _CLIENT_SHARE_OF_EVENT * (client_ns + server_ns) > 0:
            text = (
                f"client-bound, of the CPU that an event of arm {arm.arm} took the client had "
                f"{client_ns / (client_ns + server_ns):.0%}; the servers themselves are further apart than this ratio."
            )
            return Flag(kind="CLIENT", text=text)
        if arm.client_cpu_share > _CLIENT_SHARE_OF_CPUS:
            share = min(arm.client_cpu_share, 1.0)
            text = f"client-bound, the client kept {share:.0%} of the CPUs busy; give it more of them."
            return Flag(kind="CLIENT", text=text)
    return None


_Round = tuple[int, int]  # epoch and round: arms of one round ran together


def latency_ratios(
    epochs: Sequence[EpochData], *, baseline: str, interval_of: iv.IntervalOf, cells: Sequence[str]
) -> tuple[LatencyRatio, ...]:
    """Compare every latency quantile of every operation that the baseline and a contender both have.

    L_e(q) = ln Q_B,e(q) - ln Q_A,e(q), from the histograms of whole epochs; mean and interval are over epochs. Requests
    are never pooled over epochs or resampled: within one start of a server they are not independent.

    Args:
        epochs: the valid ones. A histogram's `round` (0 when it has none) says with which baseline it ran.
        baseline: the arm that ratios are over.
        interval_of: makes an interval of the epochs' values.
        cells: order of the output.
    """
    rows: dict[tuple[str, str, str], dict[str, dict[_Round, Mapping[str, Any]]]] = {}
    for epoch in epochs:
        for row in epoch.histograms:
            key = (row["cell"], row["operation"], row["clock"])
            rows.setdefault(key, {}).setdefault(row["arm"], {})[epoch.epoch, row.get("round", 0)] = row
    found: list[tuple[LatencyRatio, float | None]] = []
    order = {cell: i for i, cell in enumerate(cells)}
    for (cell, operation, clock), arms in sorted(rows.items(), key=lambda item: (order.get(item[0][0], 0), item[0])):
        base = arms.get(baseline, {})
        for contender in sorted(arms.keys() - {baseline}):
            pairs = [(base[at], row) for at, row in sorted(arms[contender].items()) if at in base]
            for quantile in sorted(pairs[0][0]["quantiles_ns"], key=float) if pairs else ():
                estimate, p, note = _ratio(pairs, quantile, clock, interval_of)
                ratio = LatencyRatio(
                    cell=cell,
                    contender=contender,
                    operation=operation,
                    clock=clock,
                    quantile=float(quantile),
                    estimate=estimate,
                    note=note,
                )
                found.append((ratio, p))
    return _with_discoveries(found)


def _ratio(
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], quantile: str, clock: str, interval_of: iv.IntervalOf
) -> tuple[Estimate | None, float | None, str]:
    fewest = min(min(base["count"], row["count"]) for base, row in pairs)
    needed = math.ceil(TAIL_MIN / (1 - float(quantile)) - 1e-6) if float(quantile) < 1 else math.inf
    if fewest < needed:
        return None, None, f"n/a: {fewest} events in an epoch, {needed} are needed beyond this quantile"
    values = []
    for base, row in pairs:
        theirs, ours = row["quantiles_ns"].get(quantile) or 0, base["quantiles_ns"].get(quantile) or 0
        if theirs <= 0 or ours <= 0:
            return None, None, "n/a: the quantile is missing in an epoch"
        values.append(math.log(theirs / ours))
    estimate = iv.estimate_of(values, interval_of)
    note = "exploratory" if clock == "response" else "service time at saturation, exploratory"
    return estimate, iv.p_value(estimate.mean, iv.standard_deviation(values), estimate.n), note


def _with_discoveries(found: Sequence[tuple[LatencyRatio, float | None]]) -> tuple[LatencyRatio, ...]:
    """Mark those that differ at a false discovery rate of 5 % over all of them (Benjamini and Hochberg)."""
    adjusted = iter(iv.benjamini_hochberg([p for _, p in found if p is not None]))
    ratios = []
    for ratio, p in found:
        if p is not None and next(adjusted) <= _FALSE_DISCOVERY and ratio.clock == "response":
            ratio = ratio.model_copy(update={"note": f"{ratio.note}; differs (false discovery rate 5%)"})
        ratios.append(ratio)
    return tuple(ratios)


def stability(slices: pl.LazyFrame) -> pl.DataFrame:
    """How steady throughput was from slice to slice and from epoch to epoch, in the slices of the valid epochs.

    Returns:
        Columns cell, arm, of which there is a row each; slice_cv (standard deviation of a slice's throughput over its
        epoch's mean, over epochs the root of the mean square); slowest (the slowest slice over its epoch's mean);
        stalled (share of slices below half of it); slices (how many); epoch_cv (standard deviation of the epochs'
        throughput over their mean; null with one); longest_ns (the longest event).
    """
    key = ["cell", "arm", "epoch"]
    epoch_tps = pl.col("events").sum() / pl.col("seconds").sum()
    return (
        slices.filter(pl.col("busy_ns") > 0)
        .with_columns(seconds=pl.col("busy_ns") / pl.col("connections") / 1e9)
        .with_columns(share=pl.col("events") / pl.col("seconds") / epoch_tps.over(key))
        .group_by(key)
        .agg(
            pl.col("share").std().alias("sd"),
            pl.col("share").min().alias("slowest"),
            (pl.col("share") < STALL).sum().alias("stalls"),
            pl.len().alias("slices"),
            epoch_tps.alias("rate"),
            pl.col("latency_max_ns").max(),
        )
        .group_by("cell", "arm")
        .agg(
            (pl.col("sd") ** 2).mean().sqrt().alias("slice_cv"),
            pl.col("slowest").min(),
            (pl.col("stalls").sum() / pl.col("slices").sum()).alias("stalled"),
            pl.col("slices").sum(),
            (pl.col("rate").std() / pl.col("rate").mean()).alias("epoch_cv"),
            pl.col("latency_max_ns").max().alias("longest_ns"),
        )
        .sort("cell", "arm")
        .collect(engine="streaming")
    )
