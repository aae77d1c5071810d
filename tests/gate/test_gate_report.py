"""A gate's report: its first sentence, and its output for CI systems."""

import json
import math
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from screens import screen_of
from synthetic import Truth, duel_study, make_run

from bakeoff.errors import ExitCode, ServerError
from bakeoff.gate.outputs import annotations, exit_code, gate_markdown, junit, write
from bakeoff.gate.rule import OnUnclear, as_gate, as_question
from bakeoff.report import build_view, render_html, render_json, render_markdown
from bakeoff.report.numbers import change_interval
from bakeoff.results import RunDirectory
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Analysis, Interval, Stop

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

SLOWER, EQUAL, AT_THE_LIMIT = math.log(0.9), 0.0, math.log(0.98)


def gate(**ends):
    return as_gate(duel_study(control=False, threads=(4,)), 0.02, **ends)


@pytest.fixture(scope="session")
def view_of(tmp_path_factory):
    made = {}

    def view(effect, **study_fields):
        key = (effect, *study_fields.items())
        if key not in made:
            study = as_gate(duel_study(control=False, threads=(4,), **study_fields), 0.02)
            truth = Truth(effect={"B": effect}, sd_slice=0.02, sd_restart=0.006)
            run = make_run(tmp_path_factory.mktemp("runs"), study, truth, epochs=8)
            made[key] = build_view(run, analyse(run.load_epochs(), study, ended=Stop.BUDGET))
        return made[key]

    return view


@pytest.mark.parametrize(
    ("effect", "begins"),
    [
        (EQUAL, "The gate passed: all 2 comparisons are within the allowed 2%"),
        (SLOWER, "The gate failed: 2 of 2 comparisons are beyond the allowed 2%: oltp_point_select · 4 threads, −"),
        (AT_THE_LIMIT, "The gate cannot tell: "),
    ],
)
def test_every_format_begins_with_the_answer(view_of, effect, begins):
    view = view_of(effect)
    assert view.question == "Is mysql:8.0 at most 2% slower than mysql:5.7?"
    assert view.summary[0].startswith(begins)
    assert view.sections[0].title == "Gate"
    page, document = render_html(view), json.loads(render_json(view))
    assert page.index("The gate ") < page.index('id="table-gate"') and page.count('id="table-gate"') == 1
    assert document["gate"]["answer"] == view.conclusion.document.answer
    assert document["gate"]["max_slowdown"] == pytest.approx(0.02)
    assert [cell["cell"] for cell in document["gate"]["cells"]] == ["oltp_point_select/4", "oltp_read_only/4"]
    assert len(document["tables"]["gate"]["rows"]) == 2
    assert render_markdown(view).count("| answer |") == 1


def test_the_screen_has_the_answer_of_every_comparison(view_of, snapshot):
    assert screen_of(view_of(SLOWER)) == snapshot
    assert screen_of(view_of(SLOWER), 120) == snapshot


def test_a_gate_of_one_comparison_says_so_on_the_page(view_of):
    view = view_of(EQUAL, workloads=("oltp_read_only",))
    assert view.summary[0].startswith("The gate passed: the comparison is within the allowed 2%; the lowest is oltp_")
    assert "The gate passed" in render_html(view)


@pytest.mark.parametrize(("share", "shown"), [(0.125, "12.5%"), (0.015, "1.5%"), (0.5, "50%"), (0.001, "0.1%")])
def test_the_slowdown_that_is_allowed_is_shown_as_it_was_typed(tmp_path, share, shown):
    study = as_gate(duel_study(control=False, threads=(4,), workloads=("oltp_read_only",)), share)
    run = make_run(tmp_path, study, Truth(effect={"B": -1.0}, sd_restart=0.006), epochs=8, blocks=4)
    view = build_view(run, analyse(run.load_epochs(), study, ended=Stop.BUDGET))
    assert f"at most {shown} slower" in view.question and f"beyond the allowed {shown}: " in view.summary[0]
    assert view.tables["gate"].note.startswith(f"Allowed: {shown}. ")
    assert f"allowed −{shown}" in junit(view, "reads", unclear="error")


