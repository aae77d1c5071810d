"""Real servers: started, read, stopped, killed, kept and restored; alone and side by side."""

import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pymysql
import pytest

from bakeoff.errors import HostError, ServerError
from bakeoff.run.data_check import ask_tables
from bakeoff.run.own_data import databases_of
from bakeoff.servers import ServerMemory, ServerPool, install, readiness, sandbox
from bakeoff.servers import instance as instance_module
from bakeoff.servers.paths import OWNER_FILE
from bakeoff.servers.process import server_identity
from bakeoff.spec import Data, Profile, parse_server
from bakeoff.spec.dumps import SYSTEM_SCHEMAS, quoted

pytestmark = pytest.mark.server

OLDER = [pytest.param(name, marks=pytest.mark.slow) for name in ("mysql:5.6.24", "mysql:5.7.22")]
ROWS = 2000


def load(server, engine="InnoDB"):
    server.query("CREATE DATABASE sbtest")
    server.query(
        f"CREATE TABLE sbtest.t (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, KEY k_1 (k)) ENGINE={engine}"
    )
    values = ",".join(f"({row},{row % 97},REPEAT('x',100))" for row in range(ROWS))
    server.query(f"INSERT INTO sbtest.t VALUES {values}")


def rows(server):
    return server.query("SELECT COUNT(*), COUNT(DISTINCT k) FROM sbtest.t FORCE INDEX (k_1)")[0]


@pytest.mark.parametrize("name", [*OLDER, "mysql:8.0.15", "mariadb:10.11"])
def test_a_server_survives_snapshot_restore_and_crash(make, pool, name):
    server = make(name)
    server.start()
    assert server.version_string.startswith(name.split(":")[1])
    assert server.ignored_settings() == []
    assert psutil.Process(server.pid).uids().real == server_identity().uid
    assert server_identity().uid != 0
    load(server)
    readiness.analyze(server, "sbtest")
    assert readiness.finish_pending_work(server, deadline_s=30)
    server.stop(slow=True)
    kept = pool.snapshot(server, "build-0")
    home = server.home
    server.remove()
    assert not home.exists()

    again = pool.create("A", server.installation, server.settings, snapshot=kept)
    assert again.home == home
    assert again.start() < 30
    assert rows(again) == (ROWS, 97)
    assert readiness.warm(again, "sbtest")
    assert readiness.finish_pending_work(again, 0, dirty_limit=readiness.STARTED_DIRTY_LIMIT)
    assert again.data_bytes("sbtest") > ROWS * 100

    pid = again.pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not again.running)
    again.start()
    assert again.pid != pid
    assert rows(again) == (ROWS, 97)
    assert str(pool.work) in again.my_cnf


@pytest.fixture(scope="module")
def lasting(make_lasting):
    """`lasting(name)`: a server shared by several tests, with their databases dropped."""
    started = {}

    def emptied(name):
        if name not in started:
            server = make_lasting(name)
            server.start()
            started[name] = server
        for (database,) in started[name].query("SHOW DATABASES"):
            if database not in SYSTEM_SCHEMAS:
                started[name].query(f"DROP DATABASE {quoted(database)}")
        return started[name]

    return emptied


@pytest.mark.parametrize("name", [*OLDER, "mysql:8.0.15", "mariadb:10.11"])
def test_tcp_requires_the_bakeoff_account(lasting, name):
    server = lasting(name)
    account = server.account("tcp")
    assert account.password
    assert account.password not in repr(account)
    address = server.address("tcp")
    connection = pymysql.connect(
        host=address["host"], port=address["port"], user=account.user, password=account.password, ssl_disabled=True
    )
    connection.close()
    with pytest.raises(pymysql.MySQLError):
        pymysql.connect(host=address["host"], port=address["port"], user="root", ssl_disabled=True)
    listening = {
        each.laddr.ip
        for each in psutil.Process(server.pid).net_connections("inet")
        if each.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_paths_and_ports_of_all_arms_have_equal_length(make, pool):
    one, other = make("mysql:5.7.22", "A"), make("mariadb:10.11", "a-much-longer-name")
    pool.start_all([one, other])
    assert len(str(one.socket_path)) == len(str(other.socket_path)) <= 107
    assert len(str(one.datadir)) == len(str(other.datadir))
    assert len(str(one.port)) == len(str(other.port))
    assert one.port != other.port


def test_pool_folders_are_closed_to_other_users(make, pool):
    make("mariadb:10.11")
    assert stat.S_IMODE(pool.runtime.stat().st_mode) & 0o007 == 0
    assert stat.S_IMODE(pool.work.stat().st_mode) & 0o007 == 0


def test_a_server_gets_its_cpus_padding_and_a_minimal_environment(make):
    server = make("mariadb:10.11,cpus=1", padding_bytes=1234)
    server.start()
    process = psutil.Process(server.pid)
    assert process.cpu_affinity() == [0]
    environment = process.environ()
    assert len(environment["BAKEOFF_PADDING"]) == 1234
    assert set(environment) <= {"PATH", "LANG", "HOME", "TZ", "BAKEOFF_PADDING"}


def some_library():
    """A harmless shared library that no server loads by itself."""
    return next(
        file
        for file in (
            Path("/usr/lib/x86_64-linux-gnu") / name for name in ("libexpat.so.1", "libpanelw.so.6", "libgmp.so.10")
        )
        if file.exists()
    )


def test_a_library_is_preloaded_by_name(make):
    server = make(f"mysql:5.7.22,env.LD_PRELOAD={some_library().name}")
    server.start()
    assert some_library().resolve().name in Path(f"/proc/{server.pid}/maps").read_text()


def test_a_relative_library_path_starts_at_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "own.so").touch()
    monkeypatch.chdir(tmp_path)
    assert instance_module.preload_libraries("./own.so") == [tmp_path / "own.so"]


