"""One arm in one cell, over the valid epochs: throughput, cost of an event, errors. Verdicts use ratios."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from bakeoff.results.epoch import EpochData
from bakeoff.stats.estimate import with_rates
from bakeoff.stats.interval import standard_deviation, t_interval
from bakeoff.stats.model import ArmSummary

_SERVER = ("server_cpu_ns", "server_read_bytes", "server_write_bytes")
_CLIENT = (
    "reads", "writes", "other", "retries", "late_starts", "dropped", "received_bytes", "client_user_ns",
    "client_system_ns",
)  # fmt: skip
_HOST = ("host_user_ns", "host_system_ns", "host_iowait_ns", "host_steal_ns", "host_idle_ns")
_COUNTED = (*_CLIENT, *_HOST, "context_switches")
_ALPHA = 0.05


def arm_summaries(epochs: Sequence[EpochData]) -> tuple[ArmSummary, ...]:
    """Summarise every (cell, arm) of the valid epochs, in the order in which they were first measured.

    Throughput is the mean of the epochs' values with a t interval (equal to the mean with one epoch); costs are sums
    over sums. Columns that a slice table lacks count as 0, the server's as unknown.
    """
    used = [epoch for epoch in epochs if epoch.valid and not epoch.slices.is_empty()]
    if not used:
        return ()
    per_epoch = pl.concat([_sums(epoch) for epoch in used])
    errors: dict[tuple[str, str], int] = {}
    latencies: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for epoch in used:
        for key, count in _errors(epoch.slices).items():
            errors[key] = errors.get(key, 0) + count
        for row in epoch.histograms:
            if row.get("operation") == "event":
                latencies.setdefault((row["cell"], row["arm"]), []).append(row)
    summaries = []
    for (cell, arm), group in per_epoch.group_by("cell", "arm", maintain_order=True):
        key = (str(cell), str(arm))
        summaries.append(_summary(*key, group, errors.get(key, 0), latencies.get(key, [])))
    return tuple(summaries)


def _sums(epoch: EpochData) -> pl.DataFrame:
    slices = with_rates(epoch.slices)
    have = set(slices.columns)
    columns = [
        *(pl.col(name).sum() if name in have else pl.lit(0).alias(name) for name in _COUNTED),
        *(
            # A sum of nulls is 0 in polars; a server elsewhere must stay unknown.
            pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name)
            if name in have
            else pl.lit(None, dtype=pl.Int64).alias(name)
            for name in _SERVER
        ),
    ]
    sums = slices.group_by("cell", "arm", maintain_order=True).agg(
        pl.col("events").sum(), pl.col("seconds").sum(), *columns
    )
    return sums.with_columns(pl.col(*_COUNTED, *_SERVER).cast(pl.Float64))


def _errors(slices: pl.DataFrame) -> dict[tuple[str, str], int]:
    if "errors" not in slices.columns:
        return {}
    found: dict[tuple[str, str], int] = {}
    texts = slices.filter(pl.col("errors").is_not_null() & (pl.col("errors") != "{}"))
    for cell, arm, text, times in texts.group_by("cell", "arm", "errors").len().iter_rows():
        found[cell, arm] = found.get((cell, arm), 0) + times * sum(json.loads(text).values())
    return found


def _summary(
    cell: str, arm: str, group: pl.DataFrame, errors: int, latencies: Sequence[Mapping[str, Any]]
) -> ArmSummary:
    tps = [_over(events, seconds) for events, seconds in group.select("events", "seconds").iter_rows()]
    mean = math.fsum(tps) / len(tps)
    interval = t_interval(mean, standard_deviation(tps), len(tps), alpha=_ALPHA)
    total = group.select(pl.col("events", "seconds", *_COUNTED).sum()).row(0, named=True)
    events, seconds = total["events"], total["seconds"]
    client_ns = total["client_user_ns"] + total["client_system_ns"]
    host_ns = math.fsum(total[name] for name in _HOST)

    def of_server(name: str) -> float | None:
        known = group.filter(pl.col(name).is_not_null())
        return None if known.is_empty() else _over(float(known[name].sum()), float(known["events"].sum()))

    return ArmSummary(
        cell=cell,
        arm=arm,
        epochs=len(tps),
        tps=mean,
        tps_low=mean if interval.low is None else max(interval.low, 0.0),
        tps_high=mean if interval.high is None else interval.high,
        qps=_over(total["reads"] + total["writes"] + total["other"], seconds),
        quantiles_ns=_quantiles(latencies),
        clock=str(latencies[0]["clock"]) if latencies else "service",
        server_cpu_ns_per_event=of_server("server_cpu_ns"),
        client_cpu_ns_per_event=_over(client_ns, events),
        context_switches_per_event=_over(total["context_switches"], events),
        server_read_bytes_per_event=of_server("server_read_bytes"),
        server_write_bytes_per_event=of_server("server_write_bytes"),
        received_bytes_per_event=_over(total["received_bytes"], events),
        errors_per_million=_over(errors * 1e6, events),
        retries_per_million=_over(total["retries"] * 1e6, events),
        late_starts_per_million=_over(total["late_starts"] * 1e6, events),
        dropped_per_million=_over(total["dropped"] * 1e6, events + total["dropped"]),
        client_cpu_share=_over(client_ns, host_ns),
        steal_share=_over(total["host_steal_ns"], host_ns),
    )


def _quantiles(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Geometric mean over epochs of each quantile that all of them have."""
    if not rows:
        return {}
    names = [name for name in rows[0]["quantiles_ns"] if all(row["quantiles_ns"].get(name, 0) > 0 for row in rows)]
    return {
        name: math.exp(math.fsum(math.log(row["quantiles_ns"][name]) for row in rows) / len(rows)) for name in names
    }


def _over(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else 0.0
