"""Reports of synthetic runs state the difference that was put in."""

import json
import math
import re

import pytest
from plain_analysis import plain_analysis
from synthetic import HOST, Truth, duel_study, make_run
from view_parts import panels_of

from bakeoff.errors import ResultsError
from bakeoff.report import build_view, render_csv, render_html, render_markdown
from bakeoff.report.view import Role
from bakeoff.results import SLICE_SCHEMA
from bakeoff.results.frame import read_parquet, write_parquet
from bakeoff.spec import Study, parse_server
from bakeoff.stats.model import Analysis, Flag, FlagKind, Stop


def view_of(tmp_path, study: Study, truth: Truth | None = None, *, change=None, **options):
    run = make_run(tmp_path, study, truth, **options)
    analysis = plain_analysis(run, study)
    return build_view(run, analysis.model_copy(update=change or {}))


def one_cell(**options) -> Study:
    return duel_study(workloads=("oltp_read_only",), threads=(4,), **options)


def test_an_injected_slowdown_is_reported_as_slower(view):
    assert {verdict.words for verdict in view.verdicts} == {("SLOWER",)}
    for verdict in view.verdicts:
        low, high = (float(text) for text in re.findall(r"\d\.\d+", verdict.interval))
        assert low < 0.89 < high or abs(0.89 - (low + high) / 2) < 0.02
        found = re.fullmatch(r"is ([\d.]+)% slower \(([\d.]+)% to ([\d.]+)%\)", verdict.headline)
        change, near, far = map(float, found.groups())
        assert near < change < far
        assert near / 100 <= 1 - high + 0.005 and far / 100 >= 1 - low - 0.005


def test_every_comparison_including_the_control_has_a_forest_row(view, analysis):
    rows = view.forest.rows
    assert len(rows) == len(analysis.comparisons)
    assert sum(row.kind == "control" for row in rows) == 6
    for row, comparison in zip(rows, analysis.comparisons, strict=True):
        assert row.low < row.point < row.high
        assert len(row.epochs) == comparison.estimate.n == 7
        assert (row.point < view.forest.one) == (comparison.estimate.mean < 0)
    assert all(0 <= place <= 100 for row in rows for place in (row.low, row.point, row.high, *row.epochs))
    assert any(text == "1.00" and place == view.forest.one for place, text in view.forest.ticks)


def test_an_arm_keeps_its_colour_in_every_chart(view):
    keys = {}
    names = ("threads", "time", "epochs", "percentiles")
    panels = [panel for name in names for panel in panels_of(view, name)]
    for panel in panels:
        for series in panel.series:
            assert keys.setdefault(series.name, series.key) == series.key
    assert len(set(keys.values())) == 3
    assert {arm.label: f"arm-{arm.slot}" for arm in view.arms} == keys


def test_time_charts_hold_the_throughput_of_each_arm(view, analysis):
    means = {(summary.cell, summary.arm): summary.tps for summary in analysis.arms}
    panel = panels_of(view, "time")[0]
    for series, arm in zip(panel.series, ("A", "B", "A'"), strict=True):
        assert sum(series.y) / len(series.y) == pytest.approx(means["oltp_point_select/1", arm], rel=0.01)
        assert all(low <= y <= high for low, y, high in zip(series.low, series.y, series.high, strict=True))
        assert len(set(series.group)) == 7
        assert list(series.x) == sorted(series.x) and series.x[-1] < 7 * 8
    assert panel.x_title == "seconds of measuring, epochs joined"
    assert len(panel.boundaries) == 6


def test_at_most_twelve_evenly_spaced_epochs_are_drawn_and_a_note_says_so(tmp_path):
    view = view_of(tmp_path, one_cell(control=False), epochs=31, blocks=2)
    (panel,) = panels_of(view, "time")
    assert {series.group for series in panel.series} == {panel.series[0].group}
    assert sorted(set(panel.series[0].group)) == [0, 3, 5, 8, 11, 14, 16, 19, 22, 25, 27, 30]
    assert "At most 12 of 31 epochs are drawn, evenly chosen." in render_html(view)


