"""A gate's answer in a report, and for CI systems: Markdown, annotations of GitHub Actions, JUnit XML."""

import math
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from bakeoff.gate.rule import DEFAULT_NAME, Answer, Gate, GateQuestion, judge, limit_text, reach
from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.renderers import render_markdown
from bakeoff.report.view import ReportView, Row, Section, Table
from bakeoff.stats.interval import standard_deviation
from bakeoff.stats.model import Comparison
from bakeoff.units import percent_text, visible

ANCHOR = "gate"

_HEADINGS = {Answer.PASS: "passed", Answer.FAIL: "failed", Answer.UNCLEAR: "cannot tell"}


def gate_of(context: Context) -> Gate:
    """Judge a gate's run."""
    limit, analysis = context.study.question.reference, context.analysis
    return judge(analysis.comparisons, limit=limit, family=analysis.family, trusted=analysis.trusted)


def question(context: Context) -> str:
    """What a gate asks: `Is path:pr at most 2% slower than path:main?`."""
    names = [context.labels[name] for name in context.analysis.contenders]
    which = names[0] if len(names) == 1 else f"each of {', '.join(names)}"
    return f"Is {which} at most {_allowed(context)} slower than {context.labels[context.analysis.baseline]}?"


def lead(context: Context) -> tuple[str, ...]:
    """Return the gate's answer in a sentence."""
    gate = gate_of(context)
    found = list(zip(context.primary, (each.answer for each in gate.cells), strict=True))
    allowed, cells = _allowed(context), f"{len(found)} comparisons"
    heading = f"The gate {_HEADINGS[gate.answer]}"
    if gate.why:
        return (f"{heading}: {gate.why}",)
    if gate.answer is Answer.PASS:
        worst = min(context.primary, key=lambda each: each.estimate.interval.low or 0.0)
        where = "the comparison is" if len(found) == 1 else f"all {cells} are"
        return (f"{heading}: {where} within the allowed {allowed}; the lowest is {_named(context, worst)}.",)
    failed = [each for each, answer in found if answer is gate.answer]
    several = f"{len(failed)} of {cells}" if len(found) > 1 else "the comparison"
    what = f"beyond the allowed {allowed}"
    if gate.answer is Answer.UNCLEAR:
        what = f"not shown to be within the allowed {allowed}, nor beyond it"
    verb = "is" if len(failed) == 1 else "are"
    return (f"{heading}: {several} {verb} {what}: {'; '.join(_named(context, each) for each in failed)}.",)


def gate_section(context: Context) -> Section | None:
    """List every comparison, and what the gate could tell apart; None if the run is not a gate."""
    if not isinstance(context.study.question, GateQuestion):
        return None
    gate = gate_of(context)
    several = len(context.analysis.contenders) > 1
    columns = ("cell", *(["contender"] if several else []), "throughput", "interval", "answer", "restarts")
    rows = []
    for comparison, judged in zip(context.primary, gate.cells, strict=True):
        estimate = comparison.estimate
        rows.append(
            Row.of(
                context.cell_title(comparison.cell),
                *([context.labels[comparison.contender]] if several else []),
                numbers.change(estimate.mean, estimate.interval.half_width) if estimate.n else "n/a",
                numbers.change_interval(estimate.interval) or "none yet",
                judged.answer.value,
                str(estimate.n),
                slot=context.slots[comparison.contender],
            )
        )
    table = Table(id="gate", columns=columns, rows=tuple(rows), note=_reach(context))
    return Section.of("Gate", table, anchor=ANCHOR, nav="Gate", in_terminal=True)


def _allowed(context: Context) -> str:
    return limit_text(context.study.question.reference)


def _named(context: Context, comparison: Comparison) -> str:
    """`oltp_read_only · 4 threads, −5.1% (−5.9% to −4.2%)`."""
    several = len(context.analysis.contenders) > 1
    where = context.cell_title(comparison.cell) + (f", {context.labels[comparison.contender]}" if several else "")
    estimate = comparison.estimate
    if not estimate.n:
        return f"{where}, not measured"
    half = estimate.interval.half_width
    within = numbers.change_interval(estimate.interval) or "no interval yet"
    return f"{where}, {numbers.change(estimate.mean, half)} ({within})"


