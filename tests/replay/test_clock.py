"""How a capture is cut and refused when replayed by the clock, or with more sessions than connections."""

from types import SimpleNamespace

import pytest

from bakeoff.errors import SpecError
from bakeoff.plan import Cell, SliceLength
from bakeoff.replay.captures import make_capture
from bakeoff.replay.measuring import MEASURING, _Work, capture_facts, chunk_events
from bakeoff.spec import Workload
from bakeoff.spec.study import Placement

HEAD = "/usr/sbin/mysqld, Version: 8.0.15 (x). started with:\nTcp port: 0  Unix socket: x\nTime  Id Command  Argument\n"


def log_of(folder, seconds, sql="SELECT 1", connections=4):
    """Make a capture of a general log with a statement at each of these seconds after ten."""
    events = [
        f"2026-11-23T10:{int(at) // 60:02}:{at % 60:09.6f}Z\t    {1 + number % connections} Query\t{sql}\n"
        for number, at in enumerate(seconds)
    ]
    (folder / "shop.log").write_text(HEAD + "".join(events))
    logs = [str(folder / "shop.log")]
    make_capture(logs, folder / "shop.capture", redact=False, log_format=None, on_progress=lambda _done, _total: None)
    capture_facts.cache_clear()
    return folder / "shop.capture"


def chunk(path, *, speed=None, slice_s=1.0, reads_only=True, threads=4, events_per_s=None):
    cell = Cell(
        name="shop/4", workload="shop", workload_index=0, script=str(path), threads=threads, writes=not reads_only,
        freeze=False, placement=Placement.FREE, open_loop=speed is not None, fixed_work=True, speed=speed,
        slices=SliceLength(slice_ns=round(slice_s * 1e9), guard_ns=0),
    )  # fmt: skip
    return chunk_events(cell, cell.slices, reads_only=reads_only, events_per_s=events_per_s)


def busiest(folder, *events, autocommit="1"):
    """Return the most connections at work at once; each event has a connection and is later than the last one."""
    first = [(connection, f"SET autocommit = {autocommit}") for connection in sorted({each[0] for each in events})]
    lines = []
    for at, (connection, sql) in enumerate([*first, *events]):
        words = f"{sql}\t" if sql in ("Quit", "Ping") else f"Query\t{sql}"
        lines.append(f"2026-11-23T10:00:{at:09.6f}Z\t    {connection} {words}\n")
    (folder / "shop.log").write_text(HEAD + "".join(lines))
    make_capture(
        [str(folder / "shop.log")], folder / "shop.capture", redact=False, log_format=None, on_progress=lambda *_: None
    )
    capture_facts.cache_clear()
    return capture_facts(str(folder / "shop.capture")).at_once


INSERT = "INSERT INTO t VALUES (1)"


@pytest.mark.parametrize("autocommit", ["0", "OFF", "false"])
def test_transactions_begin_implicitly_without_autocommit(tmp_path, autocommit):
    mixed = [(1, INSERT), (2, INSERT), (1, "COMMIT"), (2, "COMMIT")]
    assert busiest(tmp_path, *mixed, autocommit=autocommit) == 2
    assert busiest(tmp_path, *mixed) == 1
    for word in ("SET @x = 1", "USE shop", "Ping", "COMMIT"):
        events = [(1, word), (2, INSERT), (2, "ROLLBACK"), (1, word)]
        assert busiest(tmp_path, *events, autocommit=autocommit) == 1, word
    ended = [(1, "SELECT 1"), (1, "Quit"), (2, "SELECT 1"), (2, "Quit")]
    assert busiest(tmp_path, *ended, autocommit=autocommit) == 1
    cut = [(1, "SELECT 1"), (2, "SELECT 1"), (1, "SELECT 1"), (2, "SELECT 1")]
    assert busiest(tmp_path, *cut, autocommit=autocommit) == 2, "the log may end before"


def test_switching_autocommit_on_ends_a_transaction(tmp_path):
    switched = [(1, INSERT), (1, "SET autocommit = 1"), (2, INSERT), (1, INSERT), (2, INSERT)]
    assert busiest(tmp_path, *switched, autocommit="0") == 2
    assert busiest(tmp_path, (1, INSERT), (1, "SET autocommit = 1"), (2, INSERT), autocommit="0") == 1


def test_rolling_back_to_a_savepoint_does_not_end_the_transaction(tmp_path):
    for back in ("ROLLBACK TO s", "rollback work to savepoint s"):
        events = [(1, "BEGIN"), (1, back), (2, "BEGIN"), (1, INSERT), (2, "COMMIT"), (1, "COMMIT;")]
        assert busiest(tmp_path, *events) == 2
    assert busiest(tmp_path, (1, "BEGIN"), (1, "ROLLBACK"), (2, "BEGIN"), (2, "COMMIT"), (1, "SET @x = 1")) == 1


def work_of(*events):
    """Return the most connections at work at once; each event has a connection, a begin, an end and other fields."""
    work = _Work()
    for connection, start, end, fields in events:
        work.add({"connection": connection, "start_us": start, "end_us": end, "sql": "SELECT 1"} | fields)
    return work.most_at_once()


STATEMENT = {"digest": "x"}


