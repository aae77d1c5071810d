"""The section "Which setting": what each setting that differs does to a difference, by the arms in between."""

from collections.abc import Iterator, Mapping, Sequence

from bakeoff.errors import SpecError
from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.studies import measured, mixed_text
from bakeoff.report.view import Fold, Prose, Row, Section, Table, Value
from bakeoff.results import RunDirectory, list_runs
from bakeoff.search.attribution import (
    DOCUMENT,
    FOLDER,
    SERVER,
    Attribution,
    Candidate,
    SettingEffect,
    differing,
    setting_effects,
    setting_interactions,
)
from bakeoff.stats.model import Analysis, Stop
from bakeoff.units import shortened

_VALUE_MAX = 60


def attribution_section(context: Context) -> Section | None:
    """Which setting carries a difference, where the arms in between were measured; else the settings that differ."""
    found = _attributions(context)
    claimed = dict.fromkeys(each.contender for each in context.primary if each.verdict.claims)
    return Section.of(
        "Which setting",
        *(_attribution(context, run, asked) for asked, run in found.values()),
        *_unfinished(context, found),
        *(_not_measured(context, each) for each in claimed if (context.analysis.baseline, each) not in found),
        anchor="why-settings",
        in_terminal=bool(found),
    )


def _attributions(context: Context) -> dict[tuple[str, str], tuple[Attribution, RunDirectory]]:
    """By (baseline, contender) the newest run of the arms in between; one that was ended early only without another."""
    found = []
    for path in (context.run.path / FOLDER).glob(f"*/{DOCUMENT}"):
        run = RunDirectory(path.parent)
        asked, analysis = run.read(DOCUMENT, Attribution), run.read("analysis.json", Analysis)
        if asked and analysis and {asked.baseline, asked.contender} <= context.arms.keys():
            found.append((not analysis.stopped.anytime_only, run.manifest().created_at, asked, run))
    ranked = sorted(found, key=lambda each: each[:2])
    return {(asked.baseline, asked.contender): (asked, run) for *_, asked, run in ranked}


def _unfinished(
    context: Context, finished: Mapping[tuple[str, str], tuple[Attribution, RunDirectory]]
) -> Iterator[Prose]:
    """A line for two arms of which no run of the arms in between has come to its end."""
    titles = {run.manifest().title for _, run in finished.values()}
    begun = {each.title for each in list_runs(context.run.path / FOLDER) if each.title} - titles
    for title in sorted(begun):
        yield Prose(
            text=f"{title}: the arms in between are unfinished, so that no shares are shown. "
            f"`bakeoff explain {context.run.name} --attribute` measures them anew."
        )


def _attribution(context: Context, run: RunDirectory, asked: Attribution) -> Section | None:
    analysis, design = run.read("analysis.json", Analysis), run.study().design
    if analysis is None or design is None:
        return None
    effects = setting_effects(analysis, design, asked.contender_arm)
    fraction = design.fraction.sentences() if design.fraction else ()
    factors = {each.name: each for each in asked.candidates}
    labels = context.labels[asked.baseline], context.labels[asked.contender]
    table = Table(
        id=_id("settings", asked.baseline, asked.contender),
        group_title="cell",
        columns=("setting", "from", "to", "ratio", "share of the difference", "finding"),
        rows=tuple(_effect_row(context, each, factors.get(each.factor)) for each in effects),
        all_text=True,
        note=" ".join(_attribution_notes(asked, effects, fraction, analysis.stopped)),
    )
    mixed = [
        Row.of(
            f"{each.names[0]} × {each.names[1]}",
            Value(text=numbers.estimate_short(each.estimate), sub=mixed_text(each.mixed)),
            group=context.cell_title(each.cell),
        )
        for each in setting_interactions(analysis, design)
    ]
    interactions = Table(
        id=_id("settings-together", asked.baseline, asked.contender),
        group_title="cell",
        columns=("settings", "ratio of the ratios"),
        rows=tuple(mixed),
        note="What both do together over what each does alone.",
    )
    return Section.of(f"{labels[1]} over {labels[0]}", table, interactions, _left_out(asked), in_terminal=True)


def _effect_row(context: Context, effect: SettingEffect, candidate: Candidate | None) -> Row:
    if effect.factor == SERVER:
        name, values = "the version itself", ("", "")
    elif not effect.factor:
        name, values = "three settings and more together", ("", "")
    else:
        name = candidate.name if candidate else effect.factor
        both = (candidate.baseline, candidate.contender) if candidate else ("", "")
        values = (shortened(both[0], _VALUE_MAX), shortened(both[1], _VALUE_MAX))
    share = effect.share
    shown = Value(text="cannot tell")
    if share is not None:
        low, high = share.interval.low, share.interval.high
        within = "" if low is None or high is None else f"{numbers.percent(low)} to {numbers.percent(high)}"
        shown = Value(text=numbers.percent(share.mean), sub=within)
    finding = "no effect shown" if effect.p_adjusted is not None else "cannot tell"
    if effect.carries:
        finding = "faster" if effect.effect.mean > 0 else "slower"
    return Row.of(name, *values, measured(effect.effect), shown, finding, group=context.cell_title(effect.cell))


def _attribution_notes(
    asked: Attribution, effects: Sequence[SettingEffect], fraction: Sequence[str], ended: Stop
) -> Iterator[str]:
    epochs = min((each.effect.n for each in effects), default=0)
    yield (
        f"Arms in between, {numbers.restarts(epochs)}: a setting's ratio is that of its second value over its first, "
        "averaged over the values of the others; the shares are of the log ratio. Findings are corrected for the "
        "number of settings (Holm)."
    )
    if ended.anytime_only:
        yield "The run was ended before it was done: what has an effect is unknown."
    yield from fraction[:2]  # which interactions are mixed stands beside those that are shown
    if count := sum(map(len, asked.left_out.values())):
        yield f"{count} other settings that differ are part of the version itself."


def _left_out(asked: Attribution) -> Fold:
    rows = tuple(Row.of(name, reason) for reason, names in asked.left_out.items() for name in names)
    name = _id("settings-left-out", asked.baseline, asked.contender)
    table = Table(id=name, columns=("setting", "not separated because"), rows=rows, all_text=True)
    return Fold(title=f"Settings that differ and are not separated ({len(rows)})", content=table)


def _not_measured(context: Context, contender: str) -> Prose | None:
    """The settings that differ, and the command that separates their effects where it can (`require_explainable`)."""
    baseline = context.arms[context.analysis.baseline]
    try:
        asked = differing(context.study, baseline, context.arms[contender], context.variables)
    except SpecError:
        return None
    names = [
        f"`{each.name}` ({shortened(each.baseline, 20)}, {shortened(each.contender, 20)})" for each in asked.candidates
    ]
    labels = f"{context.labels[contender]} and {context.labels[baseline.name]}"
    if len(names) + asked.server < 2:
        return Prose(text=f"{labels} differ in {names[0]} alone.") if names else None
    listed = ", ".join([*names, *(["the version itself"] if asked.server else [])])
    text = f"{labels} differ in {listed}."
    if not context.study.question.adds_arms and not any(context.host_of.values()):
        text += f" `bakeoff explain {context.run.name} --attribute` measures which carries the difference."
    return Prose(text=text)


def _id(*words: str) -> str:
    return "-".join("".join(c if c.isalnum() else "-" for c in word) for word in words)
