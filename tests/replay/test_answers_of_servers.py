"""The untimed pass finds planted differences between real servers, and no others."""

import json
import subprocess
from contextlib import ExitStack, closing

import pytest

from bakeoff import servers
from bakeoff.engine import engine_path
from bakeoff.replay.answers import AnswersPass
from bakeoff.replay.captures import capture_events, capture_totals
from bakeoff.replay.sessions import Sessions
from bakeoff.spec import parse_server

pytestmark = pytest.mark.server

SCHEMA = """
CREATE TABLE item (id INT PRIMARY KEY, title VARCHAR(40) COLLATE utf8mb4_general_ci, shop INT, price DOUBLE, n INT,
                   changed TIMESTAMP NULL, KEY shop (shop)) CHARACTER SET utf8mb4;
INSERT INTO item VALUES {rows};
"""
ROWS = [(n, name, n % 20, n / 10, n % 7) for n, name in enumerate(["alpha", "Beta", "été", "zeta"] * 100)]

QUERIES = """
SELECT COUNT(*) FROM item;
SELECT title, price FROM item WHERE id = 7;
SELECT id, n FROM item WHERE shop = 3;
SELECT id, title FROM item WHERE shop = 3 ORDER BY title;
SELECT id FROM item WHERE shop = 5 LIMIT 3;
SELECT SUM(price) / 7e0 FROM item;
SELECT NOW(), UUID();
INSERT INTO item VALUES (1001, 'new', 3, 0.5, 1, NOW());
UPDATE item SET n = n + 1 WHERE shop = 3;
SELECT id, n, changed FROM item WHERE id = 1001;
SELECT no_such_column FROM item;
BEGIN;
DELETE FROM item WHERE id = 1001;
ROLLBACK;
SELECT id FROM item WHERE id = 1001 FOR UPDATE;
"""

GENERAL_LOG = """/usr/sbin/mysqld, Version: 5.7.31-log (MySQL Community Server (GPL)). started with:
Tcp port: 3306  Unix socket: /tmp/mysql.sock
Time                 Id Command    Argument
"""


@pytest.fixture(scope="module")
def pair():
    with ExitStack() as stack:
        boxes = [stack.enter_context(servers.sandbox(parse_server(name))) for name in ("mysql:5.7.22", "mysql:8.0.15")]
        yield {arm: box.instance for arm, box in zip("AB", boxes, strict=True)}


def ask(server, *statements, database="shop"):
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS shop")
        cursor.execute(f"USE {database}")
        for statement in statements:
            cursor.execute(statement)
    connection.close()


@pytest.fixture
def loaded(pair):
    """Both servers with equal data."""
    values = ", ".join(f"({i}, '{name}', {shop}, {price!r}, {n}, NULL)" for i, name, shop, price, n in ROWS)
    for server in pair.values():
        ask(server, "DROP DATABASE shop")
        ask(server, *(part for part in SCHEMA.format(rows=values).split(";") if part.strip()), "ANALYZE TABLE item")
    return pair


def judge(pair, tmp_path, sql=QUERIES, **more):
    """Return the document, and the differences by the beginning of each digest's text."""
    log, capture = tmp_path / "queries.sql", tmp_path / "queries.capture"
    log.write_text(sql)
    subprocess.run([engine_path(), "capture", f"--output={capture}", log], check=True, stdout=subprocess.DEVNULL)
    options = dict(databases=dict.fromkeys("AB", "shop"), limit_s=60.0, reads_only=False) | more
    found = AnswersPass(pair, capture_totals(capture), capture=str(capture), **options).run(capture_events(capture))
    flagged = {}
    for each in found.digests.values():
        compared = each.compared["B"]
        kinds = {*compared.differences, *(["plan"] if compared.plan else [])}
        if kinds:
            flagged[each.text] = kinds
    return found, flagged


def digest(found, text):
    (one,) = [each for each in found.digests.values() if each.text.startswith(text)]
    return one


def test_equal_data_gives_no_differences(loaded, tmp_path):
    found, flagged = judge(loaded, tmp_path)
    assert flagged == {}
    assert found.executed == 15
    assert (found.not_reached, found.skipped, found.other_tables, found.tables) == (0, {}, {}, 1)
    assert digest(found, "SELECT NOW").volatile == ("NOW", "UUID")
    assert digest(found, "SELECT NOW").compared["B"].listed == {"volatile": 1}
    assert digest(found, "SELECT `no_such_column`").compared["B"].failed == {"A": 1, "B": 1}
    assert digest(found, "SELECT `id` , `n` FROM").rows_examined == {"A": 21, "B": 21}
    assert digest(found, "SELECT `id` , `n` FROM").plans["A"] == ("item: ref shop, 1 part",)


