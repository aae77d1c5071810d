"""Off-CPU time of an explained run: the table with its sums, and the line that says why it is missing."""

from datetime import UTC, datetime

import pytest
from plain_analysis import plain_analysis
from profiled import BASE, SERVER
from synthetic import Truth, duel_study, make_run

from bakeoff.errors import ResultsError
from bakeoff.explain.profiles import BACKGROUND, KERNEL, PREEMPTED, PROFILE_FILE, SERVING, Function, Profile
from bakeoff.report import build_view, render_html, render_markdown
from bakeoff.results import Outcome

CELL = "oltp_read_only/4"
COMMIT = (SERVING, *BASE, Function("log_write_up_to", SERVER), Function("futex_wait", KERNEL))
SYNC = (BACKGROUND, Function("log_flusher", SERVER), Function("ext4_sync_file", KERNEL))
CLIENT = (SERVING, BASE[0], BASE[1], Function("my_net_read", SERVER), Function("do_poll", KERNEL))


def add_off_cpu(run, epochs=3, arms=("A", "B")):
    """Write epochs in which the contender's statements wait 200 µs longer for the redo log."""
    fields = {"event": "context-switches", "period_ns": 1000, "seconds": 1.0, "outside": 0, "incomplete": 0}
    directory = run.explaining("off-cpu")
    for number in range(epochs):
        writer = directory.epoch(number, 0)
        for arm, longer in zip(arms, (0, 200 + number), strict=True):
            waits = {COMMIT: 100 + longer, (SERVING, *BASE, PREEMPTED): 30, SYNC: 70 + longer, CLIENT: 500}
            profile = Profile.of_stacks({s: 1000 * n for s, n in waits.items()}, events=1000, **fields)
            writer.write_server_json(arm, PROFILE_FILE, {CELL: profile.model_dump(mode="json")})
        started = datetime(2026, 11, 21, 21, number, tzinfo=UTC)
        writer.finish(Outcome(epoch=number, build=0, started_at=started, wall_s=12.0, measured_s=5.0))


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path, duel_study(workloads=("oltp_read_only",), threads=(4,)), truth=Truth(effect={"B": -0.3}))


def test_the_table_sums_the_waits_of_statements_without_those_for_the_client(run):
    add_off_cpu(run)
    view = build_view(run, plain_analysis(run, run.study()))
    rows = [[value.text for value in row.values] for row in view.tables["off-cpu-1"].rows]
    assert [row[:4] for row in rows] == [
        ["redo log: lock or condition", "100 µs", "301 µs", "+201 µs"],
        ["no processor free", "30 µs", "30 µs", "0 ns"],
        ["all statements", "130 µs", "331 µs", "+201 µs"],
        ["redo log: files and disk", "70 µs", "271 µs", "+201 µs"],
        ["waiting for the client", "500 µs", "500 µs", "0 ns"],
    ]
    assert rows[0][4].endswith("·") and rows[0][5] == "100%" and rows[3][5] == ""
    assert view.tables["off-cpu-1"].rows[3].values[0].sub == "other threads, log_flusher"
    assert "Off-CPU time of statements per event: 201 µs" not in render_markdown(view), "no counters: no sentence"
    assert "off-cpu-1" in render_html(view)


def test_arms_that_were_asked_for_come_before_claims_that_were_not_recorded(tmp_path):
    study = duel_study(workloads=("oltp_read_only", "oltp_point_select"), threads=(4,), control=False)
    third = study.arms[1].model_copy(update={"name": "C", "label": "third"})
    study = study.model_copy(update={"arms": (*study.arms, third)})
    run = make_run(tmp_path, study, truth=Truth(effect={"B": -0.3, "C": -0.5}))
    add_off_cpu(run, arms=("B", "C"))
    run.write_json("explain/asked.json", [["B", "C"]])
    assert "off-cpu-1" in build_view(run, plain_analysis(run, study)).tables


def test_the_reason_for_missing_off_cpu_time_is_shown(run):
    run.write_json("explain/notes.json", {"off-cpu": ["No off-CPU data: no right."]})
    text = render_markdown(build_view(run, plain_analysis(run, run.study())))
    assert "### Off-CPU time\n\nNo off-CPU data: no right." in text


def test_a_damaged_recording_is_an_error_that_names_the_file(run):
    add_off_cpu(run, epochs=1)
    (file,) = run.path.glob(f"explain/off-cpu/000/servers/A/{PROFILE_FILE}")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(ResultsError, match=r"explain/off-cpu/000/servers/A/profile\.json\.gz is damaged"):
        build_view(run, plain_analysis(run, run.study()))
