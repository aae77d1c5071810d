"""What `prepare` loads, whatever the character set of the tables and the number of threads."""

import pytest

pytestmark = pytest.mark.server

SIZE = ("--tables=2", "--table_size=6000", "--rand-seed=7")


def rows_of(server) -> list[list[list[str]]]:
    """Count, ends, and a checksum of all columns, of each table."""
    return [
        server.sql(
            "SELECT COUNT(*), MIN(id), MAX(id), MIN(CHAR_LENGTH(c)), SUM(c REGEXP '^[0-9-]+$'), "
            f"SUM(CRC32(CONCAT_WS(',', id, k, CONVERT(c USING utf8), CONVERT(pad USING utf8)))) FROM sbtest{table}"
        )
        for table in (1, 2)
    ]


def test_rows_are_the_same_in_every_character_set_and_with_any_number_of_threads(ours, server):
    found = []
    for charset, threads in (("latin1", 1), ("utf8mb4", 4), ("ucs2", 3), ("utf16", 1)):
        ours("oltp_read_only", *server.options, *SIZE, "cleanup")
        options = (f"--create_table_options=CHARACTER SET {charset}", f"--threads={threads}")
        ran = ours("oltp_read_only", *server.options, *SIZE, *options, "prepare")
        assert ran.code == 0, ran.out
        found.append(rows_of(server))
    assert found[1:] == found[:1] * 3
    assert [row[0][:5] for row in found[0]] == [["6000", "1", "6000", "119", "6000"]] * 2
    assert found[0][0] != found[0][1]
    ours("oltp_read_only", *server.options, *SIZE, "cleanup")


def test_auto_increment_continues_after_the_loaded_rows(ours, server):
    for auto_inc in ("on", "off"):
        ours("oltp_read_only", *server.options, *SIZE, f"--auto_inc={auto_inc}", "--threads=3", "prepare")
        extra = "" if auto_inc == "on" else "id, "
        value = "" if auto_inc == "on" else "6001, "
        server.sql(f"INSERT INTO sbtest1 ({extra}k, c, pad) VALUES ({value}1, 'a', 'b')")
        assert server.sql("SELECT MAX(id) FROM sbtest1") == [["6001"]]
        ours("oltp_read_only", *server.options, *SIZE, "cleanup")
