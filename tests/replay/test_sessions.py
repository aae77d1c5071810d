"""Sessions of captured connections and the untimed pass, without a server."""

import contextlib
import threading
from collections import Counter
from types import SimpleNamespace

import pytest
from messages import study

from bakeoff.replay import before_epochs
from bakeoff.replay.answer_rules import Answers, Reply, Shape, compare_replies
from bakeoff.replay.answers import AnswersPass
from bakeoff.replay.sessions import _LOCK, TOO_LONG, Sessions, _Session
from bakeoff.replay.workload import WORKLOAD
from bakeoff.results import RunDirectory
from bakeoff.run.epoch_servers import EpochTools
from bakeoff.servers import client
from bakeoff.spec import Workload
from bakeoff.stats.progress import Listener


class Connection(SimpleNamespace):
    """A connection that notes when it is asked to allow several statements."""

    def use_bytes(self):
        pass

    def limit_reads(self, seconds):
        pass

    def allow_several_statements(self):
        self.sent.append("several")


def test_set_names_precedes_the_variables_it_would_reset(monkeypatch):
    sent = []
    monkeypatch.setattr(_Session, "run", lambda _, sql: sent.append(sql.decode()) or Reply())
    state = {
        "autocommit": "0",
        "character_set": "latin1",
        "character_set_results": "NULL",
        "collation_connection": "utf8mb4_bin",
        "names": "utf8mb4",
    }
    connection = client.Connection(defer_connect=True)
    connection.server_status = 0
    server = SimpleNamespace(connect=lambda **_: connection)
    _Session(server, {"session": state}, read_only=False, several=False)
    assert sent[:5] == [
        "SET NAMES utf8mb4",
        "SET CHARACTER SET latin1",
        "SET SESSION autocommit = 0",
        "SET SESSION character_set_results = NULL",
        "SET SESSION collation_connection = 'utf8mb4_bin'",
    ]


def test_every_version_lists_as_many_warnings(monkeypatch):
    sent = []
    monkeypatch.setattr(_Session, "run", lambda _, sql: sent.append(sql.decode()) or Reply())
    _Session(SimpleNamespace(connect=lambda **_: Connection()), {}, read_only=False, several=False)
    assert sent[-1].endswith(" max_error_count=65535")


class Results:
    """A cursor over result sets, each a row of floats."""

    def __init__(self, *sets):
        self._sets = [[str(number).encode() for number in row] for row in sets]

    @property
    def _result(self):
        fields = [SimpleNamespace(name=f"c{at}", type_code=5, charsetnr=63) for at in range(len(self._sets[0]))]
        return SimpleNamespace(field_count=len(fields), fields=fields)

    def fetchmany(self, _count):
        row, self._sets[0] = self._sets[0], []
        return [tuple(row)] if row else []

    def nextset(self):
        return self._sets.pop(0) == [] and bool(self._sets)


def test_result_sets_of_several_widths_are_compared():
    def reply_of(*sets):
        reply = Reply()
        _Session._read(None, Results(*sets), reply, until=float("inf"))
        return reply

    first = reply_of([1.0, 2.0], [0.1])
    for second, differences in (([0.1 + 1e-16], []), ([0.2], ["rows"]), ([0.1, 0.1], ["rows"])):
        found = compare_replies(first, reply_of([1.0, 2.0], second), Shape())
        assert list(found.differences) == differences


@pytest.mark.parametrize(("several", "sent"), [(True, ["several"]), (False, [])])
def test_multi_statements_are_enabled_only_if_writes_are_replayed(monkeypatch, several, sent):
    monkeypatch.setattr(_Session, "run", lambda *_: Reply())
    connection = Connection(sent=[])
    _Session(SimpleNamespace(connect=lambda **_: connection), {}, read_only=False, several=several)
    assert connection.sent == sent
    servers = {arm: SimpleNamespace(name=arm, ours=True) for arm in "AB"}
    asked = dict(capture="shop", databases=dict.fromkeys("AB", ""), limit_s=1.0, reads_only=not several)
    judging = AnswersPass(servers, {"digests": []}, **asked)
    assert [each._several for each in judging._arms.values()] == [several] * 2


class Stub:
    """Servers that answer each statement with `replies[arm]` (an error or rows), and record what they were asked.

    A statement is its own digest, and INSERT and ALTER are not plain reads.
    """

    def __init__(self, monkeypatch, replies=None):
        self.replies, self.asked = replies or {}, []
        self.closed, self.in_transaction = [], False
        monkeypatch.setattr(Sessions, "run", lambda each, _, sql: self._reply(each, sql))
        monkeypatch.setattr(Sessions, "examined", lambda each, _, sql, *__: self._reply(each, sql))
        monkeypatch.setattr(Sessions, "explain", lambda *_: ())
        monkeypatch.setattr(Sessions, "in_transaction", lambda *_: self.in_transaction)
        monkeypatch.setattr(AnswersPass, "_compare_tables", lambda _: (4, {}))
        monkeypatch.setattr(Sessions, "close", lambda each, number=None: self.closed.append((each.server.name, number)))

    def _reply(self, sessions, sql):
        self.asked.append((sessions.server.name, sql.decode()))
        answer = self.replies.get(sessions.server.name, {}).get(sql.decode(), 0)
        if isinstance(answer, int):
            return Reply(errno=answer)
        reply = Reply()
        for row in answer:
            reply.add(row)
        return reply

    def judge(self, *events, reads_only=False):
        """Run the pass over events, each a statement or an event's fields."""
        events = [{"sql": each} if isinstance(each, str) else each for each in events]
        events = [{"type": "event", "connection": 8} | each for each in events]
        for each in events:
            if "sql" in each:
                word = each["sql"].split(" ")[0]
                each.setdefault("digest", each["sql"])
                each |= {"writes": word} if word in ("INSERT", "ALTER") else {}
        counts = Counter(each["digest"] for each in events if "digest" in each)
        totals = {"digests": [{"digest": text, "text": text, "events": count} for text, count in counts.items()]}
        servers = {arm: SimpleNamespace(name=arm, ours=True) for arm in "AB"}
        judged = AnswersPass(
            servers, totals, capture="shop", databases=dict.fromkeys("AB", ""), limit_s=60.0, reads_only=reads_only
        )
        return judged.run(events)


