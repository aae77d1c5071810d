"""Arms that hold different rows are found, and named with table and query."""

import threading
import zlib
from bisect import bisect_left
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from slices import epoch_of, quads

from bakeoff import servers
from bakeoff.errors import ResultsError, RunInvalid
from bakeoff.plan.factorial import make_study
from bakeoff.report import setups
from bakeoff.results import Outcome, RunDirectory
from bakeoff.run import loading
from bakeoff.run.data_check import ask_tables, write_answers
from bakeoff.run.runner import Invocation, run_study
from bakeoff.run.study_run import StudyRun
from bakeoff.spec import parse_server
from bakeoff.spec.study_file import read_study
from bakeoff.stats.differences import Answer, row_differences
from bakeoff.stats.progress import Listener

STUDY = """\
title: same rows
servers: ["mysql:8.0.15"]
settings: {content: latin}
factors:
  collation: [utf8mb4_bin, latin1_swedish_ci]
workloads: [oltp_point_select]
threads: [2]
tables: 2
table_size: 500
builds: 1
budget: 60s
precision: 20%
"""


def arms_of(tmp_path, factors):
    (tmp_path / "my.yaml").write_text(
        f'title: x\nservers: ["mysql:8.0"]\nfactors: {factors}\nworkloads: [oltp_read_only]\n'
    )
    return make_study(read_study(tmp_path / "my.yaml"), seed=1).arms


def answers(checksum, collation="latin1_bin", order="abc"):
    return {
        "sbtest.sbtest1": {
            "rows": Answer(sql="SELECT 1", answer=f"10 rows, checksum {checksum}"),
            "order": Answer(sql="SELECT 2", answer=order, collation=collation),
        }
    }


def test_a_difference_names_arms_table_and_query(tmp_path):
    arms = arms_of(tmp_path, "{engine: [innodb, myisam, aria]}")
    assert row_differences(arms, {name: answers("1f") for name in "ABC"}) == ()
    (found,) = row_differences(arms, {"A": answers("1f"), "B": answers("2f"), "C": answers("1f")})
    assert (found.table, found.query) == ("sbtest.sbtest1", "rows")
    assert found.arms == (("10 rows, checksum 1f", ("A", "C")), ("10 rows, checksum 2f", ("B",)))
    (missing, *_) = row_differences(arms, {"A": answers("1f"), "B": {}})
    assert missing.arms[1] == ("no such table", ("B",))


def test_orders_are_compared_within_a_collation_only(tmp_path):
    arms = arms_of(tmp_path, "{engine: [innodb, myisam, aria]}")
    found = {"A": answers("1f"), "B": answers("1f", "latin1_swedish_ci", "bca"), "C": answers("1f")}
    assert row_differences(arms, found) == ()
    found["C"] = answers("1f", order="cab")
    assert [each.query for each in row_differences(arms, found)] == ["order"]


def test_arms_whose_rows_are_meant_to_differ_are_not_compared(tmp_path):
    found = {name: answers(name) for name in "AB"}
    assert row_differences(arms_of(tmp_path, "{rows: [1k, 2k]}"), found) == ()
    assert row_differences(arms_of(tmp_path, "{content: [text, uuid]}"), found) == ()
    for stored in ("{column_type: [char, varchar]}", "{row_format: [dynamic, compressed]}", "{page_size: [8k, 16k]}"):
        assert row_differences(arms_of(tmp_path, stored), found), stored


class Server:
    """Has one table, `shop.t`, with the given columns (name, type)."""

    ours = True
    name = "A"

    def __init__(self, *columns):
        self._columns, self.limits = columns, []

    def query(self, sql, arguments=(), *, limited=True):
        self.limits += [limited] if sql.startswith("SELECT COUNT") else []
        if "information_schema.columns" in sql:
            return [("t", name, kind, None, "") for name, kind in self._columns]
        return [(3,)] if sql.startswith("SELECT COUNT(*) FROM") else [(3, len(sql))]


