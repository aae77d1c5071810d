"""What a bisection has found: the first bad build of a list, or the options that carry a difference."""

from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.sections import Head, Place, SectionSource
from bakeoff.report.view import Frozen, Row, Section, Table
from bakeoff.search.bisection import Believed, beliefs_of, by_build, skipped_arms
from bakeoff.search.guilty import CONFIDENCE, SMALL_SHARE
from bakeoff.search.settings_section import attribution_section
from bakeoff.spec.study import Search
from bakeoff.stats import interval as iv
from bakeoff.units import percent_text

_LIKELY = 0.95  # of the builds or options that are listed while nothing is decided
_ROWS_LEAST = 0.001  # probability from which a build that was not measured has a row
_LISTED = 6


class Bisected(Frozen):
    """The answer of a bisection.

    Attributes:
        named: the first changed build, or the options that matter; None while undecided.
        nothing: the first and the last do not differ.
        probabilities: of every build or option.
    """

    named: tuple[str, ...] | None
    nothing: bool
    probabilities: dict[str, float]


def _values(context: Context) -> dict[str, list[float]]:
    """Contender -> log ratios over the baseline, one per epoch. An epoch without a completed event has none."""
    return {each.contender: [point.value for point in each.points] for each in context.primary}


def believed_in(context: Context) -> Believed | None:
    """What is believed of each build or option; None unless the run is a bisection and has measured something."""
    study, outcomes = context.study, context.outcomes
    if not study.search:
        return None
    last_tried = bool(outcomes) and study.arms[-1].name in outcomes[-1].start_order
    values = _values(context)
    return beliefs_of(study, values, skipped=skipped_arms(study, values, last_tried=last_tried))


def _head(context: Context) -> Head | None:
    search, believed = context.study.search, context.once(believed_in)
    if search is None:
        return None
    question = f"Which of {len(search.options)} options change the throughput?"
    if search.builds:
        question = f"With which of {len(search.builds)} builds did the throughput change?"
    lead: tuple[str, ...] = ("Nothing was measured yet.",)
    answer = None
    if believed:
        said = (_of_builds if search.builds else _of_options)(context, search, believed)
        restarts = numbers.restarts(context.analysis.epochs_used)
        lead = (said, f"This rests on {restarts} of the baseline and one other arm.")
        names = [arm.label for arm in search.builds] or [pair.name for pair in search.options]
        answer = Bisected(
            named=None if believed.named is None else tuple(names[each] for each in believed.named),
            nothing=believed.nothing,
            probabilities=dict(zip(names, believed.probabilities, strict=True)),
        )
    return Head("bisection", question, lead, answer, replaces_verdicts=True)


def _section(context: Context) -> Section | None:
    """A line for each build or option."""
    search, believed = context.study.search, context.once(believed_in)
    if search is None or believed is None:
        return None
    table = _builds_table(context, search, believed) if search.builds else _options_table(search, believed)
    return Section.of("Bisection", table, anchor="bisection", nav="Bisection", in_terminal=True)


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
    of_builds = by_build(search, _values(context))
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
    SectionSource(Place.ANSWER, _section, head=_head),
    SectionSource(Place.CAUSES, attribution_section),
)
