"""Progress of a running study."""

import io
import json
import threading
import time

import pytest
from rich.console import Console
from rich.live import Live

from bakeoff.report.live import JsonLinesLive, PlainLive, QuietLive, RichLive, live_for


def report_everything(live, analysis):
    live.stage("loading mysql:8.0 (build 1 of 2)")
    for done in range(0, 101, 10):
        live.progress("mysql:8.0 rows", done, 100, "rows")
    live.stage("measuring oltp_read_only/4")
    live.throughput("oltp_read_only/4", "A", 4321.0)
    live.epoch_finished(0, analysis.comparisons[:3], 30.0, 240.0)
    live.note("epoch 2 is discarded for all arms: arm B: lost")
    live.epoch_finished(2, analysis.comparisons[:3], 60.0, None)


def test_output_without_a_terminal_is_plain_lines(run, analysis):
    out = io.StringIO()
    with live_for(run.study(), stream=out) as live:
        assert isinstance(live, PlainLive)
        report_everything(live, analysis)
    lines = out.getvalue().splitlines()
    assert all(line.startswith("[00:0") for line in lines) and "\x1b" not in out.getvalue()
    assert sum("rows" in line for line in lines) == 1 and "100 of 100" in out.getvalue()
    assert "oltp_point_select/1: mysql:8.0 0.8" in out.getvalue() and ", interval " in out.getvalue()
    assert "about 4 min left" in out.getvalue() and "time left unknown" in out.getvalue()
    assert "discarded" in out.getvalue()


def test_a_download_shows_speed_and_time_left(run, monkeypatch):
    out, clock = io.StringIO(), iter(range(0, 100, 20))
    live = PlainLive(run.study(), out)
    monkeypatch.setattr("bakeoff.report.live.time.monotonic", lambda: live._begin + next(clock) / 2)
    live.progress("fetching mysql-8.0.31", 0, 50_000_000, "bytes")
    live.progress("fetching mysql-8.0.31", 20_000_000, 50_000_000, "bytes")
    assert "fetching mysql-8.0.31: 20 MB of 50 MB, 1 MB/s, 30 s left" in out.getvalue()


def test_indexes_are_counted(run):
    out = io.StringIO()
    PlainLive(run.study(), out).progress("mysql:8.0 indexes", 4, 4, "indexes")
    assert "mysql:8.0 indexes: 4 of 4\n" in out.getvalue()


def test_the_speed_of_the_next_load_starts_afresh(run, monkeypatch):
    out, now = io.StringIO(), [0.0]
    live = PlainLive(run.study(), out)
    monkeypatch.setattr("bakeoff.report.live.time.monotonic", lambda: live._begin + now[0])
    for now[0], done in ((0, 1_000), (11, 12_000), (600, 1_000), (611, 12_000)):
        live.progress("mysql:8.0 rows", done, 12_000, "rows")
    assert out.getvalue().count("mysql:8.0 rows: 12,000 of 12,000, 1,000/s\n") == 2


@pytest.mark.parametrize("columns", [80, 130])
def test_the_live_view_fits_the_terminal(run, analysis, columns):
    out = io.StringIO()
    live = RichLive(run.study(), Console(file=out, force_terminal=True, width=columns, color_system=None))
    live.progress("mysql:8.0.15 (A) rows", 235_000, 400_000, "rows")
    live.throughput("oltp_point_select/1", "A", 165_400.0)
    live.throughput("oltp_point_select/1", "B", 165_400.0)
    live.epoch_finished(0, analysis.comparisons[:1], 30.0, 240.0)
    live._speeds._first["mysql:8.0.15 (A) rows"] = (live._begin - 10, 0)
    shown = Console(file=io.StringIO(), width=columns, record=True)
    shown.print(live._render())
    lines = shown.export_text().splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) == 5, "title, heading, comparison, bar, stage: nothing is broken into two lines"
    assert any("235,000 of 400,000, 2" in line and line.rstrip().endswith("left") for line in lines)
    assert any("165,400 / 165,400" in line for line in lines)


