"""A gate's answer in a report."""

from bakeoff.gate.rule import Answer, Gate, GateQuestion, judge, limit_text, reach_of
from bakeoff.report import numbers
from bakeoff.report.context import Context, Place, SectionSource
from bakeoff.report.view import Column, Section, Table
from bakeoff.stats.interval import standard_deviation
from bakeoff.stats.model import Comparison, Estimate
from bakeoff.units import percent_text

ANCHOR = "gate"
_NAMED = 3  # comparisons that the answer names; the table has all

HEADINGS = {Answer.PASS: "passed", Answer.FAIL: "failed", Answer.UNCLEAR: "cannot tell"}


def gate_of(context: Context) -> Gate:
    limit, analysis = context.study.question.reference, context.analysis
    return judge(analysis.comparisons, limit=limit, family=analysis.family, trusted=analysis.trusted)


def question(context: Context) -> str:
    names = [context.labels[name] for name in context.analysis.contenders]
    which = names[0] if len(names) == 1 else f"each of {', '.join(names)}"
    return f"Is {which} at most {_allowed(context)} slower than {context.labels[context.analysis.baseline]}?"


def lead(context: Context) -> tuple[str, ...]:
    gate = gate_of(context)
    found = list(zip(context.primary, (each.answer for each in gate.cells), strict=True))
    allowed, cells = _allowed(context), f"{len(found)} comparisons"
    heading = f"The gate {HEADINGS[gate.answer]}"
    if gate.why:
        return (f"{heading}: {gate.why}",)
    if gate.answer is Answer.PASS:
        lowest = min(context.primary, key=lambda each: each.estimate.interval.low or 0.0)
        where = "the comparison is" if len(found) == 1 else f"all {cells} are"
        return (f"{heading}: {where} within the allowed {allowed}; the lowest is {_named(context, lowest)}.",)
    failed = [each for each, answer in found if answer is gate.answer]
    worst = sorted(failed, key=lambda each: each.estimate.mean) if len(failed) > _NAMED else failed
    named = [_named(context, each) for each in worst[:_NAMED]]
    named += [f"and {len(failed) - _NAMED} more"] if len(failed) > _NAMED else []
    several = f"{len(failed)} of {cells}" if len(found) > 1 else "the comparison"
    what = f"beyond the allowed {allowed}"
    if gate.answer is Answer.UNCLEAR:
        what = f"not shown to be within the allowed {allowed}, nor beyond it"
    verb = "is" if len(failed) == 1 else "are"
    return (f"{heading}: {several} {verb} {what}: {'; '.join(named)}.",)


def _section(context: Context) -> Section | None:
    if not isinstance(context.study.question, GateQuestion):
        return None
    return Section.of("Gate", gate_table(context), anchor=ANCHOR, nav="Gate", in_terminal=True)


def gate_table(context: Context) -> Table:
    several = len(context.analysis.contenders) > 1
    return Table.of(
        "gate",
        zip(context.primary, gate_of(context).cells, strict=True),
        Column("cell", lambda pair: context.cell_title(pair[0].cell)),
        Column("contender", lambda pair: (several and context.labels[pair[0].contender]) or None),
        Column("throughput", lambda pair: _change(pair[0].estimate)),
        Column("interval", lambda pair: numbers.change_interval(pair[0].estimate.interval) or "none yet"),
        Column("answer", lambda pair: pair[1].answer.value),
        Column("restarts", lambda pair: pair[0].estimate.n),
        slot=lambda pair: context.slots[pair[0].contender],
        note=_reach(context),
    )


def _change(estimate: Estimate) -> str:
    return numbers.change(estimate.mean, estimate.interval.half_width) if estimate.n else "n/a"


def _allowed(context: Context) -> str:
    return limit_text(context.study.question.reference)


def _named(context: Context, comparison: Comparison) -> str:
    """`oltp_read_only · 4 threads, −5.1% (−5.9% to −4.2%)`."""
    if not comparison.estimate.n:
        return f"{context.titled(comparison.cell, comparison.contender)}, not measured"
    within = numbers.change_interval(comparison.estimate.interval) or "no interval yet"
    return f"{context.titled(comparison.cell, comparison.contender)}, {_change(comparison.estimate)} ({within})"


def _reach(context: Context) -> str:
    limit = context.study.question.reference
    values = [[point.value for point in each.points] for each in context.primary]
    known = [each for each in values if len(each) > 1]
    if not known:
        return ""
    passes, fails = reach_of(((standard_deviation(each), len(each)) for each in known), limit=limit)
    least = "builds as fast as the baseline may not pass" if passes >= 0 else f"up to {percent_text(passes)} passes"
    return (
        f"Allowed: {_allowed(context)}. With these restarts and this noise, nine times in ten: {least}; a slowdown "
        f"from {percent_text(fails)} on fails."
    )


SECTIONS = (SectionSource(Place.ANSWER, _section),)
