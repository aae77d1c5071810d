"""A small shop: its tables, and what its visitors do. Eight connections, thirteen digests.

MySQL 8.0 and later refuse two of them; an order is a transaction.
"""

import random
from collections.abc import Iterator

CATEGORIES, CUSTOMERS = 40, 2_000
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


def tables(chance: random.Random, rows: int) -> Iterator[tuple[str, list[str]]]:
    """Each table's name and rows: so many products, as many orders."""
    yield "category", [f"({i},'{THINGS[i % len(THINGS)]}s {i}')" for i in range(1, CATEGORIES + 1)]
    yield "product", [
        f"({i},{chance.randint(1, CATEGORIES)},'{chance.choice(COLOURS)} {chance.choice(THINGS)} {i}',"
        f"{chance.randint(100, 99_999) / 100:.2f},{chance.randint(0, 500)},{chance.random() * 30!r})"
        for i in range(1, rows + 1)
    ]  # fmt: skip
    yield "customer", [
        f"({i},'customer{i}@example.com',"
        f"'20{chance.randint(10, 25)}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}')"
        for i in range(1, CUSTOMERS + 1)
    ]  # fmt: skip
    yield "orders", [
        f"({i},{chance.randint(1, CUSTOMERS)},'2026-{chance.randint(1, 11):02d}-{chance.randint(1, 28):02d} "
        f"{chance.randint(0, 23):02d}:{chance.randint(0, 59):02d}:00',{chance.randint(500, 90_000) / 100:.2f})"
        for i in range(1, rows + 1)
    ]  # fmt: skip
    bought = [(i, product) for i in range(1, rows + 1) for product in chance.sample(range(1, rows + 1), 3)]
    yield "item", [f"({order},{product},{chance.randint(1, 5)})" for order, product in bought]


def values(chance: random.Random, rows: int) -> dict[str, object]:
    """What one visit asks for."""
    return {
        "product": chance.randint(1, rows), "customer": chance.randint(1, CUSTOMERS),
        "category": chance.randint(1, CATEGORIES), "low": chance.randint(1, 900), "month": chance.randint(1, 9),
        "colour": chance.choice(COLOURS), "thing": chance.choice(THINGS),
    }  # fmt: skip
