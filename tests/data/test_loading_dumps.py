"""Dumps in real servers: they load completely, or the error names file and line; snapshots are restored whole."""

import contextlib
import gzip
import subprocess
import threading
from types import SimpleNamespace

import pytest
from made_dumps import Listening, checksums, load, mydumper, mysql_shell, renamed_mydumper, study_of
from test_dumps import SHOP

from bakeoff import servers
from bakeoff.engine import Engine
from bakeoff.errors import EngineError, HostError, ServerError
from bakeoff.run import kept_loads
from bakeoff.run.arms import ArmSetup
from bakeoff.run.own_data import dump_database, load_dump, take_snapshots
from bakeoff.servers import RemoteServer
from bakeoff.spec import parse_server
from bakeoff.spec.dumps import quoted

pytestmark = pytest.mark.server

NAMES = ("mysql:5.7.22", "mysql:8.0.15", "mariadb:11.8.6")


@pytest.fixture(scope="module")
def running():
    """Servers by name."""
    with contextlib.ExitStack() as stack:
        started = {name: stack.enter_context(servers.sandbox(parse_server(name))).instance for name in NAMES}
        for server in started.values():
            server.query("SET GLOBAL event_scheduler = OFF")  # as servers that bakeoff fills with a dump have it
        yield started


def as_utf8(server, sql):
    return server.query(sql, database="shop")


@pytest.mark.parametrize("name", NAMES)
def test_a_dump_is_loaded_completely(running, name):
    server = running[name]
    loaded, listener = load(server, SHOP, name)
    assert loaded.databases == ("shop",)
    rows = as_utf8(server, "SELECT id, name, old_name, price, gross, HEX(picture), made FROM product ORDER BY id")
    assert [row[1] for row in rows] == ["Zero; -- not", "Käse 🧀", "O'Brien\\"]
    assert [row[2] for row in rows] == ["nul", "Käse", "a'b"]
    assert [str(row[4]) for row in rows] == ["1.1900", "4.9980", "11.8881"]
    assert [row[5] for row in rows] == [None, "00FF27", ""]
    assert as_utf8(server, "SELECT CHARSET(old_name), CHARSET(name) FROM product LIMIT 1") == [("latin1", "utf8mb4")]
    assert as_utf8(server, "SELECT id FROM cheap ORDER BY id") == [(0,), (1,)]
    assert as_utf8(server, "SELECT twice(21)") == [(42,)]
    assert as_utf8(server, "SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = 'shop'") == [(1,)]
    # Missing definers were replaced by the account that loads.
    ((definer,),) = as_utf8(server, "SELECT definer FROM information_schema.views WHERE table_schema = 'shop'")
    assert str(definer).startswith("root@")
    assert listener.seen[-1] == (SHOP.stat().st_size, SHOP.stat().st_size, "bytes")


def test_a_database_mydumper_renamed_is_loaded_under_its_real_name(running, tmp_path):
    server = running["mysql:8.0.15"]
    dump = renamed_mydumper(tmp_path / "dump", "`shop$eu`")
    loaded, _ = load(server, dump, "mysql:8.0.15", database="shop$eu")
    assert "shop$eu" in loaded.databases
    assert "mydumper_0" not in loaded.databases
    assert server.query("SELECT COUNT(*) FROM `shop$eu`.many") == [(3,)]
    assert server.query("SELECT `shop$eu`.twice(21)") == [(42,)]
    server.query("DROP DATABASE `shop$eu`")


