"""`bakeoff compare`: compare earlier runs, or series of single runs. They are unpaired, so they get no verdicts."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated

import click

from bakeoff.cli.arguments import Format, FormatOption, Runs
from bakeoff.cli.options import command
from bakeoff.cli.printing import print_sentence, print_table
from bakeoff.errors import ResultsError, SpecError
from bakeoff.history.history_file import History, Point
from bakeoff.plan.workloads import workload_names
from bakeoff.report import numbers
from bakeoff.report.context import read_analysis
from bakeoff.report.setups import data_parts
from bakeoff.results import RunDirectory, open_run
from bakeoff.results.manifest import Host
from bakeoff.spec import Arm, Study
from bakeoff.spec.fields import Argument, Option
from bakeoff.stats import hosts
from bakeoff.stats.estimate import epoch_rates
from bakeoff.stats.interval import ALPHA_T, Moments, Unpaired, excludes_zero, holm, moments, welch
from bakeoff.stats.stopping import control_name
from bakeoff.units import format_rate

CAVEAT = (
    "Unpaired: these runs were measured at different times, so every difference includes whatever changed on the "
    "machine in between, which no interval covers. Ratios to a baseline in the same run are steadier than throughputs. "
    "For a verdict, measure both together: bakeoff duel, bakeoff run."
)


SINGLE = (
    "Single runs of other tools: one figure each, without a reference in the same hour and without an interval. "
    "Changes of the machine are part of every difference, so they get no verdict and no change points."
)


@dataclass(frozen=True)
class Line:
    """A figure that both runs have measured: events per second, or a ratio.

    `kind` is `throughput` of an arm (label), `ratio` of a contender to its baseline, or a single run's metric.
    `p_adjusted` is corrected over all lines (Holm), and None without an interval.
    """

    run: str
    cell: str
    kind: str
    label: str
    earlier: float
    later: float
    found: Unpaired
    p_adjusted: float | None = None

    @property
    def differs(self) -> bool | None:
        if self.p_adjusted is None:
            return None
        return excludes_zero(self.found.estimate.interval) and self.p_adjusted <= ALPHA_T


@dataclass(frozen=True)
class RunComparison:
    runs: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Measured:
    name: str
    run: RunDirectory
    study: Study
    values: dict[tuple[str, str, str], Moments]
    versions: dict[str, str]
    notes: list[str]


def compare_runs(runs: Sequence[RunDirectory], *, across_machines: bool = False) -> RunComparison:
    """Compare runs with the first one in the cells and arm labels they share."""
    twice = len({run.name for run in runs}) < len(runs)
    first, *others = measured = [_measured(run, str(run.path) if twice else run.name) for run in runs]
    notes = [f"{each.name}: {text}." for each in (first, *others) for text in each.notes]
    for other in others:
        machines = product(first.run.measured_on(), other.run.measured_on())
        different = next(filter(None, (_machines(*pair) for pair in machines)), "")
        if different and not across_machines:
            raise ResultsError(
                f"runs {first.name} and {other.name} were measured on different machines: {different}.",
                hint="Use --across-machines to compare them all the same.",
            )
        if different:
            notes.append(f"{other.name} was measured on another machine: {different}.")
        notes += [f"{other.name}: {text}." for text in _differences(first.study, other.study)]
        notes += [
            f"{other.name}: {label} was version {other.versions[label]}, in {first.name} {version}."
            for label, version in first.versions.items()
            if other.versions.get(label, version) != version
        ]
    lines = [line for other in others for line in _lines(first, other)]
    if not lines:
        arms = [", ".join(arm_labels(each.study).values()) for each in (first, *others)]
        raise ResultsError(
            f"run {first.name} shares no cell and arm with {' or '.join(other.name for other in others)}.",
            hint=f"Its arms are {arms[0]}; theirs are {'; '.join(arms[1:])}.",
        )
    return RunComparison(tuple(each.name for each in measured), adjusted(lines), tuple(notes))


def _measured(run: RunDirectory, shown: str) -> _Measured:
    study = run.study()
    labels = arm_labels(study)
    base, control = study.baseline.name, control_name(study)
    slices = run.slices("cell", "arm", "epoch", "events", "busy_ns", "connections", "length_ns")
    rates = {key: {epoch: math.log(tps) for epoch, tps in found.items()} for key, found in epoch_rates(slices).items()}
    epochs_of = Counter((row["cell"], row["arm"]) for row in slices.by("cell", "arm", "epoch").keys.records())
    nothing = {key: of - len(rates.get(key, ())) for key, of in epochs_of.items() if of > len(rates.get(key, ()))}
    host_of = {epoch: run.outcome(epoch).host for epoch in run.finished_epochs()}
    values: dict[tuple[str, str, str], Moments] = {}
    for (cell, arm), found in rates.items():
        if arm == control or (cell, arm) in nothing:  # a control is another baseline
            continue
        values[cell, "throughput", labels[arm]] = _moments(found, host_of)
        own = rates.get((cell, base), {}) if (cell, base) not in nothing else {}
        if arm != base and found.keys() & own.keys():
            name = f"{labels[arm]} over {labels[base]}"
            values[cell, "ratio", name] = _moments({e: found[e] - own[e] for e in found if e in own}, host_of)
    analysis = read_analysis(run)
    for each in analysis.comparisons if analysis else ():  # each epoch against the baseline of the same round
        if each.is_control:
            continue
        name = f"{labels[each.contender]} over {labels[each.baseline]}"
        values.pop((each.cell, "ratio", name), None)
        if each.estimate.n and not {(each.cell, each.contender), (each.cell, each.baseline)} & nothing.keys():
            values[each.cell, "ratio", name] = hosts.moments(
                [point.value for point in each.points], [point.host for point in each.points]
            )
    variables = run.newest_variables()
    versions = {labels[arm]: own["version"] for arm, own in variables.items() if arm in labels and "version" in own}
    notes = [
        f"{labels[arm]} completed nothing in {numbers.counted(k, 'epoch')} of {cell}"
        for (cell, arm), k in nothing.items()
        if arm != control
    ]
    return _Measured(shown, run, study, values, versions, notes)


def _moments(values: Mapping[int, float], host_of: Mapping[int, str]) -> Moments:
    return hosts.moments([*values.values()], [host_of[epoch] for epoch in values])


def _lines(first: _Measured, other: _Measured) -> Iterable[Line]:
    both = (key for key in first.values if key in other.values)
    return filter(None, (line_of(other.name, *key, first.values[key], other.values[key]) for key in both))


def line_of(run: str, cell: str, kind: str, label: str, earlier: Moments, later: Moments) -> Line | None:
    found = welch(later, earlier)
    if found is None:
        return None
    was, now = math.exp(earlier.mean), math.exp(later.mean)
    return Line(run=run, cell=cell, kind=kind, label=label, earlier=was, later=now, found=found)


def adjusted(lines: Sequence[Line]) -> tuple[Line, ...]:
    adjusted = holm([line.found.p_value for line in lines])
    return tuple(replace(line, p_adjusted=p) for line, p in zip(lines, adjusted, strict=True))


def arm_labels(study: Study) -> dict[str, str]:
    """Return labels that stay the same across runs. Arms with the same setup also get their names."""
    labels = {arm.name: _label(arm) for arm in study.arms}
    control = control_name(study)
    often = Counter(label for name, label in labels.items() if name != control)
    return {name: f"{label} ({name})" if often[label] > 1 else label for name, label in labels.items()}


def _label(arm: Arm) -> str:
    connection = arm.connection
    parts = [str(arm.server), *data_parts(arm)]
    parts += ["" if connection.prepare_mode == "server" else connection.prepare_mode]
    parts += ["" if connection.transport == "socket" else connection.transport]
    parts += ["" if connection.tls == "disabled" else f"tls {connection.tls}"]
    if arm.slowdown_percent:
        parts.append(f"{arm.slowdown_percent:g} injected")
    return " · ".join(part for part in parts if part)


def _machines(one: Host, other: Host) -> str:
    found = one.differences(other)
    if one.virtualisation != other.virtualisation:
        found.append(f"virtual machine {one.virtualisation} and {other.virtualisation}")
    return ", ".join(found)


_OF_WORKLOADS = ("options", "rate_per_s", "speed")


def _differences(one: Study, other: Study) -> list[str]:
    names = (
        ("tables", "tables"), ("rows a table", "table_size"), ("profile", "profile"),
        ("placement of threads", "placement"), ("resting servers stopped", "freeze"),
    )  # fmt: skip
    found = [
        f"{what} {getattr(other, name)} instead of {getattr(one, name)}"
        for what, name in names
        if getattr(one, name) != getattr(other, name)
    ]
    places = [
        f"client on {each.client}" if each.client else "client and servers on one machine" for each in (one, other)
    ]
    if places[0] != places[1]:
        found.append(f"{places[1]} instead of {places[0]}")
    before = dict(zip(workload_names(one.workloads), one.workloads, strict=True))
    for name, workload in zip(workload_names(other.workloads), other.workloads, strict=True):
        known = before.get(name)
        if known and any(getattr(known, field) != getattr(workload, field) for field in _OF_WORKLOADS):
            found.append(f"other options of {name}")
    return found


def compare_series(points: Sequence[Point], names: Sequence[str]) -> RunComparison:
    """Compare series of single runs with the first one, cell by cell, by Welch's test over runs."""
    logs: dict[str, dict[tuple[str, str, str], list[float]]] = {name: {} for name in names}
    for point in points:
        if point.series in logs and point.is_single and point.value:
            key = (point.cell, point.metric, point.tool.partition(" ")[0])
            logs[point.series].setdefault(key, []).append(math.log(point.value))
    for name, found in logs.items():
        if not found:
            raise SpecError(f"compare: {name!r} is not a series of single runs.", hint="See `bakeoff history show`.")
    first, notes = names[0], []
    lines = []
    for name in names[1:]:
        for key, earlier in logs[first].items():
            later = logs[name].get(key, [])
            label = f"{key[1]}, {key[2]}"
            if line := line_of(name, key[0], key[1], label, moments(earlier), moments(later)):
                lines.append(line)
                notes.append(f"{name}, {key[0]}, {key[1]}: {len(later)} runs, in {first} {len(earlier)}.")
    if not lines:
        raise ResultsError(f"series {first} shares no cell and tool with {' or '.join(names[1:])}.")
    return RunComparison(tuple(names), adjusted(lines), (SINGLE, *notes))


