"""Every server of the catalogue: started, crashed, started again, and able to do what the catalogue says it can.

pytest -m slow tests/servers            downloads about 2 GB the first time
pytest -m slow tests/servers -k 5.5     one family
"""

import os
import shutil
import signal
import time

import pymysql
import pytest

from bakeoff.errors import SpecError
from bakeoff.servers import Catalog, ServerMemory, install, readiness, settings_for
from bakeoff.servers.datadir import locked_template
from bakeoff.servers.options import Target, option_facts
from bakeoff.spec import Data, Profile, parse_server

pytestmark = [pytest.mark.server, pytest.mark.slow]

CATALOG = Catalog.load()
ENTRIES = [pytest.param(entry, id=entry.name) for entry in CATALOG.entries]
COMPRESSED = Data(table_options="ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8")


def has(server, capability):
    return CATALOG.has(capability, server.installation.family, server.installation.version)


def succeeds(server, sql):
    connection = server.connect("t")
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
        return True
    except pymysql.MySQLError:
        return False
    finally:
        connection.close()


def start_after_crash(server):
    process = server.pid
    os.kill(process, signal.SIGKILL)
    while server.running:
        time.sleep(0.01)
    return server.start()


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_server_has_its_listed_capabilities_and_survives_a_crash(entry, make):
    server = make(f"{entry.flavour}:{entry.version}", data=COMPRESSED)
    server.start()
    assert server.version_string.startswith(".".join(str(part) for part in server.installation.version))
    assert server.ignored_settings() == []
    server.query("CREATE DATABASE t")

    assert succeeds(server, "CREATE TABLE utf (s VARCHAR(50)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4") == has(
        server, "utf8mb4"
    )
    server.query("INSERT INTO t.utf VALUES (%s)", ("\N{GRINNING FACE} é",))
    assert server.query("SELECT s FROM t.utf") == [("\N{GRINNING FACE} é",)]
    assert succeeds(server, "CREATE TABLE c9 (s INT, t TEXT) COLLATE=utf8mb4_0900_ai_ci") == has(
        server, "collations-0900"
    )
    assert succeeds(server, "CREATE TABLE c14 (s INT, t TEXT) COLLATE=utf8mb4_uca1400_ai_ci") == has(
        server, "collations-uca1400"
    )
    assert succeeds(server, "CREATE TABLE l (s VARCHAR(50)) ENGINE=MyISAM DEFAULT CHARSET=ucs2")

    engines = {str(row[0]).lower() for row in server.query("SHOW ENGINES") if row[1] in ("YES", "DEFAULT")}
    assert {"innodb", "myisam", "memory", "csv"} <= engines
    assert set(entry.engines) - {"rocksdb"} <= engines
    assert ("rocksdb" in entry.engines) == ("rocksdb" in server.installation.engines)

    assert succeeds(server, "PREPARE p FROM 'BEGIN'") == has(server, "prepared-begin")
    assert ("query_cache_type" in server.variables()) == has(server, "query-cache")

    server.query("CREATE TABLE t.z (id INT PRIMARY KEY, s TEXT) ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8")
    server.query("INSERT INTO t.z VALUES (1, REPEAT('abcdefgh', 1000))")
    rows = server.query("SELECT row_format FROM information_schema.tables WHERE table_schema='t' AND table_name='z'")
    assert rows == [("Compressed",)]

    server.query("CREATE TABLE t.committed (id INT PRIMARY KEY) ENGINE=InnoDB")
    server.query("INSERT INTO t.committed VALUES " + ",".join(f"({number})" for number in range(1000)))
    open_transaction = server.connect("t")
    open_transaction.begin()
    open_transaction.cursor().execute("INSERT INTO committed VALUES (100000)")
    assert start_after_crash(server) < 20
    open_transaction.close()
    assert server.query("SELECT COUNT(*), MAX(id) FROM t.committed") == [(1000, 999)]
    server.query("DROP TABLE t.l")  # warm() can tell what was read from disk only for InnoDB
    assert readiness.warm(server, "t")
    assert readiness.finish_pending_work(server, 30)


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_server_starts_within_three_seconds_from_its_template(entry, make):
    make(f"{entry.flavour}:{entry.version}", profile=Profile.STOCK).remove()  # makes the template
    tries_s = []
    while not tries_s or (min(tries_s) > 3 and len(tries_s) < 4):  # the machine may be busy with something else
        began = time.monotonic()
        server = make(f"{entry.flavour}:{entry.version}", profile=Profile.STOCK)
        server.start()
        tries_s.append(time.monotonic() - began)
        server.remove()
    assert min(tries_s) < 3


