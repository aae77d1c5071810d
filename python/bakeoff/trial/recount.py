"""Asks TPC-C's servers what they have counted themselves, before and after each measured cell."""

from typing import Any

from bakeoff.servers import Reading
from bakeoff.stats.recount import ServerCounts

SCRIPT = "tpcc"


class CountsDisagree(Exception):
    """A server has fewer transactions than the engine counted: one of the two counts is wrong."""


def read_counts(server: Reading, database: str, options: dict[str, Any]) -> ServerCounts:
    """The server's sums at this moment.

    Args:
        server: at rest, but for its own background work.
        database: where the tables are.
        options: of the script; they name the tables.

    Raises:
        ServerError: the server is gone.
    """
    sums = " + ".join(f"(SELECT SUM(d_next_o_id) FROM `{database}`.{table})" for table in _districts(options))
    status = server.status()
    return ServerCounts(
        next_order_ids=int(server.query(f"SELECT {sums}")[0][0]),
        commits=int(status["Com_commit"]),
        rollbacks=int(status["Com_rollback"]),
    )


def _districts(options: dict[str, Any]) -> list[str]:
    sets = int(options.get("tables") or 1)
    if sets == 1 and options.get("table_suffix", "auto") == "auto":
        return ["district"]
    return [f"district{number}" for number in range(1, sets + 1)]
