"""What a search found: the first bad build, or the settings that explain a difference."""

from bakeoff.errors import SpecError
from bakeoff.report import numbers
from bakeoff.report.context import Context, Place, SectionSource
from bakeoff.report.view import Column, Fold, Prose, Section, Table, identifier
from bakeoff.results import RunDirectory, run_argument
from bakeoff.search.attribution import DOCUMENT, FOLDER, Attribution, differing
from bakeoff.search.bisection import Believed, beliefs_of, by_build, skipped_arms
from bakeoff.search.guilty import CONFIDENCE, SMALL_SHARE
from bakeoff.search.model import SERVER, Search, search_of
from bakeoff.spec import Frozen
from bakeoff.stats import interval as iv
from bakeoff.stats.model import Analysis, Stop
from bakeoff.units import percent_text, shortened

_LIKELY = 0.95  # total probability of the builds that are named while nothing is decided
_ROWS_LEAST = 0.001  # probability from which a build that was not measured has a row
_LISTED = 6


class Bisected(Frozen):
    named: tuple[str, ...] | None  # the first changed build, or the options that matter; None if not decided
    nothing: bool  # good and bad do not differ
    probabilities: dict[str, float]


def believed_of(context: Context) -> Believed | None:
    last_tried = bool(context.outcomes) and context.study.arms[-1].name in context.outcomes[-1].start_order
    skipped = skipped_arms(context.study, context.values, last_tried=last_tried)
    return beliefs_of(context.study, context.values, skipped=skipped)


def question(context: Context) -> str:
    search = search_of(context.study)
    if search.builds:
        return f"With which of {len(search.builds)} builds did the throughput change?"
    return f"Which of {len(search.settings)} settings change the throughput?"


def lead(context: Context) -> tuple[str, ...]:
    search, believed = search_of(context.study), believed_of(context)
    if believed is None:
        return ("Nothing was measured yet.",)
    answer = (_of_builds if search.builds else _of_settings)(context, search, believed)
    restarts = numbers.restarts(context.analysis.epochs_used)
    return (answer, f"This rests on {restarts} of the baseline and one other arm.")


def bisection_section(context: Context) -> Section | None:
    if not isinstance(context.study.question, Search):
        return None
    return Section.of("Bisection", search_table(context), anchor="bisection", nav="Bisection", in_terminal=True)


def search_table(context: Context) -> Table | None:
    search, believed = search_of(context.study), believed_of(context)
    if believed is None:
        return None
    return _builds_table(context, search, believed) if search.builds else _settings_table(search, believed)


def bisected(context: Context) -> Bisected | None:
    search, believed = search_of(context.study), believed_of(context)
    if believed is None:
        return None
    names = [arm.label for arm in search.builds] or [each.name for each in search.settings]
    return Bisected(
        named=None if believed.named is None else tuple(names[each] for each in believed.named),
        nothing=believed.nothing,
        probabilities=dict(zip(names, believed.probabilities, strict=True)),
    )


def _probability(share: float) -> str:
    return "> 99.9%" if share > 0.9995 else "< 0.1%" if share < 0.0005 else f"{share * 100:.1f}%"


def _whole(believed: Believed) -> str:
    """`−3.1% (−3.9% to −2.3%)`."""
    interval = believed.whole.interval
    whole = numbers.change(believed.whole.mean, interval.half_width)
    within = numbers.change_interval(interval)
    return f"{whole} ({within})" if within else whole


def _nothing(context: Context, search: Search) -> str:
    bad = "the last build" if search.builds else "the server with all of them"
    return f"Nothing to be found: {bad} is as fast as the first within ±{percent_text(context.study.precision)}."


# ---- builds ----------------------------------------------------------------------------------------------------------


