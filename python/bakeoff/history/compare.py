"""Compare earlier runs. They are unpaired, so they get no verdicts."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from bakeoff.errors import ResultsError
from bakeoff.plan.workloads import workload_names
from bakeoff.report import numbers
from bakeoff.report.context import read_analysis
from bakeoff.report.setups import data_parts
from bakeoff.results import RunDirectory
from bakeoff.results.manifest import Host
from bakeoff.spec import Arm, Study
from bakeoff.stats import hosts
from bakeoff.stats.estimate import epoch_rates
from bakeoff.stats.interval import ALPHA_T, Moments, Unpaired, excludes_zero, holm, welch
from bakeoff.stats.stopping import control_name
from bakeoff.units import format_rate

CAVEAT = (
    "Unpaired: these runs were measured at different times, so every difference includes whatever changed on the "
    "machine in between, which no interval covers. Ratios to a baseline in the same run are steadier than throughputs. "
    "For a verdict, measure both together: bakeoff duel, bakeoff run."
)


@dataclass(frozen=True)
class Line:
    """Something that two runs have both measured.

    Attributes:
        kind: `throughput` of an arm (label), `ratio` of a contender to its baseline, or a single run's metric.
        earlier, later: events per second, or a ratio, of the first run and of this one.
        p_adjusted: Holm over all lines; None without an interval.
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
        """True if the interval excludes 1 after correction; None without an interval."""
        if self.p_adjusted is None:
            return None
        return excludes_zero(self.found.estimate.interval) and self.p_adjusted <= ALPHA_T


@dataclass(frozen=True)
class RunComparison:
    """Runs compared with the first of them, and notes on what else differs between them."""

    runs: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Measured:
    """One run: (cell, kind, label) -> mean log per epoch; arm's label -> its server's version."""

    run: RunDirectory
    study: Study
    values: dict[tuple[str, str, str], Moments]
    versions: dict[str, str]
    notes: list[str]


def compare_runs(runs: Sequence[RunDirectory], *, across_machines: bool = False) -> RunComparison:
    """Compare runs with the first one in the cells and arm labels they share."""
    first, *others = [_measured(run) for run in runs]
    notes = [f"{each.run.name}: {text}." for each in (first, *others) for text in each.notes]
    for other in others:
        machines = product(first.run.measured_on(), other.run.measured_on())
        different = next(filter(None, (_machines(*pair) for pair in machines)), "")
        if different and not across_machines:
            raise ResultsError(
                f"runs {first.run.name} and {other.run.name} were measured on different machines: {different}.",
                hint="Use --across-machines to compare them all the same.",
            )
        if different:
            notes.append(f"{other.run.name} was measured on another machine: {different}.")
        notes += [f"{other.run.name}: {text}." for text in _differences(first.study, other.study)]
        notes += [
            f"{other.run.name}: {label} was version {other.versions[label]}, in {first.run.name} {version}."
            for label, version in first.versions.items()
            if other.versions.get(label, version) != version
        ]
    lines = [line for other in others for line in _lines(first, other)]
    if not lines:
        raise ResultsError(
            f"run {first.run.name} shares no cell and arm with {' or '.join(other.run.name for other in others)}.",
            hint=f"Its arms are {_arms(first)}; theirs are {'; '.join(_arms(other) for other in others)}.",
        )
    return RunComparison(tuple(run.name for run in runs), adjusted(lines), tuple(notes))


def _measured(run: RunDirectory) -> _Measured:
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
    return _Measured(run, study, values, versions, notes)


def _moments(values: Mapping[int, float], host_of: Mapping[int, str]) -> Moments:
    return hosts.moments([*values.values()], [host_of[epoch] for epoch in values])


def _lines(first: _Measured, other: _Measured) -> Iterable[Line]:
    both = (key for key in first.values if key in other.values)
    return filter(None, (line_of(other.run.name, *key, first.values[key], other.values[key]) for key in both))


def line_of(run: str, cell: str, kind: str, label: str, earlier: Moments, later: Moments) -> Line | None:
    """Compare two means of logs by Welch's test; None if either has no value."""
    found = welch(later, earlier)
    if found is None:
        return None
    was, now = math.exp(earlier.mean), math.exp(later.mean)
    return Line(run=run, cell=cell, kind=kind, label=label, earlier=was, later=now, found=found)


def adjusted(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Correct the p-values over all lines (Holm)."""
    adjusted = holm([line.found.p_value for line in lines])
    return tuple(replace(line, p_adjusted=p) for line, p in zip(lines, adjusted, strict=True))


def arm_labels(study: Study) -> dict[str, str]:
    """Return labels that are the same in other runs; arms that are set up alike have their names added."""
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
    """What makes cells of the same name different."""
    names = (
        ("tables", "tables"), ("rows a table", "table_size"), ("profile", "profile"),
        ("placement of threads", "placement"), ("resting servers stopped", "freeze"),
    )  # fmt: skip
    found = [
        f"{what} {getattr(other, name)} instead of {getattr(one, name)}"
        for what, name in names
        if getattr(one, name) != getattr(other, name)
    ]
    if _places(one) != _places(other):
        found.append(f"{_places(other)} instead of {_places(one)}")
    before = dict(zip(workload_names(one.workloads), one.workloads, strict=True))
    for name, workload in zip(workload_names(other.workloads), other.workloads, strict=True):
        known = before.get(name)
        if known and any(getattr(known, field) != getattr(workload, field) for field in _OF_WORKLOADS):
            found.append(f"other options of {name}")
    return found


def _places(study: Study) -> str:
    return f"client on {study.client}" if study.client else "client and servers on one machine"


def _arms(measured: _Measured) -> str:
    return ", ".join(arm_labels(measured.study).values())


def texts_of(line: Line) -> tuple[str, str, str, str, str]:
    """Format earlier, later, their ratio, its interval and the finding."""
    form = (lambda value: f"{value:.3f}×") if line.kind == "ratio" else format_rate
    estimate = line.found.estimate
    says = {None: "too few epochs", True: "differs", False: "cannot tell"}[line.differs]
    return (
        form(line.earlier),
        form(line.later),
        numbers.ratio(estimate.mean, estimate.interval.half_width),
        numbers.interval(estimate.interval) or "none",
        says,
    )
