"""Imports from other tools: files that they wrote (imports/), and examples from their documentation."""

import json
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bakeoff.errors import ResultsError, SpecError
from bakeoff.history.history_file import History
from bakeoff.history.imports import read_points

WRITTEN = Path(__file__).with_name("imports")

# As the documentation of the tools shows them.
SYSBENCH_0_4 = """sysbench 0.4.12:  multi-threaded system evaluation benchmark

Running the test with following options:
Number of threads: 16

OLTP test statistics:
    queries performed:
        read:                            140014
        total:                           200020
    transactions:                        10001  (1152.31 per sec.)
    deadlocks:                           0      (0.00 per sec.)

Test execution summary:
    total time:                          8.6791s
    per-request statistics:
         min:                                  1.31ms
         approx.  95 percentile:              25.27ms
"""
SYSBENCH_1_1 = """sysbench 1.1.0-abc (using bundled LuaJIT 2.1.0-beta3)

Number of threads: 8

Throughput:
    events/s (eps):                      145.7700
    time elapsed:                        10.0101s

Latency (ms):
         95th percentile:                       65.65
"""
HAMMERDB = """Vuser 1:2 Active Virtual Users configured
Vuser 1:TEST RESULT : System achieved 19845 NOPM from 46113 MariaDB TPM
Vuser 1:4 Active Virtual Users configured
Vuser 1:TEST RESULT : System achieved 30845 NOPM from 71113 MariaDB TPM
"""
HAMMERDB_OLD = "Vuser 1:TEST RESULT : System achieved 46113 Oracle TPM at 19845 NOPM\n"
HAMMERDB_TIMING = json.dumps(
    {"NEWORD": {"elapsed_ms": "181000", "calls": "20410", "p95_ms": "9.5"}, "PAYMENT": {"p95_ms": "4.25"}}
)
BENCHBASE = json.dumps(
    {
        "Start timestamp (milliseconds)": 1764000000000,
        "DBMS Type": "MYSQL",
        "DBMS Version": "8.0.15",
        "Benchmark Type": "tpcc",
        "scalefactor": "1",
        "terminals": "4",
        "Latency Distribution": {"95th Percentile Latency (microseconds)": 5500},
        "Throughput (requests/second)": 812.5,
    }
)
BENCHBASE_CSV = (
    "Time (seconds),Throughput (requests/second),Average Latency (millisecond),95th Percentile Latency (millisecond)\n"
    "0,800,1.1,3\n5,900,1.0,2\n"
)


def read(tmp_path, text, name="out.log", **more):
    path = tmp_path / name
    path.write_text(text)
    return read_points(path, series="old", **more)


def figures(points):
    return [(point.tool, point.cell, point.metric, point.contender, point.value) for point in points]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "sysbench-1.0.20-oltp_read_write.log",
            [("sysbench 1.0.20", 2, "throughput", 73.43), ("sysbench 1.0.20", 2, "p95", 44.98)],
        ),
        ("bakeoff-sysbench.log", [("sysbench 1.0.20", 4, "throughput", 616.27), ("sysbench 1.0.20", 4, "p95", 14.22)]),
        (
            "mysqlslap.txt",
            [("mysqlslap", 4, "throughput", 400 / 0.833), ("mysqlslap", 8, "throughput", 400 / 0.087)],
        ),
        (
            "mysqlslap.csv",
            [("mysqlslap", 4, "throughput", 400 / 0.265), ("mysqlslap", 8, "throughput", 400 / 0.142)],
        ),
        ("go-tpc.txt", [("go-tpc", None, "tpmC", 1975.2), ("go-tpc", None, "p95", 109.1)]),
    ],
)
def test_files_written_by_the_tools_are_imported(name, expected):
    points = read_points(WRITTEN / name, series="old", workload="w", server="mysql:8.0.15")
    assert figures(points) == [
        (tool, "w" if threads is None else f"w/{threads}", metric, "mysql:8.0.15", pytest.approx(value))
        for tool, threads, metric, value in expected
    ]
    assert all(point.is_single and point.baseline == "" and point.low is None for point in points)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            SYSBENCH_0_4,
            [
                ("sysbench 0.4.12", "out/16", "throughput", "unnamed server", 1152.31),
                ("sysbench 0.4.12", "out/16", "p95", "unnamed server", 25.27),
            ],
        ),
        (
            SYSBENCH_1_1,
            [
                ("sysbench 1.1.0", "out/8", "throughput", "unnamed server", 145.77),
                ("sysbench 1.1.0", "out/8", "p95", "unnamed server", 65.65),
            ],
        ),
        (
            HAMMERDB,
            [
                ("HammerDB", "TPROC-C/2", "NOPM", "MariaDB", 19845.0),
                ("HammerDB", "TPROC-C/4", "NOPM", "MariaDB", 30845.0),
            ],
        ),
        (HAMMERDB_OLD, [("HammerDB", "TPROC-C", "NOPM", "Oracle", 19845.0)]),
        (
            HAMMERDB_TIMING,
            [
                ("HammerDB", "TPROC-C NEWORD", "p95", "unnamed server", 9.5),
                ("HammerDB", "TPROC-C PAYMENT", "p95", "unnamed server", 4.25),
            ],
        ),
        (
            BENCHBASE,
            [
                ("BenchBase", "tpcc/4", "throughput", "MYSQL 8.0.15", 812.5),
                ("BenchBase", "tpcc/4", "p95", "MYSQL 8.0.15", 5.5),
            ],
        ),
        (BENCHBASE_CSV, [("BenchBase", "out", "throughput", "unnamed server", 850.0)]),
    ],
)
def test_output_documented_by_the_tools_is_imported(tmp_path, text, expected):
    assert figures(read(tmp_path, text)) == expected


