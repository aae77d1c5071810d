"""The section "Why" of decided comparisons with counters, in every format."""

import json
import textwrap
from dataclasses import replace

import numpy as np
import pytest
from plain_analysis import plain_analysis
from profiled import READ, STACKS, add_profiles
from synthetic import duel_study, make_run

from bakeoff.explain.explained import Explained, Pair
from bakeoff.explain.sections import why_lines
from bakeoff.report import build_view, render_html, render_json, render_markdown
from bakeoff.report.context import Context
from bakeoff.report.text import WHY_LINES
from bakeoff.spec import Arm
from bakeoff.spec.server_name import parse_server
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop, Word


def with_counters(run, rows=(0.0, 2000.0), more=None):
    """Write counters as if arms A and B read `rows` rows per event."""
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
    assert explained.sections[0].title == "Why in detail"
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


def test_missing_io_counters_are_reported(explained, tmp_path):
    hidden = "Bytes read and written are missing"
    assert hidden in render_markdown(explained)
    study = duel_study(workloads=("oltp_read_only",), threads=(4,))
    run = with_counters(make_run(tmp_path, study), more={"io.reads": 1000.0})
    assert hidden not in render_markdown(build_view(run, plain_analysis(run, study)))


def test_an_undecided_comparison_has_costs_but_no_why_section(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False)
    run = with_counters(make_run(tmp_path, study), rows=(1.0, 1.0))
    analysis = plain_analysis(run, study)
    undecided = analysis.comparisons[0].verdict.model_copy(update={"words": (Word.INCONCLUSIVE,)})
    compared = analysis.comparisons[0].model_copy(update={"verdict": undecided})
    view = build_view(run, analysis.model_copy(update={"comparisons": (compared,)}))
    assert "Why in detail" not in {section.title for section in view.sections}
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


@pytest.fixture(scope="module")
def profiled_once(tmp_path_factory):
    """Return a run with a profile of one epoch; those of two more are deleted from its folder."""
    run = make_run(tmp_path_factory.mktemp("once"), duel_study(workloads=("oltp_read_only",), threads=(4,)))
    with_counters(run, rows=(1.0, 1.0))
    add_profiles(run, cells=["oltp_read_only/4"], epochs=3)
    pytest.importorskip("validation.causes").keep_one_profile(run.path)
    return Context(run, plain_analysis(run, run.study()))


def test_the_terminal_says_why_briefly_with_cpu_time_from_unprofiled_epochs(profiled_once):
    (said,) = why_lines(profiled_once)
    assert len(textwrap.wrap(said, 80)) <= WHY_LINES
    needs, parts, sampled = said.split(". ")[:3]
    ratio = profiled_once.server_cpu_ns("oltp_read_only/4", "B") / profiled_once.server_cpu_ns("oltp_read_only/4", "A")
    assert needs == f"mysql:8.0 needs {ratio - 1:.0%} more CPU per event"
    assert sampled.startswith("Sampled in one restart")
    assert "% of that is in row access (`row_search_mvcc`)" in parts
    full = render_markdown(build_view(profiled_once.run, profiled_once.analysis))
    assert all(sentence in full for sentence in (needs, parts)), "the report has the same sentences"


def test_one_profile_has_intervals_and_shares(profiled_once):
    (found,) = profiled_once.once(Explained).profiles.values()
    assert found.epochs == 1 and found.all.is_clear
    assert found.all.difference.interval.holds(0.3 * STACKS[READ] * 50)
    table = build_view(profiled_once.run, profiled_once.analysis).tables["profile-1-parts"]
    assert {"95% interval", "of the difference"} <= set(table.columns)


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        ("mysql:8.0.15", "mysql:8.0.15,sync_binlog=0", "sync_binlog (default → 0)"),
        ("mysql:8.0.15,sync_binlog=1", "mysql:8.0.15,sync_binlog=0", "sync_binlog (1 → 0)"),
        ("mysql:8.0.15,sync_binlog=1", "mysql:8.0.15,sync_binlog=0,log_bin=x", ""),
        ("mysql:5.7.22", "mysql:8.0.15", ""),
        ("mysql:5.7.22", "mysql:8.0.15,sync_binlog=0", ""),
    ],
)
def test_the_only_declared_difference_is_the_cause(tmp_path, mine, theirs, said):
    arms = [Arm(name=name, label=text, server=parse_server(text)) for name, text in (("A", mine), ("B", theirs))]
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False).model_copy(
        update={"arms": tuple(arms)}
    )
    run = with_counters(make_run(tmp_path, study), rows=(1.0, 1.0))
    context = Context(run, plain_analysis(run, study))
    assert context.once(Explained).declared(Pair("oltp_read_only/4", "A", "B")) == said
    lines = " ".join(why_lines(context))
    cause = f"Only {said} differs between the arms, so it is the cause. " if said else ""
    assert lines.startswith(f"{cause}Of the difference in time: server CPU, user mode ")
    unknown = "How it acts" if said else "The cause"
    assert lines.endswith(f" {unknown} was not found. Next step: `bakeoff explain RUN --explain-budget 3m`")
