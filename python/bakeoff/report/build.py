"""Build the content of a report from a run directory and its analysis: the head, and the list of sections."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from bakeoff.explain import why
from bakeoff.gate import view as gate_view
from bakeoff.replay import queries
from bakeoff.report import machine, numbers, performance, setups, studies, verdicts
from bakeoff.report.context import Context
from bakeoff.report.question import question_of
from bakeoff.report.view import ArmView, Conclusion, ReportView, Role, Section, Status, tables_of
from bakeoff.results import RunDirectory
from bakeoff.search import view as bisection
from bakeoff.stats.model import Analysis, Stop
from bakeoff.units import format_duration, percent_text

_MOVED = 2.0  # times as long for a cache line
BUSY_SHARE = 0.10
"""Share of all processors used by others from which the report says so at its head."""


def section_makers() -> tuple[Callable[[Context], Section | None], ...]:
    """Return the section makers in the order of the report; each returns None when it has nothing to show."""
    return (
        gate_view.gate_section,
        bisection.bisection_section,
        why.why_section,
        queries.queries_section,
        performance.throughput_section,
        performance.stability_section,
        performance.epochs_section,
        machine.hosts_section,
        performance.latency_section,
        studies.published_section,
        studies.effects_section,
        studies.pairs_section,
        studies.tpcc_section,
        machine.costs_section,
        machine.sizes_section,
        machine.machine_section,
        setups.data_section,
        setups.settings_section,
        setups.environment_section,
        setups.method_section,
        setups.again_section,
        setups.appendix_section,
    )


def build_view(run: RunDirectory, analysis: Analysis, *, samples: Mapping[str, str] | None = None) -> ReportView:
    """Build everything that a report shows.

    Args:
        run: where the measurements are.
        analysis: of that run.
        samples: by digest a statement with its literals, shown in place of the digest's text.

    Raises:
        ResultsError: a document of the run is missing or damaged.
    """
    context = Context.read(run, analysis, samples)
    sections = tuple(section for make in section_makers() if (section := make(context)))
    wall = setups.wall_sentence(context)
    arms = _arms(context)
    forest, found = verdicts.forest(context), verdicts.verdicts(context)
    conclusion = question_of(context.study).conclude(context)
    if conclusion.replaces_verdicts:
        forest, found = forest.model_copy(update={"rows": (), "withheld": ()}), ()
    return ReportView(
        run=run.name,
        directory=str(run.path),
        title=context.study.title,
        question=conclusion.asks,
        dateline=_dateline(context),
        statuses=_statuses(context),
        arms=arms,
        arms_table=setups.arms_table(context, arms),
        summary=_summary(context, conclusion),
        on_cards=verdicts.on_cards(context),
        verdicts=found,
        means=() if conclusion.replaces_verdicts else verdicts.mean_sentences(context),
        conditions=_conditions(context),
        forest=forest,
        sections=sections,
        key_figures=studies.tpmc_lines(tables_of(sections)),
        effort=(performance.epoch_counts(context), *([f"Wall time: {wall}"] if wall else [])),
        command=setups.command(context),
        footnotes=context.footnotes,
        conclusion=conclusion,
        records=verdicts.records(context),
        queries=tuple(queries.records(context)),
        costs=why.records(context),
    )


def _summary(context: Context, conclusion: Conclusion) -> tuple[str, ...]:
    if conclusion.replaces_verdicts:
        return conclusion.lead
    return (
        *conclusion.lead,
        *queries.findings(context),
        *verdicts.summary(context),
        *machine.hosts_findings(context),
    )


def _dateline(context: Context) -> str:
    manifest, host, count = context.manifest, context.host, len(context.machines)
    hosts = f"{count} hosts, " if count > 1 else ""
    spent = sum(outcome.wall_s for outcome in context.outcomes)
    epochs = context.analysis.epochs_used
    return " · ".join(
        (
            f"{manifest.created_at:%d %B %Y}".lstrip("0"),
            f"{hosts}{host}{machine.and_others(context)}",
            f"{epochs} epoch{'s' if epochs != 1 else ''}, {format_duration(spent)}",
        )
    )


def _others(context: Context) -> float | None:
    """Share of all processors that neither the servers nor the client used while measuring; None when unknown."""
    known = context.processors.rows(~np.isnan(context.processors["others"]))
    if not len(known):
        return None
    return float(np.average(known["others"], weights=known["seconds"]))


def _conditions(context: Context) -> str:
    """How busy the machine was while measuring, and with what: a ratio found in contention is one of contention."""
    known = context.processors.rows(~np.isnan(context.processors["user"]))
    places = "; ".join(context.hosts_and_network or ())
    where = f"{places[0].upper()}{places[1:]}. " if places else ""
    if not len(known):
        return where.rstrip()
    parts = (known["user"] + known["system"], known["steal"])
    busy, steal = (float(np.average(part, weights=known["seconds"])) for part in parts)
    others = _others(context)
    by_others = "" if others is None else f", {numbers.share(others)} with work that was not part of the measurement"
    whose = f" of {context.study.client}" if context.study.client else ""
    return (
        f"{where}While measuring the processors{whose} were {numbers.share(busy)} busy{by_others}; the hypervisor took "
        f"{numbers.share(steal)} (steal).{_moved_cpus(context)}"
    )


def _moved_cpus(context: Context) -> str:
    """That the distance of a host's CPUs changed during the run; empty when it did not, or is not known."""
    for host in dict.fromkeys(outcome.host for outcome in context.outcomes):
        times_ns = [ns for outcome in context.outcomes if outcome.host == host for ns in outcome.cache_line_ns.values()]
        if times_ns and max(times_ns) > _MOVED * min(times_ns):
            where = f" of {host}" if host else ""
            times = f"{min(times_ns)} to {max(times_ns)} ns"
            return (
                f" Two CPUs{where} passed a cache line to each other and back in {times}: the host moved them, and "
                "throughput and ratios may change with it."
            )
    return ""


