"""Server options do not change the results of bakeoff's own queries."""

from contextlib import closing

import pytest

from bakeoff import servers
from bakeoff.run.data_check import ask_tables
from bakeoff.run.own_data import databases_of
from bakeoff.servers import readiness
from bakeoff.spec import parse_server

pytestmark = pytest.mark.server

MODES = "ANSI,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES"
OPTIONS = {
    "sql_mode": f"'{MODES}'",
    "time_zone": "'+05:00'",
    "sql_select_limit": "1",
    "sql_safe_updates": "1",
    "max_join_size": "1",
    "character_set_results": "latin1",
    "collation_connection": "latin1_general_cs",
}
LIMITS = {"mysql": {"max_execution_time": "1"}, "mariadb": {"max_statement_time": "0.001"}}
ROWS = ", ".join(f"({number}, 'é\\\\{number}', '2026-01-01 12:00:00')" for number in range(5000))
MADE = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    "CREATE TABLE shop.item (id INT PRIMARY KEY, name CHAR(20), sold TIMESTAMP NULL, KEY (name))",
    "CREATE TABLE shop.empty (id INT PRIMARY KEY)",
    f"INSERT INTO shop.item VALUES {ROWS}",
)


def asked(server):
    """Return the results of one query of each kind."""
    return {
        "rows": ask_tables(server, ["shop"]),
        "databases": databases_of(server),
        "scans": [server.query(sql) for sql in readiness.full_scans(server, "shop", "item")],
        "escaped": server.query("SELECT COUNT(*) FROM shop.item WHERE name = %s", ("é\\7",)),
        "time": server.query("SELECT MIN(sold) FROM shop.item"),
    }


@pytest.mark.parametrize("name", ["mysql:5.7.22", "mysql:8.0.15", "mariadb:10.11.19"])
def test_server_options_do_not_change_query_results(name):
    with servers.sandbox(parse_server(name)) as box:
        server = box.instance
        for sql in MADE:
            server.query(sql)
        expected = asked(server)
        assert (expected["databases"], expected["escaped"]) == (("shop",), [(1,)])
        options = OPTIONS | LIMITS[name.partition(":")[0]]
        with closing(server.connect(own_settings=False)) as connection, connection.cursor() as cursor:
            for option, value in options.items():
                cursor.execute(f"SET GLOBAL {option} = {value}")
        assert asked(server) == expected