def test_only_replayed_statements_count_as_work():
    dumps = [(11 + n, 100, 10_000, {"command": "Other", "sql": "Binlog Dump GTID"}) for n in range(3)]
    pings = [
        (21, 1_000, 2_000, {"command": "Other", "sql": "Ping"}),
        (22, 1_000, 2_000, {"command": "Quit", "sql": ""}),
    ]
    locks = [(31, 500, 9_000, STATEMENT | {"not_replayable": "lock"})]
    own = [(101, 1_000, 2_000, STATEMENT), (101, 3_000, 4_000, STATEMENT)]
    assert work_of(*own, *dumps, *pings, *locks) == 1
    assert work_of(*own, *dumps, (102, 3_500, 3_600, STATEMENT)) == 2
    assert work_of(*dumps) == 1


def test_a_connection_is_counted_once_at_a_time():
    # Where a log has whole seconds, all statements of a second end at once.
    assert work_of((1, 700, 1_000, STATEMENT), (1, 600, 1_000, STATEMENT), (1, 900, 1_000, STATEMENT)) == 1
    # MySQL logs the statements of a routine before its CALL.
    inside = [(1, 200, 300, STATEMENT), (1, 300, 400, STATEMENT), (1, 100, 500, STATEMENT)]
    assert work_of(*inside) == 1
    assert work_of(*inside, (2, 450, 600, STATEMENT), (2, 470, 480, STATEMENT)) == 2
    assert work_of(*inside, (2, 500, 600, STATEMENT)) == 1
    assert work_of((None, 700, 1_000, STATEMENT), (None, 600, 1_000, STATEMENT)) == 1, "they share a session"


def test_timed_chunks_cover_one_slice_of_the_log(tmp_path):
    path = log_of(tmp_path, [number / 20 for number in range(2_000)])
    assert [chunk(path, speed=speed) for speed in (1, 4, 0.1)] == [20, 80, 2]
    assert chunk(path, speed=1, slice_s=8, events_per_s=3.0) == 160, "what was measured holds waits, too"
    assert chunk(path) == 1_000, "as fast as it goes"
    writes = log_of(tmp_path, [number / 20 for number in range(2_000)], "DELETE FROM t")
    assert chunk(writes, speed=1, reads_only=False) == 20, "not an eighth of the capture"


def test_timed_chunks_do_not_wait_for_minutes(tmp_path):
    busy = [number / 1_000 for number in range(5_000)]
    path = log_of(tmp_path, [*busy, *(30 + 25 * number for number in range(5))])
    assert chunk(path, speed=1, slice_s=60) == 3, "of the last ones three take 50 s, four 75 s"
    MEASURING.check(None, Workload(script=str(path), speed=1))


def test_timed_replay_refuses_a_log_with_a_long_silence(tmp_path):
    path = log_of(tmp_path, [0, 60, 100, 180, 180 + 14 * 60, 1_025])
    with pytest.raises(
        SpecError, match=r"silent for 14 min from 10:03:00 UTC on; .* would wait 28 min there"
    ) as refused:
        MEASURING.check(None, Workload(script=str(path), speed=0.5))
    assert refused.value.hint == "Replay it at speed 28 or more, or as fast as it goes."
    MEASURING.check(None, Workload(script=str(path), speed=28))
    MEASURING.check(None, Workload(script=str(path)))


def test_timed_replay_refuses_a_log_without_times(tmp_path):
    (tmp_path / "shop.sql").write_text("SELECT 1;")
    logs = [str(tmp_path / "shop.sql")]
    make_capture(logs, tmp_path / "x.capture", redact=False, log_format=None, on_progress=lambda _done, _total: None)
    with pytest.raises(SpecError, match="the log has no times, so it cannot"):
        MEASURING.check(None, Workload(script=str(tmp_path / "x.capture"), speed=1))


@pytest.mark.parametrize("speed", [None, 1])
def test_a_replay_of_reads_refuses_a_log_that_only_writes(tmp_path, speed):
    path = log_of(tmp_path, [0, 1], "DELETE FROM t")
    with pytest.raises(SpecError, match="it has no plain read to replay"):
        MEASURING.check(None, Workload(script=str(path), speed=speed, writes=False))
    running = SimpleNamespace(has_running_server=True)
    with pytest.raises(SpecError, match="it has no plain read to replay"):
        MEASURING.check(running, Workload(script=str(path), speed=speed))
    MEASURING.check(running, Workload(script=str(path), speed=speed, writes=True))


def test_a_chunk_of_reads_grows_with_the_copies_of_its_connections(tmp_path):
    path = log_of(tmp_path, [number / 1_000 for number in range(40)])
    assert [chunk(path, threads=threads, events_per_s=1e6) for threads in (4, 5, 64)] == [40, 80, 640]
    assert chunk(path, threads=64, speed=1) == 40, "by the clock each connection is replayed once"
    writes = log_of(tmp_path, [number / 1_000 for number in range(40)], "DELETE FROM t")
    assert chunk(writes, threads=64, reads_only=False, events_per_s=1e6) == 5


@pytest.mark.parametrize(
    ("sql", "more", "threads", "words"),
    [
        ("SELECT 1", (), 9, "fewer connections (4) than --threads: each is replayed 3 times at once"),
        ("SELECT 1", ("--speed", "1"), 4, "4 of 9 threads, one per connection of the capture: by the clock"),
        ("DELETE FROM t", (), 4, "4 of 9 threads, one per connection of the capture: with writes each runs once"),
    ],
)
def test_a_line_warns_of_more_threads_than_connections(inside, shell, sql, more, threads, words):
    path = log_of(shell.folder, [number / 1_000 for number in range(40)], sql)
    ran = inside("replay", path.name, "mysql:8.0.15", "mysql:8.0.15", "--threads", "9", "--dry-run", *more)
    assert ran.code == 0, ran
    assert words in " ".join(ran.err.split())
    assert f"shop/{threads}" in ran.out, ran.out
