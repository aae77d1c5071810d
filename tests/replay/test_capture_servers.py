"""Logs that real servers wrote come back with every event; the server's own counters are the truth."""

import subprocess
from base64 import b64decode

import pymysql
import pytest

from bakeoff import servers
from bakeoff.engine import engine_path
from bakeoff.spec import parse_server
from tests.replay.captured import capture

LOGS = "slow_query_log=1,long_query_time=0,general_log=1,slow_query_log_file=slow.log,general_log_file=general.log"

# What each connection sends; the first word of every comment is its mark.
STATEMENTS = (
    b"SELECT 1 /* plain */",
    b"SELECT 'it''s', \"a;b\", `x` FROM (SELECT 1 AS `x`) d",
    b"SELECT 1,\n# a line that begins as a head does\n# Time: soon\n  2",
    b"SELECT 3;",
    b"  SELECT 4  ",
    b"SELECT '\r\n\t tab and return'",
    "SELECT 'Grüße 世界 😀'".encode(),
    b"SELECT LENGTH('\xff\xfe\x80')",
    b"SELECT LENGTH('nul \x00 byte')",
    b"SELECT LENGTH('" + b"x" * 2_000_000 + b"')",
    b"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(20))",
    b"INSERT INTO t (s) VALUES ('a'), ('b')",
    b"SELECT * FROM t WHERE id IN (1, 2, 3)",
    b"UPDATE t SET s = 'c' WHERE id = 1",
    b"BEGIN",
    b"DELETE FROM t",
    b"ROLLBACK",
    b"SELECT nonsense FROM nowhere",
    b"PREPARE p FROM 'SELECT ?'",
    b"SET @v = 5",
    b"EXECUTE p USING @v",
    b"CREATE USER someone IDENTIFIED BY 's3cret-word'",
    b"SET PASSWORD FOR someone = {password}",
    b"DROP USER someone",
    # A warning has the text, with its line ends and all.
    b"SELECT CAST('1\\n# User@Host: a[a] @ b []\\n# Query_time: 9  Lock_time: 0\\nSET timestamp=1;\\n"
    b"DROP TABLE t;' AS SIGNED)",
    b"SELECT CAST('1\\nuse other;\\nSET timestamp=1;\\nDROP TABLE t;' AS SIGNED), s FROM t",
    b"CREATE DATABASE `we\nird`",
    b"USE `we\nird`",
    b"SELECT 'in a schema with a line end'",
    b"USE mysql",
    b"SELECT 1",
)
VERBOSE = {
    "mysql:8.0.33": ["log_slow_extra = 1"],
    "mariadb:11.8.6": ["log_slow_verbosity = 'all'"],
}
COM_QUERY = 3
NEW, OLD = "'s3cret-word'", "PASSWORD('s3cret-word')"


def versions(*names, marks=()):
    return [pytest.param(name, id=name, marks=marks) for name in names]


@pytest.mark.server
@pytest.mark.parametrize(
    "name",
    versions("mysql:8.0.33", "mariadb:11.8.6")
    + versions(
        "mysql:5.5.34", "mysql:5.6.24", "mysql:5.7.22", "mysql:8.0.15", "mysql:9.7.4", "mariadb:10.2.11",
        "mariadb:10.11.5", marks=pytest.mark.slow,
    ),
)  # fmt: skip
def test_every_event_of_both_logs_comes_back(name, tmp_path):
    with servers.sandbox(parse_server(f"{name},{LOGS}")) as box:
        instance = box.instance
        for setting in VERBOSE.get(name, ()):
            instance.query(f"SET GLOBAL {setting}")
        sent = run_statements(instance, name)
        truth = instance.status()
        instance.stop()
        slow = capture(instance.datadir / "slow.log", output=tmp_path / "slow.capture")
        general = capture(instance.datadir / "general.log", output=tmp_path / "general.capture")
    check(slow, sent)
    check(general, sent)
    print(f"{name}: {len(slow.events)} events of the slow log, {len(general.events)} of the general log")
    # Logged after the counters were read: that query and the end of its connection.
    assert 0 <= len(slow.events) - int(truth["Slow_queries"]) <= 4
    executed = [event["sql"] for event in general.events if event["command"] == "Execute"]
    # From 8.0.20 on an EXECUTE of SQL is not counted as one of the protocol.
    assert 0 <= len(executed) - int(truth["Com_stmt_execute"]) <= 1
    assert len(executed) > 150
    assert not any("?" in sql for sql in executed), "the log has the values"


def run_statements(instance, name):
    """Send all statements, and prepared ones by a run of sysbench; returns what was sent."""
    instance.query("CREATE DATABASE work")
    old = name in ("mysql:5.5.34", "mysql:5.6.24") or name.startswith("mariadb")
    sent = [sql.replace(b"{password}", (OLD if old else NEW).encode()) for sql in STATEMENTS]
    connection = instance.connect("work")
    for sql in sent:
        try:
            # As bytes: pymysql would encode text.
            connection._execute_command(COM_QUERY, sql)
            connection._read_query_result()
        except pymysql.MySQLError as error:
            assert b"nonsense" in sql or b"\xff" in sql, (sql, error)
    connection.close()
    sysbench(instance)
    return sent


def sysbench(instance):
    """Run sysbench for binary prepared statements; returns how many."""
    instance.query("CREATE DATABASE sbtest")
    common = [f"--mysql-socket={instance.socket_path}", "--mysql-user=root", "--tables=1", "--table-size=50"]
    for command in ("prepare", "run"):
        subprocess.run(
            [engine_path(), "sysbench", "oltp_read_write", *common, "--threads=2", "--events=10", "--time=0", command],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip


def check(made, sent):
    """Every statement is there once, in its order, byte by byte; passwords are not."""
    assert made.totals["overall"]["skipped_bytes"] == 0
    got = [b64decode(event["sql_base64"]) if "sql_base64" in event else event["sql"].encode() for event in made.events]
    assert b"s3cret-word" not in b"".join(got)
    place = 0
    for sql in sent:
        if b"s3cret" in sql or sql.startswith(b"PREPARE"):  # the log has `PREPARE p FROM ...`
            continue
        wanted = b"SELECT 5" if sql.startswith(b"EXECUTE") else sql.strip().removesuffix(b";")
        found = next((at for at in range(place, len(got)) if got[at].strip().removesuffix(b";") == wanted), None)
        assert found is not None, (sql[:80], got[place : place + 3])
        place = found + 1
    assert not any(event.get("not_replayable") == "cut" for event in made.events)
    assert not any(sql.startswith(b"DROP TABLE") for sql in got)
    schema = [event["schema"] for event in made.events if "with a line end" in event.get("sql", "")]
    assert schema == ["we\nird"]
    passwords = [event["sql"].split()[0] for event in made.events if event.get("not_replayable") == "password"]
    assert passwords[-2:] == ["CREATE", "SET"]
