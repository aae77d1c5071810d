"""Parts of the page of a study: summary, scaling law, stability, sizes."""

import math
import re
from dataclasses import replace

import pytest
from plain_analysis import plain_analysis
from synthetic import Truth, duel_study, make_run
from view_parts import panels_of

from bakeoff.report import build_view, render_html, render_markdown, studies
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop
from bakeoff.stats.scaling import Band, fit_scaling


def texts(table):
    return [[value.text for value in row.values] for row in table.rows]


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    """One workload over five thread counts, ten epochs."""
    study = duel_study(workloads=("oltp_point_select",), threads=(1, 2, 4, 8, 16), control=False)
    run = make_run(tmp_path_factory.mktemp("ladder"), study, Truth(), epochs=10, blocks=4)
    return build_view(run, plain_analysis(run, study))


def test_the_summary_is_the_answer_and_what_it_rests_on(view, ladder):
    for made in (view, ladder):
        answer, basis = made.summary
        assert re.fullmatch(r"mysql:8.0 is [\d.]+%( to [\d.]+%)? slower than mysql:5.7 in all \d cells\.", answer)
        assert answer == made.screen.answer and answer in render_html(made) and answer in render_markdown(made)
    assert "7 restarts" in view.summary[1] and "holds 1" in view.summary[1] and "10 restarts" in basis


def test_the_first_picture_of_a_ladder_is_the_ratio_over_threads_with_its_band(ladder, view):
    (panel,) = ladder.screen.charts.panels
    (series,) = panel.series
    assert series.x == (1, 2, 4, 8, 16) and panel.one
    assert all(low < y < high < 1 for low, y, high in zip(series.low, series.y, series.high, strict=True))
    page = render_html(ladder)
    assert page.index('id="ladder-0"') < page.index('class="forest plain"') < page.index("<nav")
    assert [panel.title for panel in view.screen.charts.panels] == ["oltp_point_select", "oltp_read_only"]


def test_the_scaling_law_needs_four_thread_counts(ladder, view):
    rows = texts(ladder.tables["scaling"])
    assert [row[0] for row in rows] == ["mysql:5.7", "mysql:8.0"]
    assert all(row.values[1].sub for row in ladder.tables["scaling"].rows)  # ten epochs: intervals
    assert "Scaling law" in render_markdown(ladder)
    # Three rungs leave nothing to see a misfit with.
    assert "scaling" not in view.tables and "Scaling law" not in render_markdown(view)


def test_a_peak_below_the_ladder_is_at_most_its_first_rung(tmp_path, monkeypatch):
    def falling(rates, **_):
        return fit_scaling({n: dict.fromkeys(epochs, 1000 / n) for n, epochs in rates.items()})

    monkeypatch.setattr(studies, "fit_scaling", falling)
    study = duel_study(workloads=("oltp_point_select",), threads=(4, 8, 16, 32), control=False)
    run = make_run(tmp_path, study, Truth(), epochs=3, blocks=2)
    assert [row[4] for row in texts(build_view(run, plain_analysis(run, study)).tables["scaling"])] == ["≤ 4", "≤ 4"]


def test_a_peak_whose_interval_reaches_the_last_rung_is_open_above(tmp_path, monkeypatch):
    def open_above(rates, **more):
        return replace(fit_scaling(rates, **more), peak_threads=Band(12.0, 9.0, math.inf))

    monkeypatch.setattr(studies, "fit_scaling", open_above)
    study = duel_study(workloads=("oltp_point_select",), threads=(2, 4, 8, 16), control=False)
    run = make_run(tmp_path, study, Truth(), epochs=3, blocks=2)
    row = build_view(run, plain_analysis(run, study)).tables["scaling"].rows[0]
    assert (row.values[4].text, row.values[4].sub) == ("12", "9 to > 16")


def test_a_fixed_rate_has_no_scaling_law(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(1, 2, 4, 8))
    for paced in (None, 1000.0):
        workload = study.workloads[0].model_copy(update={"rate_per_s": paced})
        asked = study.model_copy(update={"workloads": (workload,)})
        run = make_run(tmp_path / str(paced), asked, Truth(sd_slice=0.02), epochs=6, blocks=2)
        page = build_view(run, analyse(run.load_epochs(), asked, ended=Stop.PRECISE))
        assert ("scaling" in page.tables) is (paced is None)


def test_stability_is_shown_for_every_arm(view):
    assert len(view.tables["stability"].rows) == 6 * 3
    spread, slowest, stalled = (texts(view.tables["stability"])[0][place] for place in (1, 2, 3))
    assert 3 <= float(spread.rstrip("%")) <= 7  # 5 % of noise was put in
    assert 70 <= float(slowest.rstrip("%")) < 100
    assert stalled == "0%"
    assert len(panels_of(view, "time")) == 6


def test_sizes_have_ratios_to_the_baseline(view):
    sizes = view.tables["sizes"]
    rows = {row.values[0].text: [(value.text, value.sub) for value in row.values[1:]] for row in sizes.rows}
    assert set(rows) == {"mysql:5.7", "mysql:8.0"}
    assert rows["mysql:5.7"][0][1] == ""
    assert rows["mysql:8.0"][0][1] == "0.75×"
    assert sizes.columns == ("arm", "on disk", "secondary indexes")