def test_every_part_that_leaves_out_cells_says_so(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=tuple(range(1, 14)), control=False)
    third = study.arms[1].model_copy(update={"name": "C", "label": "mysql:9"})
    view = view_of(tmp_path, study.model_copy(update={"arms": (*study.arms, third)}), epochs=2, blocks=2)
    sections = {inner.title: inner for section in view.sections for inner in section.sections()}
    drawn = "Drawn: the 12 of 13 cells with the largest differences."
    said = {title: " ".join([each.note, *(getattr(part, "note", "") for part in each.parts)])
            for title, each in sections.items()}  # fmt: skip
    for title in ("Every epoch", "Latency"):
        assert drawn in said[title], title
    assert "Shown: the first 12 of 13 cells." in said["All pairs"]
    page = render_html(view)
    assert page.count(drawn) == 3 and "Shown: the first 12 of 13 cells." in render_markdown(view)


def test_downsampling_preserves_mean_and_minimum_throughput(run):
    from bakeoff.report.performance import cell_times

    slices = run.slices()
    bins = cell_times(slices, ("oltp_read_only/4",))["oltp_read_only/4"]
    whole = slices.by("cell").frames()["oltp_read_only/4"]
    assert bins["tps"].mean() == pytest.approx(
        (whole["events"] * whole["connections"]).sum() / whole["busy_ns"].sum() * 1e9, rel=0.01
    )
    assert bins["tps_low"].min() == pytest.approx(
        (whole["events"] * whole["connections"] / whole["busy_ns"] * 1e9).min()
    )


def test_percentile_curves_rise_and_agree_with_the_table(view, analysis):
    summary = next(s for s in analysis.arms if (s.cell, s.arm) == ("oltp_point_select/1", "B"))
    series = next(s for s in panels_of(view, "percentiles")[0].series if s.name == "mysql:8.0")
    assert list(series.y) == sorted(series.y)
    at_95 = next(y for x, y in zip(series.x, series.y, strict=True) if x == pytest.approx(-math.log10(0.05), abs=1e-4))
    assert at_95 == pytest.approx(summary.quantiles_ns["0.95"] / 1e6, rel=1e-3)


def test_percentiles_that_differ_are_marked_and_the_mark_is_explained(view):
    table = view.tables["latency"]
    cells = [(column, value) for row in table.rows for column, value in zip(table.columns, row.values, strict=True)]
    assert {column for column, value in cells if value.sub.endswith("*")} == {"p99"}
    assert table.note.startswith("* The arms differ, at a false discovery rate of 5%")


def test_discarded_epochs_and_reasons_are_shown(view, page):
    (row,) = view.tables["discarded"].rows
    assert [value.text for value in row.values] == [
        "5",
        "mysql:8.0: server crashed (signal 11)",
    ]
    assert "7 counted, 1 discarded" in view.effort[0]
    assert "signal 11" in page and "signal 11" in render_markdown(view)


def test_an_untrusted_report_says_so_first(tmp_path):
    view = view_of(tmp_path, one_cell(), epochs=3, change={"trusted": False})
    assert view.statuses[0].word == "UNTRUSTED"
    html = render_html(view)
    assert html.index("UNTRUSTED</b>") < html.index('id="summary"')


@pytest.mark.parametrize(
    ("epochs", "stop", "text"),
    [
        (3, Stop.ABORTED, "stopped by hand"),
        (3, Stop.RUNNING, "goes on or was cut short"),
        (5, Stop.BUDGET, "The budget ended after 5 of the 6 restarts that a verdict takes."),
        (6, Stop.BUDGET, "The budget ended before every cell reached its target precision of ±1%."),
        (3, Stop.EXTENDED, "went on after an answer was in sight"),
    ],
)
def test_the_status_says_how_measuring_ended(tmp_path, epochs, stop, text):
    study = one_cell().model_copy(update={"has_target": True})
    view = view_of(tmp_path, study, epochs=epochs, change={"stopped": stop})
    said = [status.text for status in view.statuses if status.word == "NOT FINISHED"]
    assert any(text in each for each in said)


def test_a_run_without_a_target_is_finished_when_its_budget_ends(tmp_path):
    view = view_of(tmp_path, one_cell(), epochs=3, change={"stopped": Stop.BUDGET})
    assert "NOT FINISHED" not in [status.word for status in view.statuses]


