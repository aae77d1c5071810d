"""A part of the load that waits too long for a lock is loaded again, whole and once."""

import threading
import time
from dataclasses import replace

import pytest

pytestmark = pytest.mark.server

SERVER = "mysql:8.0.15"
LOCK_WAIT_S = 1
LIMIT_S = 60.0


@pytest.fixture
def contended_shop(open_shop):
    """An empty database on a server where a wait for a table ends after a second."""
    shop = replace(open_shop(SERVER), database="tpcc_contended")
    shop.open()
    shop.sql(f"SET GLOBAL lock_wait_timeout = {LOCK_WAIT_S}")
    yield shop
    shop.sql("SET GLOBAL lock_wait_timeout = DEFAULT", f"DROP DATABASE {shop.database}")


def hold(shop, table, rolled_back_before):
    """Lock a table as soon as it exists, until a part of the load that waits for it has given up."""
    connection = shop.instance.connect()
    until = time.monotonic() + LIMIT_S
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"USE {shop.database}")
            while not cursor.execute(f"SHOW TABLES LIKE '{table}'") and time.monotonic() < until:
                time.sleep(0.005)
            cursor.execute(f"SET SESSION lock_wait_timeout = {LIMIT_S:.0f}")
            cursor.execute(f"LOCK TABLES {table} WRITE")
            while rollbacks(shop) == rolled_back_before and time.monotonic() < until:
                time.sleep(0.1)
    finally:
        connection.close()


def rollbacks(shop):
    return int(shop.sql("SHOW GLOBAL STATUS LIKE 'Com_rollback'")[0][1])


def test_a_part_that_waited_too_long_is_loaded_again(contended_shop):
    before = rollbacks(contended_shop)
    holder = threading.Thread(target=hold, args=(contended_shop, "order_line", before))
    holder.start()
    try:
        progress = contended_shop.command("prepare")
    finally:
        holder.join()
    assert rollbacks(contended_shop) > before
    rows, total = progress["rows"]
    assert rows == total
    assert contended_shop.number("SELECT COUNT(*) FROM orders") == 30_000
    assert contended_shop.number("SELECT COUNT(*) FROM history") == 30_000
    assert contended_shop.failed_conditions() == set()
