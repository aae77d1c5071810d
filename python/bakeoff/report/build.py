"""Build the content of a report from a run directory and its analysis: the head, and the list of sections."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bakeoff.features import parts
from bakeoff.report import machine, numbers, performance, setups, studies, verdicts
from bakeoff.report.context import Context
from bakeoff.report.question import question_of
from bakeoff.report.sections import Place, SectionSource
from bakeoff.report.view import ArmView, Conclusion, RecordList, ReportView, Role, Status
from bakeoff.results import RunDirectory
from bakeoff.stats.model import Analysis, FlagKind, Stop
from bakeoff.units import format_duration, percent_text

_MOVED = 2.0  # times as long for a cache line
BUSY_SHARE = 0.10
"""Share of all processors used by others from which the report says so at its head."""

SECTIONS = (
    SectionSource(Place.THROUGHPUT, performance.throughput_section),
    SectionSource(Place.THROUGHPUT, performance.stability_section),
    SectionSource(Place.THROUGHPUT, performance.epochs_section),
    SectionSource(Place.THROUGHPUT, machine.hosts_section, findings=machine.hosts_findings),
    SectionSource(Place.LATENCY, performance.latency_section),
    SectionSource(Place.STUDY, studies.published_section),
    SectionSource(Place.STUDY, studies.effects_section),
    SectionSource(Place.STUDY, studies.pairs_section),
    SectionSource(Place.COSTS, machine.costs_section),
    SectionSource(Place.COSTS, machine.sizes_section),
    SectionSource(Place.COSTS, machine.machine_section),
    SectionSource(Place.SETUP, setups.data_section),
    SectionSource(Place.SETUP, setups.settings_section),
    SectionSource(Place.SETUP, setups.environment_section),
    SectionSource(Place.SETUP, setups.method_section),
    SectionSource(Place.SETUP, setups.again_section),
)
"""The core's sections; features add theirs (`report/sections.py`)."""


def build_view(run: RunDirectory, analysis: Analysis, *, samples: Mapping[str, str] | None = None) -> ReportView:
    """Build everything that a report of a run shows.

    `samples` maps a digest to a statement with its literals, shown in place of the digest's text.

    Raises:
        ResultsError: a document of the run is missing or damaged.
    """
    context = Context.read(run, analysis, samples)
    added = (source for module in parts("sections") for source in module.SECTIONS)
    sources = sorted((*SECTIONS, *added), key=lambda source: source.place)
    conclusion = question_of(context.study).conclude(context)
    summary, says_more = _summary(context, conclusion, sources)
    wall = setups.wall_sentence(context)
    arms = _arms(context)
    forest, found = verdicts.forest(context), verdicts.verdicts(context)
    if conclusion.replaces_verdicts:
        forest, found = forest.model_copy(update={"rows": (), "withheld": ()}), ()
    return ReportView(
        run=run.name,
        directory=str(run.path),
        title=context.study.title,
        question=conclusion.asks,
        dateline=_dateline(context),
        statuses=(*_statuses(context), *(status for source in sources for status in source.statuses(context))),
        arms=arms,
        arms_table=setups.arms_table(context, arms),
        summary=summary,
        on_cards=verdicts.on_cards(context),
        says_more=says_more,
        verdicts=found,
        means=() if conclusion.replaces_verdicts else verdicts.mean_sentences(context),
        conditions=_conditions(context),
        forest=forest,
        sections=tuple(section for source in sources if (section := source.make(context))),
        key_figures=tuple(line for source in sources for line in source.key_figures(context)),
        effort=(performance.epoch_counts(context), *([f"Wall time: {wall}"] if wall else [])),
        command=setups.command(context),
        footnotes=context.footnotes,
        conclusion=conclusion,
        records=verdicts.records(context),
        more_records=tuple(
            RecordList(name=each.name, rows=rows, in_csv=each.in_csv)
            for source in sources
            if (each := source.records) and (rows := tuple(each.make(context)))
        ),
    )


def _summary(
    context: Context, conclusion: Conclusion, sources: Sequence[SectionSource]
) -> tuple[tuple[str, ...], bool]:
    """The summary, and whether it says more than the verdicts below it."""
    if conclusion.replaces_verdicts:
        return conclusion.lead, True
    first = [sentence for each in sources if each.place < Place.THROUGHPUT for sentence in each.findings(context)]
    last = [sentence for each in sources if each.place >= Place.THROUGHPUT for sentence in each.findings(context)]
    says_more = bool(conclusion.lead or first) or len(context.primary) > 1
    return (*conclusion.lead, *first, *verdicts.summary(context), *last), says_more


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
    """Share of all processors used by neither the servers nor the client while measuring; None if unknown."""
    known = context.processors.rows(~np.isnan(context.processors["others"]))
    if not len(known):
        return None
    return float(np.average(known["others"], weights=known["seconds"]))


def _conditions(context: Context) -> str:
    """How busy the machine was while measuring, and with what."""
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
    """Say if the distance between a host's CPUs changed during the run."""
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
            word=FlagKind.UNTRUSTED,
            text="The control, a second instance of the baseline, came out different from the baseline. Something "
            "other than the settings moved the numbers; no line of this report should be relied on.",
        )
    if analysis.trusted is None and analysis.control is not None:
        idle = analysis.control_is_idle
        why = "has fewer than five usable epochs"
        if idle:
            why = "has an epoch without a completed event, in it or in the baseline"
        yield Status(
            word=FlagKind.UNTRUSTED if idle else FlagKind.NOT_FINISHED,
            text=f"The control, a second instance of the baseline, {why}: it neither supports this report nor speaks "
            "against it.",
        )


_ENDINGS = {
    Stop.ABORTED: Status(
        word=FlagKind.NOT_FINISHED,
        text="It was ended by hand; only intervals that are valid at any moment of stopping are shown.",
    ),
    Stop.RUNNING: Status(
        word=FlagKind.NOT_FINISHED, text="Measuring goes on or was broken off; intervals are anytime-valid ones."
    ),
    Stop.EXTENDED: Status(
        word=FlagKind.NOT_FINISHED,
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
            word=FlagKind.INJECTED,
            text=f"A slowdown was injected to prove the method: uncounted events on {', '.join(injected)}.",
        )
    stopped = context.analysis.stopped
    if stopped in _ENDINGS:
        yield _ENDINGS[stopped]
    if stopped in (Stop.BUDGET, Stop.EXTENDED) and context.study.has_target:
        precision = percent_text(context.study.precision)
        yield Status(
            word=FlagKind.NOT_FINISHED,
            text=f"The budget ended before every cell reached its target precision of ±{precision}.",
        )


def _circumstances(context: Context) -> Iterator[Status]:
    others = _others(context)
    if others is not None and others > BUSY_SHARE:
        yield Status(
            word=FlagKind.BUSY_MACHINE,
            text=f"Other work took {numbers.share(others)} of the processors while measuring. The intervals allow "
            "for it, and the ratios are those of a busy machine.",
        )
    disturbed = [bool(outcome.other_bakeoffs) for outcome in context.outcomes if outcome.valid]
    if any(disturbed):
        yield Status(
            word=FlagKind.BUSY_MACHINE,
            text=f"In {sum(disturbed)} of {len(disturbed)} epochs another bakeoff had servers on this machine: each "
            "disturbs the other's measurement. Rerun it alone.",
        )
    count = len({name for differences in context.analysis.undeclared.values() for name in differences})
    if count:
        yield Status(
            word=FlagKind.SETTINGS,
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
