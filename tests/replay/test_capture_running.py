"""`bakeoff capture mysql://…` reads what servers have kept; their own tables are the truth."""

import json
import re
import time
from base64 import b64decode
from collections import Counter
from datetime import UTC

import pymysql
import pytest

from bakeoff import servers
from bakeoff.replay import kept_statements
from bakeoff.spec import parse_server
from tests.replay.captured import capture, read
from tests.replay.test_capture_servers import check, run_statements, versions

IN_TABLES = "slow_query_log=1,long_query_time=0,log_output=TABLE,performance_schema=1"
# Without bakeoff's own and what has `mysql` as its default schema.
OTHERS = "db NOT IN ('mysql', 'information_schema')"
FORGED = (
    b"SELECT '\n# Time: 2026-11-24T03:21:36.182522Z\n# User@Host: x[x] @ y []  Id: 1\n# Query_time: 9  Lock_time: 0\n'"
)


def url(instance, database="", user="root"):
    return f"mysql://{user}@localhost/{database}?socket={instance.socket_path}"


def text_of(event):
    return b64decode(event["sql_base64"]) if "sql_base64" in event else event["sql"].encode()


@pytest.fixture(scope="module")
def mysql8():
    with servers.sandbox(parse_server(f"mysql:8.0.15,{IN_TABLES}")) as box:
        box.instance.query("CREATE DATABASE shop")
        box.instance.query("CREATE USER nobody IDENTIFIED BY 's3cret-word'")
        yield box.instance


def send(instance, *statements):
    connection = instance.connect("shop")
    for sql in statements:
        connection._execute_command(3, sql)
        connection._read_query_result()
    connection.close()


@pytest.fixture
def logging(request):
    """A server that logs into the table; before `inside`, which has another cache."""
    with servers.sandbox(parse_server(f"{request.param},{IN_TABLES}")) as box:
        yield request.param, box.instance


@pytest.mark.server
@pytest.mark.parametrize(
    "logging",
    versions("mysql:5.7.22", "mariadb:11.8.6")
    + versions("mysql:5.5.34", "mysql:5.6.24", "mysql:9.7.4", "mariadb:10.2.11", marks=pytest.mark.slow),
    indirect=True,
)
def test_every_row_of_the_slow_log_comes_back(logging, inside, shell):
    name, instance = logging
    sent = run_statements(instance, name)[:-2]  # what follows `USE mysql` is left out
    connection = instance.connect("work")
    for sql in (FORGED, b"SELECT SLEEP(0.5)"):
        connection._execute_command(3, sql)
        connection._read_query_result()
    slept_until = time.time()
    ran = inside("capture", url(instance), "-o", "shop.capture")
    assert ran.code == 0, ran.err
    connection = instance.connect("information_schema")
    with connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT *, CAST(sql_text AS BINARY) AS text FROM mysql.slow_log WHERE {OTHERS}")
        rows = cursor.fetchall()
    connection.close()
    made = read(shell.folder / "shop.capture")
    if name not in ("mysql:5.5.34", "mysql:5.6.24"):  # whole seconds
        (slept,) = (event for event in made.events if text_of(event).startswith(b"SELECT SLEEP"))
        assert abs(slept["end_us"] / 1e6 - slept_until) < 0.3
    is_exact = name in ("mysql:5.7.22", "mysql:9.7.4")
    assert ("? for characters of four bytes" in " ".join(ran.out.split())) is not is_exact
    check(made, [sql for sql in [*sent, FORGED] if is_exact or is_utf8mb3(sql)])
    # The capture has no more than there was when it began.
    assert len(made.events) <= len(rows) <= len(made.events) + 1
    for row, event in zip(rows, made.events, strict=False):
        if event.get("not_replayable") != "password":
            assert text_of(event) == row["text"]
        assert (event.get("schema", ""), event.get("connection")) == (row["db"], row.get("thread_id"))
        assert (event["rows_sent"], event["rows_examined"]) == (row["rows_sent"], row["rows_examined"])
        assert event["query_us"] == round(row["query_time"].total_seconds() * 1e6)
        logged = event["start_us" if name == "mariadb:11.8.6" else "end_us"]
        assert logged == round(row["start_time"].replace(tzinfo=UTC).timestamp() * 1e6)
    assert {event["command"] for event in made.events if "digest" not in event} <= {"Quit", "Other", "Prepare"}