def test_a_collation_the_version_lacks_is_replaced_with_a_note(running):
    loaded, listener = load(running["mysql:5.7.22"], SHOP, "mysql:5.7.22")
    assert loaded.translated == {"utf8mb4_0900_ai_ci": "utf8mb4_unicode_520_ci"}
    (note,) = listener.notes
    assert "has the dump's utf8mb4_0900_ai_ci as utf8mb4_unicode_520_ci" in note
    ((collation,),) = running["mysql:5.7.22"].query(
        "SELECT table_collation FROM information_schema.tables WHERE table_schema = 'shop' AND table_name = 'product'"
    )
    assert collation == "utf8mb4_unicode_520_ci"
    for name in ("mysql:8.0.15", "mariadb:11.8.6"):
        loaded, listener = load(running[name], SHOP, name)
        assert (loaded.translated, listener.notes) == ({}, [])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "CREATE TABLE t (a int PRIMARY KEY);\n-- x\nINSERT INTO t VALUES (1);\nINSERT INTO t\nVALUES (1);\n",
            "bad.sql:4: Duplicate entry ? for key ? (error 1062): INSERT INTO `t` VALUES (?)",
        ),
        (
            "CREATE TABLE t (a char(9) PRIMARY KEY);\nINSERT INTO t VALUES ('a''secret'), ('a''secret');\n",
            "bad.sql:2: Duplicate entry ? for key ? (error 1062): INSERT INTO `t` VALUES (",
        ),
        (
            "CREATE TABLE t (a int);\nINSERT INTO t VALUES ('secret",
            "bad.sql:2: the file ends within the statement: INSERT INTO `t` VALUES (",
        ),
        (
            "CREATE TABLE t (a char(9) COLLATE utf8mb4_ja_0900_as_cs);\n",
            "bad.sql:1: Unknown collation: 'utf8mb4_ja_0900_as_cs' (error 1273): CREATE TABLE `t`",
        ),
        ("SELECT 1;\nCREATE TABLE t (a int INVISIBLE);\n", "bad.sql:2: You have an error in your SQL syntax"),
    ],
)
def test_load_errors_name_file_and_line_but_no_values(running, tmp_path, text, complaint):
    bad = tmp_path / "bad.sql"
    bad.write_text(text)
    with pytest.raises(EngineError) as caught:
        load(running["mysql:5.7.22"], bad, "mysql:5.7.22")
    assert complaint in caught.value.message
    assert "\n" not in caught.value.message
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("more", "error"), [(b"", HostError), (b"SELECT 1;\n" * 200_000, EngineError)])
def test_a_truncated_archive_is_refused(running, tmp_path, more, error):
    """Either when its head is inspected or when it is loaded."""
    cut = tmp_path / "cut.sql.gz"
    cut.write_bytes(gzip.compress(SHOP.read_bytes() + more)[:-700])
    with pytest.raises(error, match=r"cut\.sql\.gz.* cannot be read") as caught:
        load(running["mysql:8.0.15"], cut, "mysql:8.0.15")
    assert "\n" not in caught.value.message


def test_databases_the_dump_uses_but_does_not_create_are_created(running, tmp_path):
    dump = tmp_path / "two.sql"
    quoted = "/* the third */ USE `it``s`;\nCREATE TABLE c (c int);\n"
    dump.write_text("USE `shop`;\nCREATE TABLE a (a int);\nuse shop_two\nCREATE TABLE b (b int);\n" + quoted)
    server = running["mysql:8.0.15"]
    loaded, _ = load(server, dump, "mysql:8.0.15")
    server.query("DROP DATABASE shop_two")
    server.query("DROP DATABASE `it``s`")
    assert {"shop", "shop_two"} <= set(loaded.databases)
    assert list(checksums(server)) == ["a"]


DEADLOCK_AT_2 = """CREATE TABLE t (a int PRIMARY KEY);
DELIMITER ;;
CREATE TRIGGER once BEFORE INSERT ON t FOR EACH ROW
BEGIN
  IF NEW.a = 2 AND @seen IS NULL THEN
    SET @seen = 1;
    SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found';
  END IF;
END;;
DELIMITER ;
"""


