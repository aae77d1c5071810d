"""Build a report: its head, and its sections in order."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bakeoff.features import parts
from bakeoff.plan import EPOCHS_MIN
from bakeoff.report import machine, numbers, performance, setups, studies, verdicts
from bakeoff.report.context import Context, Place, SectionSource, question_of
from bakeoff.report.view import ArmView, Conclusion, Forest, ReportView, Role, Screen, Status
from bakeoff.results import RunDirectory
from bakeoff.results.epoch_data import wall_time
from bakeoff.stats.model import Analysis, FlagKind, Stop
from bakeoff.units import format_duration, percent_text

_MOVED = 2.0  # slowest over fastest cache-line round trip from which the host has moved CPUs
BUSY_SHARE = 0.10
SECTIONS = (
    SectionSource(Place.ANSWER, studies.published_section, key_figures=studies.published_lines),
    SectionSource(Place.THROUGHPUT, performance.throughput_section),
    SectionSource(Place.THROUGHPUT, performance.stability_section),
    SectionSource(Place.THROUGHPUT, performance.restart_section, findings=performance.restart_findings),
    SectionSource(Place.THROUGHPUT, performance.epochs_section),
    SectionSource(Place.THROUGHPUT, machine.hosts_section, findings=machine.hosts_findings),
    SectionSource(Place.LATENCY, performance.latency_section),
    SectionSource(Place.STUDY, studies.effects_section),
    SectionSource(Place.STUDY, studies.pairs_section),
    SectionSource(Place.COSTS, machine.costs_section),
    SectionSource(Place.COSTS, machine.sizes_section),
    SectionSource(Place.COSTS, machine.storage_section, findings=machine.storage_findings),
    SectionSource(Place.COSTS, machine.processors_section),
    SectionSource(Place.SETUP, setups.data_section),
    SectionSource(Place.SETUP, setups.settings_section),
    SectionSource(Place.SETUP, setups.environment_section),
    SectionSource(Place.SETUP, setups.method_section),
    SectionSource(Place.SETUP, setups.again_section),
)
"""The core's sections; features add theirs (`SectionSource`)."""


def build_view(run: RunDirectory, analysis: Analysis, *, samples: Mapping[str, str] | None = None) -> ReportView:
    """Build everything a report shows; `samples` maps a digest to a statement with its literals."""
    context = Context(run, analysis, samples)
    added = (source for module in parts("sections") for source in module.SECTIONS)
    sources = sorted((*SECTIONS, *added), key=lambda source: source.place)
    conclusion = question_of(context.study).conclude(context)
    single = not conclusion.replaces_verdicts
    wall = setups.wall_sentence(context)
    arms = _arms(context)
    forest = verdicts.forest(context)
    return ReportView(
        run=run.name,
        directory=str(run.path),
        title=context.study.title,
        question=conclusion.asks,
        dateline=_dateline(context),
        statuses=(*_statuses(context), *(status for source in sources for status in source.statuses(context))),
        arms=arms,
        arms_table=setups.arms_table(context, arms),
        summary=_summary(context, conclusion, sources),
        verdicts=verdicts.verdicts(context) if single else (),
        means=verdicts.mean_sentences(context) if single else (),
        conditions=_conditions(context),
        forest=forest if single else Forest(legend=forest.legend),
        sections=tuple(section for source in sources if (section := source.make(context))),
        screen=_screen(context, conclusion, sources),
        effort=(performance.epoch_counts(context), *([f"Wall time: {wall}"] if wall else [])),
        command=setups.command(context),
        footnotes=context.footnotes,
        conclusion=conclusion,
        records=verdicts.records(context),
        more_records=tuple(found for source in sources if source.records and (found := source.records(context)).rows),
    )


def _summary(context: Context, conclusion: Conclusion, sources: Sequence[SectionSource]) -> tuple[str, ...]:
    if conclusion.replaces_verdicts:
        return conclusion.lead
    first = [sentence for each in sources if each.place < Place.THROUGHPUT for sentence in each.findings(context)]
    last = [sentence for each in sources if each.place >= Place.THROUGHPUT for sentence in each.findings(context)]
    return (*conclusion.lead, *first, *verdicts.summary(context), *last)


def _screen(context: Context, conclusion: Conclusion, sources: Sequence[SectionSource]) -> Screen:
    late = (sentence for each in sources if each.place >= Place.THROUGHPUT for sentence in each.findings(context))
    early = (sentence for each in sources if each.place < Place.THROUGHPUT for sentence in each.findings(context))
    first = conclusion.lead[:1] if conclusion.replaces_verdicts else (*conclusion.lead, *early)
    shown = (conclusion.table, "", ()) if conclusion.table else verdicts.comparisons_table(context)
    return Screen(
        answer=" ".join(first) or verdicts.answer(context),
        charts=None if conclusion.table else verdicts.ladder(context),
        table=shown[0],
        caption=shown[1],
        ranks=shown[2],
        why=tuple(line for each in sources if each.place is Place.CAUSES for line in each.key_figures(context)),
        figures=(
            *late,
            *(line for each in sources if each.place > Place.CAUSES for line in each.key_figures(context)),
        ),
        published=tuple(line for each in sources if each.place is Place.ANSWER for line in each.key_figures(context)),
        effort=_effort(context, conclusion.lead[1:] if conclusion.replaces_verdicts else ()),
    )


def _effort(context: Context, rests_on: Sequence[str]) -> str:
    taken = wall_time(context.run.builds(), context.outcomes)
    discarded = len(context.analysis.discarded)
    left_out = f", {numbers.counted(discarded, 'epoch')} discarded" if discarded else ""
    time = f", {format_duration(taken.total_s)}" if taken.total_s else ""
    holds = " The control, a second baseline, holds 1." if context.analysis.trusted else ""
    restarts = " ".join(rests_on).rstrip(".") or verdicts.restarts_text(context)
    return f"{restarts}{left_out}{time}.{verdicts.noise(context)}{holds}"


