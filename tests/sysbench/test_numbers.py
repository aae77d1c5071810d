"""What is better than the original's: percentiles, JSON, HdrHistogram logs, rates, warm-up. Without a server."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from bakeoff.results.epoch_data import decode_histogram

USLEEP = 'ffi.cdef("int usleep(unsigned int);")\n'
# Events of the first second take 1 ms, later ones 50 ms.
FAST_FIRST = f"""{USLEEP}
local began = os.time()
function event() ffi.C.usleep(os.time() - began < 1 and 1000 or 50000) end
"""
ONE_NEVER_ENDS = f"{USLEEP} function event() ffi.C.usleep(sysbench.tid == 2 and 60000000 or 1000) end"
BREAKS_OFF = f"""{USLEEP}
function event() ffi.C.usleep(2500000) error("broken off") end
function sysbench.hooks.report_cumulative() ffi.C.usleep(2000000) end
"""
LATE = ("sleepy.lua", "--sleep-us=20000", "--rate=10000", "--time=1", "run")
# Runs that mostly sleep: command line and script.
SLEEPING = {
    "percentiles": (("sleepy.lua", "--time=1", "--percentile=50,95,99.9,100", "run"), ""),
    "json": (("sleepy.lua", "--time=2", "--json", "--threads=2", "--report-interval=1", "run"), ""),
    "too fast a rate": (
        ("sleepy.lua", "--sleep-us=50000", "--rate=100", "--time=2", "--json", "--percentile=50", "run"), "",
    ),
    "late": (LATE, ""),
    "late with remarks": ((*LATE, "--remarks"), ""),
    "warm-up": (
        ("/dev/stdin", "--warmup-time=3", "--time=2", "--json", "--report-interval=1", "run"), FAST_FIRST,
    ),
    "outlasts the warm-up": (
        ("sleepy.lua", "--sleep-us=2500000", "--threads=2", "--warmup-time=1", "--time=1", "run"), "",
    ),
    "unfinished": (("/dev/stdin", "--threads=8", "--time=1", "--forced-shutdown=1", "run"), ONE_NEVER_ENDS),
    "broken off": (("/dev/stdin", "--time=1", "--forced-shutdown=1", "run"), BREAKS_OFF),
}  # fmt: skip


@pytest.fixture(scope="module")
def slept(ours):
    """`slept(name)`: what a run of `SLEEPING` left; all are begun together."""
    with ThreadPoolExecutor(len(SLEEPING)) as pool:
        begun = {name: pool.submit(ours, *words, stdin=script) for name, (words, script) in SLEEPING.items()}
        yield lambda name: begun[name].result()


def result_of(ran) -> dict:
    assert ran.code in (0, 2), ran.out + ran.err
    return json.loads(ran.out)


def test_percentiles_are_ordered_and_never_above_max(slept):
    ran = slept("percentiles")
    values = [ran.number(f"{label}th percentile:") for label in ("50", "95", "99.9", "100")]
    assert values == sorted(values)
    assert values[-1] <= ran.number("max:")
    assert values[0] >= ran.number("min:")


def test_json_is_the_only_standard_output(slept):
    ran = slept("json")
    result = result_of(ran)
    assert "General statistics:" in ran.err
    assert result["format"] == 1
    assert result["events"] == sum(interval["events"] for interval in result["intervals"])
    assert result["options"]["report_interval"] == "1"
    assert (result["threads"], result["charset"], result["server"]) == (2, "utf8mb4", None)
    assert result["latency_ms"]["min"] <= result["latency_ms"]["percentiles"]["95"] <= result["latency_ms"]["max"]
    assert decode_histogram(result["latency_ms"]["hdr_ns"]).total == result["events"]


def test_warnings_before_the_run_do_not_mix_with_json(ours):
    ran = ours("sleepy.lua", "--events=5", "--json=-", "--num-threads=2", "run")
    assert result_of(ran)["threads"] == 2
    assert "WARNING: --num-threads is deprecated, use --threads instead" in ran.err


def test_json_to_a_file_keeps_the_text_and_omits_the_password(ours, tmp_path):
    file = tmp_path / "result.json"
    ran = ours("sleepy.lua", "--events=5", f"--json={file}", "--mysql-password=hunter2", "run")
    assert ran.number("total number of events:") == 5
    assert json.loads(file.read_text())["events"] == 5
    assert "hunter2" not in file.read_text()


@pytest.mark.parametrize("option", ["json", "hdr-log"])
def test_a_file_that_cannot_be_written_is_reported_before_the_run(ours, tmp_path, option):
    ran = ours("sleepy.lua", "--time=60", f"--{option}={tmp_path}/nowhere/x", "run", limit_s=20)
    assert ran.code == 1
    assert f"FATAL: --{option} {tmp_path}/nowhere/x: No such file" in ran.out
    assert "Threads started!" not in ran.out


def test_a_ramp_up_is_counted_nowhere(ours):
    def queries(*options):
        return ours("ramp.lua", "--mysql-dry-run", "--events=10", *options, "run").number("queries:")

    assert queries() == 5 + 10  # a script's set-up counts, as in sysbench
    assert queries("--ramp-up=100") == 10


def test_the_hdr_log_holds_every_event(ours, tmp_path):
    file = tmp_path / "run.hlog"
    ran = ours("sleepy.lua", "--time=2", f"--hdr-log={file}", "run")
    head, *_ = file.read_text().splitlines()
    rows = [line.split(",") for line in file.read_text().splitlines() if not line.startswith(("#", '"'))]
    assert head == "#[Histogram log format version 1.3]"
    assert len(rows) >= 2
    assert sum(decode_histogram(row[3]).total for row in rows) == ran.number("total number of events:")
    starts = [float(row[0]) for row in rows]
    assert starts == sorted(starts) and starts[0] == 0


def test_latency_with_a_rate_counts_from_the_intended_start(slept):
    """A worker that takes 50 ms an event cannot keep 100 events a second: the wait is part of the latency."""
    result = result_of(slept("too fast a rate"))
    assert result["latency_ms"]["percentiles"]["50"] > 200
    assert result["dropped"] > 50
    assert result["intervals"][0]["queue_length"] > 30


def test_overdue_events_are_reported_only_with_remarks(slept):
    assert "events were due and never begun" in slept("late with remarks").out
    ran = slept("late")
    assert ran.number("total number of events:") > 10
    assert "due and never begun" not in ran.out


def test_warm_up_leaks_nowhere(slept):
    """Fast events must not be counted."""
    result = result_of(slept("warm-up"))
    assert result["latency_ms"]["min"] >= 49
    assert result["events"] <= 45
    assert all(interval["events"] <= 25 for interval in result["intervals"])


def test_an_event_that_outlasts_the_warm_up_counts(slept):
    ran = slept("outlasts the warm-up")
    assert ran.number("total number of events:") == 2
    assert "Threads started!\n\nWarming up for 1 seconds...\n\n" in ran.out


def test_unfinished_events_are_counted_not_guessed(slept):
    ran = slept("unfinished")
    assert ran.code == 2
    assert "Number of unfinished transactions on forced shutdown: 1\n" in ran.out


def test_events_broken_by_a_forced_shutdown_are_not_failures(slept):
    ran = slept("broken off")
    assert ran.code == 2
    assert "broken off" not in ran.out


def test_events_are_shared_out_exactly(ours):
    ran = ours("sleepy.lua", "--events=100", "--threads=8", "--time=0", "run")
    assert ran.number("total number of events:") == 100


@pytest.mark.parametrize("name", ["new_order", "payment"])
def test_named_operations_have_latencies_of_their_own(ours, name):
    script = "n = 0 function event() n = n + 1 bakeoff.operation(n % 3 == 0 and 'payment' or 'new_order') end"
    result = result_of(ours("/dev/stdin", "--events=30", "--json", "run", stdin=script))
    assert result["operations"][name]["count"] == {"new_order": 20, "payment": 10}[name]


def test_the_cpu_test_takes_longer_for_more_numbers(ours):
    def average_ms(limit):
        return ours("cpu", "--events=30", "--time=0", f"--cpu-max-prime={limit}", "run").number("avg:")

    assert average_ms(50000) > 3 * average_ms(5000)


def test_hooks_replace_the_reports(ours):
    script = """
    ffi.cdef("int usleep(unsigned int);")
    function event() ffi.C.usleep(1000) end
    sysbench.hooks.report_intermediate = sysbench.report_csv
    function sysbench.hooks.report_cumulative(stat)
      print("total", stat.events, stat.latency_max >= stat.latency_min)
    end
    """
    ran = ours("/dev/stdin", "--time=2", "--report-interval=1", "--report-checkpoints=1", "run", stdin=script)
    csv = [line.split(",") for line in ran.out.splitlines() if line.count(",") == 9]
    assert [row[0] for row in csv] == ["1", "2"]
    totals = [line.split("\t") for line in ran.out.splitlines() if line.startswith("total\t")]
    assert len(totals) == 2 and all(row[2] == "true" for row in totals)
    assert "General statistics:" not in ran.out