def test_a_deadlock_retries_a_statement_but_not_part_of_a_transaction(running, tmp_path):
    server, dump = running["mysql:8.0.15"], tmp_path / "deadlock.sql"
    dump.write_text(f"{DEADLOCK_AT_2}INSERT INTO t VALUES (1);\nINSERT INTO t VALUES (2), (3);\n")
    load(server, dump, "mysql:8.0.15")
    assert as_utf8(server, "SELECT a FROM t ORDER BY a") == [(1,), (2,), (3,)]
    dump.write_text(f"{DEADLOCK_AT_2}BEGIN;\nINSERT INTO t VALUES (1);\nINSERT INTO t VALUES (2), (3);\nCOMMIT;\n")
    with pytest.raises(EngineError, match=r"deadlock\.sql:13: Deadlock found"):
        load(server, dump, "mysql:8.0.15")


def test_a_deadlock_that_comes_back_every_time_ends_the_load(running, tmp_path):
    dump = tmp_path / "deadlock.sql"
    always = DEADLOCK_AT_2.replace(" AND @seen IS NULL", "")
    dump.write_text(f"{always}INSERT INTO t VALUES (1);\nINSERT INTO t VALUES (2), (3);\n")
    with pytest.raises(EngineError, match=r"deadlock\.sql:12: Deadlock found \(error 1213\): INSERT INTO `t`"):
        load(running["mysql:8.0.15"], dump, "mysql:8.0.15")


TEXTS = ("予定表", "ソ", "能", "チーム")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("charset", "texts"),
    [
        ("sjis", TEXTS),
        ("cp932", TEXTS),
        ("gbk", ("誠\\\\", "一誠")),
        ("big5", ("功", "許功蓋")),
        ("gb18030", ("誠\\\\", "\x80", "㐂")),
    ],
)
def test_multibyte_characters_ending_in_a_backslash_byte_are_loaded(running, tmp_path, name, charset, texts):
    if name.startswith("mariadb") and charset == "gb18030":
        return  # which it does not have
    dump = tmp_path / "texts.sql"
    rows = ",".join(f"({n},'{text}','a;b')" for n, text in enumerate(texts)).encode(charset)
    table = f"`{texts[0].strip(chr(92))}`".encode(charset)
    dump.write_bytes(
        f"/*!40101 SET NAMES {charset} */;\n/*!40101 SET @saved_cs_client = @@character_set_client */;\n"
        "/*!40101 SET character_set_client = utf8 */;\n"
        "CREATE TABLE t (id INT, a VARCHAR(9) CHARACTER SET utf8, b TEXT) COMMENT '\\';';\n"
        "/*!40101 SET character_set_client = @saved_cs_client */;\nINSERT INTO t VALUES ".encode()
        + rows + b";\nCREATE TABLE " + table + b" (x INT) COMMENT '" + rows.replace(b"'", b"''") + b"';\n"
        b"SET NAMES utf8;\nINSERT INTO t VALUES (99,'\xc3\xa9\\'','c')\n"
    )  # fmt: skip
    server = running[name]
    load(server, dump, name)
    expected = [text.replace("\\\\", "\\") for text in texts]
    assert [row[0] for row in as_utf8(server, "SELECT a FROM t ORDER BY id")] == [*expected, "é'"]
    assert len(checksums(server)) == 2


SANDBOX = "/*M!999999\\- enable the sandbox mode */ \n"
VERBOSITY = "/*M!100616 SET @OLD_NOTE_VERBOSITY=@@NOTE_VERBOSITY, NOTE_VERBOSITY=0 */;\n"
VERBOSITY_BACK = "/*M!100616 SET NOTE_VERBOSITY=@OLD_NOTE_VERBOSITY */;\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_mariadb_dump_loads_into_every_server(running, tmp_path, name):
    dump = tmp_path / "maria.sql"
    dump.write_text(
        f"{SANDBOX}DELIMITER ;;\nCREATE FUNCTION f() RETURNS INT DETERMINISTIC BEGIN RETURN 1; END ;;\nDELIMITER ;\n"
        f"{VERBOSITY}CREATE TABLE t (a INT) /*M!100301 COMMENT='of MariaDB' */;\n{VERBOSITY_BACK}"
    )
    server = running[name]
    load(server, dump, name)
    assert as_utf8(server, "SELECT f()") == [(1,)]
    comment = "SELECT table_comment FROM information_schema.tables WHERE table_schema = 'shop'"
    assert as_utf8(server, comment) == [("of MariaDB" if name.startswith("mariadb") else "",)]


