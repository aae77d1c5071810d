#!/usr/bin/env python3
"""Make an example, the same every time: its data as a dump and its slow log, NAME.sql and NAME.log in the folder.

    examples/make.py shop|wiki FOLDER [--rows 20000] [--statements 60000]

An example is a module beside this one: `SCHEMA`, the rows of its `tables`, `VISITS` and the `values` of one of these.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import shop
import wiki

EXAMPLES = {"shop": shop, "wiki": wiki}
CONNECTIONS = 8
BEGIN_S = 1_795_392_000


def dump(chance: random.Random, example: ModuleType, rows: int) -> Iterator[str]:
    """The statements of the dump; an INSERT has 500 rows."""
    yield example.SCHEMA
    for table, lines in example.tables(chance, rows):
        for first in range(0, len(lines), 500):
            yield f"INSERT INTO {table} VALUES {','.join(lines[first : first + 500])};\n"


def visit(chance: random.Random, example: ModuleType, rows: int) -> list[str]:
    """The statements of one visit."""
    values = example.values(chance, rows)
    _, *statements = chance.choices(example.VISITS, [weight for weight, *_ in example.VISITS])[0]
    return [sql.format(**values) for sql in statements]


def log(chance: random.Random, example: ModuleType, rows: int, statements: int) -> Iterator[str]:
    """The events of the slow log, as MySQL 5.7 writes it."""
    name = example.__name__
    yield "/usr/sbin/mysqld, Version: 5.7.22-log (MySQL Community Server (GPL)). started with:\n"
    yield "Tcp port: 3306  Unix socket: mysql.sock\nTime                 Id Command    Argument\n"
    at_us, written = 0, 0
    while written < statements:
        connection = 8 + chance.randrange(CONNECTIONS)
        for sql in visit(chance, example, rows):
            at_us += chance.randint(200, 4_000)
            took_us = chance.randint(60, 900)
            second, rest = divmod(at_us + took_us, 1_000_000)
            clock = f"2026-11-23T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{rest:06d}Z"
            yield f"# Time: {clock}\n# User@Host: {name}[{name}] @ app1 [10.0.0.1]  Id: {connection:5d}\n"
            yield f"# Query_time: {took_us / 1e6:.6f}  Lock_time: 0.000030 Rows_sent: 1  Rows_examined: 1\n"
            yield "" if written else f"use {name};\n"
            yield f"SET timestamp={BEGIN_S + second};\n{sql};\n"
            written += 1


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", choices=EXAMPLES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=20_000, help="products and orders; pages")
    parser.add_argument("--statements", type=int, default=60_000)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    example, chance = EXAMPLES[arguments.example], random.Random(7)
    for kind, lines in (
        ("sql", dump(chance, example, arguments.rows)),
        ("log", log(chance, example, arguments.rows, arguments.statements)),
    ):
        with (arguments.folder / f"{arguments.example}.{kind}").open("w", encoding="utf-8") as file:
            file.writelines(lines)


if __name__ == "__main__":
    main()
