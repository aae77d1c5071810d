"""A history: what runs found, a point for each comparison, with annotations, in one SQLite file (docs/history.md)."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import AwareDatetime, ValidationError

from bakeoff.errors import ResultsError, SpecError
from bakeoff.spec import Frozen

FORMAT = 1

THROUGHPUT, P95 = "throughput", "p95"
"""Metrics: events per second, more is better; 95th percentile of the latency in ms, less is better."""


class Point(Frozen):
    """One comparison of one run, or one figure of one run of another tool.

    Attributes:
        series: name that the user gave.
        cell: workload and concurrency (`oltp_read_only/4`).
        metric: `THROUGHPUT` or `P95`.
        baseline: label of the pinned reference of the same run; empty: a single run, which has none.
        contender: label of what was measured.
        at: when it was measured, or what was measured is from.
        commit: of what was measured, or its version; empty: unknown.
        run: name of the run or of the file.
        path: where that is.
        tool: what measured (`bakeoff 0.2.0`, `sysbench 1.0.20`).
        machine: processors, memory, kernel; empty: unknown.
        versions: of the baseline and of what was measured, as the servers give them; empty: unknown.
        ratio: log ratio over the baseline; None of a single run.
        error: its standard error.
        low, high: its 95 % interval, None while there is none.
        epochs: that it rests on.
        reference: the baseline's figure, None of a single run.
        value: the figure: events per second, or ms.
    """

    series: str
    cell: str
    metric: str = THROUGHPUT
    baseline: str = ""
    contender: str
    at: AwareDatetime
    commit: str = ""
    run: str
    path: str = ""
    tool: str
    machine: str = ""
    versions: tuple[str, str] = ("", "")
    ratio: float | None = None
    error: float | None = None
    low: float | None = None
    high: float | None = None
    epochs: int = 1
    reference: float | None = None
    value: float | None = None

    @property
    def is_single(self) -> bool:
        """Whether it is of a run without a reference, of which nothing can be concluded."""
        return self.ratio is None


class Annotation(Frozen):
    """A remark: what happened on a day.

    Attributes:
        series: that it is about; empty: all.
    """

    at: AwareDatetime
    series: str = ""
    text: str


_T = TypeVar("_T", Point, Annotation)

_TABLES = """
CREATE TABLE point (series TEXT, cell TEXT, metric TEXT, baseline TEXT, contender TEXT, run TEXT, at TEXT, content TEXT,
    PRIMARY KEY (series, cell, metric, baseline, contender, run));
CREATE TABLE annotation (at TEXT, series TEXT, content TEXT, PRIMARY KEY (at, series, content));
"""


class History:
    """The file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self) -> None:
        """Check that points can be added to the file, which may be missing or empty.

        Raises:
            ResultsError: it is no history.
        """
        if self.path.exists() and self.path.stat().st_size:
            self.annotations()

    def add(self, points: Iterable[Point]) -> int:
        """Add points; all that a series has of their runs are replaced. How many were new.

        Of single runs only the same one is replaced (series, cell, metric, arms and run): their name may be a file's.

        Raises:
            ResultsError: the file is no history, or cannot be written.
        """
        points = list(points)
        runs = {(each.series, each.run) for each in points if not each.is_single}
        rows = [
            (each.series, each.cell, each.metric, each.baseline, each.contender, each.run, _moment(each.at),
             each.model_dump_json()) for each in points
        ]  # fmt: skip
        with self._open(write=True) as connection:
            before = set(connection.execute("SELECT series, cell, metric, baseline, contender, run FROM point"))
            connection.executemany("DELETE FROM point WHERE series = ? AND run = ?", runs)
            connection.executemany("INSERT OR REPLACE INTO point VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        return len({row[:6] for row in rows} - before)

    def annotate(self, annotation: Annotation) -> None:
        """Add a remark.

        Raises:
            ResultsError: as `add`.
        """
        row = (_moment(annotation.at), annotation.series, annotation.model_dump_json())
        with self._open(write=True) as connection:
            connection.execute("INSERT OR REPLACE INTO annotation VALUES (?, ?, ?)", row)

    def points(self, series: str = "") -> list[Point]:
        """The points in the order of their time, of one series or of all.

        Raises:
            SpecError: there is no such series.
            ResultsError: the file is no history, or cannot be read.
        """
        with self._open() as connection:
            rows = connection.execute("SELECT series, content FROM point ORDER BY at, run, rowid").fetchall()
        names = sorted({name for name, _ in rows})
        if series and series not in names:
            raise SpecError(f"{self.path} has no series {series!r}.", hint=f"It has: {', '.join(names) or 'none'}.")
        return [self._read(Point, content) for name, content in rows if series in ("", name)]

    def annotations(self) -> list[Annotation]:
        """The remarks in the order of their time.

        Raises:
            ResultsError: as `points`.
        """
        with self._open() as connection:
            rows = connection.execute("SELECT content FROM annotation ORDER BY at, content").fetchall()
        return [self._read(Annotation, content) for (content,) in rows]

    @contextlib.contextmanager
    def _open(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction. A file that is to be written is made when it is missing, or empty."""
        if not write and not self.path.is_file():
            raise SpecError(f"{self.path} is not there.", hint="`bakeoff history add RUN` begins a history.")
        try:
            with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
                if write:
                    connection.execute("BEGIN IMMEDIATE")
                self._check_format(connection, write=write)
                yield connection
        except sqlite3.Error as error:
            raise ResultsError(f"history {self.path}: {error}.", hint="Name a file with --history.") from None

    def _check_format(self, connection: sqlite3.Connection, *, write: bool) -> None:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if write and found == 0 and tables == 0:
            for statement in _TABLES.split(";")[:-1]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        elif found != FORMAT:
            what = f"is a history of format {found}" if found else "is no history"
            raise ResultsError(f"{self.path} {what}; this program reads format {FORMAT}.")

    def _read(self, kind: type[_T], content: str) -> _T:
        try:
            return kind.model_validate_json(content)
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise ResultsError(f"history {self.path} is damaged: {problem}.") from None


def _moment(at: datetime) -> str:
    """Sortable, in UTC."""
    return at.astimezone(UTC).isoformat()
