"""A synthetic run through the real statistics into every format."""

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from synthetic import Truth, duel_study, make_run

from bakeoff.cli.report import report
from bakeoff.plan import Plan
from bakeoff.report import build_view, render_csv, render_html, render_json, render_markdown
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Analysis, Stop
from bakeoff.units import format_duration


def test_a_run_with_a_known_difference_is_reported_correctly(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(1, 4))
    run = make_run(tmp_path, study, Truth(sd_slice=0.02), epochs=8, discarded={2: "arm A: too many errors"})
    run.write_json("analysis.json", analyse(run.load_epochs(), study, ended=Stop.PRECISE))
    view = build_view(run, run.read("analysis.json", Analysis))
    assert [verdict.tone.value for verdict in view.verdicts] == ["slower", "slower"]
    assert all("at least" in verdict.sentence and "slower" in verdict.headline for verdict in view.verdicts)
    assert {row.verdict for row in view.forest.rows if row.kind == "control"} == {"holds 1"}
    assert view.tables["discarded"].rows and not [status for status in view.statuses if status.word == "UNTRUSTED"]
    for text in (render_html(view), render_markdown(view)):
        assert "mysql:8.0" in text and "too many errors" in text
    assert "SLOWER" in render_csv(view) and json.loads(render_json(view))["comparisons"]


@pytest.mark.parametrize(
    ("effect", "row", "summary"),
    [
        (0.002, "holds 1", "the control, a second baseline, holds 1 at 99%."),
        (0.026, "misses 1 at 95%, not at 99%", "the control, a second baseline, holds 1 at 99%."),
        (0.05, "MISSES 1", "the control does NOT hold 1."),
    ],
)
def test_the_line_of_the_control_agrees_with_the_summary(tmp_path, effect, row, summary):
    study = duel_study(workloads=("oltp_read_only",), threads=(1,))
    run = make_run(tmp_path, study, Truth(effect={"B": -0.1, "A'": effect}))
    view = build_view(run, analyse(run.load_epochs(), study, ended=Stop.PRECISE))
    assert [each.verdict for each in view.forest.rows if each.kind == "control"] == [row]
    assert view.summary[-1].endswith(summary)


def test_the_time_left_of_a_killed_run_follows_from_its_own_plan(tmp_path):
    study = duel_study().model_copy(update={"has_target": True})
    run = make_run(tmp_path, study, Truth(effect={"B": 0.0}, sd_slice=0.1), epochs=6)
    plan = run.read("plan.json", Plan).model_copy(update={"overhead_s": 30.0})
    run.write_json("plan.json", plan)
    report([str(run.path), "--format", "json", "-O", str(tmp_path / "report.json")], standalone_mode=False)
    sentence = json.loads((tmp_path / "report.json").read_text())["verdicts"][0]["sentence"]
    missing = int(re.search(r"about (\d+) more restarts", sentence)[1])
    assert f"(about {format_duration(missing * plan.epoch_s)})" in sentence


def test_an_arm_that_completed_nothing_has_no_ratio_anywhere(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False)
    run = make_run(tmp_path, study, epochs=6)
    epochs = [(epoch, epoch.slices) for epoch in run.load_epochs()]
    idle = [
        replace(epoch, slices=slices.with_columns(events=np.where(slices["arm"] == "B", 0, slices["events"])))
        for epoch, slices in epochs
    ]
    view = build_view(run, analyse(idle, study, ended=Stop.BUDGET))
    assert (view.verdicts[0].ratio, view.verdicts[0].change, view.forest.rows[0].ratio) == ("", "", "n/a")
    assert "completed nothing in 6 epochs" in view.verdicts[0].sentence
    (row,) = view.tables["comparisons"].rows
    assert [value.text for value in row.values][:2] == ["n/a", "none yet"]
    page = render_html(view)
    assert not view.forest.rows[0].measured and 'class="point"' not in page
    assert not any("1.00×" in sentence for sentence in view.summary)
    (record,) = csv.DictReader(io.StringIO(render_csv(view)))
    assert record["ratio"] == record["ratio_trimmed"] == ""


def test_at_a_fixed_rate_no_arm_is_faster(tmp_path):
    study = duel_study(workloads=("oltp_read_only", "oltp_point_select"), threads=(1, 4))
    paced = study.workloads[0].model_copy(update={"rate_per_s": 1000.0})
    study = study.model_copy(update={"workloads": (paced, *study.workloads[1:])})
    run = make_run(tmp_path, study, Truth(sd_slice=0.02), epochs=8)
    run.write_json("analysis.json", analyse(run.load_epochs(), study, ended=Stop.PRECISE))
    view = build_view(run, run.read("analysis.json", Analysis))
    fixed = [verdict for verdict in view.verdicts if verdict.workload == "oltp_read_only"]
    assert {verdict.words for verdict in fixed} == {("RATE FIXED",)}
    assert {verdict.headline for verdict in fixed} == {"was given a fixed rate: compare response times"}
    assert {verdict.basis for verdict in fixed} == {"8 restarts"}
    assert view.summary[0].startswith("Of 4 comparisons with mysql:5.7: 2 slower, 2 at a fixed rate. The largest ")
    assert "oltp_point_select" in view.summary[0]
    assert not view.means
