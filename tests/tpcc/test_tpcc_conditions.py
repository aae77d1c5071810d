"""The twelve consistency conditions on real servers: they hold after load and run, and each finds its corruption."""

import pytest

pytestmark = pytest.mark.server

MORE_SERVERS = ["mysql:5.5", "mysql:5.6", "mysql:5.7.22", "mysql:9", "mariadb:10.11", "mariadb:11.8"]

ROWS = {
    "warehouse": 1,
    "district": 10,
    "item": 100_000,
    "stock": 100_000,
    "customer": 30_000,
    "history": 30_000,
    "orders": 30_000,
    "new_orders": 9_000,
}


# How to corrupt the data ({} is +) and undo it (-), and the conditions that then fail, including the one under test.
CORRUPTIONS = {
    1: ("UPDATE district SET d_ytd = d_ytd {} 0.01 WHERE d_id = 3", {1, 9}),
    2: ("UPDATE district SET d_next_o_id = d_next_o_id {} 1 WHERE d_id = 3", {2}),
    3: (
        "UPDATE new_orders SET no_o_id = no_o_id {0} 1 WHERE no_d_id = 3 AND no_o_id = IF('{0}' = '+', 3000, 3001)",
        {2, 3, 5},
    ),
    4: ("UPDATE orders SET o_ol_cnt = o_ol_cnt {} 1 WHERE o_d_id = 3 AND o_id = 5", {4, 6}),
    5: ("UPDATE orders SET o_carrier_id = IF('{}' = '+', NULL, 4) WHERE o_d_id = 3 AND o_id = 5", {5, 7}),
    6: ("UPDATE orders SET o_ol_cnt = o_ol_cnt {} IF(o_id = 5, 1, -1) WHERE o_d_id = 3 AND o_id IN (5, 6)", {6}),
    7: (
        "UPDATE order_line SET ol_delivery_d = IF('{}' = '+', NULL, '2026-01-01') "
        "WHERE ol_d_id = 3 AND ol_o_id = 5 AND ol_number = 2",
        {7},
    ),
    8: ("UPDATE warehouse SET w_ytd = w_ytd {} 0.01", {1, 8}),
    9: ("UPDATE history SET h_d_id = h_d_id {} 1 WHERE h_c_d_id = 3 AND h_c_id = 5", {9}),
    10: (
        "UPDATE customer SET c_balance = c_balance {0} 0.01, c_ytd_payment = c_ytd_payment {0} -0.01 "
        "WHERE c_d_id = 3 AND c_id = 5",
        {10},
    ),
    11: ("UPDATE customer SET c_delivery_cnt = c_delivery_cnt {} 1 WHERE c_d_id = 3 AND c_id = 5", {11}),
    12: ("UPDATE customer SET c_ytd_payment = c_ytd_payment {} 0.01 WHERE c_d_id = 3 AND c_id = 5", {12}),
}


def test_server_limits_do_not_affect_the_check(loaded_shop):
    shop, _ = loaded_shop("mysql:8.0.15")
    try:
        shop.sql("SET GLOBAL sql_select_limit = 1", "SET GLOBAL max_execution_time = 1", "SET GLOBAL max_join_size = 1")
        assert shop.failed_conditions() == set()
    finally:
        shop.sql(
            *(f"SET GLOBAL {name} = DEFAULT" for name in ("sql_select_limit", "max_execution_time", "max_join_size"))
        )


@pytest.mark.parametrize("condition", CORRUPTIONS)
def test_an_injected_corruption_is_found(loaded_shop, condition):
    shop, _ = loaded_shop("mysql:8.0.15")
    statement, failing = CORRUPTIONS[condition]
    assert condition in failing
    off = "SET foreign_key_checks = 0"
    try:
        shop.sql(off, statement.format("+"))
        assert shop.failed_conditions() == failing
    finally:
        shop.sql(off, statement.format("-"))  # the next corruption would notice if anything stayed broken


def test_a_missing_warehouse_is_found(loaded_shop):
    shop, _ = loaded_shop("mysql:8.0.15")
    assert shop.failed_conditions(scale=2) == {1}


def test_a_lost_order_line_and_a_lost_history_row_are_found(loaded_shop):
    shop, _ = loaded_shop("mysql:8.0.15")
    shop.sql("CREATE TABLE kept AS SELECT * FROM order_line WHERE ol_d_id = 3 AND ol_o_id = 3000 AND ol_number = 1")
    shop.sql("CREATE TABLE paid AS SELECT * FROM history WHERE h_c_d_id = 4 AND h_c_id = 7")
    try:
        shop.sql("DELETE FROM order_line WHERE ol_d_id = 3 AND ol_o_id = 3000 AND ol_number = 1")
        assert shop.failed_conditions() == {4, 6}
        shop.sql("DELETE FROM history WHERE h_c_d_id = 4 AND h_c_id = 7")
        assert shop.failed_conditions() == {4, 6, 8, 9, 10}
    finally:
        shop.sql("INSERT INTO order_line SELECT * FROM kept", "INSERT INTO history SELECT * FROM paid")
        shop.sql("DROP TABLE kept", "DROP TABLE paid")  # the run below would notice if anything stayed broken


# Last, since a run changes what the corruptions above expect.


def holds_after_load_and_run(shop, progress):
    assert {table: shop.number(f"SELECT COUNT(*) FROM {table}") for table in ROWS} == ROWS
    lines = shop.number("SELECT COUNT(*) FROM order_line")
    assert lines == shop.number("SELECT SUM(o_ol_cnt) FROM orders")
    assert progress["rows"] == (sum(ROWS.values()) + lines,) * 2
    assert shop.failed_conditions() == set()

    more, outside, counts = shop.uncounted_orders()
    assert all(counts[kind] > 0 for kind in ("new_order", "payment", "order_status", "delivery", "stock_level"))
    assert 0 <= more <= outside
    assert shop.uncounted_orders(threads=1)[:2] == (0, 0)
    assert shop.failed_conditions() == set()


def test_all_conditions_hold_after_load_and_run(loaded_shop):
    holds_after_load_and_run(*loaded_shop("mysql:8.0.15"))


@pytest.mark.slow
@pytest.mark.parametrize("server", MORE_SERVERS)
def test_all_conditions_hold_on_every_version(loaded_shop, server):
    holds_after_load_and_run(*loaded_shop(server))
