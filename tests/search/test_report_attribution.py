"""Which settings explain a difference, as the report shows it."""

import pytest
from plain_analysis import plain_analysis
from synthetic import HOST, Truth, make_run
from two_settings import options_study, slower

from bakeoff.errors import BakeoffError
from bakeoff.report import build_view, render_html, render_markdown
from bakeoff.search.attribution import DOCUMENT, FOLDER, differing, search_study
from bakeoff.search.bisection import arm_with
from bakeoff.search.model import Search, Setting
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop


def cells_of(view, table):
    return [[value.text for value in row.values] for row in view.tables[table].rows]


def with_search(run, analysis, *, ended=Stop.ANSWERED, day=21, epochs=8):
    """Measure (by arithmetic) both settings together and each alone: only the sort buffer matters."""
    study = run.study()
    asked = differing(study, *study.arms, {})
    search = search_study(study, analysis, asked, budget_s=60.0)
    for chosen in ((True, False), (False, True)):
        search = search.model_copy(update={"arms": (*search.arms, arm_with(search, chosen))})
    small = [arm.name for arm in search.arms if dict(arm.server.options)["sort_buffer_size"] == "32K"]
    truth = Truth(effect=dict.fromkeys(small, -0.3), sd_restart=0.002, sd_slice=0.002)
    below = make_run(run.path / FOLDER, search, truth=truth, epochs=epochs, blocks=2, name=f"day-{day}")
    manifest = below.manifest()
    below.write_json("manifest.json", manifest.model_copy(update={"created_at": manifest.created_at.replace(day=day)}))
    below.write_json("analysis.json", analyse(below.load_epochs(), search, ended=ended))
    below.write_json(DOCUMENT, asked)
    return below


def test_the_setting_that_explains_the_difference_is_named(tmp_path):
    run, analysis = slower(tmp_path)
    with_search(run, analysis)
    view = build_view(run, analysis)
    sort, flush, *rest = cells_of(view, "settings-A-B")
    assert sort[:2] == ["sort_buffer_size: 4M → 32K", "yes"]
    assert flush[0].startswith("innodb_flush_method") and flush[1] == "no" and not rest
    text = render_markdown(view)
    assert "1 of 2 settings explains the difference" in text and "unfinished" not in text


@pytest.mark.parametrize(("finished", "shown"), [(True, "rests on 8 restarts"), (False, "rests on 4 restarts")])
def test_a_search_that_was_interrupted_does_not_replace_a_finished_one(tmp_path, finished, shown):
    run, analysis = slower(tmp_path)
    if finished:
        with_search(run, analysis)
    with_search(run, analysis, ended=Stop.ABORTED, day=22, epochs=4)
    assert shown in render_markdown(build_view(run, analysis))


def test_before_a_search_the_report_lists_the_settings_and_the_command(tmp_path):
    run, analysis = slower(tmp_path)
    text = render_markdown(build_view(run, analysis))
    assert "`sort_buffer_size` (4M, 32K)" in text and f"`bakeoff explain {run.path} --attribute`" in text


def test_commands_name_a_run_outside_the_default_folder_by_its_path(tmp_path, monkeypatch):
    run, analysis = slower(tmp_path)
    for named in (run.path, run.name):
        view = build_view(run, analysis)
        page = render_html(view)
        assert f"bakeoff report {named} --format svg" in page and f"bakeoff explain {named} --attribute" in page
        monkeypatch.setenv("BAKEOFF_RUNS", str(tmp_path))  # now it is the default folder


@pytest.mark.parametrize("lost", [DOCUMENT, "analysis.json"])
def test_an_unfinished_search_counts_as_none(tmp_path, lost):
    """A run that was killed has no `attribution.json`; one that was ended before its first epoch has no analysis."""
    run, analysis = slower(tmp_path)
    below = with_search(run, analysis)
    (below.path / lost).unlink()
    view = build_view(run, analysis)
    assert f"`bakeoff explain {run.path} --attribute`" in render_markdown(view)
    assert "settings-A-B" not in view.tables


SEARCH = Search(
    settings=(
        Setting(factor="option.sort_buffer_size", good="(not set)", bad="32K", pairs=(("sort_buffer_size", "32K"),)),
    )
)


@pytest.mark.parametrize("where", ["bisection", "cluster"])
def test_settings_are_listed_without_the_command_if_explain_would_refuse_the_run(tmp_path, where):
    study = options_study()
    if where == "bisection":
        study = study.model_copy(update={"question": SEARCH})
    hosts = {"node": (HOST, 0.0)} if where == "cluster" else None
    run = make_run(tmp_path, study, truth=Truth(effect={"B": -0.3}), hosts=hosts)
    text = render_markdown(build_view(run, plain_analysis(run, study)))
    assert "`sort_buffer_size` (4M, 32K)" in text and "--attribute" not in text


def test_a_bisection_is_not_explained(tmp_path):
    explain = pytest.importorskip("bakeoff.explain.after_verdict")
    run = make_run(tmp_path, options_study().model_copy(update={"question": SEARCH}))
    with pytest.raises(BakeoffError, match="bakeoff duel, which explains by itself"):
        explain.require_explainable(explain.Explaining(60.0), run)
