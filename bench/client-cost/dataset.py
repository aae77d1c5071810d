"""The tables: made by SQL alone, so that no client under test has a part in it."""

import pymysql
from case import Server


def require_tables(server: Server, tables: int, table_size: int) -> int:
    """Make what is missing or has another size; returns how many tables were made."""
    made = 0
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS `{server.database}`")
            cursor.execute(f"USE `{server.database}`")
            for number in range(1, tables + 1):
                if not _is_whole(cursor, number, table_size):
                    _make(cursor, number, table_size)
                    made += 1
    finally:
        connection.close()
    return made


def _is_whole(cursor: pymysql.cursors.Cursor, number: int, table_size: int) -> bool:
    cursor.execute(f"SHOW TABLES LIKE 'sbtest{number}'")
    if not cursor.fetchall():
        return False
    cursor.execute(f"SELECT COUNT(*), MIN(id), MAX(id) FROM sbtest{number}")
    return bool(cursor.fetchone() == (table_size, 1, table_size))


def _make(cursor: pymysql.cursors.Cursor, number: int, table_size: int) -> None:
    group = "LPAD(FLOOR(RAND()*100000000000), 11, '0')"
    c, pad = (f"CONCAT_WS('-', {', '.join([group] * count)})" for count in (10, 5))
    digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
    places = len(str(table_size - 1))
    numbers = " + ".join(f"t{place}.d * {10**place}" for place in range(places))
    sources = ", ".join(f"({digits}) AS t{place}" for place in range(places))
    cursor.execute(f"DROP TABLE IF EXISTS sbtest{number}")
    cursor.execute(
        f"CREATE TABLE sbtest{number} (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT 0 NOT NULL,"
        " c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id))"
        " ENGINE=InnoDB DEFAULT CHARSET=latin1"
    )
    cursor.execute(
        f"INSERT INTO sbtest{number} (id, k, c, pad) SELECT n + 1, 1 + FLOOR(RAND()*{table_size}), {c}, {pad}"
        f" FROM (SELECT {numbers} AS n FROM {sources}) AS numbers WHERE n < {table_size} ORDER BY n"
    )
    cursor.execute(f"CREATE INDEX k_{number} ON sbtest{number} (k)")
    cursor.execute(f"ANALYZE TABLE sbtest{number}")
    cursor.fetchall()
