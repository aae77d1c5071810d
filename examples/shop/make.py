#!/usr/bin/env python3
"""A small shop, the same every time: its data as a dump (shop.sql) and its slow log (shop.log) in the folder named.

    examples/shop/make.py FOLDER [--rows 20000] [--statements 60000]

The log has thirteen digests on eight connections; MySQL 8.0 and later refuse two of them.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

CATEGORIES, CUSTOMERS, CONNECTIONS = 40, 2_000, 8
BEGIN_S = 1_795_392_000
COLOURS = ("red", "green", "blue", "black", "white", "grey")
THINGS = ("kettle", "lamp", "chair", "table", "shelf", "clock", "mug", "towel")
SCHEMA = """\
CREATE TABLE category (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL) ENGINE=InnoDB CHARSET=utf8mb4;
CREATE TABLE product (
  id INT PRIMARY KEY, category_id INT NOT NULL, name VARCHAR(80) NOT NULL, price DECIMAL(8,2) NOT NULL,
  stock INT NOT NULL, weight DOUBLE NOT NULL, KEY by_category (category_id, price), KEY by_name (name)
) ENGINE=InnoDB CHARSET=utf8mb4;
CREATE TABLE customer (
  id INT PRIMARY KEY, email VARCHAR(80) NOT NULL, joined DATE NOT NULL, UNIQUE KEY (email)
) ENGINE=InnoDB CHARSET=utf8mb4;
CREATE TABLE orders (
  id INT PRIMARY KEY AUTO_INCREMENT, customer_id INT NOT NULL, placed DATETIME NOT NULL, total DECIMAL(10,2) NOT NULL,
  KEY by_customer (customer_id, placed), KEY by_time (placed)
) ENGINE=InnoDB CHARSET=utf8mb4;
CREATE TABLE item (
  order_id INT NOT NULL, product_id INT NOT NULL, amount INT NOT NULL, PRIMARY KEY (order_id, product_id),
  KEY by_product (product_id)
) ENGINE=InnoDB CHARSET=utf8mb4;
"""
# How often each is part of a visit, and its statements; an order is a transaction.
VISITS = (
    (40, "SELECT id, name, price, stock FROM product WHERE id = {product}"),
    (
        20,
        "SELECT id, name, price FROM product WHERE category_id = {category} AND price > {low} "
        "ORDER BY price, id LIMIT 20",
    ),
    (10, "SELECT id, name FROM product WHERE name LIKE '{colour} {thing}%' ORDER BY id LIMIT 20"),
    (
        12,
        "SELECT o.id, o.placed, o.total, COUNT(*) FROM orders o JOIN item i ON i.order_id = o.id "
        "WHERE o.customer_id = {customer} GROUP BY o.id, o.placed, o.total ORDER BY o.placed DESC, o.id LIMIT 10",
    ),
    (
        10,
        "BEGIN",
        "SELECT stock FROM product WHERE id = {product} FOR UPDATE",
        "INSERT INTO orders (customer_id, placed, total) VALUES ({customer}, NOW(), {low}.50)",
        "INSERT INTO item VALUES (LAST_INSERT_ID(), {product}, 1)",
        "UPDATE product SET stock = stock - 1 WHERE id = {product}",
        "COMMIT",
    ),
    (
        2,
        "SELECT p.category_id, SUM(i.amount * p.price) FROM orders o JOIN item i ON i.order_id = o.id "
        "JOIN product p ON p.id = i.product_id "
        "WHERE o.placed BETWEEN '2026-{month:02d}-01' AND '2026-{month:02d}-03' GROUP BY p.category_id ORDER BY 1",
    ),
    (1, "SELECT category_id, COUNT(*) FROM product WHERE price > {low} GROUP BY category_id DESC"),
    (1, "SELECT COUNT(*) FROM product WHERE category_id = {category} AND name REGEXP '[[:<:]]{thing}[[:>:]]'"),
)


def inserts(table: str, rows: list[str]) -> Iterator[str]:
    """Statements of 500 rows."""
    for first in range(0, len(rows), 500):
        yield f"INSERT INTO {table} VALUES {','.join(rows[first : first + 500])};\n"


def dump(chance: random.Random, products: int) -> Iterator[str]:
    """The statements of the dump."""
    yield SCHEMA
    yield from inserts("category", [f"({i},'{THINGS[i % len(THINGS)]}s {i}')" for i in range(1, CATEGORIES + 1)])
    yield from inserts("product", [
        f"({i},{chance.randint(1, CATEGORIES)},'{chance.choice(COLOURS)} {chance.choice(THINGS)} {i}',"
        f"{chance.randint(100, 99_999) / 100:.2f},{chance.randint(0, 500)},{chance.random() * 30!r})"
        for i in range(1, products + 1)
    ])  # fmt: skip
    yield from inserts("customer", [
        f"({i},'customer{i}@example.com',"
        f"'20{chance.randint(10, 25)}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}')"
        for i in range(1, CUSTOMERS + 1)
    ])  # fmt: skip
    orders = [
        f"({i},{chance.randint(1, CUSTOMERS)},'2026-{chance.randint(1, 11):02d}-{chance.randint(1, 28):02d} "
        f"{chance.randint(0, 23):02d}:{chance.randint(0, 59):02d}:00',{chance.randint(500, 90_000) / 100:.2f})"
        for i in range(1, products + 1)
    ]
    yield from inserts("orders", orders)
    bought = [(i, product) for i in range(1, products + 1) for product in chance.sample(range(1, products + 1), 3)]
    yield from inserts("item", [f"({order},{product},{chance.randint(1, 5)})" for order, product in bought])


def visit(chance: random.Random, products: int) -> list[str]:
    """The statements of one visit."""
    values = {
        "product": chance.randint(1, products), "customer": chance.randint(1, CUSTOMERS),
        "category": chance.randint(1, CATEGORIES), "low": chance.randint(1, 900), "month": chance.randint(1, 9),
        "colour": chance.choice(COLOURS), "thing": chance.choice(THINGS),
    }  # fmt: skip
    _, *statements = chance.choices(VISITS, [weight for weight, *_ in VISITS])[0]
    return [sql.format(**values) for sql in statements]


def log(chance: random.Random, products: int, statements: int) -> Iterator[str]:
    """The events of the slow log, as MySQL 5.7 writes it."""
    yield "/usr/sbin/mysqld, Version: 5.7.22-log (MySQL Community Server (GPL)). started with:\n"
    yield "Tcp port: 3306  Unix socket: mysql.sock\nTime                 Id Command    Argument\n"
    at_us, written = 0, 0
    while written < statements:
        connection = 8 + chance.randrange(CONNECTIONS)
        for sql in visit(chance, products):
            at_us += chance.randint(200, 4_000)
            took_us = chance.randint(60, 900)
            second, rest = divmod(at_us + took_us, 1_000_000)
            clock = f"2026-11-23T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{rest:06d}Z"
            yield f"# Time: {clock}\n# User@Host: shop[shop] @ app1 [10.0.0.1]  Id: {connection:5d}\n"
            yield f"# Query_time: {took_us / 1e6:.6f}  Lock_time: 0.000030 Rows_sent: 1  Rows_examined: 1\n"
            yield "" if written else "use shop;\n"
            yield f"SET timestamp={BEGIN_S + second};\n{sql};\n"
            written += 1


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=20_000, help="products, and orders")
    parser.add_argument("--statements", type=int, default=60_000)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(7)
    for name, lines in (
        ("shop.sql", dump(chance, arguments.rows)),
        ("shop.log", log(chance, arguments.rows, arguments.statements)),
    ):
        with (arguments.folder / name).open("w", encoding="utf-8") as file:
            file.writelines(lines)


if __name__ == "__main__":
    main()
