"""TPC-C counted twice: the engine's transactions beside the server's own sums over the same stretch.

The server is asked before and after each measured cell (`trial.recount`, kept as `recount.json`). It also sees what is
not counted: guards and shadows. So it may have more than the engine counted, and never less.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bakeoff.results.epoch import EpochData
from bakeoff.stats.model import Frozen

TYPES = ("new_order", "payment", "order_status", "delivery", "stock_level")


class ServerCounts(Frozen):
    """What the server itself has counted at one moment.

    Attributes:
        next_order_ids: sum of D_NEXT_O_ID over all districts: rises by one for each committed New-Order.
        commits: `Com_commit` of SHOW GLOBAL STATUS.
        rollbacks: `Com_rollback`.
    """

    next_order_ids: int
    commits: int
    rollbacks: int


class CrossCheck(Frozen):
    """The engine's counts beside the server's growth over the same stretch.

    Attributes:
        uncounted_share: of the server's committed New-Orders, those that the engine did not count; 0 to 1.
        agrees: the server has at least what the engine counted.
    """

    counted_new_orders: int
    server_new_orders: int
    counted_commits: int
    server_commits: int
    uncounted_share: float
    agrees: bool

    def __str__(self) -> str:
        return (
            f"the server has {self.server_new_orders:,} more orders and {self.server_commits:,} more commits, "
            f"{self.counted_new_orders:,} and {self.counted_commits:,} were counted"
        )


def compare_counts(
    histograms: Iterable[Mapping[str, Any]], readings: Sequence[tuple[ServerCounts, ServerCounts]]
) -> CrossCheck:
    """Compare what one arm completed in one cell with its server's growth.

    Args:
        histograms: the engine's `histogram` messages of that arm and cell.
        readings: before and after; several when the cell was measured in several rounds.
    """
    counts: dict[str, int] = {}
    for message in histograms:
        counts[message["operation"]] = counts.get(message["operation"], 0) + int(message["count"])
    rollbacks = counts.get("new_order.rollback", 0)
    orders = counts.get("new_order", 0) - rollbacks
    commits = sum(counts.get(name, 0) for name in TYPES) - rollbacks
    server_orders = sum(after.next_order_ids - before.next_order_ids for before, after in readings)
    server_commits = sum(after.commits - before.commits for before, after in readings)
    return CrossCheck(
        counted_new_orders=orders,
        server_new_orders=server_orders,
        counted_commits=commits,
        server_commits=server_commits,
        uncounted_share=1 - orders / server_orders if server_orders > 0 else 0.0,
        agrees=server_orders >= orders and server_commits >= commits,
    )


def cross_checks(epochs: Iterable[EpochData]) -> dict[tuple[str, str], list[CrossCheck]]:
    """Every check of every epoch by (cell, arm); without those of epochs whose servers were not asked."""
    found: dict[tuple[str, str], list[CrossCheck]] = {}
    for epoch in epochs:
        for arm, cells in epoch.recounts.items():
            for cell, kept in cells.items():
                own = [each for each in epoch.histograms if (each["cell"], each["arm"]) == (cell, arm)]
                readings = [
                    (ServerCounts.model_validate(each["before"]), ServerCounts.model_validate(each["after"]))
                    for each in kept
                ]
                found.setdefault((cell, arm), []).append(compare_counts(own, readings))
    return found