@pytest.mark.parametrize("size", ["4k", "8k", "16k", "64k"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_page_sizes(entry, size, make):
    capability = {"4k": "page-4k-8k", "8k": "page-4k-8k", "64k": "page-32k-64k"}.get(size)
    text = f"{entry.flavour}:{entry.version},innodb_page_size={size}"
    if capability and not CATALOG.has(capability, entry.family, entry.numbers):
        with pytest.raises(SpecError, match="innodb_page_size"):
            make(text)
        return
    server = make(text)
    server.start()
    kib = int(server.variables().get("innodb_page_size", 16384)) // 1024
    assert f"{kib}k" == size
    server.query("CREATE DATABASE t")
    server.query("CREATE TABLE t.p (id INT PRIMARY KEY) ENGINE=InnoDB")
    server.stop()
    if server.settings.init_options:  # 19 × 3 templates would be 10 GB
        with locked_template(server.installation, server.settings.init_options) as template:
            shutil.rmtree(template)


@pytest.mark.parametrize("entry", [each for each in ENTRIES if "rocksdb" in each.values[0].engines])
def test_myrocks_tables_survive_a_crash(entry, make):
    server = make(f"{entry.flavour}:{entry.version},plugin=rocksdb", data=Data(engine="rocksdb"))
    server.start()
    server.query("CREATE DATABASE t")
    server.query("CREATE TABLE t.r (id INT PRIMARY KEY) ENGINE=RocksDB")
    server.query("INSERT INTO t.r VALUES (1), (2)")
    start_after_crash(server)
    assert server.query("SELECT COUNT(*) FROM t.r") == [(2,)]
    assert server.ignored_settings() == []


@pytest.mark.parametrize("entry", ENTRIES)
def test_accounts_and_authentication_plugins_match_the_catalogue(entry, make):
    server = make(f"{entry.flavour}:{entry.version}")
    server.start()
    account = server.account("tcp")
    address = server.address("tcp")
    connection = pymysql.connect(
        host=address["host"], port=address["port"], user=account.user, password=account.password, ssl_disabled=True
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT CURRENT_USER()")
        assert cursor.fetchone()[0].startswith("bakeoff@")
    connection.close()
    native = "VIA" if entry.flavour == "mariadb" else "WITH"
    assert succeeds_anywhere(server, f"CREATE USER n@localhost IDENTIFIED {native} mysql_native_password") == has(
        server, "auth-native"
    )
    sha2 = succeeds_anywhere(server, "CREATE USER s@localhost IDENTIFIED WITH caching_sha2_password BY 'x'")
    assert sha2 == has(server, "auth-caching-sha2")
    assert [row[0] for row in server.query("SELECT Host FROM mysql.user WHERE User='root'")] == ["localhost"]


def succeeds_anywhere(server, sql):
    server.query("CREATE DATABASE IF NOT EXISTS t")
    return succeeds(server, sql)


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_table_of_options_agrees_with_the_binary(entry):
    """The help lists the options that options.toml says a version accepts, and none that it says are unknown."""
    found = install(parse_server(f"{entry.flavour}:{entry.version}"))
    assert len(found.known_options) > 250
    target = Target("", entry.family, entry.numbers)
    wrong = {
        name
        for name, row in option_facts().items()
        if target.within(row) != (name in found.known_options) and not target.within(row, "_ignored")
    }
    assert wrong <= {"innodb_numa_interleave"}  # depends on how a build was configured


@pytest.mark.parametrize("entry", ENTRIES)
def test_matched_settings_are_in_effect(entry, make):
    spec = parse_server(f"{entry.flavour}:{entry.version}")
    found = install(spec)
    settings = settings_for(found, spec, Profile.MATCHED, Data(), ServerMemory(64 << 20, 64 << 20), connections=200)
    assert settings.notes == ()
    server = make(f"{entry.flavour}:{entry.version}", memory=ServerMemory(64 << 20, 64 << 20), connections=200)
    server.start()
    variables = server.variables()
    assert server.ignored_settings() == []
    assert variables["log_bin"] == "OFF"
    assert variables.get("query_cache_type", "OFF") == "OFF"
    assert variables.get("performance_schema") == "OFF"
    assert int(variables["max_connections"]) >= 200
    files = int(variables.get("innodb_log_files_in_group", 1))
    redo = (
        int(variables["innodb_redo_log_capacity"])
        if "innodb_redo_log_capacity" in variables
        else int(variables["innodb_log_file_size"]) * files
    )
    assert redo == 64 << 20
