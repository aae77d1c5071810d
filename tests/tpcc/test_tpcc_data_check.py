"""The engine's counts checked against the server's own."""

from dataclasses import replace

import pytest
from tpcc_epochs import CELL, epoch_of

from bakeoff.results.epoch_data import Reading, ServerCounts
from bakeoff.run.epoch import UnreliableCountError, discards_epoch
from bakeoff.tpcc.measuring import read_counts
from bakeoff.tpcc.results import compare_counts, cross_checks

COUNTED = {
    "new_order": 10_000, "new_order.rollback": 100, "payment": 10_000, "order_status": 1_000, "delivery": 1_000,
    "stock_level": 1_000,
}  # fmt: skip
BEFORE = ServerCounts(next_order_ids=60_020, commits=5, rollbacks=0)
EXACT = ServerCounts(next_order_ids=69_920, commits=22_905, rollbacks=100)


def compared(after):
    return compare_counts(epoch_of(COUNTED).histograms, [Reading(before=BEFORE, after=after)])


def test_the_server_has_at_least_what_was_counted():
    exact = compared(EXACT)
    assert exact.agrees
    assert (exact.counted_new_orders, exact.server_new_orders) == (9_900, 9_900)
    assert exact.uncounted_share == 0
    with_guards = compared(ServerCounts(next_order_ids=70_920, commits=24_905, rollbacks=120))
    assert with_guards.agrees
    assert with_guards.uncounted_share == pytest.approx(1_000 / 10_900)


@pytest.mark.parametrize("lost", [{"next_order_ids": 69_919}, {"commits": 22_904}])
def test_one_transaction_less_on_the_server_is_found(lost):
    check = compared(EXACT.model_copy(update=lost))
    assert not check.agrees
    assert discards_epoch(UnreliableCountError(str(check)))
    assert "9,900 and 22,900 were counted" in str(check)


def test_rounds_of_one_epoch_add_up():
    between = ServerCounts(next_order_ids=65_000, commits=12_000, rollbacks=50)
    later = ServerCounts(next_order_ids=80_000, commits=40_000, rollbacks=50)
    end = ServerCounts(next_order_ids=84_920, commits=50_905, rollbacks=100)
    readings = [Reading(before=BEFORE, after=between), Reading(before=later, after=end)]
    check = compare_counts(epoch_of(COUNTED).histograms, readings)
    assert (check.server_new_orders, check.server_commits, check.agrees) == (9_900, 22_900, True)


def test_checks_come_from_what_the_run_directory_keeps():
    kept = {"A": {CELL: [Reading(before=BEFORE, after=EXACT)]}}
    epochs = [replace(epoch_of(COUNTED, epoch=0), server_counts=kept), epoch_of(COUNTED, epoch=1)]
    found = cross_checks(epochs)
    assert list(found) == [(CELL, "A")]
    assert [check.agrees for check in found[CELL, "A"]] == [True]


class Answering:
    """A server that remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def query(self, sql):
        self.asked.append(sql)
        return [(30_010,)]

    def status(self):
        return {"Com_commit": "7", "Com_rollback": "1"}


@pytest.mark.parametrize(
    ("options", "tables"),
    [
        ({}, ["district"]),
        ({"tables": 1, "table_suffix": "always"}, ["district1"]),
        ({"tables": 2}, ["district1", "district2"]),
    ],
)
def test_all_sets_of_tables_are_asked(options, tables):
    server = Answering()
    assert read_counts(server, "shop", options) == ServerCounts(next_order_ids=30_010, commits=7, rollbacks=1)
    assert all(f"`shop`.{table})" in server.asked[0] for table in tables)
    assert server.asked[0].count("SUM") == len(tables)
