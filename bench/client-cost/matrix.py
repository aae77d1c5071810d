"""Which cells are measured, and how long each may take."""

import itertools
import time
from collections.abc import Sequence

from case import Case

STANDARD_MINUTES = 12.0
QUICK_MINUTES = 3.0
THREADS = (1, 4, 16, 64, 256)
WORKLOADS = ("oltp_point_select", "oltp_read_only", "oltp_read_write", "oltp_update_index", "oltp_insert")
FEWEST_ROUNDS = 3  # for an interval


def product(
    workloads: Sequence[str],
    statements: Sequence[str],
    transports: Sequence[str],
    threads: Sequence[int],
    tables: int,
    table_size: int,
) -> list[Case]:
    """Every combination."""
    return [
        Case(workload, count, statement, transport, tables, table_size)
        for workload, statement, transport, count in itertools.product(workloads, statements, transports, threads)
    ]


def quick(tables: int, table_size: int) -> list[Case]:
    """The two reads at two concurrencies."""
    return product(WORKLOADS[:2], ("prepared",), ("socket",), (4, 16), tables, table_size)


def standard(tables: int, table_size: int) -> list[Case]:
    """Both reads at every concurrency; each other dimension once."""
    return [
        *product(WORKLOADS[:2], ("prepared",), ("socket",), THREADS, tables, table_size),
        *product(WORKLOADS[2:], ("prepared",), ("socket",), (16,), tables, table_size),
        *product(WORKLOADS[:2], ("text",), ("socket",), (16,), tables, table_size),
        *product(WORKLOADS[:2], ("prepared",), ("tcp",), (16,), tables, table_size),
    ]


def full(tables: int, table_size: int) -> list[Case]:
    """A hundred cells: every workload, prepared and text, socket and TCP, 1 to 256 threads."""
    return product(WORKLOADS, ("prepared", "text"), ("socket", "tcp"), THREADS, tables, table_size)


class Budget:
    """Divides a time among cells: what one leaves over goes to the later ones.

    Args:
        minutes: for all cells.
        cells: how many.
    """

    def __init__(self, minutes: float, cells: int) -> None:
        self._end_s = time.monotonic() + minutes * 60
        self._cells = cells
        self._cell_end_s = 0.0

    def begin_cell(self, reserved_s: float) -> None:
        """Start the next cell, which needs `reserved_s` of its time for something else than rounds."""
        now_s = time.monotonic()
        self._cell_end_s = now_s + max(0.0, self._end_s - now_s) / max(1, self._cells) - reserved_s
        self._cells -= 1

    def allows(self, rounds_done: int, most: int | None) -> bool:
        """Return whether another round may begin."""
        if most is not None:
            return rounds_done < most
        return rounds_done < FEWEST_ROUNDS or time.monotonic() < self._cell_end_s
