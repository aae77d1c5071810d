"""Statements for comparing digests: our own in many forms, and those of the bundled workloads."""

import itertools
import random
from pathlib import Path

TABLES = ("orders", "customers", "`order items`", "shop.orders", "`shop`.`customers`")

PLAIN = Path(__file__).with_name("corpus.sql")

# Statements of one digest each: whatever replaces the placeholders.
SHAPES = (
    "SELECT a FROM {table} WHERE id = {value}",
    "SELECT a, b FROM {table} WHERE a = {value} AND b IN ({values})",
    "SELECT COUNT(*) FROM {table} WHERE a > {value} ORDER BY b LIMIT {number}",
    "UPDATE {table} SET a = {value}, b = {value} WHERE id = {number}",
    "INSERT INTO {table} (a, b) VALUES {rows}",
    "DELETE FROM {table} WHERE a = {value} OR b LIKE {text}",
    "SELECT a FROM {table} WHERE f({value}, {value}) = {number}",
    "SELECT IF(a = {value}, {value}, b) FROM {table} GROUP BY c HAVING c <> {text}",
)


def _value(chance: random.Random) -> str:
    return chance.choice(
        (
            str(chance.randrange(10**6)),
            f"{chance.random():.3f}",
            f"'{chance.randbytes(3).hex()}'",
            "NULL",
            '"x"',
            "0x1f",
        )
    )


def _layout(chance: random.Random, sql: str) -> str:
    """Write the same statement in another layout."""
    ways = (
        lambda text: text,
        lambda text: text.replace(" WHERE ", "\n  WHERE ").replace(" FROM ", "\nFROM "),
        lambda text: text.replace(" WHERE ", " where ").replace("SELECT ", "select "),
        lambda text: "/* app:7 */ " + text,
        lambda text: text + " -- end",
        lambda text: text.replace(", ", " ,"),
    )
    return chance.choice(ways)(sql)


def statements() -> list[str]:
    """Yield statements without end."""
    chance = random.Random(17)
    made = []
    for shape, table in itertools.product(SHAPES, TABLES):
        for _ in range(6):
            rows = ", ".join(f"({_value(chance)}, {_value(chance)})" for _ in range(chance.randrange(1, 5)))
            values = ", ".join(_value(chance) for _ in range(chance.randrange(1, 6)))
            sql = shape.format(
                table=table,
                rows=rows,
                values=values,
                value=_value(chance),
                text="'t%'",
                number=chance.randrange(1, 99),
            )
            made.append(_layout(chance, sql))
    return [*PLAIN.read_text(encoding="utf-8").splitlines()[1:], *made]