def test_a_resumed_load_restores_mariadb_session_variables(running, tmp_path):
    server, name, dump = running["mariadb:11.8.6"], "mariadb:11.8.6", tmp_path / "shop.sql"
    begun = f"/* {'long ' * 100}*/ SET @a = 7;\n{VERBOSITY}CREATE TABLE t (a INT);\nINSERT INTO t VALUES (@a);\n"
    kept = SimpleNamespace(progress=lambda done, total: None)
    setup = ArmSetup(study_of(dump, name=name).arms[0])

    def go_on(rest):
        dump.write_text(f"{begun}{rest}")
        with Engine() as engine:
            load_dump(engine, setup, server, study_of(dump, name=name), Listening(), threads=1, kept=kept)

    server.query("DROP DATABASE IF EXISTS shop")
    server.query("CREATE DATABASE shop")
    try:
        with pytest.raises(EngineError, match=r"shop\.sql:5: Unknown column "):
            go_on("INSERT INTO t VALUES (gone);\n")
        go_on(f"INSERT INTO t VALUES (@a + 1);\n{VERBOSITY_BACK}")
    finally:
        server.query(f"DROP DATABASE IF EXISTS {kept_loads.MARKS}")
    assert as_utf8(server, "SELECT a FROM t ORDER BY a") == [(7,), (8,)]


EVENT = (
    "/*!50106 SET @save_time_zone= @@TIME_ZONE */ ;\nDELIMITER ;;\n/*!50003 SET time_zone = 'Mars/Olympus' */ ;;\n"
    "/*!50106 CREATE*/ /*!50117 DEFINER=`boss`@`%`*/ /*!50106 EVENT `e` ON SCHEDULE EVERY 1 DAY "
    "STARTS '2030-01-01 00:00:00' ON COMPLETION NOT PRESERVE ENABLE DO BEGIN SELECT 1; END */ ;;\n"
    "/*!50003 SET time_zone = @save_time_zone */ ;;\n"
    "CREATE EVENT g ON SCHEDULE EVERY 1 DAY DO SELECT 'ENABLE' ;;\nDELIMITER ;\n"
)


@pytest.mark.parametrize("name", NAMES)
def test_an_event_in_an_unknown_time_zone_is_loaded_disabled(running, tmp_path, name):
    dump, server = tmp_path / "events.sql", running[name]
    dump.write_text(f"CREATE TABLE t (a TIMESTAMP);\n{EVENT}INSERT INTO t VALUES ('2026-01-01 00:00:00');\n")
    _, listener = load(server, dump, name)
    states = "SELECT event_name, status FROM information_schema.events WHERE event_schema = 'shop' ORDER BY 1"
    assert as_utf8(server, states) == [("e", "DISABLED"), ("g", "ENABLED")]
    assert listener.notes[-1].endswith("statements of the dump that were left out: unknown time zones of events (1)")
    # Rows need theirs.
    dump.write_text("CREATE TABLE t (a TIMESTAMP);\nSET time_zone = 'Mars/Olympus';\nINSERT INTO t VALUES (NOW());\n")
    with pytest.raises(EngineError, match=r"events\.sql:2: Unknown or incorrect time zone: 'Mars/Olympus'"):
        load(server, dump, name)


