"""How long readiness waits, on fake servers with simulated pending work."""

import itertools
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from bakeoff.servers import RemoteServer, readiness
from bakeoff.spec import parse_server


class Busy:
    """A server we did not start. Each query reports the next of the given history list lengths."""

    ours = False
    name = "A"

    def __init__(self, lengths):
        self._lengths = iter(lengths)

    def variables(self):
        return {"innodb_buffer_pool_size": "1"}

    def query(self, sql, parameters=()):
        if sql.startswith("SHOW ENGINE"):
            return [("InnoDB", "", f"History list length {next(self._lengths)}\n")]
        return [("Innodb_buffer_pool_pages_dirty", "0")]


class WithIndexes:
    """A server with one table and three indexes, one of them hidden. `used` and `unused` end the rows of SHOW INDEX."""

    name = "A"

    def __init__(self, version, used, unused):
        self.version_string, self._last = version, {"PRIMARY": used, "used": used, "unused": unused}

    def query(self, sql, parameters=()):
        if sql.startswith("SHOW COLUMNS"):
            return [("id", "int"), ("a", "int"), ("b", "int")]
        columns = {"PRIMARY": "id", "used": "a", "unused": "b"}
        row = ("t", 1, None, 1, None, "A", 9, None, None, "", "BTREE", "", "")
        return [(*row[:2], name, 1, columns[name], *row[5:], *last) for name, last in self._last.items()]


@pytest.mark.parametrize(
    ("version", "used", "unused"),
    [
        ("8.0.12", ("YES",), ("NO",)),
        ("8.4.3-3", ("YES", None), ("NO", None)),
        ("10.11.19-MariaDB", ("NO",), ("YES",)),
    ],
)
def test_invisible_and_ignored_indexes_are_not_read(version, used, unused):
    scans = readiness.full_scans(WithIndexes(version, used, unused), "d", "t")
    assert [scan.partition("FORCE INDEX ")[2] for scan in scans] == ["(`PRIMARY`)", "(`used`)"]


@pytest.mark.parametrize("ours", [True, False])
def test_reading_a_large_table_of_our_own_server_may_take_longer_than_ten_minutes(ours):
    class Scanned(WithIndexes):
        def query(self, sql, parameters=(), *, limited=True):
            if "information_schema" in sql:
                return [("t", "innodb")]
            if "FORCE INDEX" in sql:
                self.limits.append(limited)
                return [(0,)]
            return [("", "0")] if sql.startswith("SHOW GLOBAL STATUS") else super().query(sql)

    server = Scanned("5.7.22-log", (), ())
    server.ours, server.limits = ours, []
    assert readiness.warm(server, "d")
    assert set(server.limits) == {not ours}


class Connection:
    """Answers everything with one row, and keeps the limit of each statement."""

    def __init__(self):
        self.limit_s, self.limits = 600, []

    def limit_reads(self, seconds):
        self.limit_s = seconds

    def lift_limits(self):
        with self.cursor() as cursor:
            cursor.execute()

    @contextmanager
    def cursor(self):
        yield SimpleNamespace(execute=lambda *_: self.limits.append(self.limit_s), fetchall=lambda: [(1,)])

    def close(self):
        pass


def test_even_unlimited_queries_time_out(monkeypatch):
    connection = Connection()
    monkeypatch.setattr(RemoteServer, "connect", lambda *_: connection)
    server = RemoteServer(parse_server("mysql://me@db/"))
    server.query("SELECT 1")
    server.query("SELECT COUNT(*) FROM t", limited=False)
    assert connection.limits[0] == 600
    assert connection.limits[-1] == 4 * 3600


@pytest.mark.parametrize("version", ["5.7.22-log", "10.5.23-MariaDB"])
def test_every_index_is_read_on_versions_that_cannot_hide_any(version):
    assert len(readiness.full_scans(WithIndexes(version, (), ()), "d", "t")) == 3


@pytest.fixture(autouse=True)
def seconds(monkeypatch):
    """A clock that only sleeping moves."""
    clock = [0.0]
    monkeypatch.setattr(readiness.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(readiness.time, "sleep", lambda s: clock.__setitem__(0, clock[0] + s))
    return clock


def test_waiting_ends_once_pending_work_stops_falling(seconds):
    assert not readiness.finish_pending_work(Busy(itertools.repeat(1500)), 60.0, patience_s=2.5)
    assert seconds[0] == pytest.approx(2.6, abs=0.2)


def test_waiting_continues_while_pending_work_falls(seconds):
    assert readiness.finish_pending_work(Busy(range(5000, 0, -20)), 60.0, patience_s=2.5)
    assert seconds[0] > 10


def test_a_stop_ends_the_wait_for_pending_work(seconds):
    stop = threading.Event()

    def lengths():
        yield from [1500] * 5
        stop.set()
        yield from itertools.repeat(1500)

    assert not readiness.finish_pending_work(Busy(lengths()), 60.0, stop=stop)
    assert seconds[0] == pytest.approx(0.5, abs=0.2)


def test_without_patience_the_deadline_decides(seconds):
    readiness.finish_pending_work(Busy(itertools.repeat(1500)), 20.0)
    assert seconds[0] == pytest.approx(20, abs=0.3)