def test_an_appeal_for_help_is_stripped_from_the_version(tmp_path):
    """MariaDB 11.8 has one in its `version_comment`."""
    study = one_cell()
    server = parse_server("mysql:8.0,version_comment=from Debian -- Please help")
    arms = (study.arms[0], study.arms[1].model_copy(update={"server": server}), *study.arms[2:])
    view = view_of(tmp_path, study.model_copy(update={"arms": arms}), epochs=2)
    assert view.arms[1].version == "8.0.15 from Debian"


def test_an_injected_slowdown_is_never_hidden(tmp_path):
    study = one_cell()
    arms = (study.arms[0], study.arms[1].model_copy(update={"slowdown_percent": 10.0}), study.arms[2])
    view = view_of(tmp_path, study.model_copy(update={"arms": arms}), epochs=2)
    assert "INJECTED" in [status.word for status in view.statuses]


@pytest.mark.parametrize("cpus", [(4,), (64, 4)])
def test_a_busy_machine_is_shown_beside_the_verdict(tmp_path, cpus):
    """Also on hosts with different numbers of processors."""
    hosts = {f"n{count}": (HOST.model_copy(update={"cpus": count}), 0.0) for count in cpus}
    run = make_run(tmp_path, one_cell(), epochs=2, hosts=hosts if len(cpus) > 1 else None)
    quiet = build_view(run, plain_analysis(run, run.study()))
    for epoch, path in enumerate(sorted(run.path.glob("epochs/*/slices.parquet"))):
        # Half of the processors busy with other people's work, taken from idle time; make_run has 4 of them.
        slices, _ = read_parquet(path.read_bytes())
        count = cpus[epoch % len(cpus)]
        stolen = slices["length_ns"] * count // 2
        idle = slices["host_idle_ns"] + slices["length_ns"] * (count - 4) - stolen
        busy = slices.with_columns(host_user_ns=slices["host_user_ns"] + stolen, host_idle_ns=idle)
        path.write_bytes(write_parquet(busy, SLICE_SCHEMA))
        path.with_name("SHA256SUMS").unlink()
    busy = build_view(run, plain_analysis(run, run.study()))
    assert "BUSY MACHINE" not in [status.word for status in quiet.statuses]
    (status,) = [status for status in busy.statuses if status.word == "BUSY MACHINE"]
    assert "50% of the processors" in status.text and "50% with work" in busy.conditions


def test_a_concurrent_bakeoff_is_reported(tmp_path):
    run = make_run(tmp_path, one_cell(), epochs=3)
    alone = build_view(run, plain_analysis(run, run.study()))
    assert "BUSY MACHINE" not in [status.word for status in alone.statuses]
    for epoch in (0, 2):
        path = run.path / f"epochs/{epoch:03}/outcome.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"other_bakeoffs": [4711]}))
        path.with_name("SHA256SUMS").unlink()
    view = build_view(run, plain_analysis(run, run.study()))
    (status,) = [status for status in view.statuses if status.word == "BUSY MACHINE"]
    assert "In 2 of 3 epochs another bakeoff" in status.text
    assert status.text in render_markdown(view)


@pytest.mark.parametrize(
    ("hosts", "times_ns", "said"),
    [
        (("", "", ""), (47, 52, 60), ""),
        (("", "", ""), (47, 52, 430), " Two CPUs passed a cache line to each other and back in 47 to 430 ns"),
        (("near", "far", "near"), (47, 430, 52), ""),
        (("near", "far", "far"), (47, 430, 80), " Two CPUs of far passed a cache line to each other and back in 80 to"),
    ],
)
def test_a_wide_range_of_cache_line_times_is_reported(tmp_path, hosts, times_ns, said):
    run = make_run(tmp_path, one_cell(), epochs=3)
    for epoch, (host, time_ns) in enumerate(zip(hosts, times_ns, strict=True)):
        path = run.path / f"epochs/{epoch:03}/outcome.json"
        cells = {cell: time_ns for cell in json.loads(path.read_text())["cell_order"]}
        path.write_text(json.dumps(json.loads(path.read_text()) | {"cache_line_ns": cells, "host": host}))
        path.with_name("SHA256SUMS").unlink()
    conditions = build_view(run, plain_analysis(run, run.study())).conditions
    assert (said in conditions) if said else ("cache line" not in conditions)


def test_an_inconclusive_headline_states_its_range(tmp_path):
    view = view_of(tmp_path, one_cell(), Truth(effect={"B": 0.0}, sd_restart=0.06), epochs=4)
    assert re.fullmatch(r"may be anything from \d+% slower to \d+% faster", view.verdicts[0].headline)


