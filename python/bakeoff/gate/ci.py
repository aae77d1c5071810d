"""A gate's answer for CI systems: Markdown, annotations of GitHub Actions, JUnit XML."""

import math
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from bakeoff.gate.rule import DEFAULT_NAME, Answer, Gate, limit_text
from bakeoff.gate.sections import ANCHOR, HEADINGS
from bakeoff.report import numbers
from bakeoff.report.markdown import render_markdown
from bakeoff.report.view import ReportView
from bakeoff.units import visible


def _title(name: str) -> str:
    return "bakeoff gate" if name == DEFAULT_NAME else f"bakeoff gate {name}"


def _marker(name: str) -> str:
    return f"<!-- bakeoff:gate:{name} -->"


def gate_markdown(view: ReportView, name: str) -> str:
    """Return a summary for a pull request, starting with the marker by which a bot finds it again."""
    gate = _gate(view)
    brief = view.model_copy(
        update={
            "question": f"{_title(name)}: {HEADINGS[gate.answer]}",
            "sections": tuple(section for section in view.sections if section.anchor == ANCHOR),
            "summary": (*view.summary[:1], *view.summary[-1:]),
            "verdicts": (),
            "means": (),
        }
    )
    again = "" if "`" in view.command else f" Again: `{view.command}`"
    return f"{_marker(name)}\n{render_markdown(brief)}\nReport: `report.html` in `{view.run}`.{again}\n"


def annotations(view: ReportView, name: str, *, level: str) -> Iterator[str]:
    """Yield GitHub Actions commands: an error if the gate failed, one of `level` if it cannot tell."""
    gate = _gate(view)
    if gate.answer is not Answer.PASS:
        kind = "error" if gate.answer is Answer.FAIL else level
        yield f"::{kind} title={_title(name)}::{view.summary[0].replace('%', '%25')}"


def junit(view: ReportView, name: str, *, unclear: str) -> str:
    """Return JUnit XML with a test for each comparison; `unclear` is `error`, `failure` or `skipped`."""
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