def _dateline(context: Context) -> str:
    count = len(context.machines)
    hosts = f"{count} hosts, {context.host}" if count > 1 else str(context.host)
    unlike = " and unlike ones" if len(set(context.kinds.values())) > 1 else ""
    date = f"{context.manifest.created_at:%d %B %Y}".lstrip("0")
    return f"{date} · {hosts}{unlike}"


def _mean_use(context: Context, *columns: str) -> float | None:
    known = context.processors.rows(~np.isnan(context.processors[columns[0]]))
    if not len(known):
        return None
    return float(np.average(np.sum([known[each] for each in columns], axis=0), weights=known["seconds"]))


def _conditions(context: Context) -> str:
    places = "; ".join(context.hosts_and_network or ())
    where = f"{places[0].upper()}{places[1:]}. " if places else ""
    busy, steal = _mean_use(context, "user", "system"), _mean_use(context, "steal")
    others = _mean_use(context, "others")
    if busy is None or steal is None:
        return where.rstrip()
    by_others = "" if others is None else f", {numbers.share(others)} with work that was not part of the measurement"
    whose = f" of {context.study.client}" if context.study.client else ""
    return (
        f"{where}While measuring the processors{whose} were {numbers.share(busy)} busy{by_others}; the hypervisor took "
        f"{numbers.share(steal)} (steal).{_moved_cpus(context)}"
    )


def _moved_cpus(context: Context) -> str:
    for host in dict.fromkeys(outcome.host for outcome in context.outcomes):
        times_ns = [ns for outcome in context.outcomes if outcome.host == host for ns in outcome.cache_line_ns.values()]
        if times_ns and max(times_ns) > _MOVED * min(times_ns):
            return (
                f" Two CPUs{f' of {host}' if host else ''} passed a cache line to each other and back in "
                f"{min(times_ns)} to {max(times_ns)} ns: the host moved them, which may change throughput and ratios."
            )
    return ""


def _statuses(context: Context) -> tuple[Status, ...]:
    found = (*_control(context.analysis), *_ending(context), *_circumstances(context))
    return (*(Status(word=word, text=text) for word, text in found), *setups.data_check_status(context))


def _control(analysis: Analysis) -> Iterator[tuple[str, str]]:
    if analysis.trusted is False:
        yield (
            FlagKind.UNTRUSTED,
            "The control, a second instance of the baseline, differs from the baseline. Something other than the "
            "settings moved the numbers; don't rely on any line of this report.",
        )
    if analysis.trusted is None and analysis.control is not None:
        idle = analysis.control_is_idle
        why = "has an epoch without a completed event" if idle else "has fewer than five usable epochs"
        yield (
            FlagKind.UNTRUSTED if idle else FlagKind.NOT_FINISHED,
            f"The control, a second instance of the baseline, {why}, so it can neither confirm nor refute this report.",
        )


_ENDINGS = {
    Stop.ABORTED: "The run was stopped by hand",
    Stop.RUNNING: "Measuring goes on or was cut short",
    Stop.EXTENDED: "The run went on after an answer was in sight, or with another budget than at its start",
}


def _ending(context: Context) -> Iterator[tuple[str, str]]:
    arms = [each for each in context.study.arms if each.slowdown_percent]
    if injected := ", ".join(f"{context.labels[arm.name]} ({arm.slowdown_percent:g} per 100)" for arm in arms):
        yield FlagKind.INJECTED, f"A slowdown was injected to test the method: uncounted events on {injected}."
    stopped = context.analysis.stopped
    if why := _ENDINGS.get(stopped):
        yield FlagKind.NOT_FINISHED, f"{why}, so only what the anytime-valid interval shows is claimed."
    if stopped in (Stop.BUDGET, Stop.EXTENDED) and context.study.has_target:
        epochs, target = context.analysis.epochs_used, percent_text(context.study.precision)
        when = f"before every cell reached its target precision of ±{target}"
        if epochs < EPOCHS_MIN:
            when = f"after {epochs} of the {EPOCHS_MIN} restarts that a verdict takes"
        yield FlagKind.NOT_FINISHED, f"The budget ended {when}."


def _circumstances(context: Context) -> Iterator[tuple[str, str]]:
    others = _mean_use(context, "others")
    if others is not None and others > BUSY_SHARE:
        yield (
            FlagKind.BUSY_MACHINE,
            f"Other work took {numbers.share(others)} of the processors while measuring. The intervals allow for it, "
            "and the ratios are those of a busy machine.",
        )
    disturbed = [bool(outcome.other_bakeoffs) for outcome in context.outcomes if outcome.valid]
    if any(disturbed):
        yield (
            FlagKind.BUSY_MACHINE,
            f"In {sum(disturbed)} of {len(disturbed)} epochs another bakeoff had servers on this machine, and each "
            "disturbs the other's measurement. Rerun it alone.",
        )
    count = len({name for differences in context.analysis.undeclared.values() for name in differences})
    if count:
        yield (
            FlagKind.SETTINGS,
            f"{count} {'setting differs' if count == 1 else 'settings differ'} between the arms although the study "
            "did not ask for it; the ratios include their effect. See Settings.",
        )


def _arms(context: Context) -> tuple[ArmView, ...]:
    views = []
    for name, arm in context.arms.items():
        variables = context.variables.get(name, {})
        comment = variables.get("version_comment", "").partition(" -- ")[0]  # MariaDB adds an appeal
        version = (variables.get("version", ""), comment)
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
