"""Read results of other benchmark tools: a figure or two per run."""

import csv
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import quote

from bakeoff.errors import ResultsError, SpecError
from bakeoff.history.history_file import P95, THROUGHPUT, Point
from bakeoff.tool_logs import NUMBER, all_numbers, hammerdb_runs, sysbench_runs

NOPM, TPMC = "NOPM", "tpmC"
"""New orders per minute, as HammerDB and go-tpc call them."""

_BYTES_MAX = 256 * 2**20
_VALUE_MAX = 1e15
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True)
class Figure:
    """One figure of one run; what the file does not say is empty or None.

    `value` is in events per second, events per minute or ms, by the metric; `number` counts the runs in a file.
    """

    tool: str
    workload: str
    threads: int | None
    metric: str
    value: float
    server: str = ""
    at: datetime | None = None
    number: int = 1
    run: str = ""
    transaction: str = ""


def read_points(
    path: Path, *, series: str, workload: str = "", server: str = "", commit: str = "", at: datetime | None = None
) -> list[Point]:
    try:
        if path.stat().st_size > _BYTES_MAX:
            raise SpecError(f"{path} is too large for a result.", hint="Name the tool's own summary.")
        content = path.read_bytes()
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC).replace(microsecond=0)
    except OSError as error:
        raise ResultsError(f"{path} cannot be read: {error.strerror}.") from None
    points = []
    for figure in _figures(path, content):
        name = f"{workload or figure.workload or path.stem} {figure.transaction}".rstrip()
        began = at or figure.at or written
        # Every night's out.log is a new run; the same file again is the same run.
        run = f"{path.stem}-{sha256(content + began.isoformat().encode()).hexdigest()[:6]}"
        points.append(
            Point(
                series=series,
                cell=name if figure.threads is None else f"{name}/{figure.threads}",
                metric=figure.metric,
                contender=server or figure.server or "unnamed server",
                at=began,
                commit=commit,
                run=figure.run or (run if figure.number == 1 else f"{run}#{figure.number}"),
                path=str(path),
                tool=figure.tool,
                value=figure.value,
            )
        )
    return points


def _figures(path: Path, content: bytes) -> list[Figure]:
    if content.startswith(_SQLITE):
        return _hammerdb_jobs(path)
    text = content.decode("utf-8", errors="replace")
    for reader in _READERS:
        try:
            if found := [figure for figure in reader(text) if 0 < figure.value < _VALUE_MAX]:
                return list(_numbered(found))
        except (AttributeError, KeyError, TypeError, ValueError, OSError, OverflowError, RecursionError, csv.Error):
            continue  # only resembles this format
    raise _no_result(path)


def _no_result(path: Path) -> SpecError:
    return SpecError(
        f"{path} has no result of sysbench, HammerDB, BenchBase, go-tpc or mysqlslap.",
        hint="Name what the tool printed at its end.",
    )


def _numbered(figures: list[Figure]) -> Iterator[Figure]:
    seen: Counter[tuple[object, ...]] = Counter()
    for figure in figures:
        key = (figure.workload, figure.transaction, figure.threads, figure.metric)
        seen[key] += 1
        yield replace(figure, number=seen[key])


def _sysbench(text: str) -> Iterator[Figure]:
    for run in sysbench_runs(text):
        yield Figure(run.tool, "", run.threads, THROUGHPUT, run.rate)
        if run.p95_ms is not None:
            yield Figure(run.tool, "", run.threads, P95, run.p95_ms)


def _hammerdb(text: str) -> Iterator[Figure]:
    for run in hammerdb_runs(text):
        yield Figure(run.tool, "TPROC-C", run.threads, NOPM, run.rate, run.server)


def _hammerdb_timing(text: str) -> Iterator[Figure]:
    for name, timing in json.loads(text).items():
        yield Figure("HammerDB", "TPROC-C", None, P95, float(timing["p95_ms"]), transaction=name)


