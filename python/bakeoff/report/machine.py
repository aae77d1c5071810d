"""Sections on resources: cost per event, bytes on disk, hosts, the machine while measuring, limited storage."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from bakeoff.report import numbers
from bakeoff.report.context import CPU_KINDS, Context
from bakeoff.report.performance import summary_table
from bakeoff.report.view import Column, Prose, Section, Table, Value
from bakeoff.results.epoch_data import COUNTERS, CellCounters
from bakeoff.spec.machine import Storage
from bakeoff.stats import interval as iv
from bakeoff.stats.hosts import Spread, by_host, spread
from bakeoff.stats.model import ArmSummary, Comparison, Estimate
from bakeoff.units import format_bytes, format_ns, format_rate, percent_text

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


# Limited storage: what was asked for, what servers read and wrote, and what the device did.

REACHED = 0.9  # share of a limit from which it counts as reached
BUSY = 0.9  # share of the time; a device that is always busy may be the bottleneck
_RATES = {
    "read_iops": "reads",
    "write_iops": "writes",
    "read_bandwidth": "read_bytes",
    "write_bandwidth": "write_bytes",
}


@dataclass(frozen=True)
class Used:
    """What one arm with limited storage did in a cell, summed over valid epochs."""

    cell: str
    arm: str
    storage: Storage
    seconds: float  # under load
    counters: dict[str, float]

    def rate(self, name: str) -> float:
        return self.counters.get(f"storage.{name}", 0.0) / self.seconds

    @property
    def share(self) -> float:
        """Used share of the limit that was used most."""
        return max(self.rate(_RATES[name]) / limit for name, limit in self.storage.limits.items())

    @property
    def busy(self) -> float:
        return self._a_ms("device.busy_ms")

    @property
    def queue(self) -> float:
        return self._a_ms("device.queue_ms")

    @property
    def await_ns(self) -> float:
        waited_ms = sum(self.counters.get(f"device.{way}_ms", 0.0) for way in ("read", "write"))
        return 1e6 * waited_ms / max(1.0, sum(self.counters.get(f"device.{way}s", 0.0) for way in ("read", "write")))

    def _a_ms(self, name: str) -> float:
        return self.counters.get(name, 0.0) / max(1.0, self.counters.get("device.elapsed_ms", 0.0))


def used(context: Context) -> list[Used]:
    limited = {name: arm.server.machine.storage for name, arm in context.arms.items()}
    sums: dict[tuple[str, str], CellCounters] = {}
    for epoch in context.valid_epochs if any(storage.limits for storage in limited.values()) else ():
        for arm, cells in context.run.server_json(epoch, COUNTERS, dict[str, CellCounters]).items():
            for cell, own in cells.items() if limited[arm].limits else ():
                total = sums.setdefault((cell, arm), CellCounters(events=0, seconds=0, counters={}))
                total["seconds"] += own["seconds"]
                for name, value in own["counters"].items():
                    if name.startswith(("storage.", "device.")):
                        total["counters"][name] = total["counters"].get(name, 0.0) + value
    order = [(cell, arm) for cell in context.cells for arm in context.arms if (cell, arm) in sums]
    return [Used(*key, limited[key[1]], sums[key]["seconds"], sums[key]["counters"]) for key in order]


def storage_section(context: Context) -> Section | None:
    table = Table.of(
        "storage",
        context.once(used),
        Column("arm", lambda each: context.labels[each.arm]),
        Column("limits", lambda each: str(each.storage)),
        Column("reads/s", lambda each: format_rate(each.rate("reads"))),
        Column("writes/s", lambda each: format_rate(each.rate("writes"))),
        Column("read/s", lambda each: format_bytes(each.rate("read_bytes"))),
        Column("written/s", lambda each: format_bytes(each.rate("write_bytes"))),
        Column("of the limit", lambda each: numbers.share(each.share)),
        Column("await", lambda each: format_ns(each.await_ns)),
        Column("queue", lambda each: f"{each.queue:.2g}"),
        Column("device busy", lambda each: numbers.share(each.busy)),
        **context.by_cell,
        slot=lambda each: context.slots[each.arm],
        note="Reads and writes: by the server's control group, in the cell, per second that the arm was under load. Of "
        "the limit: of the one that was used most. Await, queue and busy: by the device, with all that used it.",
    )
    return Section.of("Limited storage", table, anchor="storage", nav="Storage")


def storage_findings(context: Context) -> Iterator[str]:
    found = context.once(used)
    for arm in dict.fromkeys(map(attrgetter("arm"), found)):
        own = [each for each in found if each.arm == arm]
        most = max(own, key=attrgetter("share"))
        if most.share < REACHED:
            where = f" (most in {context.cell_title(most.cell)}: {numbers.share(most.share)} of it)"
            yield f"{context.labels[arm]} never reached the limit of its storage{where}."
        for each in own:
            if each.share < REACHED and each.busy >= BUSY:
                yield (
                    f"{context.labels[arm]} in {context.cell_title(each.cell)}: the device was busy "
                    f"{numbers.share(each.busy)} of the time at {numbers.share(each.share)} of the limit, so it "
                    "was the bottleneck."
                )
