"""A slow log of any size, as MySQL 8.0 writes it: reads and writes of a shop, 200 digests, 64 connections."""

import random
from collections.abc import Iterator
from pathlib import Path

CONNECTIONS, TABLES = 64, 20
SEED = 17


def statements(chance: random.Random) -> Iterator[str]:
    """Yield endless SQL: short reads, joins, lists, rows, transactions."""
    while True:
        table, key, name = f"shop_{chance.randrange(TABLES)}", chance.randrange(10**6), chance.randbytes(12).hex()
        kind = chance.random()
        if kind < 0.4:
            yield f"SELECT id, name, price, stock FROM {table} WHERE id = {key}"
        elif kind < 0.55:
            keys = ", ".join(str(chance.randrange(10**6)) for _ in range(chance.randrange(2, 20)))
            yield f"SELECT * FROM {table} WHERE id IN ({keys}) ORDER BY created_at DESC LIMIT {chance.randrange(100)}"
        elif kind < 0.65:
            yield (
                f"SELECT o.id, o.total, c.name, COUNT(*) AS items\n  FROM orders_{chance.randrange(TABLES)} o\n"
                f"  JOIN customers c ON c.id = o.customer_id /* web:{key} */\n WHERE o.state = 'paid' AND o.total > "
                f"{key / 100} AND c.email LIKE '{name}%'\n GROUP BY o.id\nHAVING items > 2"
            )
        elif kind < 0.75:
            rows = ", ".join(f"({key + row}, '{name}', {row}, NULL)" for row in range(chance.randrange(1, 8)))
            yield f"INSERT INTO {table} (order_id, sku, amount, note) VALUES {rows}"
        elif kind < 0.85:
            yield f"UPDATE {table} SET stock = stock - 1, changed_at = NOW(), note = 'it''s {name}' WHERE id = {key}"
        else:
            yield chance.choice(("BEGIN", "COMMIT", "COMMIT"))


def write_slow_log(path: Path, size_bytes: int) -> int:
    """Write events until the file has this size; returns how many."""
    chance = random.Random(SEED)
    # Drawing every event anew would take ten minutes for a gigabyte.
    sample = statements(chance)
    pool = [next(sample) for _ in range(20_000)]
    events, written, second, micro = 0, 0, 0, 0
    with path.open("w", encoding="utf-8") as log:
        log.write("/usr/sbin/mysqld, Version: 8.0.33 (MySQL Community Server - GPL). started with:\n")
        log.write("Tcp port: 3306  Unix socket: /run/mysqld/mysqld.sock\nTime                 Id Command    Argument\n")
        while written < size_bytes:
            micro += 937
            second, micro = second + micro // 1_000_000, micro % 1_000_000
            took = (events * 7919 % 1000 + 40) * 1e-6
            hour, minute = second // 3600 % 24, second // 60 % 60
            event = (
                f"# Time: 2026-11-23T{hour:02d}:{minute:02d}:{second % 60:02d}.{micro:06d}Z\n"
                f"# User@Host: shop[shop] @ app{events % 8}.example [10.0.0.1]  Id: {events % CONNECTIONS + 8:5d}\n"
                f"# Query_time: {took:.6f}  Lock_time: 0.000002 Rows_sent: {events % 9}  Rows_examined: {events % 97}\n"
                f"SET timestamp={1795392000 + second};\n{pool[events * 7 % len(pool)]};\n"
            )
            written += log.write(event)
            events += 1
    return events
