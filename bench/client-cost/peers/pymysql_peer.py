#!/usr/bin/env python3
"""Loads a MySQL server through PyMySQL, as a Python program would: a thread and a connection each, under one lock.

Statements of src/workload.rs; the driver puts literals in, for it prepares nothing. Prints one JSON line at the end.
"""

import argparse
import itertools
import json
import os
import random
import threading
import time

import pymysql

RANGE_ROWS = 100
POINT = "SELECT c FROM {t} WHERE id=%s"
RANGES = [
    "SELECT c FROM {t} WHERE id BETWEEN %s AND %s",
    "SELECT SUM(k) FROM {t} WHERE id BETWEEN %s AND %s",
    "SELECT c FROM {t} WHERE id BETWEEN %s AND %s ORDER BY c",
    "SELECT DISTINCT c FROM {t} WHERE id BETWEEN %s AND %s ORDER BY c",
]
EVENTS = {
    "oltp_point_select": [POINT],
    "oltp_read_only": ["BEGIN", *[POINT] * 10, *RANGES, "COMMIT"],
    "oltp_update_index": ["UPDATE {t} SET k=k+1 WHERE id=%s"],
}


THREAD = "SELECT THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()"


def pair(connection: "pymysql.connections.Connection", cpu: int) -> None:
    """Put the server's thread of the connection and the calling one on the CPU."""
    with connection.cursor() as cursor:
        cursor.execute(THREAD)
        ((serving,),) = cursor.fetchall()
    for thread in (int(serving), threading.get_native_id()):
        os.sched_setaffinity(thread, {cpu})


def load(
    connection: "pymysql.connections.Connection", chosen: argparse.Namespace, latencies_ns: list[int], cpu: int | None
) -> None:
    """Run events for `--time` seconds."""
    if cpu is not None:
        pair(connection, cpu)
    statements, end = EVENTS[chosen.workload], time.monotonic() + chosen.time
    last = time.monotonic_ns()
    with connection.cursor() as cursor:
        while time.monotonic() < end:
            for sql in statements:
                row = random.randint(1, chosen.table_size)
                args = (row, row + RANGE_ROWS - 1)[: sql.count("%s")]
                cursor.execute(sql.replace("{t}", f"sbtest{random.randint(1, chosen.tables)}"), args)
                cursor.fetchall()
            now = time.monotonic_ns()
            latencies_ns.append(now - last)
            last = now


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--socket")
    parser.add_argument("--port", type=int, default=3306)
    parser.add_argument("--user", default="root")
    parser.add_argument("--database", default="sbtest")
    parser.add_argument("--workload", choices=EVENTS, default="oltp_point_select")
    parser.add_argument("--tables", type=int, default=1)
    parser.add_argument("--table-size", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mode", choices=["text"], default="text")
    parser.add_argument("--time", type=float, default=10.0)
    parser.add_argument("--cpus", default="", metavar="LIST", help="to pair connections on, in turn; none: left free")
    chosen = parser.parse_args()
    where = {"unix_socket": chosen.socket} if chosen.socket else {"host": "127.0.0.1", "port": chosen.port}
    workers: list[threading.Thread] = []
    latencies_ns: list[list[int]] = [[] for _ in range(chosen.threads)]
    cpus = itertools.cycle([int(cpu) for cpu in chosen.cpus.split(",") if cpu] or [None])
    for mine, cpu in zip(latencies_ns, cpus, strict=False):
        connection = pymysql.connect(user=chosen.user, database=chosen.database, autocommit=True, **where)
        workers.append(threading.Thread(target=load, args=(connection, chosen, mine, cpu)))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    every = sorted(ns for mine in latencies_ns for ns in mine)
    quantiles = {str(q): every[int(q * (len(every) - 1))] for q in (0.5, 0.95, 0.99)} if every else {}
    print(json.dumps({"events": len(every), "quantiles_ns": quantiles}))


if __name__ == "__main__":
    main()