HAMMERDB_TABLES = """
CREATE TABLE JOBMAIN(jobid TEXT primary key, db TEXT, bm TEXT, jobdict TEXT, timestamp DATETIME{profile});
CREATE TABLE JOBTIMING(jobid TEXT, vu INTEGER, procname TEXT, calls INTEGER, min_ms REAL, avg_ms REAL, max_ms REAL,
    total_ms REAL, p99_ms REAL, p95_ms REAL, {more} p50_ms REAL, sd REAL, ratio_pct REAL, summary INTEGER,
    elapsed_ms REAL);
CREATE TABLE JOBTCOUNT(jobid TEXT, counter INTEGER, metric TEXT, timestamp DATETIME);
CREATE TABLE JOBOUTPUT(jobid TEXT, vu INTEGER, output TEXT);
"""


def add_jobs(path, jobs, *, tables=""):
    """Write HammerDB's database of jobs: name, time, log, and 95th percentiles by transaction."""
    with sqlite3.connect(path) as connection:
        connection.executescript(tables)
        for job, at, lines, timings in jobs:
            connection.execute(
                "INSERT INTO JOBMAIN(jobid, db, bm, timestamp) VALUES(?, 'MariaDB', 'TPC-C', ?)", (job, at)
            )
            connection.executemany("INSERT INTO JOBOUTPUT VALUES(?, 1, ?)", [(job, line) for line in lines])
            connection.executemany(
                "INSERT INTO JOBTIMING(jobid, vu, procname, p95_ms, summary) VALUES(?, ?, ?, ?, ?)",
                [(job, *timing) for timing in timings],
            )
    connection.close()
    return path


BUILT = ("65A", "2026-03-01 09:00:00", ["CREATING MARIADB SCHEMA FOR TPROC-C"], [])
RAN = (
    "65B", "2026-03-01 10:00:00",
    ["Beginning rampup time of 1 minutes", "2 Active Virtual Users configured",
     "TEST RESULT : System achieved 19845 NOPM from 46113 MariaDB TPM"],
    [(2, "NEWORD", 99.0, 0), (2, "NEWORD", 9.5, 1), (2, "PAYMENT", 4.25, 1)],
)  # fmt: skip
RAN_LATER = ("65C", "2026-03-02 10:00:00", RAN[2][1:], [])


@pytest.mark.parametrize(("profile", "more"), [("", ""), (", profile_id INTEGER", "p75_ms REAL,")])
def test_hammerdbs_database_has_a_run_for_each_job_with_a_result(tmp_path, profile, more):
    tables = HAMMERDB_TABLES.format(profile=profile, more=more)
    path = add_jobs(tmp_path / "hammer.DB", [BUILT, RAN], tables=tables)
    points = read_points(path, series="old")
    assert figures(points) == [
        ("HammerDB", "TPROC-C/2", "NOPM", "MariaDB", 19845.0),
        ("HammerDB", "TPROC-C NEWORD/2", "p95", "MariaDB", 9.5),
        ("HammerDB", "TPROC-C PAYMENT/2", "p95", "MariaDB", 4.25),
    ]
    local = datetime(2026, 3, 1, 10).astimezone(UTC)
    assert {(point.at, point.run, point.is_single) for point in points} == {(local, "hammerdb-65B", True)}


def test_a_given_name_keeps_transactions_apart(tmp_path):
    history = History(tmp_path / "history.db")
    path = add_jobs(tmp_path / "hammer.DB", [RAN], tables=HAMMERDB_TABLES.format(profile="", more=""))
    assert history.add(read_points(path, series="old", workload="orders")) == 3
    assert [point.cell for point in history.points()] == ["orders/2", "orders NEWORD/2", "orders PAYMENT/2"]
    (tmp_path / "timing.json").write_text(HAMMERDB_TIMING)
    cells = [point.cell for point in read_points(tmp_path / "timing.json", series="old", workload="orders")]
    assert cells == ["orders NEWORD", "orders PAYMENT"]