@pytest.mark.parametrize("arms", ["AB", "B"])
def test_a_statement_that_took_too_long_has_not_failed(monkeypatch, arms):
    stub = Stub(monkeypatch, {arm: {"SELECT 1": TOO_LONG} for arm in arms})
    found = stub.judge("SELECT 1")
    compared = found.digests["SELECT 1"].compared["B"]
    assert (compared.executed, compared.failed, compared.differences) == (1, {}, {})
    assert compared.listed == {"too long": 1}
    before_epochs._check_that_some_work(found, on_running=False)


@pytest.mark.parametrize(
    ("slow", "in_transaction", "on", "reads_only", "ended_by"),
    [
        ("ALTER t", False, "B", False, "ALTER t"),
        ("SELECT 1", True, "A", False, "SELECT 1"),
        ("ALTER t", True, "AB", False, ""),
        ("SELECT 1", False, "B", False, ""),
        ("SELECT 1", True, "B", True, ""),
    ],
)
def test_the_pass_stops_once_an_aborted_statement_may_make_data_differ(
    monkeypatch, slow, in_transaction, on, reads_only, ended_by
):
    stub = Stub(monkeypatch, {arm: {slow: TOO_LONG} for arm in on})
    stub.in_transaction = in_transaction
    found = stub.judge("INSERT t", slow, "SELECT 2", "SELECT 3", reads_only=reads_only)
    assert found.ended_by == ended_by
    assert found.not_reached == (2 if ended_by else 0)
    assert found.tables == (0 if ended_by or reads_only else 4)
    assert found.digests[slow].compared["B"].listed == {"too long": 1}
    ended = [each for each in stub.closed if each[1] is not None]
    assert ended == ([] if on == "AB" else [("A", 8), ("B", 8)]), "what a session has is the same on every arm"


def test_a_quit_without_a_connection_id_closes_no_session(monkeypatch):
    stub = Stub(monkeypatch)
    stub.judge({"command": "Quit", "connection": None}, "SELECT 1", {"command": "Quit", "ends_session": True})
    assert stub.closed == [("A", 8), ("B", 8), ("A", None), ("B", None)]


@pytest.mark.parametrize("reads_only", [True, False])
def test_other_statements_are_run_but_their_rows_not_compared(monkeypatch, reads_only):
    others = "(other statements)"
    stub = Stub(monkeypatch, {"A": {"SELECT NOW()": [(b"1",)]}, "B": {"SELECT NOW()": [(b"2",)], "SELECT x": 1054}})
    found = stub.judge(
        *({"sql": sql, "digest": others} for sql in ("SELECT NOW()", "INSERT t", "SELECT x")), reads_only=reads_only
    )
    assert found.skipped == ({"INSERT": 1} if reads_only else {})
    compared = found.digests[others].compared["B"]
    assert (compared.executed, compared.differences) == (3 - reads_only, {"errors": 1})


def test_only_a_lone_lock_tables_statement_is_replaced_by_commit():
    matches = [bool(_LOCK.match(sql)) for sql in (b"/* app */ lock tables t AS i READ, u WRITE;", b"LOCK TABLE t READ")]
    assert matches == [True, True]
    assert not _LOCK.match(b"LOCK TABLES t WRITE; UPDATE t SET n = 1; UNLOCK TABLES")


def test_kill_connection_id_is_skipped(monkeypatch):
    found = Stub(monkeypatch).judge({"sql": "KILL CONNECTION_ID()", "writes": "KILL"}, "INSERT t")
    assert (found.skipped, found.executed) == ({"KILL": 1}, 1)


def test_answers_are_compared_once_per_capture_including_writes(monkeypatch, tmp_path):
    passes = []

    class Pass:
        def __init__(self, _servers, _totals, *, capture, limit_s, reads_only, **_):
            passes.append((capture, limit_s, reads_only))

        def run(self, _events):
            given = dict.fromkeys(("seconds", "limit_s", "executed", "not_reached"), 0)
            return Answers(capture=passes[-1][0], skipped={}, digests={}, **given)

    monkeypatch.setattr(before_epochs, "AnswersPass", Pass)
    monkeypatch.setattr(before_epochs, "kind_of", lambda _: WORKLOAD)
    monkeypatch.setattr(before_epochs, "capture_totals", lambda _: None)
    monkeypatch.setattr(before_epochs, "capture_events", lambda _: contextlib.ExitStack())
    monkeypatch.setattr(before_epochs, "_started", lambda *_: contextlib.nullcontext({}))
    named = [("shop", 1.0, False), ("shop", 10.0, True), ("shop", None, False), ("blog", None, False)]
    workloads = tuple(Workload(script=script, speed=speed, writes=writes) for script, speed, writes in named)
    asked = study().model_copy(update={"workloads": workloads, "budget_s": 400.0})
    tools = EpochTools(asked, (), None, {}, Listener(), threading.Event(), at_once=2)
    run = RunDirectory.create(tmp_path, asked)
    before_epochs.before_epochs(tools, run)
    assert passes == [("shop", 20.0, False), ("blog", 20.0, True)]
    assert list(run.read_json("answers.json")) == ["shop", "blog"]
