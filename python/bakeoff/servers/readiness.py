"""Makes a server ready to be measured: statistics analysed, data in memory, old row versions purged, pages written."""

import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from bakeoff.errors import ServerError
from bakeoff.servers.client import Server
from bakeoff.spec.dumps import TABLE_TYPES, quoted

HISTORY_LIMIT = 1000  # transactions not yet purged
DIRTY_LIMIT = 16  # pages; the server's own bookkeeping keeps a few dirty
STARTED_DIRTY_LIMIT = 256  # after a start on restored data: 8.0.15 has 148, most of them in its temporary tablespace
_COLD_SHARE = 0.001  # of the pages in memory that the last pass may still read
_PASSES = 6
_SCANS_AT_ONCE = 4
_POLL_S = 0.1
_APART = r"\w*(text|blob)|json|var(char|binary)\(\d{3,}\)|geometry"  # types whose values may be stored off-page
_FAST_FLUSH = (  # in this order, so that none contradicts the one before
    ("innodb_io_capacity_max", "20000"),
    ("innodb_io_capacity", "20000"),
    ("innodb_idle_flush_pct", "100"),
    ("innodb_max_dirty_pages_pct_lwm", "0"),
    ("innodb_max_dirty_pages_pct", "0"),
)


def analyze(server: Server, database: str) -> None:
    for table in tables_of(server, database):
        for row in server.query(f"ANALYZE TABLE {quoted(database)}.{quoted(table)}"):
            if str(row[2]).lower() == "error":
                raise ServerError(f"server {server.name}: ANALYZE TABLE {database}.{table}: {row[3]}.")


def warm(server: Server, database: str, stop: threading.Event | None = None) -> bool:
    """Read every index from end to end until a whole pass makes InnoDB read nothing from disk, or `stop` is set.

    Return whether one did.
    """
    stop = stop or threading.Event()
    scans = [scan for table in tables_of(server, database) for scan in full_scans(server, database, table)]
    if not server.query("SHOW GLOBAL STATUS LIKE 'Innodb_pages_read'"):
        _run_all(server, scans, stop)
        return False
    reads = [_reads_of_a_pass(server, scans, stop) for _ in range(2)]
    # Change buffer merges and purge also read pages for a while.
    while reads[-1] > _tolerated(server) and len(reads) < _PASSES and not stop.wait(_POLL_S):
        reads.append(_reads_of_a_pass(server, scans, stop))
    return reads[-1] <= _tolerated(server)


def finish_pending_work(
    server: Server,
    deadline_s: float = 60.0,
    *,
    patience_s: float | None = None,
    dirty_limit: int = DIRTY_LIMIT,
    stop: threading.Event | None = None,
) -> bool:
    """Wait until old row versions are purged and dirty pages written, and return whether they are.

    `patience_s` is the longest wait without progress: an idle server may keep its history above the limit forever.
    """
    stop = stop or threading.Event()
    began = time.monotonic()
    variables = server.variables()
    if "innodb_buffer_pool_size" not in variables:
        return True
    with flushing_fast(server):
        history, dirty, idle = _pending(server)
        lowest, progress_at = (history, dirty), began
        while not (done := history < HISTORY_LIMIT and dirty <= dirty_limit and idle):
            now = time.monotonic()
            if stop.is_set() or now - began > deadline_s or (patience_s and now - progress_at > patience_s):
                break
            time.sleep(_POLL_S)
            history, dirty, idle = _pending(server)
            if history < lowest[0] or dirty < lowest[1]:
                lowest, progress_at = (min(history, lowest[0]), min(dirty, lowest[1])), time.monotonic()
    return finish_rocksdb(server, began + deadline_s - time.monotonic(), stop) and done


def finish_rocksdb(server: Server, limit_s: float, stop: threading.Event) -> bool:
    """Write MyRocks' memtable and wait for compactions; return whether none is pending."""
    deadline = time.monotonic() + limit_s
    if not server.ours or "rocksdb_block_cache_size" not in server.variables():
        return True
    server.query("SET GLOBAL rocksdb_force_flush_memtable_now=1")
    while True:
        rows = server.query(
            "SELECT COALESCE(SUM(value), 0) FROM information_schema.rocksdb_cfstats "
            "WHERE stat_type='COMPACTION_PENDING'"
        )
        if int(rows[0][0]) == 0:
            return True
        if stop.is_set() or time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)


