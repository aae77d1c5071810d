"""The section "Why" of decided comparisons with counters, in every format."""

import json
from dataclasses import replace

import numpy as np
import pytest
from plain_analysis import plain_analysis
from synthetic import duel_study, make_run

from bakeoff.report import build_view, render_html, render_json, render_markdown
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop, Word


def with_counters(run, rows=(0.0, 2000.0), more=None):
    """Write counters as if arm B read so many more rows per event than arm A."""
    arms = [arm.name for arm in run.study().arms]
    for epoch in run.finished_epochs():
        slices = run.load_epoch(epoch).slices
        for arm in arms:
            read = rows[arm == "B"]
            cells = {}
            for cell, part in slices.rows(slices["arm"] == arm).by("cell").frames().items():
                events = int(part["events"].sum())
                counted = {"status.Handler_read_rnd_next": events * read, "status.Questions": events + epoch}
                counted |= {"cpu.user_ns": events * 3e4, "cpu.system_ns": events * 1e4} | (more or {})
                cells[cell] = {"events": events, "seconds": 2.0, "counters": counted}
            folder = f"epochs/{epoch:03d}/servers/{arm}"
            run.write_json(f"{folder}/counters.json", cells)
            run.write_json(f"{folder}/status-before.json", {"Handler_read_rnd_next": "0", "Questions": "0", "x": "y"})
    return run


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,))
    run = with_counters(make_run(tmp_path_factory.mktemp("runs"), study))
    analysis = plain_analysis(run, study)
    assert Word.SLOWER in next(each for each in analysis.comparisons if not each.is_control).verdict.words
    return build_view(run, analysis)


def test_the_family_is_named_right_after_the_verdicts(explained):
    assert explained.sections[0].title == "Why"
    text = render_markdown(explained)
    assert "Row access can explain all of it (Handler\\_read\\_rnd\\_next 0 → 2,000 per event)" in text.replace(
        "_", "\\_"
    ) or ("Row access can explain all of it" in text)
    assert "| server CPU, user mode |" in text and "| Handler_read_rnd_next (row access) |" in text
    assert "Row access can explain all of it" in render_html(explained)


def test_json_has_all_counters(explained):
    found = {row["counter"]: row for row in json.loads(render_json(explained))["costs"]}
    assert found["status.Handler_read_rnd_next"]["verdict"] == "more"
    assert (found["status.Questions"]["explains"] or 0) < 0.001
    assert found["cpu.busy"]["family"] == "time"
    assert {row["contender"] for row in found.values()} == {"mysql:8.0"}


def test_what_the_kernel_hides_of_other_accounts_servers_is_said(explained, tmp_path):
    hidden = "Bytes read and written are missing"
    assert hidden in render_markdown(explained)
    study = duel_study(workloads=("oltp_read_only",), threads=(4,))
    run = with_counters(make_run(tmp_path, study), more={"io.reads": 1000.0})
    assert hidden not in render_markdown(build_view(run, plain_analysis(run, study)))


def test_equal_arms_have_no_section_and_all_costs(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False)
    run = with_counters(make_run(tmp_path, study), rows=(1.0, 1.0))
    analysis = plain_analysis(run, study)
    undecided = analysis.comparisons[0].verdict.model_copy(update={"words": (Word.INCONCLUSIVE,)})
    compared = analysis.comparisons[0].model_copy(update={"verdict": undecided})
    view = build_view(run, analysis.model_copy(update={"comparisons": (compared,)}))
    assert "Why" not in {section.title for section in view.sections}
    assert json.loads(render_json(view))["costs"]


def test_an_arm_that_completed_nothing_in_one_epoch_has_no_costs(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False)
    run = with_counters(make_run(tmp_path, study), rows=(2000.0, 1.0))
    epochs = list(run.load_epochs())
    slices = epochs[6].slices
    idle = slices.with_columns(events=np.where(slices["arm"] == "B", 0, slices["events"]))
    epochs[6] = replace(epochs[6], slices=idle)
    view = build_view(run, analyse(epochs, study, ended=Stop.BUDGET))
    assert "completed nothing in epoch 6" in view.verdicts[0].sentence
    assert view.records_of("costs") == ()


def test_a_run_without_counters_has_no_table_of_costs(view):
    assert "Costs per event" not in {inner.title for section in view.sections for inner in section.sections()}
    assert "costs" not in json.loads(render_json(view))
