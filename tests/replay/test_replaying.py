"""Captures replayed on real servers, checked against the general logs of both arms."""

import random
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import replace

import pytest

from bakeoff import servers
from bakeoff.engine import ArmAddress, Engine
from bakeoff.errors import EngineError
from bakeoff.spec import parse_server
from tests.replay.captured import capture

pytestmark = pytest.mark.server

LOGGED = "mysql:8.0.15,general_log=1,general_log_file=general.log"
HEAD = (
    "/usr/sbin/mysqld, Version: 8.0.15 (x). started with:\nTcp port: 0  Unix socket: x\nTime  Id Command    Argument\n"
)


class Arms:
    """Two servers with a table, and the engine's names for them."""

    def __init__(self, stack):
        self.boxes = {name: stack.enter_context(servers.sandbox(parse_server(LOGGED))) for name in "AB"}
        self.instances = {name: box.instance for name, box in self.boxes.items()}
        for instance in self.instances.values():
            instance.query("CREATE DATABASE work")
            instance.query("CREATE TABLE work.t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(20))")
            instance.query("INSERT INTO work.t (a) VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)")
        self.engine = stack.enter_context(Engine())
        self.engine.open(self.address(name) for name in "AB")

    def address(self, name):
        place, account = self.instances[name].address("socket"), self.instances[name].account("socket")
        return ArmAddress(
            name, place["socket"], None, None, account.user, account.password, "work", "utf8mb4", None,
            server_pid=self.instances[name].pid,
        )  # fmt: skip

    def replay(self, path, *, threads=3, chunk_events=20, **more):
        return self.engine.measure(
            {
                "cell": "x/3", "capture": str(path), "chunk_events": chunk_events, "speed": None, "reads_only": False,
                "threads": threads, "arms": ["A", "B"], "seconds": 60.0, "slice_ns": 50_000_000, "order_seed": 1,
            } | more
        )  # fmt: skip

    def marks(self, name, folder):
        """Return connection and mark of the statements that a server has logged, in order."""
        instance = self.instances[name]
        instance.query("FLUSH GENERAL LOGS")
        log = capture(instance.datadir / "general.log", output=folder / f"{name}.capture")
        found = [(event["connection"], event["sql"].partition("/*m")[2]) for event in log.statements]
        return [(connection, mark.removesuffix("*/")) for connection, mark in found if mark]


@pytest.fixture(scope="module")
def arms():
    with ExitStack() as stack:
        yield Arms(stack)


def written(folder, events, name="x"):
    """Make a capture of a general log with these events (connection, command, text), a millisecond apart."""
    lines = [
        f"2026-11-23T10:{at // 60_000:02}:{at // 1000 % 60:02}.{at % 1000:03}000Z\t    {connection} {command}\t{text}\n"
        for at, (connection, command, text) in enumerate(events)
    ]
    (folder / f"{name}.log").write_text(HEAD + "".join(lines))
    capture(folder / f"{name}.log", output=folder / f"{name}.capture")
    return folder / f"{name}.capture"


def by_connection(marks):
    """Return the numbers of each connection's statements in the order in which they ran."""
    found = defaultdict(list)
    for mark in marks:
        connection, _, number = mark.partition("-")
        found[connection].append(int(number))
    return found


def shop(count, *, seed, connections=6):
    """Transactions, reads and writes of some connections, each statement marked `/*mCONNECTION-NUMBER*/`."""
    chance = random.Random(seed)
    inside = dict.fromkeys(range(1, connections + 1), False)
    events = [(connection, "Connect", "root@localhost on work using Socket") for connection in inside]
    numbers = dict.fromkeys(inside, 0)
    for _ in range(count):
        connection = chance.choice(list(inside))
        words = ["SELECT SUM(a) FROM t", f"SELECT * FROM t WHERE id = {chance.randint(1, 10)}"]
        words += [f"UPDATE t SET a = a + 1 WHERE id = {connection}", f"INSERT INTO t (a, b) VALUES ({connection}, 'x')"]
        words += ["COMMIT" if inside[connection] else "BEGIN"]
        sql = chance.choice(words)
        inside[connection] = sql == "BEGIN" or (inside[connection] and sql != "COMMIT")
        numbers[connection] += 1
        events.append((connection, "Query", f"{sql} /*m{connection}-{numbers[connection]}*/"))
    return events


