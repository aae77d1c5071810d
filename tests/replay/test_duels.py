"""Duels whose workload is a capture: data, warm-up, captures with writes, failures, running servers."""

import math
import random
import subprocess

import pytest

from bakeoff import servers
from bakeoff.replay.captures import make_capture
from bakeoff.results import open_run
from bakeoff.spec import parse_server
from bakeoff.stats.model import Analysis

pytestmark = [pytest.mark.server, pytest.mark.timeout(400)]

SMALL = ("--threads", "3", "--warm-up", "1s", "--builds", "1", "--seed", "3", "--no-verdict")


def shop(folder):
    """A capture that makes its own table: reads, writes, transactions, and 40 duplicate keys."""
    chance = random.Random(1)
    lines = [
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, k INT, v TEXT, KEY (k))",
    ]
    lines += [f"INSERT INTO t (k, v) VALUES ({chance.randrange(100)}, 'v{row}')" for row in range(300)]
    for _ in range(40):
        lines += [f"SELECT * FROM t WHERE k = {chance.randrange(100)}" for _ in range(12)]
        lines += [
            "BEGIN",
            f"UPDATE t SET v = 'x' WHERE id = {chance.randrange(1, 300)}",
            "SELECT COUNT(*) FROM t",
            "COMMIT",
        ]
        lines += ["INSERT INTO t (id, k) VALUES (1, 1)"]
    (folder / "shop.sql").write_text("".join(f"{line};\n" for line in lines))
    return made(folder, folder / "shop.sql")


def made(folder, log):
    output = folder / f"{log.stem}.capture"
    make_capture([str(log)], output, redact=False, log_format=None, on_progress=lambda _done, _total: None)
    return output


def test_a_capture_with_writes_runs_once_an_epoch_and_its_failures_are_kept(shell):
    path = shop(shell.folder)
    # Commits do not wait for the disk, so that even on a busy machine the pass ends within its second.
    server = "mysql:8.0.15,innodb_flush_log_at_trx_commit=2"
    ran = shell.run("duel", server, server, "-w", path.name, *SMALL, "--budget", "10s")
    assert ran.code == 0, ran
    assert "once in every epoch because it writes" in ran.err
    fewer = "2 of 3 sessions are idle: the capture has fewer connections, and each is replayed once because it writes"
    assert fewer in ran.err
    run = open_run(shell.runs[0])
    assert run.study().workloads[0].writes is True
    epochs = [epoch for epoch in run.load_epochs() if epoch.valid]
    assert epochs  # a busy machine has time for one
    (statements,) = {sum(epoch.slices["events"][epoch.slices["arm"] == arm]) for epoch in epochs for arm in "AB"}
    assert statements == 3 + 300 + 40 * 17
    for epoch in epochs:
        failed = {(row["arm"], row["sql_errno"]): (row["count"], row["message"]) for row in epoch.failures}
        duplicates = (40, "Duplicate entry ? for key ?")
        assert failed == {("A", 1062): duplicates, ("B", 1062): duplicates}
        assert {row["operation"] for row in epoch.failures} < {each["operation"] for each in epoch.histograms}
        assert len(set(epoch.slices["block"])) >= 4
        assert set(epoch.slices["connections"]) == {1}, "a file of SQL is one connection"
    (comparison,) = run.read("analysis.json", Analysis).comparisons
    assert len(comparison.points) == len(epochs)


