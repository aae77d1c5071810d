"""What is seen while a run goes on."""

import io
import json
import threading

import pytest
from rich.console import Console

from bakeoff.report.live import JsonLinesLive, PlainLive, QuietLive, RichLive, interval_strip, live_for
from bakeoff.stats.model import Interval


def report_everything(live, analysis):
    live.stage("loading mysql:8.0 (build 1 of 2)")
    for done in range(0, 101, 10):
        live.progress("mysql:8.0 rows", done, 100)
    live.stage("measuring oltp_read_only/4")
    live.throughput("oltp_read_only/4", "A", 4321.0)
    live.epoch_finished(0, analysis.comparisons[:3], 30.0, 240.0)
    live.note("epoch 2 is discarded for all arms: arm B: lost")
    live.epoch_finished(2, analysis.comparisons[:3], 60.0, None)


def test_without_a_terminal_it_is_plain_lines(run, analysis):
    out = io.StringIO()
    with live_for(run.study(), stream=out) as live:
        assert isinstance(live, PlainLive)
        report_everything(live, analysis)
    lines = out.getvalue().splitlines()
    assert all(line.startswith("[00:0") for line in lines) and "\x1b" not in out.getvalue()
    assert sum("rows" in line for line in lines) == 1 and "100 of 100" in out.getvalue()
    assert "oltp_point_select/1: mysql:8.0 0.8" in out.getvalue() and "live interval" in out.getvalue()
    assert "about 4 min left" in out.getvalue() and "time left unknown" in out.getvalue()
    assert "discarded" in out.getvalue()


def test_a_download_shows_speed_and_time_left(run, monkeypatch):
    out, clock = io.StringIO(), iter(range(0, 100, 20))
    live = PlainLive(run.study(), out)
    monkeypatch.setattr("bakeoff.report.live.time.monotonic", lambda: live._begin + next(clock) / 2)
    live.progress("fetching mysql-8.0.31", 0, 50_000_000)
    live.progress("fetching mysql-8.0.31", 20_000_000, 50_000_000)
    assert "fetching mysql-8.0.31: 20 MB of 50 MB, 1 MB/s, 30 s left" in out.getvalue()


def test_json_lines_are_json_lines(run, analysis):
    out = io.StringIO()
    with live_for(run.study(), json=True, quiet=True, stream=out) as live:
        assert isinstance(live, JsonLinesLive)
        report_everything(live, analysis)
    messages = [json.loads(line) for line in out.getvalue().splitlines()]
    epoch = next(message for message in messages if message["type"] == "epoch")
    assert epoch["ratios"][0]["low"] < epoch["ratios"][0]["ratio"] < epoch["ratios"][0]["high"]
    assert {message["type"] for message in messages} == {"stage", "progress", "throughput", "epoch", "note"}


def test_quiet_says_nothing(run, analysis):
    out = io.StringIO()
    with live_for(run.study(), quiet=True, stream=out) as live:
        assert isinstance(live, QuietLive)
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
    assert "oltp_point_select/1" in text and "├" in text and "●" in text
    assert "measuring oltp_read_only/4" in text and "time left unknown" in text
    assert "discarded" in out.getvalue()
    assert not live._live.is_started


def test_many_threads_may_speak_at_once(run):
    out = io.StringIO()
    live = PlainLive(run.study(), out)
    threads = [threading.Thread(target=lambda n=n: [live.stage(f"line {n}") for _ in range(50)]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = out.getvalue().splitlines()
    assert len(lines) == 400 and all(line.split("] ")[1].startswith("line ") for line in lines)


@pytest.mark.parametrize(
    ("low", "mean", "high", "expected"),
    [
        (None, -0.1, None, "          ●    │               "),
        (-0.1, -0.04, 0.0, "          ├──●─┤               "),
        (-0.1, -0.04, 0.02, "          ├──●─┼┤              "),
        (-0.9, 0.1, 0.9, "◂──────────────┼────●─────────▸"),
    ],
)
def test_the_strip_keeps_its_axis(low, mean, high, expected):
    # 31 columns from -0.3 to 0.3: 0.02 each, equality in the middle.
    assert interval_strip(mean, Interval(low=low, high=high), 0.3) == expected