def test_a_run_that_is_not_a_gate_does_not_mention_one(tmp_path):
    study = duel_study(control=False, threads=(4,))
    run = make_run(tmp_path, study, epochs=6)
    view = build_view(run, analyse(run.load_epochs(), study, ended=Stop.BUDGET))
    assert (
        view.conclusion.document is None and "gate" not in json.loads(render_json(view)) and "gate" not in view.tables
    )


def test_the_summary_begins_with_its_marker_and_holds_the_table(view_of):
    text = gate_markdown(view_of(SLOWER), "nightly")
    lines = text.splitlines()
    assert lines[:2] == ["<!-- bakeoff:gate:nightly -->", "# bakeoff gate nightly: failed"]
    assert "| oltp\\_" not in text and "| oltp_read_only · 4 threads |" in text
    assert "The gate failed" in text and "## Throughput" not in text
    assert len(text) < 4_000


def test_each_annotation_is_a_one_line_github_command(view_of):
    assert list(annotations(view_of(EQUAL), "gate", level="warning")) == []
    (failed,) = annotations(view_of(SLOWER), "gate", level="warning")
    assert failed.startswith("::error title=bakeoff gate::The gate failed") and "\n" not in failed
    assert "2%25" in failed and "2%:" not in failed
    (unclear,) = annotations(view_of(AT_THE_LIMIT), "gate", level="warning")
    assert unclear.startswith("::warning ")


@pytest.mark.parametrize(
    ("effect", "unclear", "kinds"),
    [
        (EQUAL, "error", []),
        (SLOWER, "error", ["failure", "failure"]),
        (AT_THE_LIMIT, "error", ["error"]),
        (AT_THE_LIMIT, "skipped", ["skipped"]),
        (AT_THE_LIMIT, "failure", ["failure"]),
    ],
)
def test_junit_has_a_test_for_each_comparison(view_of, effect, unclear, kinds):
    view = view_of(effect, labels=("a & b", "\x1b[31m<c>"))
    (suite,) = ElementTree.fromstring(junit(view, "gate", unclear=unclear)).findall("testsuite")
    cases = suite.findall("testcase")
    assert [suite.get("tests"), len(cases)] == ["2", 2]
    found = [child for case in cases for child in case]
    assert {child.tag for child in found} == set(kinds)
    assert len(found) >= len(kinds)
    counted = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    assert all(int(suite.get(name)) == sum(child.tag == kind for child in found) for kind, name in counted.items())
    assert all(
        f"{'fail' if effect == SLOWER else 'cannot tell'}: throughput " in child.get("message") for child in found
    )


@pytest.mark.parametrize(
    ("effect", "on_unclear", "bisect", "code"),
    [
        (EQUAL, None, False, 0),
        (EQUAL, OnUnclear.FAIL, True, 0),
        (SLOWER, None, False, 1),
        (SLOWER, OnUnclear.PASS, True, 1),
        (AT_THE_LIMIT, None, False, 6),
        (AT_THE_LIMIT, None, True, 125),
        (AT_THE_LIMIT, OnUnclear.PASS, True, 0),
        (AT_THE_LIMIT, OnUnclear.FAIL, False, 1),
    ],
)
def test_the_exit_code_follows_the_answer_and_options(view_of, tmp_path, monkeypatch, effect, on_unclear, bisect, code):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    end = gate(junit=tmp_path / "gate.xml", on_unclear=on_unclear, bisect=bisect).question
    view = view_of(effect)
    write(end, RunDirectory(tmp_path), view)
    assert exit_code(end, view.conclusion.document) == code
    assert (tmp_path / "gate.md").exists() and (tmp_path / "gate.xml").exists()


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-0.0204, -0.0097, "−2.1% to −0.9%"),  # beyond 2 %, and shown so
        (-0.0150, -0.0003, "−1.49% to −0.02%"),
        (-0.01, 0.01, "−1.0% to +1.1%"),
        (0.0, 0.5, "0% to +70%"),
    ],
)
def test_the_ends_of_a_change_are_rounded_outwards(low, high, text):
    assert change_interval(Interval(low=low, high=high)) == text