def test_the_command_to_repeat_a_run_has_its_seed(view):
    assert view.command == "bakeoff duel mysql:5.7 mysql:8.0,innodb_flush_method=fsync --control --seed 7"


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ("gate mysql:5.7 mysql:8.0", "gate mysql:5.7 mysql:8.0 --seed 7"),
        ("bisect path:1 path:2 path:3", "bisect path:1 path:2 path:3 --seed 7"),
        ("replay shop.capture mysql:5.7 mysql:8.0", "replay shop.capture mysql:5.7 mysql:8.0 --seed 7"),
        ("gate --seed=7 mysql:5.7 mysql:8.0", "gate --seed=7 mysql:5.7 mysql:8.0"),
    ],
)
def test_the_command_to_repeat_a_run_gets_a_seed_if_it_has_none(tmp_path, words, again):
    run = make_run(tmp_path, one_cell(control=False), epochs=2, blocks=2, command=("/usr/bin/bakeoff", *words.split()))
    assert build_view(run, plain_analysis(run, run.study())).command == f"bakeoff {again}"


def test_requested_and_other_differences_are_kept_apart(view):
    asked = {row.values[0].text: [value.text for value in row.values[1:]] for row in view.tables["declared"].rows}
    assert asked["innodb_flush_method"] == ["—", "fsync", "—"]
    assert asked["data: collation"][0] == "utf8mb4_general_ci"
    assert [row.values[0].text for row in view.tables["undeclared"].rows] == ["character_set_server", "log_bin"]
    assert "SETTINGS" in [status.word for status in view.statuses]


def test_a_difference_in_the_adaptive_hash_index_is_listed_first(tmp_path):
    run = make_run(tmp_path, one_cell(), epochs=3)
    for arm, value in (("A", "ON"), ("B", "OFF")):
        variables = run.read_json(f"epochs/002/servers/{arm}/variables.json")
        run.write_json(f"epochs/002/servers/{arm}/variables.json", variables | {"innodb_adaptive_hash_index": value})
    name, *values = build_view(run, plain_analysis(run, run.study())).tables["declared"].rows[0].values
    assert name.text == "innodb_adaptive_hash_index"
    assert [value.text for value in values][:2] == ["ON (not requested)", "OFF (not requested)"]


def test_ignored_options_are_listed_with_the_requested_ones(tmp_path):
    run = make_run(tmp_path, one_cell(), epochs=3)
    assert "setting-notes" not in build_view(run, plain_analysis(run, run.study())).tables, "an older run has no notes"
    for arm, notes in (("A", []), ("B", ["thread_concurrency=8 was left out", "flush=1: the server has 2"])):
        run.write_json(f"epochs/002/servers/{arm}/notes.json", {"settings": notes})
    view = build_view(run, plain_analysis(run, run.study()))
    rows = view.tables["setting-notes"].rows
    assert [row.values[0].text for row in rows] == ["thread_concurrency=8 was left out", "flush=1: the server has 2"]
    assert {row.group for row in rows} == {"mysql:8.0"}
    assert "thread_concurrency=8 was left out" in render_markdown(view)


def test_the_origin_and_verification_of_binaries_are_reported(tmp_path):
    run = make_run(tmp_path, one_cell(), epochs=3)
    said = "vendor mysql-8.4.8.tar.xz: SHA-256 in bakeoff's list"
    run.write_json("epochs/002/servers/B/notes.json", {"settings": [], "binaries": [said]})
    view = build_view(run, plain_analysis(run, run.study()))
    assert [row.values[0].text for row in view.tables["binaries"].rows] == [said]
    assert said in render_markdown(view)
    assert "how they were checked" in render_html(view)


def test_options_from_a_file_count_as_requested(tmp_path):
    run = make_run(tmp_path, one_cell(), epochs=3)
    read = ["performance_schema_instrument=memory/%=off, wait/io/file/%=on", "skip_name_resolve"]
    run.write_json("epochs/002/servers/B/notes.json", {"settings": [], "files": read})
    view = build_view(run, plain_analysis(run, run.study()))
    asked = {row.values[0].text: [value.text for value in row.values[1:]] for row in view.tables["declared"].rows}
    assert asked["performance_schema_instrument"] == ["—", "memory/%=off, wait/io/file/%=on", "—"]
    assert asked["skip_name_resolve"] == ["—", "on", "—"]