def _of_builds(context: Context, search: Search, believed: Believed) -> str:
    if believed.nothing:
        return _nothing(context, search).replace("the first", search.builds[0].label)
    labels = [arm.label for arm in search.builds]
    shares = believed.probabilities
    if believed.named:
        *unmeasured, which = (labels[each] for each in believed.named)
        if unmeasured:
            which += f", or with {', '.join(unmeasured)} before it, which could not be measured"
        return (
            f"The throughput changed with {which}, with a probability of "
            f"{_probability(sum(shares[each] for each in believed.named))}: {_whole(believed)} from there on, against "
            f"{labels[0]}."
        )
    likely: list[int] = []
    for number in sorted(range(len(shares)), key=lambda each: -shares[each]):
        if sum(shares[each] for each in likely) < _LIKELY:
            likely.append(number)
    likely.sort()
    which = f"one from {labels[likely[0]]} to {labels[likely[-1]]}" if len(likely) > 1 else labels[likely[0]]
    return f"Not decided: with a probability of {_probability(_LIKELY)} the first changed build is {which}."


def _builds_table(context: Context, search: Search, believed: Believed) -> Table:
    values = {number: found for number, found in by_build(search, context.values).items() if found}
    shares = believed.probabilities
    shown = [at for at in range(len(search.builds)) if not at or at in values or shares[at] >= _ROWS_LEAST]

    def throughput(at: int) -> str:
        estimate = iv.estimate_of(values.get(at, []), iv.precision_interval)
        return numbers.change(estimate.mean, estimate.interval.half_width) if estimate.n else "–"

    left_out = len(search.builds) - len(shown)
    return Table.of(
        "bisection",
        shown,
        Column("build", lambda at: search.builds[at].label),
        Column("throughput", lambda at: throughput(at) if at else "good"),
        Column("restarts", lambda at: len(values.get(at, [])) if at else context.analysis.epochs_used),
        Column("first changed", lambda at: _probability(shares[at]) if at else "–"),
        slot=lambda at: context.slots.get(search.builds[at].name),
        note=f"In the order given, without unlikely builds ({left_out})." if left_out else "In the order given.",
    )


# ---- settings --------------------------------------------------------------------------------------------------------


def _of_settings(context: Context, search: Search, believed: Believed) -> str:
    if believed.nothing:
        return _nothing(context, search)
    names = [each.name for each in search.settings]
    shares, effects = believed.probabilities, believed.effects
    likely = [each for each in range(len(names)) if shares[each] >= CONFIDENCE]
    likely.sort(key=lambda each: -abs(effects[each]))
    half = believed.whole.interval.half_width
    named = ", ".join(f"{names[each]} ({numbers.change(effects[each], half)})" for each in likely)
    if believed.named:
        verb = "explains" if len(likely) == 1 else "explain"
        together = f"of {_whole(believed)} that all {len(names)} make together"
        return f"{len(likely)} of {len(names)} settings {verb} the difference {together}: {named}."
    undecided = [each for each in range(len(names)) if 1 - CONFIDENCE < shares[each] < CONFIDENCE]
    undecided.sort(key=lambda each: -shares[each])
    listed = ", ".join(names[each] for each in undecided[:_LISTED]) or "others"
    more = f" and {len(undecided) - _LISTED} more" if len(undecided) > _LISTED else ""
    verb = "changes" if len(likely) == 1 else "change"
    known = f"{named} {verb} the throughput; " if likely else ""
    return f"Not decided. All {len(names)} settings together make {_whole(believed)}: {known}{listed}{more} may."


def _settings_table(search: Search, believed: Believed, *, name: str = "bisection") -> Table:
    shares, effects, half = believed.probabilities, believed.effects, believed.whole.interval.half_width

    def answer(at: int) -> str:
        if shares[at] >= CONFIDENCE:
            return "yes"
        return "no" if shares[at] <= 1 - CONFIDENCE or believed.named is not None else "open"

    def effect(at: int) -> str:
        return numbers.change(effects[at] / shares[at], half) if shares[at] > 1 - CONFIDENCE else "–"

    return Table.of(
        name,
        sorted(range(len(shares)), key=lambda at: (-shares[at], at)),
        Column("setting", lambda at: search.settings[at].shown),
        Column("matters", answer),
        Column("throughput", effect),
        Column("probability", lambda at: _probability(shares[at])),
        note="Throughput: what the setting does if it does anything. Assumes that effects multiply and that few "
        f"settings have any; one below {SMALL_SHARE:.0%} of the whole difference is not looked for.",
    )


