"""The tables of a running server: made when there are none, used when they are the study's, never anything else."""

import os
import threading

import pytest
from messages import study

from bakeoff.errors import SpecError
from bakeoff.results import open_run
from bakeoff.run.arms import ArmSetup
from bakeoff.run.loading import Loader, objection
from bakeoff.servers import RemoteServer
from bakeoff.spec import Workload, parse_server
from bakeoff.stats.progress import Listener


class Holding:
    """Answers as a server with these tables: {name: last id}, each with its index but those `unindexed`."""

    def __init__(self, tables, unindexed=()):
        self._tables, self._unindexed = tables, unindexed

    def query(self, sql, _arguments=()):
        if "COUNT(*)" in sql:
            return [(len(self._tables),)]
        if "information_schema.tables" in sql:
            return [(name,) for name in self._tables]
        if "information_schema.statistics" in sql:
            indexed = [name for name in self._tables if name not in self._unindexed]
            return [("PRIMARY",), *((name.replace("sbtest", "k_"),) for name in indexed)]
        return [(self._tables[sql.rpartition(".")[2]],)]


PASSWORD = "tr0ub4dor-and-3"
TWO = {"sbtest1": 1000, "sbtest2": 1000}


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (Holding(TWO), None),
        (Holding(TWO | {"sbtest3": 1000, "mine": 7}), None),
        (Holding({"sbtest1": 1000}), "sbtest2 is not there"),
        (Holding({"mine": 7}), "sbtest1 is not there"),
        (Holding(TWO | {"sbtest2": 999}), "ids of sbtest2 end at 999, not at 1000"),
        (Holding(TWO | {"sbtest1": 100_000}), "ids of sbtest1 end at 100000, not at 1000"),
        (Holding(TWO | {"sbtest2": None}), "sbtest2 is empty"),
        (Holding(TWO, unindexed=("sbtest2",)), "sbtest2 has no index k_2, which a load builds last"),
    ],
)
def test_tables_that_do_not_match_the_study_are_named(server, words):
    assert objection(server, "sbtest", tables=2, table_size=1000, indexed=True) == words


def test_an_index_that_the_study_leaves_out_is_not_missed():
    server = Holding(TWO, unindexed=("sbtest1", "sbtest2"))
    assert objection(server, "sbtest", tables=2, table_size=1000, indexed=False) is None


@pytest.mark.server
def test_table_checks_work_on_a_real_server(sandbox):
    server = RemoteServer(parse_server(f"mysql://root@localhost/?socket={sandbox['socket']}"))
    place = "sbtest_objection"
    server.query(f"CREATE DATABASE {place}")
    try:
        server.query(f"CREATE TABLE {place}.sbtest1 (id INT PRIMARY KEY, k INT, KEY k_1 (k))")
        sizes = {"tables": 1, "table_size": 10, "indexed": True}
        assert objection(server, place, **sizes) == "sbtest1 is empty"
        server.query(f"INSERT INTO {place}.sbtest1 VALUES (10, 1)")
        assert objection(server, place, **sizes) is None
        server.query(f"ALTER TABLE {place}.sbtest1 DROP KEY k_1")
        assert objection(server, place, **sizes) == "sbtest1 has no index k_1, which a load builds last"
    finally:
        server.query(f"DROP DATABASE {place}")


def load(server, *, measured=False, **workload):
    asked = study().model_copy(
        update={"tables": 2, "table_size": 1000, "workloads": (Workload(**{"script": "oltp_read_only"} | workload),)}
    )
    loader = Loader(asked, None, None, Listener(), None, threading.Event())
    loader.load_remote(ArmSetup(asked.arms[1], remote=server), measured=measured)


def test_a_running_server_with_other_tables_is_refused():
    with pytest.raises(SpecError, match="sbtest2 is empty") as caught:
        load(Holding(TWO | {"sbtest2": None}))
    assert caught.value.field[:2] == ("arms", "B")
    assert "tables and table_size" in caught.value.hint and "Drop" not in caught.value.hint


@pytest.mark.server
def test_a_filled_database_of_a_running_server_is_named_at_the_end(shell, sandbox):
    root = f"mysql://root@localhost/?socket={sandbox['socket']}"
    url, server = root.replace("root", "owner"), RemoteServer(parse_server(root))
    server.query(f"CREATE USER owner@localhost IDENTIFIED WITH mysql_native_password BY '{PASSWORD}'")
    server.query("GRANT ALL ON *.* TO owner@localhost")
    server.query(f"""SET GLOBAL init_connect = "SET @word = '{PASSWORD}'" """)
    try:
        ran = shell.run(
            "duel", url, "mysql:8.0.15", "--database", "mine", "--workload", "oltp_point_select", "--tables", "1",
            "--table-size", "1000", "--builds", "1", "--warm-up", "1s", "--budget", "10s", MYSQL_PWD=PASSWORD,
        )  # fmt: skip
        assert ran.code == 0, ran
        assert "keeps the database mine, which bakeoff has filled" in ran.err
        assert server.query("SELECT COUNT(*) FROM mine.sbtest1") == [(1000,)]
        written = [path.read_bytes() for path in shell.runs[0].rglob("*") if path.is_file()]
        assert any(b"SET @word = '***'" in text for text in written)
        assert not any(PASSWORD.encode() in text for text in written), "the password of MYSQL_PWD is on the disk"
        assert os.getpid() in open_run(shell.runs[0]).outcome(0).other_bakeoffs, "the server is another bakeoff's: ours"
    finally:
        server.query("SET GLOBAL init_connect = ''")
        server.query("DROP USER owner@localhost")
        server.query("DROP DATABASE mine")


@pytest.mark.server
def test_leftover_databases_are_named_after_an_error_even_with_quiet(shell, inside, sandbox):
    url = f"mysql://root@localhost/?socket={sandbox['socket']}"
    (shell.folder / "broken.lua").write_text(
        "function prepare() local c = sysbench.sql.driver():connect() c:query('CREATE TABLE t (id INT)') "
        "error('no more') end\nfunction event() end\n"
    )
    server = RemoteServer(parse_server(url))
    try:
        ran = inside("duel", url, url, "--allow-same", "--database", "mine", "-w", "broken.lua", "--quiet")
        assert ran.code != 0 and "no more" in ran.complaint
        (note,) = [line for line in ran.err.splitlines() if line.startswith("note:")]
        assert "keeps the database mine_broken, which bakeoff has begun to fill" in note
        assert server.query("SHOW TABLES FROM mine_broken") == [("t",)]
    finally:
        server.query("DROP DATABASE IF EXISTS mine_broken")


def test_matching_tables_are_reused():
    load(Holding(TWO))
    load(Holding({"sbtest1": 50}), options=(("tables", "1"), ("table_size", "50")))
    load(Holding({"sbtest1": 2**20}), options=(("tables", 1.0), ("table_size", "1M")))
    load(Holding(TWO, unindexed=("sbtest1", "sbtest2")), options=(("create_secondary", "off"),))
    load(Holding(TWO | {"sbtest1": 1234}), measured=True)  # a resumed run's own oltp_insert
    load(Holding({"warehouse1": 1}), script="tpcc")