def _hammerdb_jobs(path: Path) -> list[Figure]:
    """Read log and timing of each finished TPROC-C run from HammerDB's database of jobs (`hammer.DB`)."""
    found = []
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as jobs:
            for job, at in jobs.execute("SELECT jobid, timestamp FROM JOBMAIN ORDER BY timestamp, rowid").fetchall():
                lines = jobs.execute("SELECT output FROM JOBOUTPUT WHERE jobid = ? ORDER BY rowid", (job,))
                results = list(_hammerdb("\n".join(str(line) for (line,) in lines)))[-1:]
                # Local time of the machine that wrote it; its time zone is assumed to be this one's.
                began = datetime.fromisoformat(str(at)).astimezone(UTC) if results else None
                for result in results:
                    own = replace(result, at=began, run=f"hammerdb-{job}")
                    found.append(own)
                    timings = jobs.execute(
                        "SELECT procname, p95_ms FROM JOBTIMING "
                        "WHERE jobid = ? AND summary = 1 AND p95_ms > 0 ORDER BY rowid",
                        (job,),
                    )
                    found += [replace(own, transaction=name, metric=P95, value=float(p95))
                              for name, p95 in timings]  # fmt: skip
    except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
        message = f"{path} cannot be read as HammerDB's database of jobs: {error}."
        raise SpecError(message, hint="Name hammer.DB.") from None
    if not (usable := [figure for figure in found if 0 < figure.value < _VALUE_MAX]):
        raise _no_result(path)
    return usable


def _benchbase(text: str) -> Iterator[Figure]:
    """Read a summary.json. Old versions lack the start, some drivers the version; each phase has its terminals."""
    summary: dict[str, Any] = json.loads(text)
    rate = float(summary["Throughput (requests/second)"])
    if not 0 < rate < _VALUE_MAX:
        return  # nothing was measured
    at_ms = summary.get("Start timestamp (milliseconds)") or summary.get("Current Timestamp (milliseconds)")
    terminals = str(summary.get("terminals", ""))
    figure = Figure(
        tool="BenchBase",
        workload=summary.get("Benchmark Type") or "",
        threads=int(terminals) if terminals.isdecimal() else None,
        metric=THROUGHPUT,
        value=rate,
        server=" ".join(str(name) for key in ("DBMS Type", "DBMS Version") if (name := summary.get(key))),
        at=datetime.fromtimestamp(int(at_ms) / 1000, UTC).replace(microsecond=0) if at_ms else None,
    )
    yield figure
    p95 = (summary.get("Latency Distribution") or {}).get("95th Percentile Latency (microseconds)")
    if p95:
        yield replace(figure, metric=P95, value=float(p95) / 1000)


def _benchbase_csv(text: str) -> Iterator[Figure]:
    rows = csv.DictReader(text.splitlines())
    if rows.fieldnames and rows.fieldnames[0] == "Time (seconds)":
        rates = [float(row["Throughput (requests/second)"]) for row in rows]
        yield Figure("BenchBase", "", None, THROUGHPUT, fmean(rates))


def _go_tpc(text: str) -> Iterator[Figure]:
    for tpmc in all_numbers(rf"^tpmC: {NUMBER}", text):
        yield Figure("go-tpc", "tpcc", None, TPMC, tpmc)
    for p95 in all_numbers(rf"^\[Summary\] NEW_ORDER - .*\b95th\(ms\): {NUMBER}", text):
        yield Figure("go-tpc", "tpcc", None, P95, p95)


def _mysqlslap(text: str) -> Iterator[Figure]:
    """Read plain or --csv output. The rate is the number of queries over the mean time."""
    pattern = (
        rf"Average number of seconds to run all queries: {NUMBER} seconds.*?"
        r"Number of clients running queries: (\d+)\s+Average number of queries per client: (\d+)"
    )
    found = re.findall(pattern, text, re.DOTALL)
    found += re.findall(rf"^[\w-]*,\w+,{NUMBER},[\d.]+,[\d.]+,(\d+),(\d+)\s*$", text, re.MULTILINE)
    for average, number, each in found:
        seconds, clients, queries = float(average), int(number), int(each)
        if seconds > 0:
            yield Figure("mysqlslap", "", clients, THROUGHPUT, clients * queries / seconds)


_READERS: tuple[Callable[[str], Iterator[Figure]], ...] = (
    _sysbench, _go_tpc, _hammerdb, _mysqlslap, _benchbase, _hammerdb_timing, _benchbase_csv,
)  # fmt: skip