# The command.


@command(
    "bakeoff compare 2026-11-24 2026-11-25", "bakeoff compare bakeoff-runs/before bakeoff-runs/after --across-machines"
)
def compare(
    run: Annotated[list[str], Argument("Two or more, each as for `report`; the first is the reference.", "RUN")],
    across_machines: Annotated[bool, Option("Compare runs of different machines all the same.")] = False,
    history: Annotated[
        Path | None, Option("RUNs are series of single runs in this history: each run one observation.", "FILE")
    ] = None,
    runs: Runs = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Compare earlier runs in what they have in common: throughput of each arm, and ratios to the baseline."""
    if len(run) < 2:
        raise SpecError("compare: it takes at least two runs.", hint="See `bakeoff list runs`.")
    if history:
        if len(set(run)) < len(run):
            raise SpecError("compare: a series is named twice.", hint="See `bakeoff history show`.")
        found = compare_series(History(history).points(), run)
    else:
        directories = [open_run(name, runs) for name in run]
        if len({directory.path.resolve() for directory in directories}) < len(directories):
            raise SpecError("compare: a run is named twice.", hint="See `bakeoff list runs`.")
        found = compare_runs(directories, across_machines=across_machines)
    if output is Format.JSON:
        click.echo(json.dumps(_record(found), indent=1))
    else:
        _print(found)


def _record(found: RunComparison) -> dict[str, object]:
    names = ("run", "cell", "kind", "label", "earlier", "later")
    lines = [
        {name: getattr(line, name) for name in names}
        | numbers.ratio_fields(line.found.estimate)
        | {"p_value": line.found.p_value, "p_adjusted": line.p_adjusted, "differs": line.differs}
        for line in found.lines
    ]
    return {"runs": found.runs, "paired": False, "caveat": CAVEAT, "notes": found.notes, "lines": lines}


def _print(found: RunComparison) -> None:
    for number, name in enumerate(found.runs, start=1):
        click.echo(f"run {number}: {name}")
    for note in found.notes:
        print_sentence(note)
    several = len(found.runs) > 2
    rows = []
    for line in found.lines:
        form = (lambda value: f"{value:.3f}×") if line.kind == "ratio" else format_rate
        estimate, later = line.found.estimate, form(line.later)
        rows.append(
            (
                line.cell,
                line.label,
                form(line.earlier),
                f"{found.runs.index(line.run) + 1}: {later}" if several else later,
                numbers.ratio_of(estimate),
                numbers.interval(estimate.interval) or "none",
                {None: "too few for an interval", True: "differs", False: "cannot tell"}[line.differs],
            )
        )
    columns = ("cell", "what", "run 1", "run" if several else "run 2", "ratio", "95% interval", "finding")
    print_table(columns, rows, grouped=True)
    print_sentence(CAVEAT)