def test_both_arms_run_the_capture_once_in_order_and_hold_the_same_rows(arms, tmp_path):
    events = shop(600, seed=5)
    measured = arms.replay(written(tmp_path, events))
    expected = by_connection(text.partition("/*m")[2].removesuffix("*/") for _, kind, text in events if kind == "Query")
    for name in "AB":
        logged = arms.marks(name, tmp_path)
        assert by_connection(mark for _, mark in logged) == expected
        # A captured connection is one session; transactions of two never mix.
        sessions = defaultdict(set)
        owner = {}
        for (session, mark), text in zip(logged, statements(arms, name, tmp_path), strict=True):
            connection = mark.partition("-")[0]
            sessions[connection].add(session)
            assert owner.get(session, connection) == connection, mark
            if text.startswith("BEGIN"):
                owner[session] = connection
            elif text.startswith("COMMIT"):
                owner.pop(session, None)
            if int(mark.partition("-")[2]) == expected[connection][-1]:
                owner.pop(session, None)  # rolled back when the capture has ended
        assert all(len(each) == 1 for each in sessions.values())
        assert sum(each["events"] for each in measured.slices if each["arm"] == name) == 600
    assert (
        len({tuple(instance.query("SELECT SUM(a), COUNT(*) FROM work.t")) for instance in arms.instances.values()}) == 1
    )
    # The chunks of a block are the same on both arms.
    chunks = defaultdict(list)
    for each in measured.slices:
        chunks[each["arm"]].append((each["block"], each["events"]))
    assert sorted(chunks["A"]) == sorted(chunks["B"])
    assert len(chunks["A"]) > 10
    assert measured.failures == []
    operations = {each["operation"] for each in measured.histograms}
    assert operations > {"event"}
    counted = sum(each["count"] for each in measured.histograms if each["operation"] != "event")
    assert counted == 1200


def statements(arms, name, folder):
    log = capture(arms.instances[name].datadir / "general.log", output=folder / f"{name}-texts.capture")
    return [event["sql"] for event in log.statements if "/*m" in event["sql"]]


def test_statements_that_fail_are_counted_and_a_killed_connection_comes_back(arms, tmp_path):
    events = [
        (1, "Query", "SELECT 1"),
        (1, "Query", "SELECT nonsense('secret')"),
        (2, "Query", "SELECT * FROM nowhere"),
    ]
    events += [(1, "Query", "INSERT INTO t (id) VALUES (1)"), (1, "Query", "INSERT INTO t (id) VALUES (2)")]
    events += [(3, "Query", "BEGIN"), (3, "Query", "KILL CONNECTION_ID()"), (3, "Query", "SELECT 'lost'")]
    events += [(3, "Query", "COMMIT"), (3, "Query", "SELECT 'there again'"), (2, "Query", "SELECT 2")]
    measured = arms.replay(written(tmp_path, events), chunk_events=5)
    for answer in measured.failures:
        counts = {(each["sql_errno"], each["message"]): each["count"] for each in answer["failures"]}
        assert counts[1062, "Duplicate entry ? for key ?"] == 2
        assert counts[1305, "FUNCTION work.nonsense does not exist"] == 1
        assert counts[1146, "Table ? doesn't exist"] == 1
        lost = sum(each["count"] for each in answer["failures"] if each["sql_errno"] in (1317, 2013, 2006))
        assert lost == 3, counts  # the KILL, and what followed in its transaction
        assert "secret" not in str(answer)
    assert [answer["arm"] for answer in measured.failures] == ["A", "B"]
    assert all(sum(each["reconnects"] for each in measured.slices if each["arm"] == name) == 1 for name in "AB")
    texts = {digest["operation"]: digest["count"] for digest in measured.histograms if digest["arm"] == "A"}
    assert texts["event"] == 10


def test_a_connection_that_quits_unlocks_its_tables_and_lock_waits_are_limited(arms, tmp_path):
    events = [(1, "Query", "LOCK TABLES t WRITE"), (1, "Query", "UPDATE t SET a = a"), (1, "Quit", "")]
    events += [(2, "Query", "INSERT INTO t (a, b) VALUES (@@lock_wait_timeout, 'waits')")]
    measured = arms.replay(written(tmp_path, events), threads=2, chunk_events=1)
    assert measured.failures == []
    for instance in arms.instances.values():
        assert instance.query("SELECT a FROM work.t WHERE b = 'waits'") == [(50,)]


