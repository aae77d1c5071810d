"""What a gate writes for CI systems when it has ended, also after a resume."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

from bakeoff import features
from bakeoff.errors import BakeoffError, EngineError, ExitCode, HostError, RunInvalid, ServerError, SpecError
from bakeoff.gate.ci import annotations, gate_markdown, junit, junit_of_error
from bakeoff.gate.rule import Answer, Gate, GateQuestion, OnUnclear
from bakeoff.redaction import without_url_passwords
from bakeoff.report.view import ReportView
from bakeoff.results import RunDirectory

_CODES = {Answer.PASS: ExitCode.DONE, Answer.FAIL: ExitCode.DIFFERENCE}
_UNCLEAR_CODES = {OnUnclear.PASS: ExitCode.DONE, OnUnclear.FAIL: ExitCode.DIFFERENCE}
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


def exit_code(end: GateQuestion, gate: Gate) -> ExitCode:
    if gate.answer is not Answer.UNCLEAR:
        return _CODES[gate.answer]
    if end.on_unclear:
        return _UNCLEAR_CODES[end.on_unclear]
    return ExitCode.BISECT_SKIP if end.bisect else ExitCode.UNCLEAR


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


def remember(run: RunDirectory, history: Path, *, series: str) -> None:
    try:
        history_command().add_run(run, history, series=series)
    except BakeoffError as error:
        print(f"bakeoff: not in the history: {error}", file=sys.stderr)
