"""A history as a page and for other programs, and the points of a run."""

import csv
import io
import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from plain_analysis import plain_analysis
from synthetic import HOST, Truth, duel_study, make_run
from synthetic_history import BEGIN, STEP_AT, history, nights

from bakeoff.errors import ResultsError, SpecError
from bakeoff.history.compare import compare_series
from bakeoff.history.history_file import P95, THROUGHPUT, Point
from bakeoff.history.page import (
    github_json,
    history_view,
    lines_of,
    otava_csv,
    otava_json,
    points_of,
)
from bakeoff.report import build_view, render_csv, render_html
from bakeoff.stats import hosts
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop

FIRST = "nightly: oltp_read_only/4 throughput over mysql:8.0.15"


def view_of(points, remarks=(), **more):
    return history_view(points, remarks, title="history.db", alpha=0.05, **more)


def texts(view, table):
    return [[value.text for value in row.values] for row in view.tables[table].rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of runs, one of which still has its page."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "nightly-07").mkdir()
    (folder / "nightly-07" / "report.html").write_text("<!doctype html>")
    return folder


@pytest.fixture(scope="module")
def page_file(folder):
    page = folder / "history.html"
    page.write_text(render_html(view_of(*history(folder), beside=folder)), encoding="utf-8")
    return page


def test_the_view_lists_changes_with_their_date_and_annotation():
    view = view_of(*history())
    ((day, line, first, place, change, _, _, with_it),) = texts(view, "changes")
    assert (day, line, first, place) == ("2026-10-21", FIRST, "20abcdef0123", "this one")
    assert change.startswith("slower: −") and with_it == "compiler updated"
    assert "1 of 3 lines changed" in view.sections[0].parts[0].text
    charts = [series for panel in view.panels for series in panel.series if series.name == "annotations"]
    assert [tip.partition(": ")[2] for tip in charts[0].tips] == [
        "compiler updated", "machine replaced", "first machine 2 × EPYC"
    ]  # fmt: skip


def test_a_line_is_slower_when_its_latency_rises():
    rises = list(nights(metric="p95", step=-math.log(0.95)))
    assert texts(view_of(rises), "changes")[0][4].startswith("slower: +")


def test_each_contender_of_a_run_has_its_line():
    named = [point.model_copy(update={"contender": f"path:{point.run}"}) for point in nights(count=9)]
    assert [len(line.points) for line in lines_of(named, alpha=0.05)] == [9]
    both = [*nights(count=9), *(point.model_copy(update={"contender": "other"}) for point in nights(count=9))]
    assert [len(line.points) for line in lines_of(both, alpha=0.05)] == [9, 9]


def test_single_runs_are_never_tested_for_changes():
    points = [point for point in history()[0] if point.is_single]
    step = [point.model_copy(update={"run": f"{at}", "value": 1e4 if at < 10 else 5e3})
            for at in range(20) for point in points[:1]]  # fmt: skip
    (line,) = lines_of(step, alpha=0.05)
    assert line.changes == () and line.is_single
    assert "they get no verdict" in render_html(view_of(step))


def test_remarks_commits_and_machines_are_escaped_on_the_page():
    points, remarks = history()
    remarks = [each.model_copy(update={"text": "<script>alert(1)</script>"}) for each in remarks]
    points = [point.model_copy(update={"commit": "<img src=x>", "machine": "<b>"}) for point in points]
    page = render_html(view_of(points, remarks))
    assert "<script>alert" not in page and "<img src=x" not in page and "<b>" not in page


def test_runs_are_linked_if_their_page_exists(page_file):
    assert re.findall(r'<a href="(nightly[^"]*)"', page_file.read_text()) == ["nightly-07/report.html"] * 3


def test_links_within_the_page_lead_somewhere(page_file, tmp_path):
    run = make_run(tmp_path, duel_study(), epochs=3)
    of_run = render_html(build_view(run, plain_analysis(run, run.study())))
    assert 'href="#table-words"' in of_run
    for page in (page_file.read_text(), of_run):
        assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r' id="([^"]+)"', page))


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (1100, "dark"), (400, "light")])
def test_the_page_draws_every_line_without_network_and_passes_axe_core(browser, page_file, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda wanted: asked.append(wanted.url))
    page.goto(page_file.as_uri(), wait_until="networkidle")
    assert said == [] and [url for url in asked if not url.startswith("data:")] == [page_file.as_uri()]
    assert page.locator("figure").count() == 4
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    context.close()