def test_planted_differences_are_found_and_no_others(loaded, tmp_path):
    ask(loaded["B"], "ALTER TABLE item DROP KEY shop", "UPDATE item SET title = 'delta' WHERE id = 7",
        "UPDATE item SET price = price * (1 + 1e-15) WHERE id = 9", "ANALYZE TABLE item")  # fmt: skip
    found, flagged = judge(loaded, tmp_path)
    assert flagged.pop("SELECT `title` , `price` FROM `item` WHERE `id` = ?") == {"rows"}
    # COUNT(*) reads the smallest index, too.
    assert all("`shop` = ?" in text or text.startswith("SELECT COUNT") for text in flagged)
    assert all(kinds == {"plan"} for kinds in flagged.values())
    assert "SELECT `id` , `n` FROM `item` WHERE `shop` = ?" in flagged
    assert "item" in next(iter(found.other_tables["B"]))
    assert digest(found, "SELECT `id` , `n` FROM `item` WHERE `shop`").plans["B"] == ("item: all rows",)
    assert "delta" not in found.model_dump_json()


def test_settings_of_a_captured_session_are_set_on_both_servers(loaded):
    event = {"session": {"sql_mode": "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "names": "latin1", "time_zone": "+02:00"}}
    for server in loaded.values():
        with closing(Sessions(server, "shop", now_s=0)) as sessions:
            reply = sessions.run(event, b"SELECT @@sql_mode, @@character_set_client, @@time_zone")
        assert reply.kept == [(b"ANSI_QUOTES,NO_BACKSLASH_ESCAPES", b"latin1", b"+02:00")]


def test_new_warnings_errors_and_row_orders_are_found(loaded, tmp_path):
    ask(loaded["B"], "ALTER TABLE item MODIFY title VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    sql = """
    SELECT id, title FROM item ORDER BY title;
    SELECT MD5(ENCODE('a', 'b')) FROM item;
    SELECT CONVERT('a' USING utf8) AS it;
    SELECT 1 + '3x';
    SELECT REGEXP_LIKE('a', 'A') AS it;
    SELECT ST_ASTEXT(POINTFROMTEXT('POINT(1 1)'));
    """
    _, flagged = judge(loaded, tmp_path, sql)
    assert flagged.pop("SELECT `id` , `title` FROM `item` ORDER BY `title`") == {"order"}
    by_kind = {text.split(" ", 2)[1]: kinds for text, kinds in flagged.items()}
    assert by_kind["CONVERT"] == {"warnings"}
    assert by_kind["`REGEXP_LIKE`"] == {"errors"}
    assert by_kind["`MD5`"] == {"errors"}
    assert by_kind["`ST_ASTEXT`"] == {"errors"}
    assert len(by_kind) == 4


def test_reads_only_skips_writes_and_locking_reads(loaded, tmp_path):
    found, flagged = judge(loaded, tmp_path, reads_only=True)
    assert flagged == {}
    assert found.skipped.keys() == {"INSERT", "UPDATE", "DELETE", "FOR UPDATE"}
    assert loaded["A"].query("SELECT COUNT(*) FROM shop.item") == [(len(ROWS),)]


def test_set_global_is_skipped_and_set_session_is_run(loaded, tmp_path):
    (before,) = loaded["A"].query("SELECT @@GLOBAL.max_error_count")
    sql = """
    SET GLOBAL max_error_count = 7;
    SET @@global.max_error_count = 8;
    SET SESSION max_error_count = 9;
    SELECT @@SESSION.max_error_count AS it;
    """
    found, _ = judge(loaded, tmp_path, sql, reads_only=True)
    assert (found.executed, found.skipped) == (2, {"server": 2})
    assert loaded["A"].query("SELECT @@GLOBAL.max_error_count") == [before]


def test_tables_that_a_session_has_locked_are_compared(loaded, tmp_path):
    found, _ = judge(loaded, tmp_path, "LOCK TABLES item WRITE; UPDATE item SET n = n + 1 WHERE id = 1;")
    assert (found.executed, found.tables, found.other_tables) == (2, 1, {})


def test_table_locks_of_one_connection_do_not_block_others(loaded, tmp_path):
    """A general log records a statement when it arrives, before it waits. The log may end before the unlock."""
    locked = [
        (7, "LOCK TABLES item WRITE"),
        (7, "UPDATE item SET n = n + 1 WHERE id = 1"),
        (8, "SELECT COUNT(*) FROM item"),
        (7, "/* app */ lock tables `item` AS `i` READ, item WRITE"),
        (7, "SELECT i.n FROM item AS i WHERE i.id = 1"),
        (9, "UPDATE item SET n = n + 1 WHERE id = 1"),
    ]
    lines = [*locked, (7, "UNLOCK TABLES"), (9, "SELECT n FROM item WHERE id = 1"), *locked, (7, "BEGIN"), *locked]
    log = "".join(f"2024-03-01T10:00:00.000000Z\t{number:5} Query\t{sql}\n" for number, sql in lines)
    found, flagged = judge(loaded, tmp_path, GENERAL_LOG + log)
    assert (flagged, found.skipped, found.not_reached, found.tables, found.other_tables) == ({}, {}, 0, 1, {})
    assert [each.text for each in found.digests.values() if each.compared["B"].failed] == []
    assert found.seconds < 20, "nothing has waited for a lock"
    for server in loaded.values():
        assert server.query("SELECT n FROM shop.item WHERE id = 1") == [(ROWS[1][4] + 6,)]


def test_set_names_after_a_comment_does_not_affect_the_answers(loaded, tmp_path):
    """In latin1 both texts would be a question mark."""
    for arm, text in (("A", "日"), ("B", "本")):
        ask(loaded[arm], f"UPDATE item SET title = '{text}' WHERE id = 2")
    found, flagged = judge(
        loaded, tmp_path, "/* app */ /*!40101 SET NAMES latin1 */; SELECT title FROM item WHERE id = 2;"
    )
    assert (found.executed, list(flagged.values())) == (2, [{"rows"}])


def test_several_statements_in_one_text_are_all_run(loaded, tmp_path):
    sql = """
    DELIMITER $$
    INSERT INTO item VALUES (1002, 'two', 3, 0.5, 1, NULL); UPDATE item SET n = 5 WHERE id = 1002$$
    DELIMITER ;
    SELECT n FROM item WHERE id = 1002;
    """
    found, flagged = judge(loaded, tmp_path, sql)
    assert (found.executed, flagged, found.other_tables) == (2, {}, {})
    assert digest(found, "INSERT").compared["B"].failed == {}
    for server in loaded.values():
        assert server.query("SELECT n FROM shop.item WHERE id = 1002") == [(5,)]


def test_statements_beyond_the_time_limit_are_counted(loaded, tmp_path):
    found, _ = judge(loaded, tmp_path, limit_s=0.0)
    assert found.executed + found.not_reached == 15
    assert found.not_reached >= 13


def test_a_lock_wait_is_listed_and_transactions_do_not_mix(loaded, tmp_path):
    text = "".join(
        f"# User@Host: a[a] @ h []  Id: {connection:5}\n"
        "# Query_time: 0.1  Lock_time: 0  Rows_sent: 0  Rows_examined: 0\n"
        f"use shop;\nSET timestamp=1700000000;\n{sql};\n"
        for connection, sql in (
            (8, "BEGIN"),
            (8, "UPDATE item SET n = 0 WHERE id = 1"),
            (9, "UPDATE item SET n = 1 WHERE id = 1"),
            (8, "COMMIT"),
            (9, "SELECT n FROM item WHERE id = 1"),
        )
    )
    found, flagged = judge(loaded, tmp_path, text)
    assert flagged == {}
    assert digest(found, "UPDATE").compared["B"].failed == {"A": 1, "B": 1}
    assert json.loads(found.model_dump_json())["executed"] == 5


@pytest.mark.parametrize("name", ["mysql:5.7.22", "mysql:8.0.15", "mariadb:10.11.19"])
def test_a_captured_session_keeps_the_servers_options(name):
    modes = {"ANSI", "PAD_CHAR_TO_FULL_LENGTH", "NO_BACKSLASH_ESCAPES"}
    options = {"sql_mode": f"'{','.join(modes)}'", "time_zone": "'+05:00'", "sql_select_limit": "1"}
    with servers.sandbox(parse_server(name)) as box:
        with closing(box.instance.connect(own_settings=False)) as connection, connection.cursor() as cursor:
            for option, value in options.items():
                cursor.execute(f"SET GLOBAL {option} = {value}")
        session = Sessions(box.instance, None, now_s=0)
        ((mode, zone, limit),) = session.run({}, b"SELECT @@sql_mode, @@time_zone, @@sql_select_limit").kept
        session.close()
    assert modes <= set(mode.decode().split(","))
    assert (zone, limit) == (b"+05:00", b"1")