@pytest.mark.parametrize("name", NAMES)
def test_errors_in_the_first_and_last_statement_name_their_line(running, tmp_path, name):
    dump = tmp_path / "bad.sql"
    for text, line in (
        ("\ufeffINSERT INTO none VALUES (1);\nCREATE TABLE t (a int);\n", 1),
        (f"{SANDBOX}-- Host: localhost\n/*M!100616 SET @A=1 */;\nINSERT INTO none VALUES (1);\n", 4),
        (f"{SANDBOX}\nSET NAMES none;\nCREATE TABLE t (a int);\n", 3),
        ("CREATE TABLE t (a int);\n\nINSERT INTO none\nVALUES (1)\n\n", 3),
        ("DELIMITER //\nSELECT 1\n//\nCREATE TRIGGER x BEFORE INSERT ON none\nFOR EACH ROW SET @a = 1\n//\n", 4),
        ("SELECT 1;\n/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;\n\n-- Dump completed\n", 2),
        ("SET SESSION TRANSACTION READ ONLY;\nSELECT 1;\nCREATE TABLE t (a INT)", 3),
    ):
        dump.write_text(text)
        with pytest.raises(EngineError, match=rf"bad\.sql:{line}: .* \(error \d+\): ") as caught:
            load(running[name], dump, name)
        assert "\n" not in caught.value.message


@pytest.mark.parametrize("name", ["mysql:5.7.22", "mysql:8.0.15"])
def test_loads_into_crash_unsafe_tables_are_not_resumed(running, name):
    server = running[name]
    server.query("DROP DATABASE IF EXISTS shop")
    server.query("CREATE DATABASE shop")
    server.query("CREATE TABLE shop.`in` (a int) ENGINE = InnoDB")
    kept_loads._check_safe_from_crash(server, same_boot=False)
    server.query("CREATE TABLE shop.`view's` (a int) ENGINE = MyISAM")
    kept_loads._check_safe_from_crash(server, same_boot=True)
    with pytest.raises(kept_loads.CannotGoOnError, match="tables of MyISAM"):
        kept_loads._check_safe_from_crash(server, same_boot=False)
    server.query("INSERT INTO shop.`view's` VALUES (1)")
    with pytest.raises(kept_loads.CannotGoOnError, match="tables of MyISAM"):
        kept_loads._check_safe_from_crash(server, same_boot=True)


@pytest.mark.parametrize("make", [mydumper, mysql_shell])
@pytest.mark.parametrize("name", ["mysql:8.0.15", "mariadb:11.8.6"])
def test_directories_are_loaded(running, tmp_path, make, name):
    server = running[name]
    loaded, _ = load(server, make(tmp_path / "dump"), name)
    assert "shop" in loaded.databases
    texts = {mydumper: ["a;\nb", "ß", None], mysql_shell: ["a\tb'", "ß\\", None]}[make]
    assert [text for (text,) in as_utf8(server, "SELECT text FROM word ORDER BY id")] == texts
    if make is mysql_shell:
        assert as_utf8(server, "SELECT HEX(bytes) FROM word ORDER BY id") == [("00FF",), ("",), (None,)]
        assert as_utf8(server, "SELECT id FROM sale ORDER BY id") == [(1,), (2,), (3,), (11,)]
    assert as_utf8(server, "SELECT COUNT(*) FROM many") == [(3,)]
    assert as_utf8(server, "SELECT twice(4)") == [(8,)]
    assert as_utf8(server, "SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = 'shop'") == [(1,)]


ROWS = """
CREATE TABLE kinds (
  id int PRIMARY KEY, f float, d double, m decimal(20,5), b bit(9), s set('a','b'), e enum('x','''y'),
  t time, y year, g point, x varbinary(40), l longblob, j json, c varchar(50) CHARACTER SET latin1,
  v int GENERATED ALWAYS AS (id + 1) VIRTUAL, w int GENERATED ALWAYS AS (id + 2) STORED, h timestamp NULL,
  `odd ``name` text
) DEFAULT CHARSET = utf8mb4;
INSERT INTO kinds (id, f, d, m, b, s, e, t, y, g, x, l, j, c, h, `odd ``name`) VALUES
  (1, 0.1, 1e-300, -12.34567, b'101', 'a,b', '''y', '-12:00:01', 1999, ST_GeomFromText('POINT(1 2)'),
   'a\\\\\\'\\0\\n', '', '{"a": "\\\\u00e9\\\\""}', 'é', '2020-01-01 00:00:00', 'tab\\tline\\n\\\\N '';'),
  (2, 16777217, -0.0, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL, REPEAT(x'00ff', 300000), 'null', NULL, NULL, '🧀');
CREATE TABLE nothing (a int);
"""
MORE = (
    "CREATE VIEW z AS SELECT id, c FROM kinds",
    "CREATE VIEW a AS SELECT id FROM z WHERE id < 2",
    "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT ';;'; END",
    "CREATE TRIGGER tr BEFORE UPDATE ON kinds FOR EACH ROW BEGIN SET NEW.c = 'ä'; END",
    "CREATE EVENT ev ON SCHEDULE EVERY 1 DAY DO DELETE FROM nothing",
)


