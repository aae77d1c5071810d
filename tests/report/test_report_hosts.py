"""Hosts of a cluster in a report: each one's ratio, how much they differ, and unlike machines."""

import io
import math

import pytest
from axe_playwright_python.sync_playwright import Axe
from rich.console import Console
from synthetic import HOST, Truth, duel_study, make_run

from bakeoff.report import build_view, render_csv, render_html, render_json, render_markdown, render_terminal
from bakeoff.stats import interval as iv
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop

STUDY = duel_study(workloads=("oltp_point_select",), threads=(1, 4), control=False)
OTHER = HOST.model_copy(update={"cpu_model": "Another CPU 3000"})


def hosts_of(*hosts):
    """Return three hosts of a kind, with what each adds to the log ratio."""
    return dict(zip(("bench-1", "bench-2", "bench-3"), hosts, strict=True))


def reported(root, hosts, study=STUDY, *, epochs=18):
    run = make_run(root, study, Truth(effect={"B": -0.11}, sd_restart=0.004), epochs=epochs, hosts=hosts)
    analysis = analyse(run.load_epochs(), study, ended=Stop.BUDGET)
    return build_view(run, analysis), analysis


@pytest.fixture(scope="module")
def differing(tmp_path_factory):
    """Three like machines, one of which is off by 6 %."""
    return reported(tmp_path_factory.mktemp("runs"), hosts_of((HOST, 0.0), (HOST, 0.06), (HOST, 0.0)))


@pytest.fixture(scope="module")
def unlike(tmp_path_factory):
    """Two kinds of machine, which the study combines."""
    study = STUDY.model_copy(update={"combine_hosts": True})
    return reported(tmp_path_factory.mktemp("runs"), hosts_of((HOST, 0.0), (OTHER, 0.1), (HOST, 0.0)), study)


def section(view):
    return next((each for each in view.sections if each.title == "Hosts"), None)


def in_terminal(view):
    out = io.StringIO()
    render_terminal(view, Console(file=out, width=100))
    return out.getvalue()


def test_the_summary_names_the_host_that_differs(differing):
    view, _ = differing
    assert any("the machine matters" in sentence and "bench-2" in sentence for sentence in view.summary)
    assert "3 hosts, 4 × Example CPU 9000" in view.dateline


def test_the_summary_is_the_answer_its_basis_and_the_hosts(differing):
    answer, basis, hosts = differing[0].summary
    assert differing[0].screen.answer == answer and differing[0].screen.figures == (hosts,)
    assert "The narrowest interval" in answer and basis.startswith("This rests on")


def test_differing_hosts_widen_the_interval(differing):
    first = differing[1].comparisons[0]
    alone = iv.precision_half_width(iv.standard_deviation([point.value for point in first.points]), 18)
    assert first.estimate.interval.half_width > 3 * alone


def test_equal_hosts_are_not_reported_as_different(tmp_path):
    view, _ = reported(tmp_path, hosts_of((HOST, 0.0), (HOST, 0.0), (HOST, 0.0)))
    assert not any("matters" in sentence for sentence in view.summary)
    assert section(view) is not None


def test_a_run_on_one_machine_has_no_hosts_section(tmp_path):
    view, analysis = reported(tmp_path, None, epochs=6)
    assert section(view) is None
    assert "3 hosts" not in view.dateline
    points = analysis.model_dump()["comparisons"][0]["points"]
    assert {key for point in points for key in point} == {"epoch", "build", "value"}


def test_every_format_but_csv_lists_the_hosts(differing, snapshot):
    view = differing[0].model_copy(update={"directory": "bakeoff-runs/RUN"})
    terminal, markdown = in_terminal(view), render_markdown(view)
    for text in (terminal, markdown, render_html(view), render_json(view)):
        assert "bench-2" in text
        assert "spread between hosts" in text
    assert "bench-2" not in render_csv(view)  # a line a comparison
    for text, begin in ((terminal, "Hosts"), (markdown, "# Hosts")):
        lines = text[text.index(begin) :].splitlines()
        assert "\n".join(lines[:26]) == snapshot


def test_unlike_machines_are_named(unlike):
    view, analysis = unlike
    assert all(math.isfinite(each.estimate.interval.half_width) for each in analysis.comparisons)
    assert "unlike" in view.dateline and "Another CPU 3000" in in_terminal(view)


@pytest.mark.browser
def test_the_section_is_accessible_and_fits_a_phone(browser, unlike, tmp_path):
    (tmp_path / "report.html").write_text(render_html(unlike[0]), "utf-8")
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator("#hosts").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    found = Axe().run(page)
    context.close()
    assert found.violations_count == 0, found.generate_report()


def test_differences_between_hosts_do_not_count_as_restart_noise(tmp_path):
    view, _ = reported(tmp_path, hosts_of((HOST, 0.0), (HOST, 0.3), (HOST, -0.2)))
    assert "noisy" not in " ".join(view.summary)