# ---- settings of a run that is explained -----------------------------------------------------------------------------


def attribution_section(context: Context) -> Section | None:
    found = _searches(context)
    claimed = dict.fromkeys(each.contender for each in context.primary if each.verdict.claims)
    return Section.of(
        "Which setting",
        *(_searched(context, run, asked) for asked, run in found.values()),
        *(_not_measured(context, each) for each in claimed if (context.analysis.baseline, each) not in found),
        anchor="why-settings",
        in_terminal=bool(found),
    )


def _searches(context: Context) -> dict[tuple[str, str], tuple[Attribution, RunDirectory]]:
    """Find the newest search for every (baseline, contender); an interrupted one only if there is no other."""
    found = []
    for path in (context.run.path / FOLDER).glob(f"*/{DOCUMENT}"):
        run = RunDirectory(path.parent)
        asked, analysis = run.read(DOCUMENT, Attribution), run.read("analysis.json", Analysis)
        if asked and analysis and {asked.baseline, asked.contender} <= context.arms.keys():
            found.append((analysis.stopped is not Stop.ABORTED, run.manifest().created_at, asked, run))
    ranked = sorted(found, key=lambda each: each[:2])
    return {(asked.baseline, asked.contender): (asked, run) for *_, asked, run in ranked}


def _searched(context: Context, run: RunDirectory, asked: Attribution) -> Section | None:
    analysis = run.read("analysis.json", Analysis)
    if analysis is None:
        return None
    inner = Context(run, analysis)
    believed = believed_of(inner)
    if believed is None:
        return None
    labels = context.labels[asked.baseline], context.labels[asked.contender]
    (cell,) = inner.cells
    where = f"{inner.cell_title(cell)}: " if len(context.cells) > 1 else ""
    rows = [(name, reason) for reason, names in asked.left_out.items() for name in names]
    names = identifier(asked.baseline, asked.contender)
    left_out = Table.listed(f"settings-left-out-{names}", ("setting", "not separated because"), rows)
    return Section.of(
        f"{labels[1]} over {labels[0]}",
        Prose(text=where + " ".join(lead(inner))),
        _settings_table(search_of(inner.study), believed, name=f"settings-{names}"),
        Fold(title=f"Settings that differ and are not separated ({len(rows)})", content=left_out),
        in_terminal=True,
    )


def _not_measured(context: Context, contender: str) -> Prose | None:
    baseline = context.arms[context.analysis.baseline]
    try:
        asked = differing(context.study, baseline, context.arms[contender], context.variables)
    except SpecError:
        return None
    names = [
        each.name if each.factor == SERVER else f"`{each.name}` ({shortened(each.good, 20)}, {shortened(each.bad, 20)})"
        for each in asked.settings
    ]
    labels = f"{context.labels[contender]} and {context.labels[baseline.name]}"
    if len(names) < 2:
        alone = asked.settings and asked.settings[0].factor != SERVER
        return Prose(text=f"{labels} differ in {names[0]} alone.") if alone else None
    text = f"{labels} differ in {', '.join(names)}."
    if not context.study.question.adds_arms and not any(context.host_of.values()):
        command = f"bakeoff explain {run_argument(context.run.path)} --attribute"
        text += f" `{command}` finds out which of them explains the difference."
    return Prose(text=text)


SECTIONS = (SectionSource(Place.ANSWER, bisection_section), SectionSource(Place.CAUSES, attribution_section))