def test_deadlocks_are_counted_and_their_transactions_run_again(arms, tmp_path):
    before = arms.instances["A"].query("SELECT SUM(a) FROM work.t WHERE id IN (1, 2)")[0][0]
    one = [
        "BEGIN",
        "UPDATE t SET a = a + 1 WHERE id = 1",
        "SELECT a FROM t",
        "UPDATE t SET a = a + 1 WHERE id = 2",
        "COMMIT",
    ]
    two = [
        "BEGIN",
        "UPDATE t SET a = a + 1 WHERE id = 2",
        "SELECT a FROM t",
        "UPDATE t SET a = a + 1 WHERE id = 1",
        "COMMIT",
    ]
    events = [
        (number, "Query", sql)
        for _ in range(300)
        for pair in zip(one, two, strict=True)
        for number, sql in zip((1, 2), pair, strict=True)
    ]
    measured = arms.replay(written(tmp_path, events), threads=2, chunk_events=1500)
    after = {
        name: instance.query("SELECT SUM(a) FROM work.t WHERE id IN (1, 2)")[0][0]
        for name, instance in arms.instances.items()
    }
    assert after == dict.fromkeys("AB", before + 1200)
    counted = {
        answer["arm"]: sum(each["count"] for each in answer["failures"] if each["sql_errno"] == 1213)
        for answer in measured.failures
    }
    retries = {name: sum(each["retries"] for each in measured.slices if each["arm"] == name) for name in "AB"}
    assert {name: count for name, count in retries.items() if count} == counted
    assert all(sum(each["events"] for each in measured.slices if each["arm"] == name) == 3000 for name in "AB")


def test_committed_parts_of_chained_transactions_are_not_retried(arms, tmp_path):
    before = arms.instances["A"].query("SELECT SUM(a) FROM work.t WHERE id IN (1, 2)")[0][0]
    # Each chunk has one of these pairs, and each pair its deadlocks.
    events = [(connection, "Query", "BEGIN") for connection in (1, 2, 3, 4)]
    for _ in range(300):
        for connection in (1, 2, 3, 4):
            first, second = (1, 2) if connection % 2 else (2, 1)
            updates = [f"UPDATE t SET a = a + 1 WHERE id = {number}" for number in (first, second)]
            texts = (updates[0], "SELECT a FROM t", updates[1], "COMMIT AND CHAIN")
            events += [(connection, "Query", sql) for sql in texts]
    events += [(connection, "Query", "COMMIT") for connection in (1, 2, 3, 4)]
    measured = arms.replay(written(tmp_path, events), threads=4, chunk_events=10_000)
    assert {each["sql_errno"] for answer in measured.failures for each in answer["failures"]} == {1213}
    for instance in arms.instances.values():
        assert instance.query("SELECT SUM(a) FROM work.t WHERE id IN (1, 2)") == [(before + 2400,)]


def test_an_injected_slowdown_repeats_reads(arms, tmp_path):
    def selects():
        rows = {
            name: instance.query("SHOW GLOBAL STATUS LIKE 'Com_select'") for name, instance in arms.instances.items()
        }
        return {name: int(value) for name, ((_, value),) in rows.items()}

    before = selects()
    events = [(1 + at % 2, "Query", f"SELECT {at} FROM t") for at in range(400)]
    arms.engine.open([arms.address("A"), replace(arms.address("B"), slowdown_percent=50.0)])
    arms.replay(written(tmp_path, events), threads=2, reads_only=True, chunk_events=200, seconds=None, blocks=1)
    arms.engine.open(arms.address(name) for name in "AB")
    run = {name: count - before[name] for name, count in selects().items()}
    assert run["A"] == pytest.approx(400, abs=20) and run["B"] == pytest.approx(1.5 * run["A"], rel=0.05)


def test_reads_only_repeats_the_reads_and_writes_nothing(arms, tmp_path):
    before = arms.instances["A"].query("CHECKSUM TABLE work.t")
    path = written(tmp_path, shop(60, seed=7))
    measured = arms.replay(path, reads_only=True, chunk_events=10, seconds=1.0)
    assert sum(each["events"] for each in measured.slices) > 500, "a second holds many passes"
    assert all(each["writes"] == 0 for each in measured.slices)
    assert arms.instances["A"].query("CHECKSUM TABLE work.t") == before
    with pytest.raises(EngineError, match="it has no plain read to replay"):
        arms.replay(written(tmp_path, [(1, "Query", "DELETE FROM t")], "w"), reads_only=True)
    with pytest.raises(EngineError, match=r"x\.log: not a capture"):
        arms.replay(tmp_path / "x.log")