@pytest.mark.slow
def test_the_capture_of_a_sysbench_run_is_replayed_on_its_tables(shell):
    tables = ("--tables", "1", "--table-size", "2000")
    with servers.sandbox(parse_server("mysql:8.0.15,slow_query_log=1,slow_query_log_file=slow.log")) as box:
        box.instance.query("CREATE DATABASE sbtest")
        account = box.instance.account("socket")
        connect = (
            f"--mysql-socket={box.instance.address('socket')['socket']}",
            f"--mysql-user={account.user}",
            "--mysql-db=sbtest",
        )
        script = ("sysbench", "oltp_read_only", *connect, "--tables=1", "--table-size=2000", "--threads=3")
        assert shell.run(*script, "prepare").code == 0
        box.instance.query("SET GLOBAL long_query_time = 0")
        assert shell.run(*script, "--time=3", "run").code == 0
        box.instance.query("SET GLOBAL slow_query_log = 0")
        path = made(shell.folder, box.instance.datadir / "slow.log")
    ran = shell.run(
        "duel", "mysql:8.0.15", "mysql:8.0.15", "-w", f"oltp_read_only,{path}", *tables, *SMALL,
        "--budget", "60s", "--inject-slowdown", "100%",
    )  # fmt: skip
    assert ran.code == 0, ran
    run = open_run(shell.runs[0])
    assert [workload.writes for workload in run.study().workloads] == [None, False]
    assert all(epoch.failures == [] for epoch in run.load_epochs())
    ratios = {each.cell: math.exp(each.estimate.mean) for each in run.read("analysis.json", Analysis).comparisons}
    # The injected slowdown of a replay repeats reads: half the throughput, but for transactions' begins and ends.
    assert 0.4 < ratios["slow/3"] < 0.75, ratios


@pytest.fixture
def running(sandbox):
    """The session's server with a database `shop`, and a URL of an account that may do everything over TCP."""
    server = servers.RemoteServer(parse_server(f"mysql://root@localhost/?socket={sandbox['socket']}"))
    server.query("CREATE DATABASE shop")
    server.query("CREATE USER replaying@'127.0.0.1' IDENTIFIED WITH mysql_native_password BY 's3cret'")
    server.query("GRANT ALL ON *.* TO replaying@'127.0.0.1'")
    yield server, f"mysql://replaying:s3cret@127.0.0.1:{sandbox['port']}/"
    server.query("DROP USER replaying@'127.0.0.1'")
    server.query("DROP DATABASE shop")


@pytest.mark.timeout(240)
def test_on_running_servers_only_reads_are_replayed(running, shell, inside):
    server, url = running
    server.query("CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, k INT, v TEXT, KEY (k))")
    server.query("INSERT INTO shop.t (k) VALUES (1), (2), (3)")
    before = [server.query(sql) for sql in ("CHECKSUM TABLE shop.t", "SHOW DATABASES")]
    ran = inside("duel", url, url, "--allow-same", "-w", shop(shell.folder).name, *SMALL, "--budget", "8s")
    assert ran.code == 0, ran
    assert [server.query(sql) for sql in ("CHECKSUM TABLE shop.t", "SHOW DATABASES")] == before
    run = open_run(shell.runs[0])
    assert run.study().workloads[0].writes is False
    for epoch in run.load_epochs():
        assert set(epoch.slices["writes"]) == {0}
        assert epoch.failures == []


def test_writes_on_running_servers_need_a_backup(inside):
    refused = inside("replay", "log.sql", "mysql://root@127.0.0.1:1/", "mysql://root@127.0.0.1:2/", "--writes")
    assert refused.code == 2
    assert "--writes changes the data of running servers" in refused.complaint