class TestForOtherPrograms:
    def test_csv_has_every_point_with_its_uncertainty_and_the_change(self):
        records = list(csv.DictReader(io.StringIO(render_csv(view_of(*history())))))
        assert len(records) == 123
        changed = [record for record in records if record["changed_by"]]
        assert [(record["line"], record["run"]) for record in changed] == [(FIRST, f"nightly-{STEP_AT}")]
        assert float(changed[0]["low"]) < float(changed[0]["ratio"]) < float(changed[0]["high"])

    def test_otava_csv_has_a_row_for_each_run_and_a_column_for_each_line(self):
        lines = lines_of([*nights(), *nights("oltp_point_select/16", seed=3)], alpha=0.05)
        rows = list(csv.reader(io.StringIO(otava_csv(lines))))
        assert rows[0] == ["time", "commit", "oltp_read_only_4_throughput", "oltp_point_select_16_throughput"]
        assert rows[1][:2] == ["2026-10-01 03:00:00 +0000", "00abcdef0123"] and len(rows) == 41
        with pytest.raises(SpecError, match="not every run has every line"):
            otava_csv(lines_of(history()[0], alpha=0.05))

    def test_otava_csv_of_two_series_says_that_one_must_be_named(self):
        with pytest.raises(SpecError, match="Name one: --series NAME --cell CELL --metric METRIC"):
            otava_csv(lines_of([*nights(), *nights(series="dev", seed=3)], alpha=0.05))
        with pytest.raises(SpecError, match="Name one: --cell CELL --metric METRIC"):
            otava_csv(lines_of([*nights(), *nights("oltp_point_select/16", count=30)], alpha=0.05))

    def test_otava_csv_has_both_measurements_of_a_commit(self):
        first, second = (list(points)[:10] for points in (nights(), nights(seed=3)))
        both = [*first, *(each.model_copy(update={"run": f"again-{each.run}"}) for each in second)]
        rows = list(csv.reader(io.StringIO(otava_csv(lines_of(both, alpha=0.05)))))[1:]
        assert sorted(row[2] for row in rows) == sorted(f"{math.exp(each.ratio):.6g}" for each in both)

    def test_otava_separates_two_contenders_of_a_cell(self):
        other = [each.model_copy(update={"contender": "path:other"}) for each in nights(seed=3)]
        lines = lines_of([*nights(), *other], alpha=0.05)
        head, first = list(csv.reader(io.StringIO(otava_csv(lines))))[:2]
        assert len(set(head)) == len(first) == 4 and first[2] != first[3], head
        assert (
            len({change["metric"] for each in json.loads(otava_json(lines))["nightly"] for change in each["changes"]})
            == 2
        )

    def test_otava_json_has_the_change_points(self):
        document = json.loads(otava_json(lines_of(history()[0], alpha=0.05)))
        (entry,) = document["nightly"]
        assert (entry["attributes"]["run"], entry["time"]) == (f"nightly-{STEP_AT}", BEGIN.timestamp() + 20 * 86400)
        (change,) = entry["changes"]
        assert change["metric"] == "oltp_read_only_4_throughput"
        assert float(change["forward_change_percent"]) == pytest.approx(-3, abs=0.5)
        assert float(change["mean_after"]) < float(change["mean_before"])

    def test_github_json_has_the_format_of_github_action_benchmark(self):
        benches = json.loads(github_json(lines_of(history()[0], alpha=0.05)))
        assert [bench["unit"] for bench in benches] == ["events per second", *["ratio to the reference"] * 2]
        assert benches[1]["name"] == FIRST and benches[1]["range"].startswith("± ")
        assert all(isinstance(bench["value"], float) for bench in benches)


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    made = make_run(tmp_path_factory.mktemp("runs"), duel_study(), Truth(effect={"B": math.log(0.8)}))
    made.write_json("analysis.json", plain_analysis(made, made.study()))
    return made