def _reach(context: Context) -> str:
    """What the gate could tell apart with as many restarts, by the noisiest comparison."""
    limit = context.study.question.reference
    values = [[point.value for point in each.points] for each in context.primary]
    known = [each for each in values if len(each) > 1]
    if not known:
        return ""
    ends = [reach(standard_deviation(each), len(each), limit=limit) for each in known]
    passes, fails = max(end for end, _ in ends), min(end for _, end in ends)
    least = "builds as fast as the baseline may not pass" if passes >= 0 else f"up to {percent_text(passes)} passes"
    return (
        f"Allowed: {_allowed(context)}. With these restarts and this noise, nine times in ten: {least}; a slowdown "
        f"from {percent_text(fails)} on fails."
    )


# For CI systems.


def _title(name: str) -> str:
    return "bakeoff gate" if name == DEFAULT_NAME else f"bakeoff gate {name}"


def _marker(name: str) -> str:
    """The hidden line by which a bot finds its comment again."""
    return f"<!-- bakeoff:gate:{name} -->"


def gate_markdown(view: ReportView, name: str) -> str:
    """A summary for a pull request, which begins with the marker."""
    gate = _gate(view)
    brief = view.model_copy(
        update={
            "question": f"{_title(name)}: {_HEADINGS[gate.answer]}",
            "sections": tuple(section for section in view.sections if section.anchor == ANCHOR),
            "summary": (*view.summary[:1], *view.summary[-1:]),
            "verdicts": (),
            "means": (),
        }
    )
    again = "" if "`" in view.command else f" Again: `{view.command}`"
    return f"{_marker(name)}\n{render_markdown(brief)}\nReport: `report.html` in `{view.run}`.{again}\n"


def annotations(view: ReportView, name: str, *, level: str) -> Iterator[str]:
    """Commands for GitHub Actions: an error for a gate that failed, one of `level` when it cannot tell."""
    gate = _gate(view)
    if gate.answer is not Answer.PASS:
        kind = "error" if gate.answer is Answer.FAIL else level
        yield f"::{kind} title={_title(name)}::{view.summary[0].replace('%', '%25')}"


def junit(view: ReportView, name: str, *, unclear: str) -> str:
    """JUnit XML with a test for each comparison.

    Args:
        view: of the gate.
        name: of the suite.
        unclear: element of a comparison that makes the gate unclear: `error`, `failure` or `skipped`.
    """
    gate = _gate(view)
    allowed = limit_text(math.log1p(-gate.max_slowdown))
    suite = ElementTree.Element("testsuite", name=_title(name), tests=str(len(gate.cells)))
    kinds = {"failure": 0, "error": 0, "skipped": 0}
    for judged, verdict, row in zip(gate.cells, view.verdicts, view.tables["gate"].rows, strict=True):
        title = f"{verdict.workload}, {verdict.threads}, {verdict.contender}"
        case = ElementTree.SubElement(suite, "testcase", classname=f"bakeoff.{name}", name=title)
        kind = ""
        if gate.answer is Answer.UNCLEAR and (gate.why or judged.answer is Answer.UNCLEAR):
            kind = unclear
        elif judged.answer is not Answer.PASS:
            kind = "failure" if judged.answer is Answer.FAIL else "skipped"
        if kind:
            kinds[kind] += 1
            throughput, interval, *_ = (value.text for value in row.values[-4:])
            found = f"throughput {throughput} ({interval}), allowed {numbers.MINUS}{allowed}"
            why = f"{judged.answer.value}: {gate.why or found}"
            ElementTree.SubElement(case, kind, message=why)
    return _junit_text(suite, kinds)


def junit_of_error(name: str, message: str) -> str:
    """JUnit XML of a gate that ended without an answer: one test with an `error`."""
    suite = ElementTree.Element("testsuite", name=_title(name), tests="1")
    case = ElementTree.SubElement(suite, "testcase", classname=f"bakeoff.{name}", name="gate")
    ElementTree.SubElement(case, "error", message=visible(message))
    return _junit_text(suite, {"failure": 0, "error": 1, "skipped": 0})


def _junit_text(suite: ElementTree.Element, kinds: Mapping[str, int]) -> str:
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(kinds[kind]))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _gate(view: ReportView) -> Gate:
    gate = view.conclusion and view.conclusion.document
    assert isinstance(gate, Gate), "only a gate has an answer"
    return gate
