"""Sections on resources: cost per event, bytes on disk, hosts of a cluster, the machine while measuring."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

from bakeoff.report import numbers
from bakeoff.report.context import CPU_KINDS, Context
from bakeoff.report.performance import summary_table
from bakeoff.report.view import Column, Prose, Section, Table, Value
from bakeoff.stats import interval as iv
from bakeoff.stats.hosts import Spread, by_host, spread
from bakeoff.stats.model import ArmSummary, Comparison, Estimate
from bakeoff.units import format_bytes, format_ns, percent_text

_Read = Callable[[ArmSummary], float | None]

_COSTS: tuple[tuple[str, _Read, numbers.Form], ...] = (
    ("server CPU", lambda s: s.server_cpu_ns_per_event, format_ns),
    ("client CPU", lambda s: s.client_cpu_ns_per_event, format_ns),
    ("context switches", lambda s: s.context_switches_per_event, numbers.count),
    ("bytes read", lambda s: s.server_read_bytes_per_event or None, format_bytes),
    ("bytes written", lambda s: s.server_write_bytes_per_event, format_bytes),
    ("bytes to client", lambda s: s.received_bytes_per_event, format_bytes),
    ("errors per million", lambda s: s.errors_per_million or None, numbers.count),
    ("retries per million", lambda s: s.retries_per_million or None, numbers.count),
)


def costs_section(context: Context) -> Section | None:
    def value(read: _Read, form: numbers.Form, summary: ArmSummary) -> Value | None:
        own, base = read(summary), context.summaries.get((summary.cell, context.analysis.baseline))
        if own is None:
            return None
        compared = numbers.plain_ratio(own, read(base)) if base and summary.arm != base.arm else ""
        return Value(text=form(own), sub=compared)

    table = summary_table(
        context,
        "costs",
        *(Column(title, partial(value, read, form)) for title, read, form in _COSTS),
        note="Sums over all measured slices, divided by the events in them. Ratios to the baseline carry no verdict.",
    )
    return Section.of("What one event costs", table, anchor="costs", nav="Costs")


_SIZES = (("data_bytes", "on disk"), ("rows_bytes", "rows"), ("index_bytes", "secondary indexes"))


def sizes_section(context: Context) -> Section | None:
    loads: dict[str, list[Mapping[str, Any]]] = {}
    for build in context.run.builds().values():
        for arm in build.get("arms") or [build["arm"]]:
            loads.setdefault(arm, []).append(build)
    sizes = {arm: {key: _mean_bytes(found, key) for key, _ in _SIZES} for arm, found in loads.items()}
    base = sizes.get(context.analysis.baseline, {})
    if not any(size for own in sizes.values() for size in own.values()):
        return None

    def value(arm: str, key: str) -> Value | None:
        own = sizes[arm][key]
        compared = numbers.plain_ratio(own, base.get(key)) if arm != context.analysis.baseline else ""
        return None if own is None else Value(text=format_bytes(own), sub=compared)

    table = Table.of(
        "sizes",
        (arm for arm in context.compared_arms if arm in sizes),
        Column("arm", context.labels.__getitem__),
        *(Column(name, partial(value, key=key)) for key, name in _SIZES),
        slot=context.slots.__getitem__,
        note="After loading, before measuring. On disk: the tables' files. Rows and secondary indexes: the server's "
        "estimates. Arms that share their loads have the same sizes.",
    )
    return Section.of("Sizes", table, anchor="sizes")


def _mean_bytes(builds: Sequence[Mapping[str, Any]], key: str) -> float | None:
    totals = [sum(build[key].values()) for build in builds if build.get(key) is not None]
    return sum(totals) / len(totals) if totals else None


# Hosts of a cluster.


class _AcrossHosts(NamedTuple):
    """One comparison by host, the slowest first."""

    comparison: Comparison
    by_host: dict[str, Estimate]
    spread: Spread | None


def _across_hosts(context: Context) -> list[_AcrossHosts]:
    found = []
    for comparison in context.primary:
        values, measured_by = [p.value for p in comparison.points], [p.host for p in comparison.points]
        groups = by_host(values, measured_by)
        if len(groups) < 2:
            continue
        estimates = {host: iv.estimate_of(own, iv.precision_interval) for host, own in groups.items()}
        ordered = dict(sorted(estimates.items(), key=lambda item: item[1].mean))
        found.append(_AcrossHosts(comparison, ordered, spread(values, measured_by)))
    return found


def hosts_findings(context: Context) -> tuple[str, ...]:
    """`1.07× on bench-1, 1.12× on bench-2: the machine matters (…)`, for the comparison whose hosts differ most."""
    across = [(each.spread, each) for each in _across_hosts(context) if each.spread]
    clear = [pair for pair in across if pair[0].p_value * len(across) < iv.ALPHA_T]
    if not clear:
        return ()
    found, most = max(clear, key=lambda pair: pair[0].sd)
    (low, lowest), *_, (high, highest) = most.by_host.items()
    where = f"{context.labels[most.comparison.contender]} in {context.cell_title(most.comparison.cell)}"
    return (
        f"{numbers.ratio_of(lowest)} on {low}, {numbers.ratio_of(highest)} on {high}: the machine matters ({where}; "
        f"hosts differ by {percent_text(found.sd)} beyond the noise of their epochs).",
    )


def hosts_section(context: Context) -> Section | None:
    across = _across_hosts(context)
    if not across:
        return None
    table = Table.of(
        "hosts",
        (
            (context.titled(each.comparison.cell, each.comparison.contender), *row)
            for each in across
            for row in _host_rows(each)
        ),
        Column("host", itemgetter(1)),
        Column("epochs", itemgetter(2)),
        Column("ratio", itemgetter(3)),
        Column("95% interval", itemgetter(4)),
        group=itemgetter(0),
        group_title="cell",
        note="All arms of an epoch are measured on one host. Hosts are combined by random effects (Hartung and Knapp): "
        "the interval has one degree of freedom fewer than there are hosts. Spread: standard deviation of the ratio "
        "between hosts, without the noise of epochs.",
    )
    return Section.of("Hosts", _machines(context), table, anchor="hosts", in_terminal=True)


def _host_rows(across: _AcrossHosts) -> Iterable[tuple[str, str, str, str]]:
    for host, each in (*across.by_host.items(), ("all hosts", across.comparison.estimate)):
        yield host, str(each.n), numbers.ratio_of(each), numbers.interval(each.interval) or "n/a"
    if found := across.spread:
        yield "spread between hosts", "", percent_text(found.sd), ""


def _machines(context: Context) -> Prose | Table | None:
    kinds = context.kinds
    if not kinds:
        return None
    if len(set(kinds.values())) == 1:
        return Prose(text=f"All {len(kinds)} hosts are alike: {next(iter(kinds.values()))}.")
    return Table.of(
        "host-machines",
        sorted(kinds.items(), key=itemgetter(1)),
        Column("host", itemgetter(0)),
        Column("machine", itemgetter(1)),
        Column("kernel", lambda each: context.machines[each[0]].kernel),
        all_text=True,
        note="They are unlike, and combined because the study says combine_hosts.",
    )


def processors_section(context: Context) -> Section | None:
    whose = f" of {context.study.client}, the client's host" if context.study.client else ""
    shares = {(row["cell"], row["arm"]): row for row in context.processors.records() if not math.isnan(row["user"])}

    def share(column: str, row: Mapping[str, float]) -> str:
        return "" if math.isnan(row[column]) else numbers.share(row[column])

    table = Table.of(
        "processors",
        [row for key in product(context.cells, context.slots) if (row := shares.get(key))],
        Column("arm", lambda row: context.labels[row["arm"]]),
        *(Column(kind, partial(share, kind)) for kind in (*CPU_KINDS, "server", "client", "others")),
        group=lambda row: context.cell_title(row["cell"]),
        slot=lambda row: context.slots[row["arm"]],
        group_title="cell",
        note="Shares of all processors while each arm alone was loaded. Others: programs that were not part of the "
        "measurement.",
        page_only=True,
    )
    return Section.of(f"Processors{whose}", table, anchor="processors", nav="Processors")
