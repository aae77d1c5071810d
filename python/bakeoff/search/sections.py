"""What a bisection has found: the first bad build of a list, or the options that carry a difference."""

from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.sections import Place, SectionSource
from bakeoff.report.view import Row, Section, Table
from bakeoff.search.bisection import Believed, beliefs_of, by_build, skipped_arms
from bakeoff.search.guilty import CONFIDENCE, SMALL_SHARE
from bakeoff.search.model import Search, search_of
from bakeoff.search.settings_section import attribution_section
from bakeoff.spec import Frozen
from bakeoff.stats import interval as iv
from bakeoff.units import percent_text

_LIKELY = 0.95  # of the builds or options that are listed while nothing is decided
_ROWS_LEAST = 0.001  # probability from which a build that was not measured has a row
_LISTED = 6


class Bisected(Frozen):
    """The answer of a bisection.

    Attributes:
        named: the first changed build, or the options that matter; None if not decided.
        nothing: good and bad do not differ.
        probabilities: of every build or option.
    """

    named: tuple[str, ...] | None
    nothing: bool
    probabilities: dict[str, float]


def believed_of(context: Context) -> Believed | None:
    """Return what a bisection's run says of its builds or options; None if nothing was measured."""
    last_tried = bool(context.outcomes) and context.study.arms[-1].name in context.outcomes[-1].start_order
    skipped = skipped_arms(context.study, context.values, last_tried=last_tried)
    return beliefs_of(context.study, context.values, skipped=skipped)


def question(context: Context) -> str:
    """`Which of 9 builds is the first slow one?`."""
    search = search_of(context.study)
    if search.builds:
        return f"With which of {len(search.builds)} builds did the throughput change?"
    return f"Which of {len(search.options)} options change the throughput?"


def lead(context: Context) -> tuple[str, ...]:
    """Return the answer in two sentences."""
    search, believed = search_of(context.study), believed_of(context)
    if believed is None:
        return ("Nothing was measured yet.",)
    answer = (_of_builds if search.builds else _of_options)(context, search, believed)
    restarts = numbers.restarts(context.analysis.epochs_used)
    return (answer, f"This rests on {restarts} of the baseline and one other arm.")


def bisection_section(context: Context) -> Section | None:
    """List the builds or options; None if the run is not a bisection or has measured nothing."""
    if not isinstance(context.study.question, Search):
        return None
    search, believed = search_of(context.study), believed_of(context)
    if believed is None:
        return None
    table = _builds_table(context, search, believed) if search.builds else _options_table(search, believed)
    return Section.of("Bisection", table, anchor="bisection", nav="Bisection", in_terminal=True)


def bisected(context: Context) -> Bisected | None:
    """Return the answer for programs; None if nothing was measured."""
    search, believed = search_of(context.study), believed_of(context)
    if believed is None:
        return None
    names = [arm.label for arm in search.builds] or [pair.name for pair in search.options]
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
    of_builds = by_build(search, context.values)
    rows, left_out = [], 0
    for number, arm in enumerate(search.builds):
        values, share = of_builds.get(number, []), believed.probabilities[number]
        if number and not values and share < _ROWS_LEAST:
            left_out += 1
            continue
        estimate = iv.estimate_of(values, iv.live_interval)
        measured = numbers.change(estimate.mean, estimate.interval.half_width) if values else "–"
        rows.append(
            Row.of(
                arm.label,
                "good" if not number else measured,
                str(context.analysis.epochs_used if not number else len(values)),
                "–" if not number else _probability(share),
                slot=context.slots.get(arm.name),
            )
        )
    note = f"In the order given; not shown are builds that were neither measured nor are likely ({left_out})."
    return Table(
        id="bisection",
        columns=("build", "throughput", "restarts", "first changed"),
        rows=tuple(rows),
        note=note if left_out else "In the order given.",
    )


# ---- options ---------------------------------------------------------------------------------------------------------


def _of_options(context: Context, search: Search, believed: Believed) -> str:
    if believed.nothing:
        return _nothing(context, search)
    names = [pair.name for pair in search.options]
    shares, effects = believed.probabilities, believed.effects
    guilty = [each for each in range(len(names)) if shares[each] >= CONFIDENCE]
    guilty.sort(key=lambda each: -abs(effects[each]))
    half = believed.whole.interval.half_width
    named = ", ".join(f"{names[each]} ({numbers.change(effects[each], half)})" for each in guilty)
    if believed.named:
        verb = "carries" if len(guilty) == 1 else "carry"
        together = f"of {_whole(believed)} that all {len(names)} make together"
        return f"{len(guilty)} of {len(names)} options {verb} the difference {together}: {named}."
    undecided = [each for each in range(len(names)) if 1 - CONFIDENCE < shares[each] < CONFIDENCE]
    undecided.sort(key=lambda each: -shares[each])
    listed = ", ".join(names[each] for each in undecided[:_LISTED]) or "others"
    more = f" and {len(undecided) - _LISTED} more" if len(undecided) > _LISTED else ""
    verb = "changes" if len(guilty) == 1 else "change"
    known = f"{named} {verb} the throughput; " if guilty else ""
    return f"Not decided. All {len(names)} options together make {_whole(believed)}: {known}{listed}{more} may."


def _options_table(search: Search, believed: Believed) -> Table:
    shares, effects, half = believed.probabilities, believed.effects, believed.whole.interval.half_width
    rows = []
    for each in sorted(range(len(shares)), key=lambda number: (-shares[number], number)):
        share = shares[each]
        is_out = share <= 1 - CONFIDENCE or believed.named is not None
        answer = "yes" if share >= CONFIDENCE else "no" if is_out else "open"
        effect = numbers.change(effects[each] / share, half) if share > 1 - CONFIDENCE else "–"
        rows.append(Row.of(search.options[each].shown, answer, effect, _probability(share)))
    return Table(
        id="bisection",
        columns=("option", "guilty", "throughput", "probability"),
        rows=tuple(rows),
        note="Throughput: what the option does if it does anything. Effects are taken to multiply, and few options to "
        f"have any; one below {SMALL_SHARE:.0%} of the whole difference is not looked for.",
    )


SECTIONS = (
    SectionSource(Place.ANSWER, bisection_section),
    SectionSource(Place.CAUSES, attribution_section),
)