def test_columns_that_only_one_server_can_compare_are_ignored(tmp_path):
    """JSON is text on MariaDB and a separate type on MySQL."""
    arms = arms_of(tmp_path, "{engine: [innodb, myisam, aria]}")
    mysql, mariadb = (
        ask_tables(Server(("a", "int"), ("j", kind), ("f", "float"), ("g", "point")), ["shop"])
        for kind in ("json", "longtext")
    )
    assert row_differences(arms, {"A": mysql, "B": mysql, "C": mariadb}) == ()
    other = {"shop.t": {"rows": mysql["shop.t"]["rows"].model_copy(update={"answer": "2 rows"})}}
    (found,) = row_differences(arms, {"A": mysql, "B": other, "C": mariadb})
    assert [names for _, names in found.arms] == [("A",), ("B",)]
    fewer = {"shop.t": {"rows": mariadb["shop.t"]["rows"].model_copy(update={"answer": "0 rows, checksum 0 of 0"})}}
    (found,) = row_differences(arms, {"A": mysql, "B": mysql, "C": fewer})
    assert found.arms[1] == ("0 rows", ("C",))
    (found,) = row_differences(arms, {"A": mysql, "B": mysql, "C": {}})
    assert found.arms[1] == ("no such table", ("C",))
    assert mysql["shop.t"]["rows"].columns == ("a",)


def test_a_table_without_comparable_columns_is_not_missing(tmp_path):
    mysql, mariadb = (ask_tables(Server(("j", kind)), ["shop"]) for kind in ("json", "longtext"))
    assert mysql == {"shop.t": {}}
    arms = arms_of(tmp_path, "{engine: [innodb, myisam]}")
    assert row_differences(arms, {"A": mysql, "B": mariadb}) == ()


@pytest.mark.parametrize("ours", [True, False])
def test_reading_a_large_table_of_our_own_server_may_take_longer_than_ten_minutes(ours):
    server = Server(("a", "int"))
    server.ours = ours
    ask_tables(server, ["shop"])
    assert server.limits == [not ours] * 2


@pytest.fixture
def run(tmp_path):
    (tmp_path / "my.yaml").write_text(STUDY)
    return RunDirectory.create(tmp_path / "runs", make_study(read_study(tmp_path / "my.yaml"), seed=1))


def finish_an_epoch(run):
    run.epoch(0, 0).finish(Outcome(epoch=0, build=0, started_at=datetime.now(UTC), wall_s=1, measured_s=1))


def asked(checksum, columns=("id",)):
    return {"sbtest.sbtest1": {"rows": Answer(sql="SELECT 1", answer=f"10 rows, checksum {checksum}", columns=columns)}}


def test_a_resumed_run_refuses_rows_that_differ_from_its_epochs(run):
    write_answers(run, {"A": asked("0f"), "B": asked("0f")}, "rows/0.json")
    write_answers(run, {"A": asked("1f"), "B": asked("1f")}, "rows/0.json")  # nothing was measured
    finish_an_epoch(run)
    write_answers(run, {"A": asked("1f"), "B": asked("1f"), "C": asked("2f")}, "rows/0.json")  # C has joined
    for other in (asked("2f"), asked("1f", ("id", "k")), {}):
        with pytest.raises(
            ResultsError, match=r"was measured with other rows: arm A, table sbtest\.sbtest1, query rows"
        ):
            write_answers(run, {"A": other, "B": other}, "rows/0.json")
    with pytest.raises(ResultsError, match="10 rows, checksum 1f and 10 rows, checksum 2f now"):
        write_answers(run, {"A": asked("2f"), "B": asked("2f")}, "rows/0.json")
    write_answers(run, {"A": asked("2f"), "B": asked("2f")}, "rows/1.json")  # another build


def test_rows_that_differed_between_arms_may_change_on_resume(run):
    write_answers(run, {"A": asked("1f"), "B": asked("2f")}, "rows/0.json")
    finish_an_epoch(run)
    write_answers(run, {"A": asked("3f"), "B": asked("4f")}, "rows/0.json")


@pytest.mark.parametrize(("before", "compares"), [((), True), ((False,), True), ((True,), False)])
def test_restored_servers_are_compared_until_an_epoch_is_valid(run, before, compares):
    orders = []
    hosts = SimpleNamespace(begin=orders.append)
    history = [epoch_of(quads([0.9] * 4), epoch=number, valid=valid) for number, valid in enumerate(before)]
    loop = StudyRun(
        run.study(), run, hosts, Listener(), threading.Event(), begin=0.0, builds=1, at_once=2, history=history
    )
    loop._begin_epoch(None)
    assert [each.compare_rows for each in orders] == [compares]