class TestPointsOfARun:
    def test_each_comparison_makes_a_point_except_the_controls(self, analysed):
        points = points_of(analysed, series="nightly", commit="abc")
        assert len(points) == len({(point.cell, point.metric) for point in points}) == 12  # cells, of two metrics
        point = points[0]
        assert (point.baseline, point.commit, point.run) == ("mysql:5.7", "abc", analysed.name)
        assert math.exp(point.ratio) == pytest.approx(0.8, abs=0.02)
        assert point.value / point.reference == pytest.approx(0.8, abs=0.02)
        assert point.low < point.ratio < point.high
        assert 0 < point.error < point.high - point.ratio
        assert point.at == analysed.manifest().created_at and "×" in point.machine

    @pytest.mark.parametrize(
        ("machines", "epochs", "ended"),
        [
            ({}, 12, Stop.PRECISE),
            ({}, 5, Stop.DECISIVE),
            ({}, 12, Stop.ABORTED),
            ({"bench-1": (HOST, 0.0), "bench-2": (HOST, 0.05), "bench-3": (HOST, 0.02)}, 18, Stop.BUDGET),
        ],
    )
    def test_latency_errors_are_computed_over_epochs_or_over_hosts(self, tmp_path, machines, epochs, ended):
        study = duel_study(control=False, threads=(4,)).model_copy(update={"precision": 1e-5})
        effect = 0.0 if ended is Stop.ABORTED else -0.1  # which is decisive however measuring ended
        run = make_run(tmp_path, study, Truth(effect={"B": effect}), epochs=epochs, hosts=machines or None)
        run.write_json("analysis.json", analyse(run.load_epochs(), study, ended=ended))
        points = [point for point in points_of(run, series="x") if point.metric == P95]
        assert len(points) == len(study.workloads)
        for point in points:
            values, measured_by = [], []
            for epoch in run.load_epochs():
                own, base = (
                    next(row["quantiles_ns"]["0.95"] for row in epoch.histograms
                         if (row["cell"], row["operation"], row["arm"]) == (point.cell, "event", arm))
                    for arm in "BA"
                )  # fmt: skip
                values.append(math.log(own / base))
                measured_by.append(epoch.host)
            found = hosts.moments(values, measured_by)
            assert (found.n, found.degrees) == (epochs, len(machines) - 1 if machines else epochs - 1)
            assert point.error == pytest.approx(found.sd / math.sqrt(found.n), rel=1e-6)

    def test_an_analysis_without_latency_errors_has_only_throughput_points(self, analysed):
        analysis = json.loads((analysed.path / "analysis.json").read_text())
        before = [{key: each[key] for key in each.keys() - {"error"}} for each in analysis["latencies"]]
        try:
            analysed.write_json("analysis.json", analysis | {"latencies": before})
            assert {point.metric for point in points_of(analysed, series="x")} == {THROUGHPUT}
        finally:
            analysed.write_json("analysis.json", analysis)

    def test_the_date_of_a_point_can_be_given(self, analysed):
        day = datetime(2020, 1, 2, tzinfo=UTC)
        assert {point.at for point in points_of(analysed, series="x", at=day)} == {day}

    def test_untrusted_and_unanalysed_runs_are_refused(self, tmp_path):
        other = make_run(tmp_path, duel_study(), epochs=2, name="other")
        with pytest.raises(ResultsError, match="has no analysis"):
            points_of(other, series="x")
        found = plain_analysis(other, other.study())
        other.write_json("analysis.json", found.model_copy(update={"trusted": False}))
        with pytest.raises(ResultsError, match="UNTRUSTED"):
            points_of(other, series="x")


def singles(series, values, tool="sysbench 1.0.20"):
    return [
        Point(series=series, cell="w/4", contender="s", at=BEGIN, run=f"{series}-{at}", tool=tool, value=value)
        for at, value in enumerate(values)
    ]


def test_series_of_single_runs_are_compared_by_welch():
    old, new = (100.0, 101.0, 99.0, 100.5), (90.0, 91.0, 89.5, 90.2)
    found = compare_series([*singles("old", old), *singles("new", new), *singles("go", new, "go-tpc")], ["old", "new"])
    (line,) = found.lines
    assert math.exp(line.found.estimate.mean) == pytest.approx(0.9, abs=0.01) and line.differs is True
    assert "they get no verdict" in found.notes[0] and "4 runs, in old 4" in found.notes[1]
    one = compare_series([*singles("old", old), *singles("new", new[:1])], ["old", "new"])
    assert one.lines[0].differs is None
    with pytest.raises(ResultsError, match="shares no cell and tool"):
        compare_series([*singles("old", old), *singles("go", new, "go-tpc")], ["old", "go"])
    with pytest.raises(SpecError, match="is not a series of single runs"):
        compare_series(singles("old", old), ["old", "none"])


def test_the_page_stays_small_for_years_of_nightly_runs():
    page = render_html(view_of(list(nights(count=1000)), beside=Path("/")))
    assert len(page) < 2_000_000