@pytest.mark.slow
def test_writes_are_replayed_on_running_servers_with_i_have_a_backup(shell):
    log = shell.folder / "log.sql"
    log.write_text("USE shop;\n" + "".join(f"UPDATE t SET v = 'x{row}' WHERE id = {row};\n" for row in range(1, 900)))
    made(shell.folder, log)
    with servers.sandbox(parse_server("mysql:8.0.15")) as old, servers.sandbox(parse_server("mysql:8.0.15")) as new:
        urls = []
        for box in (old, new):
            box.instance.query("CREATE DATABASE shop")
            box.instance.query("CREATE TABLE shop.t (id INT PRIMARY KEY, v TEXT)")
            box.instance.query(f"INSERT INTO shop.t (id) VALUES {','.join(f'({row})' for row in range(1, 1000))}")
            place, account = box.instance.address("tcp"), box.instance.account("tcp")
            urls.append(f"mysql://{account.user}:{account.password}@{place['host']}:{place['port']}/")
        ran = shell.run(
            "replay",
            "log.capture",
            *urls,
            "--writes",
            "--i-have-a-backup",
            "--budget",
            "20s",
            "--no-verdict",
            "--seed",
            "3",
        )
        assert ran.code == 0, ran
        for box in (old, new):
            assert box.instance.query("SELECT COUNT(v) FROM shop.t") == [(899,)]
    run = open_run(shell.runs[0])
    # Statements that the untimed pass has run before change no row a second time, and are replayed all the same.
    assert {sum(epoch.slices["events"]) for epoch in run.load_epochs() if epoch.valid} == {2 * 900}
    (answers,) = run.read_json("answers.json").values()
    assert answers["tables"] == 1
    assert answers["other_tables"] == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-w", "empty.capture"), "capture: empty.capture: nothing of it can be replayed"),
        (("-w", "cut.capture"), "cut.capture: incomplete: making the capture was interrupted"),
        (("-w", "shop.capture", "--rate", "100"), "a capture has no rate"),
        (("-w", "shop.capture", "--option", "tables=3"), "a capture has no options"),
    ],
)
def test_an_impossible_replay_is_a_one_line_error(inside, shell, arguments, words):
    path = shop(shell.folder)
    (shell.folder / "cut.capture").write_bytes(path.read_bytes()[:-40])
    (shell.folder / "empty.sql").write_text("SELECT ?;\n")
    made(shell.folder, shell.folder / "empty.sql")
    ran = inside("duel", "mysql:8.0.15", "mysql:8.0.15", *arguments, "--budget", "60s")
    assert ran.code == 2, ran
    assert words in ran.complaint


def test_newer_and_truncated_captures_are_not_read_as_logs(inside, shell):
    path = shop(shell.folder)
    (shell.folder / "cut.capture").write_bytes(path.read_bytes()[:-40])
    lines = subprocess.run(["zstdcat", path], capture_output=True, check=True).stdout
    newer = lines.replace(b'"version":1', b'"version":2', 1)
    (shell.folder / "newer.capture").write_bytes(subprocess.run(["zstd"], input=newer, capture_output=True).stdout)
    for name, words in (("newer", "capture format 2 is not supported, only 1"), ("cut", "incomplete")):
        ran = inside("replay", f"{name}.capture", "mysql:8.0.15", "mysql:8.0.15", "--dry-run")
        assert (ran.code, words in ran.complaint) == (2, True), ran
    log = subprocess.run(["zstd"], input=b"SELECT 1;\n" * 9, capture_output=True).stdout
    (shell.folder / "log.sql.zst").write_bytes(log)
    assert inside("replay", "log.sql.zst", "mysql:8.0.15", "mysql:8.0.15", "--dry-run").code == 0


@pytest.mark.slow
def test_a_capture_is_replayed_on_a_given_dump(shell):
    rows = ",".join(f"({row},{row % 100})" for row in range(1, 1001))
    (shell.folder / "mine.sql").write_text(
        "-- MySQL dump 10.13  Distrib 8.0.33\nCREATE DATABASE `mine`;\nUSE `mine`;\n"
        f"CREATE TABLE `t` (`id` int NOT NULL PRIMARY KEY, `k` int, KEY `k` (`k`));\nINSERT INTO `t` VALUES {rows};\n"
    )
    lines = ["USE mine", *(f"SELECT * FROM t WHERE k = {number}" for number in range(100)), "UPDATE t SET k = 0"]
    (shell.folder / "own.sql").write_text("".join(f"{line};\n" for line in lines))
    path = made(shell.folder, shell.folder / "own.sql")
    ran = shell.run(
        "duel", "mysql:8.0.15", "mysql:5.7.22", "-w", path.name, "--data", "mine.sql", *SMALL, "--budget", "20s"
    )
    assert ran.code == 0, ran
    for epoch in open_run(shell.runs[0]).load_epochs():
        assert epoch.failures == []
        # The update changes rows only if the data was restored.
        assert sum(epoch.slices["writes"]) == 2