@pytest.mark.parametrize(
    ("text", "command", "why"),
    [
        (b"Reset connection", "Reset Connection", ""),
        (b"Reset Connection", "Reset Connection", ""),
        (b"Quit", "Quit", ""),
        (b"Ping", "Other", "command"),
    ],
)
def test_logged_commands_are_not_taken_for_statements(tmp_path, text, command, why):
    row = {"query_time": b"00:00:00", "lock_time": b"00:00:00", "end_time": b"2026-11-27T10:00:00.000000Z"}
    row |= dict.fromkeys(("rows_sent", "rows_examined", "last_insert_id", "insert_id"), b"0")
    row |= {"user_host": b"root[root] @ localhost []", "thread_id": b"8", "db": b"shop"}
    log = b"".join(kept_statements._logged_event(row | {"sql_text": sql}) for sql in (b"SELECT 1", text))
    (tmp_path / "slow.log").write_bytes(log)
    captured = capture(tmp_path / "slow.log", output=tmp_path / "it.capture", log_format="slow")
    assert [(each["command"], each.get("not_replayable", "")) for each in captured.events if "command" in each] == [
        ("Query", ""),
        (command, why),
    ]


def is_utf8mb3(sql):
    return "\N{REPLACEMENT CHARACTER}" not in (text := sql.decode(errors="replace")) and max(text) < "\U00010000"


@pytest.mark.server
def test_digests_have_the_counts_of_the_server(mysql8, inside, shell, monkeypatch):
    monkeypatch.setattr(kept_statements, "_EVENTS_MAX", 50)
    long = b"SELECT 1 FROM t WHERE id IN (1, 2, 3) AND s = '" + b"x" * 2000 + b"'"
    send(mysql8, b"CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20))", b"BEGIN", long, long)
    send(mysql8, *(b"SELECT s FROM t WHERE id = %d" % n for n in range(200)))
    ran = inside("capture", url(mysql8, "shop"), "-o", "shop.capture", "--from", "performance-schema")
    assert ran.code == 0, ran.err
    assert "the mean time" in " ".join(ran.out.split())
    truth = mysql8.query(
        "SELECT QUERY_SAMPLE_TEXT, COUNT_STAR, SUM_TIMER_WAIT, DIGEST_TEXT FROM "
        "performance_schema.events_statements_summary_by_digest WHERE SCHEMA_NAME = 'shop'"
    )
    counts, times = Counter(), Counter()
    made = read(shell.folder / "shop.capture")
    for event in made.events:
        counts[event["sql"]] += event.get("weight", 1)
        times[event["sql"]] += event.get("weight", 1) * event["query_us"]
        assert "start_us" not in event
    assert len(made.events) <= 50 + len(truth)
    assert counts == {
        text.replace("(...)", "(?, ?)") if cut.endswith("...") else cut: count for cut, count, _, text in truth
    }
    for sample, count, picoseconds, _ in truth:
        assert times.get(sample, picoseconds / 1e6) == pytest.approx(picoseconds / 1e6, abs=count / 2 + 1)
    refused = {event["sql"]: event["not_replayable"] for event in made.events if "not_replayable" in event}
    assert refused == {"SELECT ? FROM `t` WHERE `id` IN (?, ?) AND `s` = ?": "parameters"}
    assert "SELECT ? FROM `t` WHERE `id` IN (...) AND `s` = ?" in made.texts.values(), "as of whole statements"
    assert made.totals["overall"]["formats"] == ["digests"]
    reads = sum(event["sql"].startswith("SELECT s") for event in made.events)
    assert 40 <= reads <= 50, "its share of all events is that of all statements"
    shown = inside("replay", "shop.capture", "mysql:5.7.22", "mysql:8.0.15", "--dry-run")
    assert shown.code == 0, shown.err


@pytest.mark.server
def test_the_source_with_statements_is_chosen_and_failures_are_one_line(mysql8, inside, shell, monkeypatch):
    monkeypatch.setenv("MYSQL_PWD", "s3cret-word")
    refused = inside("capture", url(mysql8, user="nobody"), "-o", "x")
    assert refused.code == 3
    assert refused.complaint.count("SELECT command denied to user 'nobody'") == 2
    assert "s3cret-word" not in refused.err + refused.out
    send(mysql8, b"SELECT 'in the slow log'")
    mysql8.query("GRANT SELECT ON mysql.slow_log TO nobody")
    assert "Read: mysql.slow_log." in inside("capture", url(mysql8, "shop", "nobody"), "-o", "slow", "--redact").out
    monkeypatch.delenv("MYSQL_PWD")
    assert "in the slow log" not in json.dumps(read(shell.folder / "slow").events)
    mysql8.query("SET GLOBAL slow_query_log = 0")
    mysql8.query("TRUNCATE mysql.slow_log")
    ran = inside("capture", url(mysql8, "shop"), "-o", "digests")
    assert re.search(r"Read: the digests .* mysql.slow_log has no statements\.", " ".join(ran.out.split()))
    mysql8.query("TRUNCATE performance_schema.events_statements_summary_by_digest", database="mysql")
    empty = inside("capture", url(mysql8), "-o", "x")
    assert empty.code == 3
    assert "slow_log has no statements; performance_schema.events_statements_summary_by_digest has" in empty.complaint
    assert not (shell.folder / "x").exists()
    assert not list(shell.folder.glob("*.partial"))
