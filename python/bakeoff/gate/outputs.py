"""What a gate writes when it has ended: Markdown, annotations of GitHub Actions, JUnit XML, and its exit code."""

import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

from bakeoff import features
from bakeoff.errors import BakeoffError, EngineError, ExitCode, HostError, RunInvalid, ServerError, SpecError
from bakeoff.gate.rule import DEFAULT_NAME, Answer, Gate, GateQuestion, OnUnclear, limit_text
from bakeoff.gate.sections import HEADINGS
from bakeoff.redaction import without_url_passwords
from bakeoff.report import numbers
from bakeoff.report.markdown import render_markdown
from bakeoff.report.view import ReportView
from bakeoff.results import RunDirectory
from bakeoff.units import visible

_UNCLEAR_TESTS = {OnUnclear.PASS: "skipped", OnUnclear.FAIL: "failure"}  # of JUnit; else `error`

MARKDOWN = "gate.md"  # in the run directory: the summary for a pull request


@contextmanager
def codes_for(*, bisect: bool) -> Iterator[None]:
    """Give errors the exit codes that `git bisect run` wants."""
    try:
        yield
    except BakeoffError as error:
        if bisect and error.exit_code not in (ExitCode.BISECT_SKIP, ExitCode.BISECT_ABORT):
            judged = isinstance(error, ServerError | EngineError | RunInvalid)
            error.exit_code = ExitCode.BISECT_SKIP if judged else ExitCode.BISECT_ABORT
        raise
    except OSError as error:
        if not bisect:
            raise
        refused = HostError(f"the system refused: {error}.")
        refused.exit_code = ExitCode.BISECT_ABORT
        raise refused from None


@contextmanager
def errors_in(junit_file: Path | None, name: str) -> Iterator[None]:
    """Write an error that ends the gate to the JUnit file, which may hold the result of an earlier gate."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if junit_file:
            with suppress(OSError):
                message = "interrupted" if isinstance(error, KeyboardInterrupt) else without_url_passwords(str(error))
                junit_file.write_text(junit_of_error(name, message), encoding="utf-8", errors="backslashreplace")
        raise


def writable(path: Path | None, option: str) -> Path | None:
    """Return the absolute path; raise SpecError if it cannot be written, before minutes are spent."""
    if path is not None and (
        path.is_dir()
        or not path.absolute().parent.is_dir()
        or not os.access(path if path.exists() else path.absolute().parent, os.W_OK)
    ):
        raise SpecError(f"{option}: {path} cannot be written.", hint="Name a file in a folder that exists.")
    return path and path.absolute()


def write(end: GateQuestion, run: RunDirectory, view: ReportView) -> None:
    """Write the Markdown summary, annotations, JUnit XML and history entry that were asked for."""
    markdown = gate_markdown(view, end.name)
    run.write_text(MARKDOWN, markdown)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with _without_changing_the_answer(), Path(summary).open("a", encoding="utf-8") as file:
            file.write(markdown)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        level = "error" if end.on_unclear is OnUnclear.FAIL else "warning"
        for line in annotations(view, end.name, level=level):
            print(line, file=sys.stderr)
    if end.junit:
        unclear = _UNCLEAR_TESTS[end.on_unclear] if end.on_unclear else "error"
        with _without_changing_the_answer():
            end.junit.write_text(junit(view, end.name, unclear=unclear), encoding="utf-8")
    if end.history:
        remember(run, end.history, series=end.name)


def remember(run: RunDirectory, history: Path, *, series: str) -> None:
    """Add a run to a history; a failure does not change the gate's answer."""
    try:
        history_command().add_run(run, history, series=series)
    except BakeoffError as error:
        print(f"bakeoff: not in the history: {error}", file=sys.stderr)


def exit_code(end: GateQuestion, gate: Gate) -> ExitCode:
    if gate.answer is Answer.UNCLEAR and end.on_unclear is None:
        return ExitCode.BISECT_SKIP if end.bisect else ExitCode.UNCLEAR
    passed = gate.answer is Answer.PASS or (gate.answer is Answer.UNCLEAR and end.on_unclear is OnUnclear.PASS)
    return ExitCode.DONE if passed else ExitCode.DIFFERENCE


@contextmanager
def _without_changing_the_answer() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        print(f"bakeoff: not written: {error}", file=sys.stderr)


def history_command() -> ModuleType:
    found = features.part("history", "command")
    if found is None:
        raise SpecError("--history: bakeoff's history is not installed.", hint="Leave the option out.")
    return found


def _title(name: str) -> str:
    return "bakeoff gate" if name == DEFAULT_NAME else f"bakeoff gate {name}"


def gate_markdown(view: ReportView, name: str) -> str:
    """Return a summary for a pull request, starting with the marker by which a bot finds it again."""
    gate = _gate(view)
    brief = view.model_copy(
        update={
            "question": f"{_title(name)}: {HEADINGS[gate.answer]}",
            "sections": (),
            "summary": (*view.summary[:1], view.screen.effort),
            "verdicts": (),
            "means": (),
        }
    )
    again = "" if "`" in view.command else f" Again: `{view.command}`"
    return f"<!-- bakeoff:gate:{name} -->\n{render_markdown(brief)}\nReport: `report.html` in `{view.run}`.{again}\n"


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