def test_importing_a_grown_hammerdb_database_adds_only_new_jobs(tmp_path):
    history = History(tmp_path / "history.db")
    path = add_jobs(tmp_path / "hammer.DB", [RAN], tables=HAMMERDB_TABLES.format(profile="", more=""))
    assert history.add(read_points(path, series="old")) == 3
    add_jobs(path, [RAN_LATER])
    assert history.add(read_points(path, series="old")) == 1
    assert [point.run for point in history.points() if point.metric == "NOPM"] == ["hammerdb-65B", "hammerdb-65C"]


def test_sqlite_files_without_results_are_refused(tmp_path):
    History(tmp_path / "history.db").add([])
    with pytest.raises(SpecError, match="cannot be read as HammerDB's database of jobs: no such table: JOBMAIN"):
        read_points(tmp_path / "history.db", series="old")
    path = add_jobs(tmp_path / "hammer.DB", [BUILT], tables=HAMMERDB_TABLES.format(profile="", more=""))
    with pytest.raises(SpecError, match="has no result of sysbench"):
        read_points(path, series="old")
    torn = tmp_path / "torn.DB"
    torn.write_bytes(path.read_bytes()[:200])
    with pytest.raises(SpecError, match="cannot be read as HammerDB's database"):
        read_points(torn, series="old")


def test_the_date_is_given_or_from_the_content_or_the_modification_time(tmp_path):
    began = datetime(2025, 11, 24, 16, 0, tzinfo=UTC)
    assert {point.at for point in read(tmp_path, BENCHBASE)} == {began}
    path = tmp_path / "out.log"
    path.write_text(SYSBENCH_0_4)
    os.utime(path, (1_600_000_000, 1_600_000_000))
    assert read_points(path, series="old")[0].at == datetime.fromtimestamp(1_600_000_000, UTC)
    given = datetime(2012, 1, 2, tzinfo=UTC)
    point = read_points(path, series="old", at=given, commit="r7", server="mysql:5.5")[0]
    assert (point.at, point.commit, point.contender) == (given, "r7", "mysql:5.5")


@pytest.mark.parametrize("unknown", ["missing", None])
def test_a_benchbase_summary_with_missing_fields_is_imported(tmp_path, unknown):
    """Older versions have only an end date, drivers may hide the server version, phases may differ in terminals."""
    summary = json.loads(BENCHBASE) | {"Current Timestamp (milliseconds)": 1764000060000, "terminals": "2,4,8"}
    for key in ("Start timestamp (milliseconds)", "DBMS Version", "Latency Distribution"):
        summary[key] = None
        if unknown == "missing":
            del summary[key]
    points = read(tmp_path, json.dumps(summary))
    assert figures(points) == [("BenchBase", "tpcc", "throughput", "MYSQL", 812.5)]
    assert points[0].at == datetime(2025, 11, 24, 16, 1, tzinfo=UTC)
    bare = {"Throughput (requests/second)": 5, "Benchmark Type": unknown}
    assert figures(read(tmp_path, json.dumps(bare), "nightly.json")) == [
        ("BenchBase", "missing" if unknown else "nightly", "throughput", "unnamed server", 5.0)
    ]


def test_repeated_runs_and_nightly_files_of_one_name_are_separate_runs(tmp_path):
    runs = [point.run for point in read(tmp_path, SYSBENCH_0_4 + SYSBENCH_0_4) if point.metric == "throughput"]
    assert len(set(runs)) == 2
    nights = [read(tmp_path, SYSBENCH_0_4, at=datetime(2026, 1, day, tzinfo=UTC))[0].run for day in (1, 2, 2)]
    assert nights[0] != nights[1] == nights[2]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "1e999",
        "[" * 100_000,
        "sysbench 1.0.20\n",
        "sysbench 1.0.20\ntransactions: 5 (nan per sec.)",
        "tpmC: 0",
        '{"NEWORD": {"p95_ms": "NaN"}}',
        '{"NEWORD": 7}',
        BENCHBASE.replace("1764000000000", "1e300"),
        BENCHBASE.replace("812.5", "NaN"),
        BENCHBASE_CSV.replace("800", ""),
        BENCHBASE_CSV.replace("800", "NaN"),
        "Time (seconds),Throughput (requests/second)\n",
        "\x00" * 1000,
    ],
)
def test_a_file_without_a_result_is_refused(tmp_path, text):
    with pytest.raises(SpecError, match="has no result of sysbench"):
        read(tmp_path, text)


def test_an_unreadable_file_is_an_error(tmp_path):
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(ResultsError, match="cannot be read"):
            read_points(path, series="old")