def _statuses(context: Context) -> tuple[Status, ...]:
    return (
        *_control_statuses(context.analysis),
        *_ending_statuses(context),
        *_circumstances(context),
        *setups.data_check_status(context),
    )


def _control_statuses(analysis: Analysis) -> Iterator[Status]:
    if analysis.trusted is False:
        yield Status(
            word="UNTRUSTED",
            text="The control, a second instance of the baseline, came out different from the baseline. Something "
            "other than the settings moved the numbers; no line of this report should be relied on.",
        )
    if analysis.trusted is None and analysis.control is not None:
        why = "has an epoch without a completed event, in it or in the baseline"
        if not analysis.control_is_idle:
            why = "has fewer than five usable epochs"
        yield Status(
            word="CONTROL TOO SHORT",
            text=f"The control, a second instance of the baseline, {why}: it neither supports this report nor speaks "
            "against it.",
        )


_ENDINGS = {
    Stop.ABORTED: Status(
        word="ENDED BY HAND", text="Only intervals that are valid at any moment of stopping are shown."
    ),
    Stop.RUNNING: Status(
        word="NOT FINISHED", text="Measuring goes on or was broken off; intervals are anytime-valid ones."
    ),
    Stop.EXTENDED: Status(
        word="EXTENDED",
        text="The run went on with an answer in sight, or with another budget than it began with. Only intervals that "
        "are valid at any moment of stopping are shown.",
    ),
}


def _ending_statuses(context: Context) -> Iterator[Status]:
    injected = [
        f"{context.labels[a.name]} ({a.slowdown_percent:g} per 100)" for a in context.study.arms if a.slowdown_percent
    ]
    if injected:
        yield Status(
            word="INJECTED",
            text=f"A slowdown was injected to prove the method: uncounted events on {', '.join(injected)}.",
        )
    stopped = context.analysis.stopped
    if stopped in _ENDINGS:
        yield _ENDINGS[stopped]
    if stopped in (Stop.BUDGET, Stop.EXTENDED) and context.study.has_target:
        precision = percent_text(context.study.precision)
        yield Status(
            word="TIME RAN OUT",
            text=f"The budget ended before every cell reached its target precision of ±{precision}.",
        )


def _circumstances(context: Context) -> Iterator[Status]:
    yield from queries.different_work(context)
    others = _others(context)
    if others is not None and others > BUSY_SHARE:
        yield Status(
            word="BUSY MACHINE",
            text=f"Other work took {numbers.share(others)} of the processors while measuring. The intervals allow "
            "for it, and the ratios are those of a busy machine.",
        )
    disturbed = [bool(outcome.other_bakeoffs) for outcome in context.outcomes if outcome.valid]
    if any(disturbed):
        yield Status(
            word="ANOTHER BAKEOFF",
            text=f"In {sum(disturbed)} of {len(disturbed)} epochs another bakeoff had servers on this machine: each "
            "disturbs the other's measurement. Rerun it alone.",
        )
    count = len({name for differences in context.analysis.undeclared.values() for name in differences})
    if count:
        yield Status(
            word="UNDECLARED DIFFERENCES",
            text=f"{count} {'setting differs' if count == 1 else 'settings differ'} between the arms although the "
            "study did not ask for it; the ratios include what they do. See Settings.",
        )


def _arms(context: Context) -> tuple[ArmView, ...]:
    views = []
    for name, arm in context.arms.items():
        variables = context.variables.get(name, {})
        version = (variables.get("version", ""), variables.get("version_comment", ""))
        role = Role.BASELINE if name == context.analysis.baseline else Role.CONTENDER
        views.append(
            ArmView(
                name=name,
                label=context.labels[name],
                role=Role.CONTROL if name == context.analysis.control else role,
                slot=context.slots[name],
                version=" ".join(part for part in version if part),
                setup=setups.setup_line(arm),
            )
        )
    return tuple(views)
