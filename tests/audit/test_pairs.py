"""Pairs of dumps of real servers: every planted difference is found, and equal setups are called equal."""

import json
from itertools import cycle, pairwise

import pytest

from bakeoff.audit.compare import compare, ignored
from bakeoff.audit.record import Record
from bakeoff.audit.setups import read_setup
from bakeoff.stats.differences import redo_bytes
from tests.audit.conftest import FORMATS, SERVERS, dump_of, write

NOTHING = Record([], [])
pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]

DYNAMIC = (
    "innodb_adaptive_hash_index", "transaction_isolation", "innodb_flush_log_at_trx_commit", "collation_server",
    "general_log",
)  # fmt: skip
PLANTED = (*DYNAMIC, "client charset", "restart 1", "restart 2")
FORMAT = cycle(FORMATS)
QUICK = ("mysql:5.7.22", "mysql:8.0.15")  # `make test-slow` tests the others


def marks(*servers):
    return () if set(servers) <= set(QUICK) else (pytest.mark.slow,)


PAIRS = [
    pytest.param(server, name, next(FORMAT), id=f"{server} {name}", marks=marks(server))
    for server in SERVERS
    for name in PLANTED
]


def undeclared(*folders):
    found, _ = compare([read_setup(each) for each in folders], NOTHING)
    return {each.setting for each in found if each.counts}


def test_there_are_fifty_pairs():
    assert len(PAIRS) >= 50


@pytest.mark.parametrize(("server", "name", "form"), PAIRS)
def test_a_planted_difference_is_found_and_no_other(dumps, tmp_path, server, name, form):
    made = dumps(server)
    dump, expected = made.planted[name]
    base = dump.get("base", made.base)
    other = {kind: rows for kind, rows in dump.items() if kind != "base"}
    found = undeclared(write(tmp_path / "a", base, form), write(tmp_path / "b", other, next(FORMAT)))
    implied = {"collation_connection"} if name == "client charset" else set()
    implied |= {"binlog_format", "sync_binlog"} if "log_bin" in expected else set()  # without effect while it is off
    assert expected <= found <= expected | implied


@pytest.mark.parametrize("again", ["a little later", "in two formats"])
@pytest.mark.parametrize("server", [pytest.param(each, marks=marks(each)) for each in SERVERS])
def test_equal_setups_are_called_equal(dumps, tmp_path, server, again):
    made = dumps(server)
    later = made.again if again == "a little later" else made.base
    assert undeclared(write(tmp_path / "a", made.base, "tabular"), write(tmp_path / "b", later, next(FORMAT))) == set()


@pytest.mark.parametrize(("one", "other"), [pytest.param(*pair, marks=marks(*pair)) for pair in pairwise(SERVERS)])
def test_stock_versions_differ_only_by_known_defaults_and_variables_that_one_lacks(dumps, tmp_path, one, other):
    pair = [read_setup(write(tmp_path / str(at), dumps(each).base, "tabs")) for at, each in enumerate((one, other))]
    counted = [each for each in compare(pair, NOTHING)[0] if each.counts]
    unexplained = {each.setting for each in counted if not each.by_default and None not in each.values}
    unknown = {"innodb_checksum_algorithm", "innodb_change_buffering", "sort_buffer_size", "innodb_log_writer_threads"}
    assert unexplained <= unknown | {"gtid_mode"}
    assert [each for each in compare(pair, NOTHING, ["defaults"])[0] if each.counts and each.by_default] == []


def test_the_redo_size_of_a_server_with_log_files_is_their_total(start, tmp_path):
    options = {"innodb_log_file_size": "67108864", "innodb_log_files_in_group": "4"}
    server = start("mysql:8.0.31", "files", options=options)
    rows = {"variables": [*server.variables().items()], "status": [*server.status().items()]}
    setup = read_setup(write(tmp_path / "a", rows, "tabs"))
    without_status = read_setup(write(tmp_path / "b", {"variables": rows["variables"]}, "comma"))
    assert setup.variables["innodb_redo_log_capacity"] == "104857600"  # what the server shows
    assert [redo_bytes(each.variables) for each in (setup, without_status)] == [4 << 26, 4 << 26]
    setup.options = {"innodb_log_file_size": "64M", "innodb_log_files_in_group": "4", "innodb_buffer_pool_size": "100M"}
    lines = [*ignored(setup)]
    assert any("innodb_buffer_pool_size=100M: the server has 134217728" in line for line in lines), lines
    assert any("innodb_log_files_in_group=4: only their product counts" in line for line in lines), lines


@pytest.mark.slow
def test_the_drafted_study_runs(shell, dumps, tmp_path):
    made = dumps("mysql:8.0.15")
    pair = made.base, made.planted["innodb_adaptive_hash_index"][0]
    folders = [write(tmp_path / str(at), dump, "tabs") for at, dump in enumerate(pair)]
    ran = shell.run("audit", *folders, "-o", str(tmp_path / "settle.yaml"))
    assert ran.code == 1, ran
    short = ("--scale", "demo", "--budget", "30s", "--no-verdict", "--no-explain", "--format", "json", "--quiet")
    ran = shell.run("run", str(tmp_path / "settle.yaml"), *short)
    assert ran.code == 0, ran
    cells = {f"{workload}/{threads}" for workload in ("oltp_point_select", "oltp_read_only") for threads in (1, 4)}
    assert {each["cell"] for each in json.loads(ran.out)["comparisons"]} == cells


def test_a_running_server_is_read_with_the_tables_of_its_database(start, inside, tmp_path):
    server = start("mysql:8.0.15", "running")
    server.query("CREATE DATABASE d")
    server.query("CREATE TABLE d.t (id INT PRIMARY KEY) DEFAULT CHARSET=latin1")
    folder = tmp_path / "dumped"
    write(folder, dump_of(server), "tabs")
    created = server.query("SHOW CREATE TABLE d.t")[0][1]
    folder.joinpath("t.sql").write_text(created.replace("latin1", "utf8mb4 COLLATE=utf8mb4_bin"))
    ran = inside(
        "audit", f"mysql://root@localhost/d?socket={server.address()['socket']}", str(folder), "--format", "json"
    )
    assert json.loads(ran.out)["undeclared"] == ["tables: collation"]
    (found,) = (each for each in json.loads(ran.out)["differences"] if each["setting"] == "tables: collation")
    assert found["values"] == ["latin1_swedish_ci", "utf8mb4_bin"]