@pytest.mark.parametrize(
    ("valid", "moment"), [((True, True), "first epoch"), ((False, True), "epoch 1"), ((False, False), "first epoch")]
)
def test_the_report_prefers_the_rows_of_the_first_valid_epoch(run, valid, moment):
    write_answers(run, {"A": asked("0f")}, "rows/0.json")
    outcomes = []
    for number, each in enumerate(valid):
        writer = run.epoch(number, 0)
        writer.write_server_json("A", "rows.json", {"sbtest.sbtest1": {"rows": f"epoch {number}"}})
        done = Outcome(epoch=number, build=0, valid=each, started_at=datetime.now(UTC), wall_s=1, measured_s=1)
        writer.finish(done)
        outcomes.append(done)
    context = SimpleNamespace(run=run, outcomes=outcomes)
    shown = setups._row_answers(context)
    assert list(shown) == ["load 0", moment]
    again = shown[moment]["A"]["sbtest.sbtest1"]["rows"]
    assert (again.sql, again.answer) == ("SELECT 1", f"epoch {int(moment == 'epoch 1')}")


OLD_AND_NEW = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("mysql:5.5.9", "mysql:5.6.24", "mysql:5.7.22", "mysql:9", "mariadb:10.1.23", "mariadb:11.8.6")
]


@pytest.mark.server
@pytest.mark.parametrize("name", ["mysql:8.0.15", "mariadb:10.11", *OLD_AND_NEW])
def test_the_sample_of_a_large_table_does_not_shrink_with_gaps_between_keys(name):
    """Keys are square numbers, with gaps of up to 400,000."""
    count = 200_001
    keys = [number * number for number in range(count)]
    starts = [(keys[-1] - 999) * place // 19 for place in range(20)]
    stretches = {key for start in starts for key in keys[bisect_left(keys, start) :][:1000]}
    checksum = sum(zlib.crc32(f"{key}|é{key}".encode()) for key in stretches)
    digits = "(SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 "
    digits += "UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
    number = "a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n + 100000 * f.n"
    six = ", ".join(f"{digits} {letter}" for letter in "abcdef")
    with servers.sandbox(parse_server(name)) as box:
        server = box.instance
        server.query("CREATE DATABASE shop CHARACTER SET latin1")
        server.query("CREATE TABLE shop.t (id BIGINT PRIMARY KEY, c VARCHAR(20))")
        numbers = f"(SELECT {number} n FROM {six}) s WHERE n < {count}"
        server.query(f"INSERT INTO shop.t SELECT n * n, CONCAT('é', n * n) FROM {numbers}")
        asked = ask_tables(server, ["shop"])["shop.t"]
    assert len(stretches) > 18_000
    assert asked["rows"].answer == f"{count} rows, checksum {checksum:x} of {len(stretches)}"
    assert asked["sample"].answer.startswith("16 rows")
    assert asked["order"].answer.startswith("20 rows")


@pytest.mark.server
def test_an_injected_difference_ends_the_run_before_anything_is_measured(shell, monkeypatch):
    (shell.folder / "my.yaml").write_text(STUDY)
    monkeypatch.setenv("XDG_CACHE_HOME", str(shell.cache))
    study = make_study(read_study(shell.folder / "my.yaml"), seed=4)
    ask = loading.ask_tables

    def meddle(server, databases):
        if server.name == "load-B":
            server.query("UPDATE sbtest.sbtest2 SET pad = CONCAT('e', SUBSTRING(pad, 2)) WHERE id = 250")
        return ask(server, databases)

    monkeypatch.setattr(loading, "ask_tables", meddle)
    with pytest.raises(RunInvalid) as caught:
        run_study(study, shell.folder / "runs", Invocation(()), listener=Listener(), stop=threading.Event())
    found = str(caught.value)
    assert "sbtest.sbtest2" in found
    assert "query rows: 500 rows, checksum " in found
    assert "on utf8mb4_bin but " in found
    assert "on latin1_swedish_ci" in found
    assert "sbtest1" not in found
    assert shell.left_behind() == []
