"""What `--publish` writes, and when it objects to its own report."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from plain_analysis import plain_analysis
from synthetic import duel_study, make_run

from bakeoff.report import build_view
from bakeoff.report.markdown import objection, publish, published_charts, render_markdown, section_lines
from bakeoff.report.view import Prose, Section
from bakeoff.stats.model import Obstacle


@pytest.fixture(scope="module")
def run_and_analysis(tmp_path_factory):
    study = duel_study(control=True)
    run = make_run(tmp_path_factory.mktemp("published"), study, epochs=6)
    return run, plain_analysis(run, study)


def test_the_folder_holds_the_page_the_tables_and_the_numbers(run_and_analysis):
    run, analysis = run_and_analysis
    folder = publish(run, build_view(run, analysis.model_copy(update={"trusted": True})))
    pictures = {f"{name}-{at}.svg" for name in ("ladder", "threads") for at in (0, 1)}
    texts = {"report.html", "report.md", "results.csv", "results.json"}
    assert {path.name for path in folder.iterdir()} == texts | pictures
    assert all(path.stat().st_size > 500 for path in folder.iterdir())
    published = (folder / "report.md").read_text()
    assert "(control)" in published
    assert set(re.findall(r"!\[[^\]]+\]\(([^)]+)\)", published)) == pictures
    assert published.index("ladder-0.svg") < published.index("## Throughput") < published.index("threads-0.svg")


def test_without_a_thread_ladder_the_picture_is_throughput_over_time(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,))
    run = make_run(tmp_path, study, epochs=6)
    view = build_view(run, plain_analysis(run, study))
    assert list(published_charts(view)) == ["verdicts", "time-0"]
    assert "](time-0.svg)" in render_markdown(view, pictures="")
    assert "![" not in render_markdown(view)  # for a terminal or a pipe, which have no pictures beside them


def test_markdown_escapes_everything_but_code():
    text = "`operator new[]` and `a<b>`, not <b>, [] or ``<i>`` <u> `"
    *_, shown = section_lines(Section.of("t", Prose(text=text)), 2, {})
    assert shown == r"`operator new[]` and `a<b>`, not &lt;b&gt;, \[\] or `<i>` &lt;u&gt; `"


def test_a_markdown_file_has_its_pictures_beside_it_and_a_pipe_has_none(run_and_analysis, tmp_path, inside):
    run, analysis = run_and_analysis
    run.write_json("analysis.json", analysis)
    target = tmp_path / "pr 12.md"
    ran = inside("report", str(run.path), "--format", "md", "-O", str(target))
    text = target.read_text()
    named = [unquote(name) for name in re.findall(r"!\[[^\]]+\]\(([^) ]+)\)", text)]
    assert named == [f"pr 12-{name}.svg" for name in ("ladder-0", "ladder-1", "threads-0", "threads-1")]
    assert ran.out.splitlines() == [str(target), *(str(tmp_path / name) for name in named)]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([target.name, *named])
    assert all((tmp_path / name).read_text().startswith("<svg") for name in named)
    printed = inside("report", str(run.path), "--format", "md").out
    assert "![" not in printed
    assert "![" not in inside("report", str(run.path), "--format", "md", "-O", "/dev/stdout").out
    assert not list(Path("/dev").glob("*.svg"))


@pytest.mark.parametrize(
    ("trusted", "word", "why"),
    [
        (True, None, None),
        (False, "UNTRUSTED", "differs from the baseline"),
        (None, "NOT FINISHED", "fewer than five usable epochs"),
    ],
)
def test_the_control_decides_the_status_of_a_report(run_and_analysis, trusted, word, why):
    run, analysis = run_and_analysis
    analysis = analysis.model_copy(update={"trusted": trusted})
    view = build_view(run, analysis)
    words = {status.word for status in view.statuses}
    assert words & {"UNTRUSTED", "NOT FINISHED"} == ({word} if word else set())
    assert (objection(analysis) is None) == (why is None)
    if why:
        assert why in objection(analysis)


def test_without_a_control_nothing_can_be_published(run_and_analysis):
    _, analysis = run_and_analysis
    assert objection(analysis.model_copy(update={"trusted": None, "control": None})) == "the run has no control."


def test_a_control_that_completed_nothing_in_an_epoch_is_untrusted(run_and_analysis):
    run, analysis = run_and_analysis
    idle = {"obstacle": Obstacle.NOTHING_DONE}
    comparisons = [each.model_copy(update=idle) for each in analysis.comparisons]
    analysis = analysis.model_copy(update={"trusted": None, "comparisons": tuple(comparisons)})
    assert "completed nothing in an epoch" in objection(analysis)
    (status,) = [each for each in build_view(run, analysis).statuses if each.word == "UNTRUSTED"]
    assert "has an epoch without a completed event" in status.text