def contents(server, table):
    """Every value in hexadecimal digits."""
    described = server.query(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'shop' AND table_name = %s "
        "ORDER BY ordinal_position",
        (table,),
    )
    assert described
    columns = ", ".join(f"HEX({quoted(name)})" for (name,) in described)
    return server.query(f"SELECT {columns} FROM shop.{quoted(table)} ORDER BY id")


@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_of_a_running_server_comes_back_whole(running, tmp_path, name):
    server = running[name]
    server.query("DROP DATABASE IF EXISTS shop")
    server.query("CREATE DATABASE shop CHARACTER SET latin1")
    for statement in (*filter(str.strip, ROWS.split(";\n")), *MORE):
        server.query(statement, database="shop")
    before, folder = (checksums(server), contents(server, "kinds")), tmp_path / "dump"
    folder.mkdir()
    remote = RemoteServer(parse_server(f"mysql://root@localhost/shop?socket={server.socket_path}"))
    dump_database(remote, "shop", folder, Listening(), threading.Event())
    made = server.query("SHOW CREATE TABLE shop.kinds")
    load(server, folder, name)
    assert contents(server, "kinds") == before[1]
    # Each time a table with some of these types is filled with the same rows, 5.7 gives it another checksum.
    if name != "mysql:5.7.22":
        assert checksums(server) == before[0]
    assert list(before[0]) == ["kinds", "nothing"]
    assert server.query("SHOW CREATE TABLE shop.kinds") == made
    assert server.query("SELECT id FROM shop.a") == [(1,)]
    sql = "SELECT default_character_set_name FROM information_schema.schemata WHERE schema_name = 'shop'"
    assert server.query(sql) == [("latin1",)]
    for view, column in (("routines", "routine"), ("triggers", "trigger"), ("events", "event")):
        assert server.query(f"SELECT COUNT(*) FROM information_schema.{view} WHERE {column}_schema = 'shop'") == [(1,)]
    # Only the owner may read it.
    assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}


def test_a_snapshot_needs_its_password_and_keeps_none(running, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    server = running["mysql:8.0.15"]
    load(server, SHOP, "mysql:8.0.15")
    server.query("CREATE USER reader@localhost IDENTIFIED WITH mysql_native_password BY 's3cret'")
    server.query("GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON shop.* TO reader@localhost")
    server.query("GRANT SELECT ON *.* TO reader@localhost")
    source = f"mysql://reader@localhost/shop?socket={server.socket_path}"
    try:
        study, listener = study_of(source), Listening()
        ended = threading.Event()
        ended.set()
        with pytest.raises(KeyboardInterrupt):
            take_snapshots(study, listener, {source: "s3cret"}, ended)
        assert list((tmp_path / "bakeoff" / "dumps").iterdir()) == []
        with pytest.raises(ServerError, match="refuses user reader: wrong password") as caught:
            take_snapshots(study, listener, {source: "an0ther"}, threading.Event())
        assert "an0ther" not in str(caught.value)
        taken = take_snapshots(study, listener, {source: "s3cret"}, threading.Event())
        (folder,) = {arm.data.source for arm in taken.arms}
        assert folder.startswith(str(tmp_path))
        assert "s3cret" not in taken.model_dump_json() + " ".join(listener.notes)
        found = subprocess.run(["grep", "-rlz", "s3cret", folder], capture_output=True, text=True, check=False)
        assert found.stdout == ""
    finally:
        server.query("DROP USER reader@localhost")