def test_copies_of_few_connections_fill_all_sessions_in_order(arms, tmp_path):
    events = [(1 + at % 2, "Query", f"SELECT {at} FROM t /*m{1 + at % 2}-{at // 2}*/") for at in range(40)]
    before = {name: len(arms.marks(name, tmp_path)) for name in "AB"}
    measured = arms.replay(
        written(tmp_path, events), threads=6, reads_only=True, chunk_events=60, seconds=None, blocks=1
    )
    for name in "AB":
        sessions = defaultdict(list)
        for session, mark in arms.marks(name, tmp_path)[before[name] :]:
            sessions[session].append(mark)
        passes = [f"{connection}-{number}" for connection in (1, 2) for number in range(20)]
        assert len(sessions) == 6
        for marks in sessions.values():
            (connection,) = {mark.partition("-")[0] for mark in marks}
            assert [mark.partition("-")[2] for mark in marks] == [str(at % 20) for at in range(len(marks))], connection
        counts = Counter(mark for marks in sessions.values() for mark in marks)
        assert counts == dict.fromkeys(passes, 3), "two chunks of 60 are one pass of three copies"
        digests = [each for each in measured.histograms if each["arm"] == name and each["operation"] != "event"]
        assert [each["count"] for each in digests] == [120]


def test_now_returns_the_logged_time(arms, tmp_path):
    for instance in arms.instances.values():
        instance.query("CREATE TABLE work.moment (at DATETIME, made TIMESTAMP DEFAULT CURRENT_TIMESTAMP)")
    events = [
        (1, "Query", "SET time_zone = '+00:00'"),
        (1, "Query", "INSERT INTO moment (at) SELECT NOW() FROM t LIMIT 1"),
        *[(1, "Query", "SELECT 1 FROM t")] * 1500,
        (1, "Query", "INSERT INTO moment (at) VALUES (NOW())"),
    ]
    assert arms.replay(written(tmp_path, events), chunk_events=800).failures == []
    for instance in arms.instances.values():
        rows = instance.query(
            "SELECT CAST(at AS CHAR), at = CONVERT_TZ(made, @@time_zone, '+00:00') FROM work.moment ORDER BY at"
        )
        assert rows == [("2026-11-23 10:00:00", 1), ("2026-11-23 10:00:01", 1)]


def test_timed_replay_starts_statements_at_their_logged_times(arms, tmp_path):
    path = written(tmp_path, [(1 + at % 3, "Query", f"SELECT {at} FROM t LIMIT 1") for at in range(500)])
    for speed, expected_s in ((1.0, 0.5), (5.0, 0.1)):
        measured = arms.replay(path, chunk_events=500, speed=speed, seconds=None, blocks=1)
        lengths_s = [each["length_ns"] / 1e9 for each in measured.slices]
        assert len(lengths_s) == 4
        # The last one begins 499 ms after the first; a busy machine is late.
        assert all(0.99 * expected_s < length < expected_s + 0.3 for length in lengths_s), lengths_s
        assert {each["clock"] for each in measured.histograms} == {"response"}
        assert {each["events"] for each in measured.slices} == {500}


def test_sessions_have_the_schema_and_the_variables_of_the_capture(arms, tmp_path):
    for instance in arms.instances.values():
        instance.query(
            "CREATE TABLE IF NOT EXISTS work.seen (c INT, s VARCHAR(20), m VARCHAR(200), z VARCHAR(20), n VARCHAR(20))"
        )
        instance.query("CREATE DATABASE IF NOT EXISTS other")
    look = "INSERT INTO work.seen SELECT {}, DATABASE(), @@sql_mode, @@time_zone, @@character_set_client"
    events = [
        (1, "Connect", "root@localhost on work using Socket"),
        (2, "Connect", "root@localhost on other using Socket"),
        (1, "Query", "SET NAMES latin1"),
        (1, "Query", "SET sql_mode='ANSI_QUOTES', time_zone='+03:00'"),
        (2, "Query", look.format(2)),
        (1, "Query", look.format(1)),
        (1, "Init DB", "other"),
        (1, "Query", look.format(3)),
    ]
    # One session: the connections take turns in it.
    measured = arms.replay(written(tmp_path, events), threads=1)
    assert measured.failures == []
    for instance in arms.instances.values():
        mode = instance.query("SELECT @@global.sql_mode")[0][0]
        assert instance.query("SELECT * FROM work.seen ORDER BY c") == [
            (1, "work", "ANSI_QUOTES", "+03:00", "latin1"),
            (2, "other", mode, "SYSTEM", "utf8mb4"),
            (3, "other", "ANSI_QUOTES", "+03:00", "latin1"),
        ]


def test_a_replay_is_cancelled_like_every_other_cell(arms, tmp_path):
    path = written(tmp_path, [(1, "Query", "SELECT COUNT(*) FROM t")])
    stop = threading.Event()
    with Engine(stop=stop) as engine:
        engine.open(arms.address(name) for name in "AB")
        arms.engine, kept = engine, arms.engine
        threading.Timer(0.5, stop.set).start()
        begin = time.monotonic()
        arms.replay(path, seconds=30.0)
        arms.engine = kept
    assert time.monotonic() - begin < 20
