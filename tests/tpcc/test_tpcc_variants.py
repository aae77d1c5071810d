"""Options that change which tables are created or how statements are sent, on a real server."""

import pytest

from bakeoff.errors import EngineError

pytestmark = pytest.mark.server

SERVER = "mysql:8.0.15"


def empty(open_shop, database):
    opened = open_shop(SERVER)
    return type(opened)(opened.engine, opened.instance, database)


@pytest.fixture
def shop(open_shop):
    """An empty database."""
    variant = empty(open_shop, "variants")
    variant.open()
    yield variant
    variant.sql("DROP DATABASE variants")


@pytest.fixture(scope="module")
def just_filled(open_shop):
    """Load one warehouse; returns it with its rows and indexes after loading."""
    variant = empty(open_shop, "filled")
    variant.open()
    variant.command("prepare", threads=4)
    yield variant, checksums(variant), indexes(variant)
    variant.sql("DROP DATABASE filled")


@pytest.fixture
def filled(loaded_shop):
    """Load one warehouse for tests that leave it consistent."""
    return loaded_shop(SERVER)[0]


def tables(shop):
    return {row[0] for row in shop.sql("SHOW TABLES")}


def checksums(shop):
    names = ", ".join(sorted(tables(shop)))
    return {row[0].rsplit(".", 1)[1]: row[1] for row in shop.sql(f"CHECKSUM TABLE {names}")}


def indexes(shop):
    listed = "SELECT table_name, index_name, column_name, seq_in_index FROM information_schema.statistics"
    return sorted(shop.sql(f"{listed} WHERE table_schema = DATABASE()"))


@pytest.mark.slow
def test_loads_are_equal_for_any_number_of_threads_and_index_order(just_filled, shop):
    _, first, indexed = just_filled
    assert len(first) == 9
    shop.command("prepare", threads=1, load_index="before", prepared="off")
    assert (checksums(shop), indexes(shop)) == (first, indexed)
    shop.command("cleanup")
    assert tables(shop) == set()
    shop.command("prepare", threads=4, seed=8)
    other = checksums(shop)
    assert not set(other.items()) & set(first.items()) - {("new_orders", first["new_orders"])}


def test_every_prepare_and_statement_mode_leaves_the_conditions_intact(filled):
    for prepare_mode in ("server", "client"):
        filled.open(prepare_mode=prepare_mode)
        for statements in ("single", "multi"):
            for more in ({"prepared": "auto"}, {"prepared": "off", "trx_level": "RC"}):
                measured = filled.run(seconds=0.5, slice_ns=500_000_000, statements=statements, **more)
                assert sum(each["events"] for each in measured.slices) > 0
    assert filled.failed_conditions() == set()


@pytest.mark.slow
@pytest.mark.parametrize("level", ["RR", "RC", "SER"])
def test_deliveries_go_on_when_the_queues_run_low(filled, level):
    filled.open()
    while filled.number("SELECT COUNT(*) FROM new_orders") > 100:
        filled.run(seconds=2.0, threads=1, mix="0,0,0,1,0")
    measured = filled.run(seconds=3.0, threads=8, mix="1,0,0,3,0", trx_level=level)
    counts = {each["operation"]: each["count"] for each in measured.histograms}
    assert counts["delivery.skipped"] > 0  # an order is delivered as soon as it is committed
    assert filled.failed_conditions() == set()


@pytest.mark.slow
def test_several_table_sets_work_with_other_names_and_without_foreign_keys(shop):
    options = {"tables": 2, "new_order_table": "new_order", "use_fk": False, "force_pk": True}
    shop.command("prepare", **options)
    assert {"warehouse1", "new_order2", "order_line2"} <= tables(shop)
    assert len(tables(shop)) == 18
    keys = "SELECT COUNT(*) FROM information_schema.key_column_usage WHERE table_schema = 'variants'"
    assert shop.number(f"{keys} AND referenced_table_name IS NOT NULL") == 0
    for number in (1, 2):  # every arm has these keys, whatever the order in which its threads loaded
        numbered = f"SELECT COUNT(*) FROM history{number} WHERE h_id = (h_d_id - 1) * 3000 + h_c_id"
        assert shop.number(numbered) == 30000
    shop.run(threads=2, **options)
    assert shop.failed_conditions(**options) == set()
    assert shop.number("SELECT COUNT(*) FROM history1 WHERE h_id > 30000") > 0
    grown = [shop.number(f"SELECT SUM(d_next_o_id) - 30010 FROM district{n}") for n in (1, 2)]
    assert all(orders > 0 for orders in grown), grown


@pytest.mark.slow
def test_terminals_cover_all_warehouses_and_few_order_lines_are_remote(shop):
    shop.command("prepare", scale=2)
    grown = "SELECT COUNT(*) FROM (SELECT d_w_id FROM district GROUP BY d_w_id HAVING SUM(d_next_o_id) > 30010) homes"
    shop.run(threads=1, scale=2, seconds=1.0, mix="1,0,0,0,0")
    assert shop.number(grown) == 2  # one thread has both, so that neither lies idle
    shop.sql("UPDATE district SET d_next_o_id = 3001", "DELETE FROM order_line WHERE ol_o_id > 3000")
    shop.sql("DELETE FROM new_orders WHERE no_o_id > 3000", "DELETE FROM orders WHERE o_id > 3000")
    shop.run(threads=1, scale=1, seconds=1.0, mix="1,0,0,0,0")
    assert shop.number(grown) == 1
    # One Order-Line in a hundred is supplied from elsewhere, and the stock there says so.
    shop.run(threads=2, scale=2, mix="1,0,0,0,0")
    remote, ordered = shop.sql("SELECT SUM(s_remote_cnt), SUM(s_order_cnt) FROM stock")[0]
    assert 0.002 < remote / ordered < 0.03


def test_a_lock_wait_is_retried_and_reported_by_type(filled):
    shop = filled
    shop.open()
    blocker = shop.instance.connect()
    try:
        shop.sql("SET GLOBAL innodb_lock_wait_timeout = 1")
        with blocker.cursor() as cursor:
            cursor.execute(f"USE {shop.database}")
            cursor.execute("SET innodb_lock_wait_timeout = 50")
            cursor.execute("BEGIN")
            cursor.execute("UPDATE district SET d_tax = d_tax WHERE d_id = 1")
            # Payments and New-Orders of district 1 wait until the row is given back, by the sleeping connection's end.
            cursor.execute("SELECT CONNECTION_ID()")
            (number,) = cursor.fetchone()
            shop.sql("DROP EVENT IF EXISTS release_it", "SET GLOBAL event_scheduler = ON")
            shop.sql(f"CREATE EVENT release_it ON SCHEDULE AT NOW() + INTERVAL 3 SECOND DO KILL {number}")
            measured = shop.run(seconds=5.0, slice_ns=500_000_000, mix="1,1,0,0,0")
    finally:
        blocker.close()
        shop.sql("SET GLOBAL innodb_lock_wait_timeout = 50", "SET GLOBAL event_scheduler = OFF")
    counts = {each["operation"]: each["count"] for each in measured.histograms}
    errors = sum(sum(each["errors"].values()) for each in measured.slices)
    retried = counts.get("new_order.retried", 0) + counts.get("payment.retried", 0)
    assert 1 <= retried <= errors
    assert shop.failed_conditions() == set()


def test_a_run_without_tables_is_a_clear_error(shop):
    with pytest.raises(EngineError, match=r"warehouse' doesn't exist|no such table"):
        shop.run()