def test_flags_become_footnotes_shown_once(tmp_path):
    run = make_run(tmp_path, duel_study(), epochs=3)
    analysis = plain_analysis(run, run.study())
    flag = Flag(kind=FlagKind.UNSTABLE, text="the slice before still weighs on this one.")
    flagged = tuple(c if c.is_control else c.model_copy(update={"flags": (flag,)}) for c in analysis.comparisons)
    view = build_view(run, analysis.model_copy(update={"comparisons": flagged}))
    (note,) = view.footnotes
    assert (note.number, note.word, len(note.where)) == (1, "UNSTABLE", 6)
    assert all(verdict.notes == (1,) for verdict in view.verdicts)
    page = render_html(view)
    assert 'href="#note-1"' in page and 'id="note-1"' in page


def test_one_epoch_gives_no_interval_and_no_crash(tmp_path):
    view = view_of(tmp_path, one_cell(control=False), epochs=1)
    assert view.verdicts[0].interval == "" and view.verdicts[0].headline == "has no verdict yet"
    assert view.forest.rows[0].low is None
    assert "none yet" in render_html(view)
    assert render_csv(view).splitlines()[1].startswith(view.run)


def test_three_contenders_each_get_their_verdict(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(1, 4))
    more = [
        study.arms[1].model_copy(
            update={"name": name, "label": f"mariadb:{name}", "server": parse_server("mariadb:10.11")}
        )
        for name in ("C", "D")
    ]
    study = study.model_copy(update={"arms": (*study.arms[:2], *more, study.arms[2])})
    truth = Truth(effect={"B": math.log(0.9), "C": math.log(1.2), "D": 0.0})
    view = view_of(tmp_path, study, truth, epochs=6)
    assert len(view.verdicts) == 6
    assert view.question == "Which is faster than mysql:5.7: mysql:8.0, mariadb:C or mariadb:D?"
    tones = {verdict.contender: verdict.tone.value for verdict in view.verdicts}
    assert tones["mysql:8.0"] == "slower" and tones["mariadb:C"] == "faster"
    assert sum(arm.role is Role.CONTROL for arm in view.arms) == 1
    assert "mariadb:D" in render_html(view)


def test_a_server_without_process_metrics_has_no_cpu_column(tmp_path):
    run = make_run(tmp_path, one_cell(), epochs=3)
    for path in run.path.glob("epochs/*/slices.parquet"):
        slices, _ = read_parquet(path.read_bytes())
        hidden = {name: math.nan for name in slices.columns if name.startswith("server_")}
        path.write_bytes(write_parquet(slices.with_columns(**hidden), SLICE_SCHEMA))
        path.with_name("SHA256SUMS").unlink()
    analysis = plain_analysis(run, run.study())
    bare = {"server_cpu_ns_per_event": None, "server_read_bytes_per_event": None, "server_write_bytes_per_event": None}
    arms = tuple(summary.model_copy(update=bare) for summary in analysis.arms)
    view = build_view(run, analysis.model_copy(update={"arms": arms}))
    assert "server CPU" not in view.tables["costs"].columns
    render_html(view)


def test_an_analysis_read_back_from_disk_gives_the_same_view(run, analysis, view, monkeypatch):
    monkeypatch.setenv("BAKEOFF_RUNS", str(run.path.parent))
    run.write_json("analysis.json", analysis)
    assert build_view(run, run.read("analysis.json", Analysis)) == view


def test_a_missing_manifest_is_an_error(tmp_path):
    run = make_run(tmp_path, one_cell(), epochs=2)
    analysis = plain_analysis(run, run.study())
    (run.path / "manifest.json").unlink()
    with pytest.raises(ResultsError, match=r"manifest\.json is missing"):
        build_view(run, analysis)


def test_differing_percentiles_of_the_control_are_not_marked(run, analysis):
    own = [
        each.model_copy(update={"contender": analysis.control}) for each in analysis.latencies if each.contender == "B"
    ]
    assert any(each.differs for each in own)
    view = build_view(run, analysis.model_copy(update={"latencies": tuple(own)}))
    assert "false discovery" not in view.tables["latency"].note
