"""Summarise the arms of a run: throughput, costs, errors, latency quantiles, stability. Not for verdicts."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

import numpy as np

from bakeoff.plan import Cell
from bakeoff.results.epoch_data import EpochData
from bakeoff.results.frame import Frame, quotients
from bakeoff.results.manifest import Network
from bakeoff.stats import hosts
from bakeoff.stats import interval as iv
from bakeoff.stats.estimate import quotient, with_rates
from bakeoff.stats.model import ArmSummary, Flag, FlagKind, LatencyRatio
from bakeoff.units import format_bytes, format_ns

_SERVER = ("server_cpu_ns", "server_read_bytes", "server_write_bytes")
_CLIENT = (
    "reads", "writes", "other", "retries", "late_starts", "dropped", "received_bytes", "client_user_ns",
    "client_system_ns",
)  # fmt: skip
_HOST = ("host_user_ns", "host_system_ns", "host_iowait_ns", "host_steal_ns", "host_idle_ns")
_SUMMED = ("events", "seconds", "errors", *_CLIENT, *_HOST, "context_switches")

TAIL_MIN = 50  # observations beyond a quantile that every arm and epoch must have: N (1 - q) >= 50
STALL = 0.5  # A slice below this share of its epoch's throughput counts as a stall

_FALSE_DISCOVERY = 0.05
_CLIENT_SHARE_OF_CPUS = 0.7
_CLIENT_SHARE_OF_EVENT = 0.4  # of the CPU time that client and server use for an event
_LATE_PER_MILLION = 10_000
_NETWORK_SHARE_OF_TIME = 0.5
_NETWORK_SHARE_OF_BYTES = 0.8


def arm_sums(slices: Frame) -> Frame:
    """Sum an epoch's slices by cell and arm. Missing columns count as 0, the server's as unknown."""
    slices = with_rates(slices)
    by = slices.by("cell", "arm")
    texts = slices.get("errors", "{}").tolist()
    errors = {text: sum(json.loads(text).values()) for text in set(texts)}
    slices = slices.with_columns(errors=np.array([errors[text] for text in texts], dtype=np.int64))
    counted = {name: by.sum(slices.get(name, 0)) for name in _SUMMED}
    of_server = {name: by.sum(slices.get(name, np.nan)) for name in _SERVER}
    return by.keys.with_columns(**counted, **of_server)


def arm_summaries(sums: Frame, histograms: Iterable[Mapping[str, Any]]) -> tuple[ArmSummary, ...]:
    """Summarise every (cell, arm) from stacked `arm_sums`, in the order in which they were first measured."""
    latencies: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in histograms:
        if row.get("operation") == "event":
            latencies.setdefault((row["cell"], row["arm"]), []).append(row)
    groups = sums.by("cell", "arm").frames() if len(sums) else {}
    return tuple(_summary(cell, arm, group, latencies.get((cell, arm), [])) for (cell, arm), group in groups.items())


def _summary(cell: str, arm: str, group: Frame, latencies: Sequence[Mapping[str, Any]]) -> ArmSummary:
    per_epoch = [quotient(row["events"], row["seconds"]) for row in group.records()]
    tps, tps_low, tps_high = iv.throughput_interval(hosts.moments(per_epoch, group["host"].tolist()))
    total = {name: float(group[name].sum()) for name in _SUMMED}
    events, seconds = total["events"], total["seconds"]
    client_ns = total["client_user_ns"] + total["client_system_ns"]
    host_ns = math.fsum(total[name] for name in _HOST)

    def of_server(name: str) -> float | None:
        known = group.rows(~np.isnan(group[name]))
        return quotient(float(known[name].sum()), float(known["events"].sum())) if len(known) else None

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
        errors_per_million=quotient(total["errors"] * 1e6, events),
        retries_per_million=quotient(total["retries"] * 1e6, events),
        late_starts_per_million=quotient(total["late_starts"] * 1e6, events),
        dropped_per_million=quotient(total["dropped"] * 1e6, events + total["dropped"]),
        client_cpu_share=quotient(client_ns, host_ns),
        steal_share=quotient(total["host_steal_ns"], host_ns),
    )


def _quantiles(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    quantiles = [row["quantiles_ns"] for row in rows]
    names = [name for name in quantiles[0] if all(each.get(name, 0) > 0 for each in quantiles)] if quantiles else []
    return {name: geometric_mean(each[name] for each in quantiles) for name in names}


def dropped_flag(arms: Sequence[ArmSummary]) -> Flag | None:
    worst = max(arms, key=lambda arm: arm.dropped_per_million, default=None)
    if worst is None or worst.dropped_per_million == 0:
        return None
    return _client_bound(
        f"arm {worst.arm} never began {worst.dropped_per_million:,.0f} of a million events that were due; it fell "
        "behind the rate, and its response times do not include them."
    )


def client_flag(arms: Sequence[ArmSummary]) -> Flag | None:
    """Flag a client that limited the throughput itself."""
    for arm in arms:
        if arm.late_starts_per_million > _LATE_PER_MILLION:
            return _client_bound(
                f"client overloaded, {arm.late_starts_per_million / 1e6:.1%} of the events of arm {arm.arm} "
                "began late although a connection was free; its response times include delays of the client."
            )
        client_ns, server_ns = arm.client_cpu_ns_per_event, arm.server_cpu_ns_per_event
        if server_ns is not None and client_ns > _CLIENT_SHARE_OF_EVENT * (client_ns + server_ns) > 0:
            return _client_bound(
                f"client-bound, the client took {client_ns / (client_ns + server_ns):.0%} of the CPU time of an event "
                f"on arm {arm.arm}; the servers themselves differ by more than this ratio."
            )
        if arm.client_cpu_share > _CLIENT_SHARE_OF_CPUS:
            share = min(arm.client_cpu_share, 1.0)
            return _client_bound(f"client-bound, the client kept {share:.0%} of the CPUs busy; give it more of them.")
    return None


def network_flag(arms: Sequence[ArmSummary], cell: Cell, network: Network) -> Flag | None:
    """Flag a network that limited the throughput: by round trips in a closed loop, or by the bytes of results."""
    for arm in arms:
        waited = quotient(network.rtt_ns * arm.qps, 1e9 * cell.threads)
        if waited > _NETWORK_SHARE_OF_TIME and not cell.open_loop:
            return _client_bound(
                f"network-bound, {min(waited, 1.0):.0%} of a statement's time on arm {arm.arm} was the round trip of "
                f"{format_ns(network.rtt_ns)} between client and servers; the servers themselves differ by "
                "more than this ratio."
            )
        full = quotient(arm.received_bytes_per_event * arm.tps, network.bytes_per_s)
        if full > _NETWORK_SHARE_OF_BYTES:
            return _client_bound(
                f"network-bound, results of arm {arm.arm} took {full:.0%} of the {format_bytes(network.bytes_per_s)} a "
                "second that one connection carries from the servers to the client."
            )
    return None


def _client_bound(text: str) -> Flag:
    return Flag(kind=FlagKind.CLIENT_BOUND, text=text)


_Round = tuple[int, int]  # epoch and round: arms of one round ran together


def latency_ratios(
    epochs: Sequence[EpochData],
    *,
    baseline: str,
    interval_of: iv.IntervalOf,
    cells: Sequence[str],
    anytime: bool = False,
) -> tuple[LatencyRatio, ...]:
    """Compare every latency quantile of every operation that the baseline and a contender both have.

    Requests are never pooled over epochs: within one start of a server they are not independent.
    """
    rows: dict[tuple[str, str, str], dict[str, dict[_Round, Mapping[str, Any]]]] = {}
    host_of = {epoch.epoch: epoch.host for epoch in epochs}
    for epoch in epochs:
        for row in epoch.histograms:
            key = (row["cell"], row["operation"], row["clock"])
            rows.setdefault(key, {}).setdefault(row["arm"], {})[epoch.epoch, row.get("round", 0)] = row
    ratios: list[tuple[LatencyRatio, float | None]] = []
    order = {cell: i for i, cell in enumerate(cells)}
    for (cell, operation, clock), arms in sorted(rows.items(), key=lambda item: (order.get(item[0][0], 0), item[0])):
        base = arms.get(baseline, {})
        for contender in sorted(arms.keys() - {baseline}):
            common = [at for at in sorted(arms[contender]) if at in base]
            pairs = [(base[at], arms[contender][at]) for at in common]
            measured_by = [host_of[at[0]] for at in common]
            for quantile in sorted(pairs[0][0]["quantiles_ns"], key=float) if pairs else ():
                found = _moments(pairs, measured_by, quantile)
                ratio = LatencyRatio(
                    cell=cell,
                    contender=contender,
                    operation=operation,
                    clock=clock,
                    quantile=float(quantile),
                    estimate=iv.estimate(found, interval_of) if found else None,
                    error=found.sd / math.sqrt(found.n) if found and found.n > 1 else None,
                    differs=False,
                )
                shows = found and iv.excludes_zero(iv.claim_interval(*found, anytime=anytime))
                ratios.append((ratio, None if not found else iv.p_value(*found) if shows else 1.0))
    return _with_discoveries(ratios)


def _moments(
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], measured_by: Sequence[str], quantile: str
) -> iv.Moments | None:
    fewest = min(min(base["count"], row["count"]) for base, row in pairs)
    needed = math.ceil(TAIL_MIN / (1 - float(quantile)) - 1e-6) if float(quantile) < 1 else math.inf
    if fewest < needed:
        return None
    values = []
    for base, row in pairs:
        theirs, ours = row["quantiles_ns"].get(quantile) or 0, base["quantiles_ns"].get(quantile) or 0
        if theirs <= 0 or ours <= 0:
            return None
        values.append(math.log(theirs / ours))
    return hosts.moments(values, measured_by)


def _with_discoveries(found: Sequence[tuple[LatencyRatio, float | None]]) -> tuple[LatencyRatio, ...]:
    tested = [at for at, (ratio, p) in enumerate(found) if p is not None and ratio.clock == "response"]
    ratios = [ratio for ratio, _ in found]
    adjusted = iv.benjamini_hochberg([found[at][1] or 0.0 for at in tested])
    for at, p in zip(tested, adjusted, strict=True):
        estimate = ratios[at].estimate
        if p <= _FALSE_DISCOVERY and estimate and iv.excludes_zero(estimate.interval):
            ratios[at] = ratios[at].model_copy(update={"differs": True})
    return tuple(ratios)


def stability(slices: Frame) -> Frame:
    """Measure how steady throughput was from slice to slice and from epoch to epoch.

    Slices without busy time are left out. Returns columns cell, arm; slice_cv (standard deviation of a slice's
    throughput over its epoch's mean); slowest (the slowest slice over its epoch's mean); stalled (share of slices below
    half of it); slices (how many); epoch_cv (of the epochs' throughput; NaN with one); longest_ns (the longest event).
    """
    slices = slices.rows(slices["busy_ns"] > 0)
    seconds = slices["busy_ns"] / slices["connections"] / 1e9
    epochs = slices.by("cell", "arm", "epoch")
    rate = epochs.sum(slices["events"]) / epochs.sum(seconds)
    share = quotients(slices["events"] / seconds, rate[epochs.ids])
    arms = epochs.keys.by("cell", "arm")
    return arms.keys.with_columns(
        slice_cv=np.sqrt(arms.mean(epochs.std(share) ** 2)),
        slowest=arms.min(epochs.min(share)),
        stalled=arms.sum(epochs.sum(share < STALL)) / arms.sum(epochs.count),
        slices=arms.sum(epochs.count),
        epoch_cv=quotients(arms.std(rate), arms.mean(rate)),
        longest_ns=arms.max(epochs.max(slices["latency_max_ns"])),
    ).sort("cell", "arm")
