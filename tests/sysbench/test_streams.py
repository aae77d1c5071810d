"""The same SQL as the original, seen from the server: its general log of each bundled workload."""

import re
from collections import Counter

import pytest

pytestmark = pytest.mark.server

# Options that leave nothing to chance but the texts: one table of one row, so every drawn id is 1.
ONE_ROW = ("--tables=1", "--table_size=1")
MANY_ROWS = ("--tables=3", "--table_size=500")

TRANSACTIONS = [
    "oltp_read_only",
    "oltp_read_write",
    "oltp_write_only",
    "oltp_point_select",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_insert",
    "oltp_delete",
]
OTHERS = ["select_random_points", "select_random_ranges"]
# Reads, writes and others of a transaction.
COUNTED = {
    "oltp_read_only": (14, 0, 2),
    "oltp_read_write": (14, 4, 2),
    "oltp_write_only": (0, 4, 2),
    "oltp_point_select": (1, 0, 0),
    "oltp_update_non_index": (0, 1, 0),
    "oltp_insert": (0, 1, 0),
}


@pytest.fixture
def tables(ours, server, request):
    """Tables made by our `prepare`."""
    workload, size = request.param
    ours(workload, *server.options, *size, "cleanup")
    ran = ours(workload, *server.options, *size, "--rand-seed=5", "prepare")
    assert ran.code == 0, ran.out
    yield workload, size
    assert ours(workload, *server.options, *size, "cleanup").code == 0


def without_texts(statement: str) -> str:
    """Replace the digits of random texts by #, since the two programs draw different random numbers."""
    statement = re.sub(r"'[\d-]{20,}'", lambda match: "'" + re.sub(r"\d", "#", match[0][1:-1]) + "'", statement)
    return statement.upper().replace(", ", ",").replace(" ,", ",")


def shape(statement: str) -> str:
    """The statement with every number as N."""
    return re.sub(r"\d+", "N", without_texts(statement))


@pytest.mark.parametrize("tables", [(name, ONE_ROW) for name in TRANSACTIONS], indirect=True, ids=TRANSACTIONS)
def test_the_stream_matches_the_original_statement_by_statement(ours, original, server, tables):
    workload, size = tables
    extra = ("--skip_trx=off", "--range_size=7") if workload == "oltp_read_only" else ()
    # k is drawn between 1 and table_size; the ids come from AUTO_INCREMENT.
    alike = shape if workload == "oltp_insert" else without_texts
    for mode in ("auto", "disable"):
        run = (workload, *server.options, *size, *extra, f"--db-ps-mode={mode}", "--events=3", "--time=0", "run")
        mine, theirs = (server.statements_of(lambda c=command, r=run: c(*r)) for command in (ours, original))
        assert mine
        assert list(map(alike, mine)) == list(map(alike, theirs)), mode


@pytest.mark.parametrize(
    "tables", [(name, MANY_ROWS) for name in TRANSACTIONS + OTHERS], indirect=True, ids=TRANSACTIONS + OTHERS
)
def test_the_statement_mix_and_its_counts_match_the_original(ours, original, server, tables):
    workload, size = tables
    run = (workload, *server.options, *size, "--events=60", "--time=0", "run")
    rans = []
    mine, theirs = (
        Counter(map(shape, server.statements_of(lambda c=command: rans.append(c(*run)))))
        for command in (ours, original)
    )
    assert mine == theirs
    assert sum(mine.values()) >= 60
    for ran in rans if workload in COUNTED else ():
        assert tuple(ran.number(kind) / 60 for kind in ("read:", "write:", "other:")) == COUNTED[workload]
        assert ran.number("transactions:") == 60


def test_bulk_insert_fills_the_same_tables(ours, original, server):
    found = []
    for command in (ours, original):
        command("bulk_insert", *server.options, "--threads=2", "cleanup")
        assert command("bulk_insert", *server.options, "--threads=2", "prepare").code == 0
        ran = command("bulk_insert", *server.options, "--threads=2", "--events=5000", "--time=0", "run")
        assert ran.code == 0, ran.out
        found.append([server.sql(f"SHOW CREATE TABLE sbtest{table}") for table in (1, 2)])
        counts = [int(server.sql(f"SELECT COUNT(*) FROM sbtest{table}")[0][0]) for table in (1, 2)]
        assert sum(counts) == 5000
        assert command("bulk_insert", *server.options, "--threads=2", "cleanup").code == 0
    assert found[0] == found[1]


@pytest.mark.parametrize("extra", [(), ("--auto_inc=off",), ("--create_secondary=off",), ("--secondary=on",)], ids=str)
def test_prepare_makes_the_originals_tables(ours, original, server, extra):
    size = ("--tables=2", "--table_size=700", "--threads=2")
    found = []
    for command in (ours, original):
        assert command("oltp_read_only", *server.options, *size, *extra, "prepare").code == 0
        tables = [
            (
                server.sql(f"SHOW CREATE TABLE sbtest{table}"),
                server.sql(f"SELECT COUNT(*), MIN(id), MAX(id), MIN(LENGTH(c)), MAX(LENGTH(pad)) FROM sbtest{table}"),
                server.sql(f"SELECT COUNT(*) FROM sbtest{table} WHERE k BETWEEN 1 AND 700"),
            )
            for table in (1, 2)
        ]
        found.append(tables)
        assert command("oltp_read_only", *server.options, *size, "cleanup").code == 0
    assert found[0] == found[1]
    assert server.sql("SHOW TABLES") == []
