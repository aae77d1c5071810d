"""Gates before measuring (method section 5): data in memory, nothing owed to the disk, statistics that stay put.

Loading and restarting leave debts that a server pays while it is being measured: pages not in the buffer pool, old
row versions to purge, dirty pages to write. Each arm must have paid before the first slice, or the measurement tells
which arm had more debt.
"""

import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from bakeoff.errors import ServerError
from bakeoff.servers.client import Reading
from bakeoff.servers.model import Gates, Warmth

HISTORY_LIMIT = 1000  # transactions not purged yet; method section 5, row 5
DIRTY_LIMIT = 16  # pages; the server's own bookkeeping keeps a few dirty
# After a start on restored data: an 8.0.15 has 148 dirty pages then, 131 of them in its temporary tablespace
# (information_schema.innodb_buffer_page), and takes two seconds to write them.
STARTED_DIRTY_LIMIT = 256
_COLD_SHARE = 0.001  # of the pages in memory may still be read in the last pass
_PASSES = 6
_SCANS_AT_ONCE = 4
_POLL_S = 0.1
_APART = r"\w*(text|blob)|json|var(char|binary)\(\d{3,}\)|geometry"  # types whose values may have pages of their own
_FAST_FLUSH = (  # in the order to set them: each must not contradict the one before
    ("innodb_io_capacity_max", "20000"),
    ("innodb_io_capacity", "20000"),
    ("innodb_idle_flush_pct", "100"),
    ("innodb_max_dirty_pages_pct_lwm", "0"),
    ("innodb_max_dirty_pages_pct", "0"),
)


def analyze(server: Reading, database: str, tables: Sequence[str] | None = None) -> None:
    """ANALYZE TABLE; do it once after loading, before the snapshot.

    Raises:
        ServerError: a table cannot be analysed.
    """
    for table in tables or tables_of(server, database):
        for row in server.query(f"ANALYZE TABLE {_quoted(database)}.{_quoted(table)}"):
            if str(row[2]).lower() == "error":
                raise ServerError(f"server {server.name}: ANALYZE TABLE {database}.{table}: {row[3]}.")


def warm(server: Reading, database: str, tables: Sequence[str] | None = None) -> Warmth:
    """Read every primary and secondary index from end to end until a whole pass reads nothing from disk.

    Args:
        server: any, ours or remote.
        database: where the tables are.
        tables: None: all of the database.

    Returns:
        `warm` is False when the last of several passes still read from disk: the data does not fit into the buffer
        pool.

    Raises:
        ServerError: a table is gone, or the server is.
    """
    began = time.monotonic()
    names = tables or tables_of(server, database)
    scans = [scan for table in names for scan in full_scans(server, database, table)]
    if _pages_read(server) is None:
        _run_all(server, scans)
        return Warmth(None, 0, time.monotonic() - began, ("this server does not count pages read",))
    reads = [_reads_of_a_pass(server, scans) for _ in range(2)]
    while (
        reads[-1] > _tolerated(server) and len(reads) < _PASSES
    ):  # change buffer merges and purge read pages of their own for a while
        time.sleep(_POLL_S)
        reads.append(_reads_of_a_pass(server, scans))
    waited_s = time.monotonic() - began
    if _engines(server, database, names) != {"innodb"}:
        return Warmth(None, reads[0], waited_s, ("not all tables are InnoDB: read twice, not verified",))
    if reads[-1] <= _tolerated(server):
        return Warmth(True, reads[0], waited_s)
    note = f"pass {len(reads)} still read {reads[-1]} pages from disk: the data does not fit into the buffer pool"
    return Warmth(False, reads[0], waited_s, (note,))


def settle(
    server: Reading,
    deadline_s: float = 60.0,
    warmth: Warmth | None = None,
    *,
    patience_s: float | None = None,
    dirty_limit: int = DIRTY_LIMIT,
    stop: threading.Event | None = None,
) -> Gates:
    """Wait until old row versions are purged and dirty pages written.

    Flushing is turned up meanwhile on servers of ours, and put back.

    Args:
        server: any; a remote one is only watched.
        deadline_s: after so many seconds go on with what there is, and say so in the notes.
        warmth: what `warm` saw, to be part of the record.
        patience_s: go on likewise when neither debt has reached a new low for so long: a server may leave its history a
            little above the limit for ever when nobody works. None: wait for the deadline.
        dirty_limit: pages that may stay dirty.
        stop: go on likewise once it is set.
    """
    stop = stop or threading.Event()
    began = time.monotonic()
    notes = list(warmth.notes) if warmth else []
    variables = server.variables()
    if "innodb_buffer_pool_size" not in variables:
        return Gates(warmth.warm if warmth else None, None, None, 0.0, (*notes, "no InnoDB here"))
    with _flushing_fast(server, variables):
        history, dirty, idle = _debts(server)
        lowest, fell = (history, dirty), began
        while not (history < HISTORY_LIMIT and dirty <= dirty_limit and idle):
            now = time.monotonic()
            if stop.is_set() or now - began > deadline_s or (patience_s and now - fell > patience_s):
                notes.append(f"after {now - began:.0f} s: {_unpaid(history, dirty, idle, dirty_limit)}")
                break
            time.sleep(_POLL_S)
            history, dirty, idle = _debts(server)
            if history < lowest[0] or dirty < lowest[1]:
                lowest, fell = (min(history, lowest[0]), min(dirty, lowest[1])), time.monotonic()
    notes += _settle_rocksdb(server, variables, began + deadline_s, stop)
    return Gates(warmth.warm if warmth else None, history, dirty, time.monotonic() - began, tuple(notes))