@contextmanager
def flushing_fast(server: Server) -> Iterator[None]:
    """Let our own server write dirty pages as fast as it can inside the block, then restore its settings."""
    variables = server.variables() if server.ours else {}
    changed = [(name, value) for name, value in _FAST_FLUSH if name in variables]
    try:
        for name, value in changed:
            server.query(f"SET GLOBAL {name}={value}")
        yield
    finally:
        for name, _ in reversed(changed):
            server.query(f"SET GLOBAL {name}={variables[name]}")


def tables_of(server: Server, database: str) -> list[str]:
    rows = server.query(
        "SELECT table_name FROM information_schema.tables "
        f"WHERE table_schema=%s AND table_type IN {TABLE_TYPES} ORDER BY 1",
        (database,),
    )
    return [str(row[0]) for row in rows]


def full_scans(server: Server, database: str, table: str) -> list[str]:
    """Return a statement for each usable index that reads all of it.

    The clustered index is read with every column that may be stored off-page, a secondary one with its own columns.
    """
    where = f"{quoted(database)}.{quoted(table)}"
    types = {str(row[0]): str(row[1]).lower() for row in server.query(f"SHOW COLUMNS FROM {where}")}
    if not types:
        raise ServerError(f"server {server.name}: no table {database}.{table}.")
    indexes: dict[str, list[str]] = {}
    # The column says in MariaDB 10.6 whether an index is ignored, in MySQL 8.0 whether it is visible.
    unusable = "YES" if "mariadb" in server.version_string.lower() else "NO"
    for row in server.query(f"SHOW INDEX FROM {where}"):
        name, column, prefix, kind = str(row[2]), row[4], row[7], str(row[10])
        if row[13:14] == (unusable,):
            continue  # FORCE INDEX would fail
        if kind in ("BTREE", "LSMTREE") and prefix is None and column is not None:
            indexes.setdefault(name, []).append(str(column))
    apart = [name for name, kind in types.items() if re.match(_APART, kind)]
    scans = [_scan(where, apart or list(types)[:1], "PRIMARY" if "PRIMARY" in indexes else None)]
    scans += [_scan(where, covered, name) for name, covered in indexes.items() if name != "PRIMARY"]
    return scans


def _scan(where: str, columns: Sequence[str], index: str | None) -> str:
    """Count and sum over the columns, so that a row counter or the ends of the index cannot answer the query."""
    sums = ", ".join(f"SUM(LENGTH({quoted(column)}))" for column in columns)
    return f"SELECT COUNT(*), {sums} FROM {where}" + (f" FORCE INDEX ({quoted(index)})" if index else "")


def _run_all(server: Server, statements: Sequence[str], stop: threading.Event) -> None:
    def run(sql: str) -> None:
        if not stop.is_set():
            server.query(sql, limited=not server.ours)

    with ThreadPoolExecutor(max_workers=_SCANS_AT_ONCE, thread_name_prefix="bakeoff-warm") as pool:
        for _ in pool.map(run, statements):
            pass


def _counter(server: Server, name: str) -> int:
    return int(server.query(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])


def _reads_of_a_pass(server: Server, scans: Sequence[str], stop: threading.Event) -> int:
    before = _counter(server, "Innodb_pages_read")
    _run_all(server, scans, stop)
    return _counter(server, "Innodb_pages_read") - before


def _tolerated(server: Server) -> float:
    return max(2.0, _COLD_SHARE * _counter(server, "Innodb_buffer_pool_pages_data"))


def _pending(server: Server) -> tuple[int, int, bool]:
    """Return the history list length, the dirty pages, and whether no dump of the buffer pool is being loaded."""
    text = str(server.query("SHOW ENGINE INNODB STATUS")[0][2])
    found = re.search(r"History list length (\d+)", text)
    status = {str(name): str(value) for name, value in server.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_%'")}
    load_status = status.get("Innodb_buffer_pool_load_status", "")  # "Loaded 128/4711 pages" until completed
    idle = not load_status.startswith("Loaded ")
    return int(found[1]) if found else 0, int(status["Innodb_buffer_pool_pages_dirty"]), idle