def test_a_missing_library_names_its_package(make):
    with pytest.raises(HostError, match=r"libmimalloc.so.3.*apt-get install libmimalloc3"):
        make("mysql:5.7.22,env.LD_PRELOAD=libmimalloc.so.3")


def test_a_port_that_someone_takes_is_replaced(make, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        offered = iter([taken.getsockname()[1]])
        really = instance_module.free_port
        monkeypatch.setattr(instance_module, "free_port", lambda address: next(offered, None) or really(address))
        server = make("mysql:5.7.22")
        server.start()
        assert server.port != taken.getsockname()[1]
        assert server.query("SELECT 1") == [(1,)]


def test_a_server_that_cannot_start_says_why(make, pool):
    server = make("mysql:5.7.22")
    server.settings = server.settings.__class__(
        options={**server.settings.options, "innodb_data_file_path": "nonsense"}
    )
    with pytest.raises(ServerError, match="ended with status") as caught:
        server.start()
    assert caught.value.log_tail
    assert not server.running


def test_settings_the_server_changed_are_reported(make):
    server = make("mysql:5.7.22,innodb_buffer_pool_instances=4")
    server.start()
    assert server.ignored_settings() == ["innodb_buffer_pool_instances=4: the server has 1"]


def test_only_a_cleanly_stopped_server_is_kept(make, pool):
    server = make("mariadb:10.11")
    server.start()
    with pytest.raises(ServerError, match="not stopped cleanly"):
        pool.snapshot(server, "x")
    server.kill()
    with pytest.raises(ServerError, match="not stopped cleanly"):
        pool.snapshot(server, "x")
    server.start()
    server.stop()
    assert pool.snapshot(server, "x").bytes_on_disk


def test_a_frozen_server_is_stopped_and_killed_all_the_same(make):
    server = make("mariadb:10.11")
    server.start()
    os.kill(server.pid, signal.SIGSTOP)
    server.stop()
    server.start()
    os.kill(server.pid, signal.SIGSTOP)
    server.kill()
    assert not server.running


def test_page_size_and_compressed_rows_take_effect(make):
    server = make("mysql:8.0.15,innodb_page_size=8k", data=Data(table_options="ROW_FORMAT=COMPRESSED"))
    server.start()
    assert server.variables()["innodb_page_size"] == "8192"
    server.query("CREATE DATABASE d")
    server.query("CREATE TABLE d.t (id INT PRIMARY KEY) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4")
    assert server.query(
        "SELECT row_format FROM information_schema.tables WHERE table_name='t' AND table_schema='d'"
    ) == [("Compressed",)]


def test_rocksdb_tables_can_be_loaded_and_warmed(make):
    asked = "default_storage_engine=RocksDB,rocksdb_max_background_jobs=3"
    server = make(f"mariadb:10.11,{asked}", data=Data(engine="rocksdb"))
    server.start()
    assert server.variables()["rocksdb_max_background_jobs"] == "3"
    load(server, "RocksDB")
    assert server.ignored_settings() == []
    readiness.warm(server, "sbtest")
    assert readiness.finish_pending_work(server, 20)
    assert rows(server) == (ROWS, 97)
    assert server.data_bytes("sbtest") > 0


@pytest.mark.parametrize(("name", "how"), [("mysql:8.0.15", "INVISIBLE"), ("mariadb:10.11", "IGNORED")])
def test_warming_skips_hidden_indexes(lasting, name, how):
    server = lasting(name)
    load(server)
    server.query(f"ALTER TABLE sbtest.t ADD KEY unused (c) {how}")
    assert readiness.warm(server, "sbtest")


def test_tables_with_system_versioning_are_analysed_warmed_and_compared(lasting):
    server = lasting("mariadb:10.11")
    server.query("CREATE DATABASE d")
    server.query("CREATE TABLE d.t (id INT PRIMARY KEY, a INT, KEY k (a)) WITH SYSTEM VERSIONING")
    server.query("INSERT INTO d.t VALUES (1, 1), (2, 2)")
    server.query("UPDATE d.t SET a = 3 WHERE id = 2")
    assert databases_of(server) == ("d",)
    assert readiness.tables_of(server, "d") == ["t"]
    readiness.analyze(server, "d")
    assert readiness.warm(server, "d")
    assert ask_tables(server, ["d"])["d.t"]["rows"].answer.startswith("2 rows")


@pytest.mark.parametrize("name", ["mysql:8.0.15", "mariadb:10.11"])
def test_data_size_is_found_for_any_database_name(lasting, name):
    server = lasting(name)
    for database in ("my-shop", "a$b", "a b.c", "日本"):
        server.query(f"CREATE DATABASE `{database}` CHARACTER SET utf8")
        server.query(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
        assert server.data_bytes(database) >= 16_384, database


def test_leaving_the_pool_leaves_nothing(work):
    with pytest.raises(ZeroDivisionError), ServerPool(work) as pool:
        spec = parse_server("mariadb:10.11")
        found = install(spec)
        from bakeoff.servers import settings_for

        server = pool.create(
            "A",
            found,
            settings_for(found, spec, Profile.STOCK, Data(), ServerMemory(64 << 20, 32 << 20), connections=4),
        )
        server.start()
        pid = server.pid
        raise ZeroDivisionError
    assert not psutil.pid_exists(pid)
    assert not pool.runtime.exists()
    assert list(work.iterdir()) == []


PARENT = """
import os, signal, sys, time
from pathlib import Path
from bakeoff.servers import *
from bakeoff.spec import Data, Profile, parse_server
spec = parse_server("mariadb:10.11")
found = install(spec)
settings = settings_for(found, spec, Profile.MATCHED, Data(), ServerMemory(64 << 20, 32 << 20), connections=4)
pool = ServerPool(Path(sys.argv[1])).__enter__()
servers = [pool.create(name, found, settings) for name in "AB"]
pool.start_all(servers)
os.kill(servers[1].pid, signal.SIGSTOP)
print(pool.runtime, *(server.pid for server in servers), flush=True)
time.sleep(60)
"""


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not within the time"
        time.sleep(0.02)


def start_parent(work):
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), str(work)], stdout=subprocess.PIPE, text=True
    )
    runtime, *pids = parent.stdout.readline().split()
    return parent, Path(runtime), [int(pid) for pid in pids]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_servers_die_with_bakeoff_even_when_stopped_and_the_next_one_cleans_up(work, number):
    parent, runtime, pids = start_parent(work)
    assert all(psutil.pid_exists(pid) for pid in pids)
    wait_until(lambda: psutil.Process(pids[1]).status() == psutil.STATUS_STOPPED)
    parent.send_signal(number)
    parent.wait()
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids))
    assert list(work.glob(f"pool-*/{OWNER_FILE}"))  # any bakeoff on this machine may have removed the runtime folder
    with ServerPool(work) as pool:
        assert not runtime.exists()
        assert [each.name for each in work.iterdir()] == [pool.work.name]


def test_two_bakeoffs_do_not_disturb_each_other(work, make):
    parent, runtime, pids = start_parent(work)
    try:
        server = make("mariadb:10.11")
        server.start()
        with ServerPool(work):
            assert runtime.exists()
        assert all(psutil.pid_exists(pid) for pid in pids)
        assert server.query("SELECT 1") == [(1,)]
    finally:
        parent.kill()
        parent.wait()


def test_servers_outlive_the_thread_that_started_them(make):
    servers = [make("mariadb:10.11", name) for name in "AB"]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda server: server.start(), servers))
    time.sleep(0.3)
    assert all(server.running for server in servers)


def test_a_sandbox_prints_how_to_connect():
    with sandbox(parse_server("mysql:5.7.22,tx_isolation=READ-COMMITTED")) as opened:
        text = "\n".join(opened.lines())
        assert str(opened.instance.socket_path) in text
        assert f"--port={opened.instance.port}" in text
        assert "tx_isolation" in text
        pid = opened.instance.pid
    assert not psutil.pid_exists(pid)