def test_a_short_terminal_still_shows_stage_bars_and_time_left(run, analysis):
    live = RichLive(run.study(), Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None))
    live.stage("measuring")
    live.epoch_finished(0, analysis.comparisons, 30.0, 240.0)
    for label in ("mysql:5.7 rows", "mysql:8.0 rows"):
        live.progress(label, 100, 400, "rows")
    shown = Console(file=io.StringIO(), record=True, width=80)
    shown.print(live._render())
    lines = shown.export_text().splitlines()
    assert lines[1].startswith("mysql:5.7 rows") and lines[2].startswith("mysql:8.0 rows")
    assert "measuring" in lines[3] and "about 4 min left" in lines[3]
    assert live._live.vertical_overflow == "ellipsis"


def test_a_label_cannot_send_escape_codes(run):
    live = RichLive(run.study(), Console(file=io.StringIO(), force_terminal=True, color_system=None))
    live.progress("rows \x1b[2J", 1, 4, "rows")
    shown = Console(file=io.StringIO(), record=True)
    shown.print(live._render())
    assert "rows \\x1b[2J" in shown.export_text()


def test_json_output_is_one_message_per_line(run, analysis):
    out = io.StringIO()
    with live_for(run.study(), json=True, stream=out) as live:
        assert isinstance(live, JsonLinesLive)
        report_everything(live, analysis)
    messages = [json.loads(line) for line in out.getvalue().splitlines()]
    epoch = next(message for message in messages if message["type"] == "epoch")
    assert epoch["ratios"][0]["low"] < epoch["ratios"][0]["ratio"] < epoch["ratios"][0]["high"]
    assert {message["type"] for message in messages} == {"stage", "progress", "throughput", "epoch", "note"}


@pytest.mark.parametrize("json", [False, True])
def test_quiet_says_nothing(run, analysis, json):
    out = io.StringIO()
    with live_for(run.study(), quiet=True, json=json, stream=out) as live:
        assert type(live) is QuietLive
        report_everything(live, analysis)
    assert out.getvalue() == ""


def test_a_terminal_shows_ratio_throughput_and_time_left(run, analysis):
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=130, color_system=None)
    with RichLive(run.study(), console) as live:
        report_everything(live, analysis)
        shown = Console(file=io.StringIO(), width=130, record=True)
        shown.print(live._render())
        text = shown.export_text()
    assert "oltp_point_select/1" in text and "0.8" in text
    assert "measuring oltp_read_only/4" in text and "time left unknown" in text
    assert "discarded" in out.getvalue()
    assert not live._live.is_started


def test_many_threads_may_report_at_once(run):
    out = io.StringIO()
    live = PlainLive(run.study(), out)
    threads = [threading.Thread(target=lambda n=n: [live.stage(f"line {n}") for _ in range(50)]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = out.getvalue().splitlines()
    assert len(lines) == 400 and all(line.split("] ")[1].startswith("line ") for line in lines)


def test_a_note_is_always_printed_above_the_live_view(run, monkeypatch):
    """Rich computes how far up to go and writes later; nothing may be drawn in between."""
    computed, noting = Live.process_renderables, threading.current_thread()

    def slowly(self, renderables):
        found = computed(self, renderables)
        if threading.current_thread() is noting:
            time.sleep(0.4)  # more than the view's interval
        return found

    out = io.StringIO()
    live = RichLive(run.study(), Console(file=out, width=80, force_terminal=True, force_interactive=True))
    with live:
        monkeypatch.setattr(Live, "process_renderables", slowly)
        live.note("another bakeoff runs servers here")
        monkeypatch.setattr(Live, "process_renderables", computed)
    assert "another bakeoff" in out.getvalue()
    assert "●" not in out.getvalue().partition("another bakeoff")[0]
