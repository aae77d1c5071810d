"""The engine's counts checked against the server's own."""

import pytest
from tpcc_epochs import epoch_of

from bakeoff.run.epoch import UnreliableCountError, discards_epoch
from bakeoff.tpcc.measuring import read_counts
from bakeoff.tpcc.results import ServerCounts, missing_on_server

COUNTED = {
    "new_order": 10_000, "new_order.rollback": 100, "payment": 10_000, "order_status": 1_000, "delivery": 1_000,
    "stock_level": 1_000,
}  # fmt: skip
BEFORE = ServerCounts(next_order_ids=60_020, commits=5, rollbacks=0)
EXACT = ServerCounts(next_order_ids=69_920, commits=22_905, rollbacks=100)


def missing(after):
    return missing_on_server(epoch_of(COUNTED).histograms, BEFORE, after)


def test_the_server_has_at_least_what_was_counted():
    assert missing(EXACT) == ""
    assert missing(ServerCounts(next_order_ids=70_920, commits=24_905, rollbacks=120)) == ""


@pytest.mark.parametrize("lost", [{"next_order_ids": 69_919}, {"commits": 22_904}])
def test_one_transaction_less_on_the_server_is_found(lost):
    text = missing(EXACT.model_copy(update=lost))
    assert discards_epoch(UnreliableCountError(text))
    assert "9,900 and 22,900 were counted" in text


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
def test_every_set_of_tables_is_queried(options, tables):
    server = Answering()
    assert read_counts(server, "shop", options) == ServerCounts(next_order_ids=30_010, commits=7, rollbacks=1)
    assert all(f"`shop`.{table})" in server.asked[0] for table in tables)
    assert server.asked[0].count("SUM") == len(tables)