def test_unwritable_files_do_not_suppress_the_answer(view_of, tmp_path, monkeypatch, capsys):
    (tmp_path / "gate.xml").mkdir()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "nowhere" / "summary.md"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    write(gate(junit=tmp_path / "gate.xml").question, RunDirectory(tmp_path), view_of(SLOWER))
    said = capsys.readouterr().err
    assert said.count("bakeoff: not written: ") == 2 and "::error title=bakeoff gate" in said


@pytest.mark.parametrize(
    ("effect", "end", "code"),
    [
        (EQUAL, {}, ExitCode.DONE),
        (SLOWER, {}, ExitCode.DIFFERENCE),
        (AT_THE_LIMIT, {}, ExitCode.UNCLEAR),
        (AT_THE_LIMIT, {"name": "reads", "on_unclear": OnUnclear.FAIL}, ExitCode.DIFFERENCE),
        (AT_THE_LIMIT, {"name": "reads", "bisect": True}, ExitCode.BISECT_SKIP),
    ],
)
def test_a_resumed_gate_has_the_exit_code_of_an_uninterrupted_one(inside, shell, monkeypatch, effect, end, code):
    """Only the measuring is replaced."""
    study = gate(**end)
    truth = Truth(effect={"B": effect}, sd_slice=0.02, sd_restart=0.006)
    run = make_run(shell.folder, study, truth, epochs=8)
    assert run.study() == study

    def ended(study, _root, asked, **_):
        return asked.resume, analyse(asked.resume.load_epochs(), study, ended=Stop.BUDGET)

    monkeypatch.setattr("bakeoff.cli.run.run_study", ended)
    ran = inside("run", "--resume", str(run.path))
    assert ran.code == code, ran
    assert "The gate " in ran.out
    name = as_question(study).name
    assert (run.path / "gate.md").read_text().startswith(f"<!-- bakeoff:gate:{name} -->")


def test_explaining_a_gate_changes_nothing_but_its_report(inside, shell, monkeypatch):
    pytest.importorskip("bakeoff.explain.command")
    study = gate(junit=shell.folder / "gone" / "gate.xml", bisect=True)
    run = make_run(shell.folder, study, Truth(effect={"B": SLOWER}, sd_slice=0.02, sd_restart=0.006), epochs=8)
    run.write_json("analysis.json", analyse(run.load_epochs(), study, ended=Stop.BUDGET))
    monkeypatch.setattr("bakeoff.explain.command.require_explainable", lambda *_: None)
    monkeypatch.setattr("bakeoff.cli.run.run_study", lambda *_, **__: (run, run.read("analysis.json", Analysis)))
    ran = inside("explain", str(run.path))
    assert ran.code == ExitCode.DONE and "The gate failed" in ran.out, ran
    assert (run.path / "report.html").exists() and not (run.path / "gate.md").exists()


def test_the_summary_says_how_many_restarts_there_were_whatever_else_the_report_found(view_of):
    view = view_of(SLOWER)
    more = view.model_copy(update={"summary": (*view.summary, "The storage was at its limit.")})
    assert "8 restarts of every server" in gate_markdown(more, "gate")


def test_a_gate_whose_files_cannot_be_written_is_not_resumed(inside, shell):
    run = make_run(shell.folder, gate(junit=shell.folder / "nowhere" / "gate.xml"), epochs=2)
    ran = inside("run", "--resume", str(run.path))
    assert ran.code == ExitCode.USAGE and "gate.xml cannot be written" in ran.complaint


@pytest.mark.parametrize(("bisect", "code"), [(False, ExitCode.NOT_READY), (True, ExitCode.BISECT_SKIP)])
def test_an_error_in_a_resumed_gate_sets_its_exit_code_and_junit_file(inside, shell, monkeypatch, bisect, code):
    junit_file = shell.folder / "gate.xml"
    run = make_run(shell.folder, gate(junit=junit_file, bisect=bisect), epochs=2)

    def run_study(*_args, **_more):
        raise ServerError("it does not start.")

    monkeypatch.setattr("bakeoff.cli.run.run_study", run_study)
    assert inside("run", "--resume", str(run.path)).code == code
    (error,) = ElementTree.parse(junit_file).getroot().iter("error")
    assert error.get("message") == "it does not start."