def tables_of(server: Reading, database: str) -> list[str]:
    """Base tables of a database, by name."""
    rows = server.query(
        "SELECT table_name FROM information_schema.tables WHERE table_schema=%s AND table_type='BASE TABLE' ORDER BY 1",
        (database,),
    )
    return [str(row[0]) for row in rows]


def full_scans(server: Reading, database: str, table: str) -> list[str]:
    """One statement for each index, which makes the server read all of it.

    The clustered index is read with every column that may lie on pages of its own; each other one is covered by its own
    columns.
    """
    where = f"{_quoted(database)}.{_quoted(table)}"
    types = {str(row[0]): str(row[1]).lower() for row in server.query(f"SHOW COLUMNS FROM {where}")}
    if not types:
        raise ServerError(f"server {server.name}: there is no table {database}.{table}.")
    indexes: dict[str, list[str]] = {}
    for row in server.query(f"SHOW INDEX FROM {where}"):
        name, column, prefix, kind = str(row[2]), row[4], row[7], str(row[10])
        if kind in ("BTREE", "LSMTREE") and prefix is None and column is not None:
            indexes.setdefault(name, []).append(str(column))
    apart = [name for name, kind in types.items() if re.match(_APART, kind)]
    scans = [_scan(where, apart or list(types)[:1], "PRIMARY" if "PRIMARY" in indexes else None)]
    scans += [_scan(where, covered, name) for name, covered in indexes.items() if name != "PRIMARY"]
    return scans


def _scan(where: str, columns: Sequence[str], index: str | None) -> str:
    """COUNT(*) beside a sum over the columns: neither a counter nor the ends of the index can answer that."""
    sums = ", ".join(f"SUM(LENGTH({_quoted(column)}))" for column in columns)
    return f"SELECT COUNT(*), {sums} FROM {where}" + (f" FORCE INDEX ({_quoted(index)})" if index else "")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _run_all(server: Reading, statements: Sequence[str]) -> None:
    with ThreadPoolExecutor(max_workers=_SCANS_AT_ONCE, thread_name_prefix="bakeoff-warm") as pool:
        for _ in pool.map(server.query, statements):
            pass


def _pages_read(server: Reading) -> int | None:
    rows = server.query("SHOW GLOBAL STATUS LIKE 'Innodb_pages_read'")
    return int(rows[0][1]) if rows else None


def _reads_of_a_pass(server: Reading, scans: Sequence[str]) -> int:
    """Pages that the server read from disk while all scans ran."""
    before = _pages_read(server) or 0
    _run_all(server, scans)
    return (_pages_read(server) or 0) - before


def _tolerated(server: Reading) -> float:
    return max(2.0, _COLD_SHARE * _pages_in_pool(server))


def _pages_in_pool(server: Reading) -> int:
    rows = server.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_data'")
    return int(rows[0][1]) if rows else 0


def _engines(server: Reading, database: str, tables: Sequence[str]) -> set[str]:
    rows = server.query("SELECT table_name, engine FROM information_schema.tables WHERE table_schema=%s", (database,))
    return {str(engine).lower() for name, engine in rows if str(name) in set(tables)}


def _debts(server: Reading) -> tuple[int, int, bool]:
    """History list length, dirty pages, and whether no dump of the buffer pool is being loaded."""
    text = str(server.query("SHOW ENGINE INNODB STATUS")[0][2])
    found = re.search(r"History list length (\d+)", text)
    status = {str(name): str(value) for name, value in server.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_%'")}
    loading = status.get("Innodb_buffer_pool_load_status", "").startswith(
        "Loaded "
    )  # "Loaded 128/4711 pages" until completed
    return int(found[1]) if found else 0, int(status["Innodb_buffer_pool_pages_dirty"]), not loading


def _unpaid(history: int, dirty: int, idle: bool, dirty_limit: int) -> str:
    parts = [f"history list length {history}"] if history >= HISTORY_LIMIT else []
    parts += [f"{dirty} dirty pages"] if dirty > dirty_limit else []
    parts += [] if idle else ["the buffer pool is still being loaded"]
    return ", ".join(parts)


@contextmanager
def _flushing_fast(server: Reading, variables: dict[str, str]) -> Iterator[None]:
    """Let the server write dirty pages as fast as it can, and put its settings back. Remote servers are left alone."""
    changed = [name for name, _ in _FAST_FLUSH if server.ours and name in variables]
    try:
        for name, value in _FAST_FLUSH:
            if name in changed:
                server.query(f"SET GLOBAL {name}={value}")
        yield
    finally:
        for name in reversed(changed):
            server.query(f"SET GLOBAL {name}={variables[name]}")


def _settle_rocksdb(server: Reading, variables: dict[str, str], deadline: float, stop: threading.Event) -> list[str]:
    """Write MyRocks' memtable and wait for its compactions."""
    if not server.ours or "rocksdb_block_cache_size" not in variables:
        return []
    server.query("SET GLOBAL rocksdb_force_flush_memtable_now=1")
    while True:
        rows = server.query(
            "SELECT COALESCE(SUM(value), 0) FROM information_schema.rocksdb_cfstats "
            "WHERE stat_type='COMPACTION_PENDING'"
        )
        if int(rows[0][0]) == 0:
            return []
        if stop.is_set() or time.monotonic() > deadline:
            return ["MyRocks compactions are still pending"]
        time.sleep(_POLL_S)
