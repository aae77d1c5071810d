"""Whether the tables that a running server holds are those that a study asks for; they are never changed."""

from bakeoff.servers import Reading


def objection(server: Reading, database: str, *, tables: int, table_size: int, indexed: bool) -> str | None:
    """Why sysbench's tables there cannot be used; None: they can.

    Args:
        server: that holds them.
        database: where they are.
        tables: `sbtest1` to `sbtestN` are asked for; more are no matter.
        table_size: the last id of each: scripts draw ids up to it.
        indexed: each has its secondary index, which a load builds last.

    Raises:
        ServerError: the server does not tell.
    """
    there = _names(server, "table_name", "tables", database)
    indexes = _names(server, "index_name", "statistics", database)
    for number in range(1, tables + 1):
        table = f"sbtest{number}"
        if table not in there:
            return f"{table} is not there"
        ((last,),) = server.query(f"SELECT MAX(id) FROM `{database}`.{table}")
        if last != table_size:
            return f"{table} is empty" if last is None else f"ids of {table} end at {last}, not at {table_size}"
        if indexed and f"k_{number}" not in indexes:
            return f"{table} has no index k_{number}, which a load builds last"
    return None


def _names(server: Reading, column: str, view: str, database: str) -> set[str]:
    sql = f"SELECT DISTINCT {column} FROM information_schema.{view} WHERE table_schema = %s"
    return {str(name) for (name,) in server.query(sql, (database,))}
