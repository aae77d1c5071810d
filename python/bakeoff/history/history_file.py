"""A history in one SQLite file: a point for each comparison, and annotations."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from pydantic import AwareDatetime, ValidationError

from bakeoff.errors import ResultsError, SpecError
from bakeoff.spec import Frozen
from bakeoff.stats.model import Interval

FORMAT = 1

THROUGHPUT, P95 = "throughput", "p95"
"""Metrics: events per second, and 95th percentile of the latency in ms."""


class Point(Frozen):
    """One comparison of one run, or one figure of a single run of another tool.

    Attributes:
        ratio: log ratio over the baseline, with standard `error` and 95% interval; None for single runs.
        reference, value: figures of the baseline and of what was measured: events per second, or ms.
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
    def interval(self) -> Interval:
        return Interval(low=self.low, high=self.high)

    @property
    def is_single(self) -> bool:
        return self.ratio is None


class Annotation(Frozen):
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
    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self) -> None:
        if self.path.exists() and self.path.stat().st_size:
            self.annotations()

    def add(self, points: Iterable[Point]) -> int:
        """Add points in place of all earlier points of their runs, and return how many are new.

        A single run may be named after a file, so it replaces only points of the same cell, metric and arms.
        """
        points = list(points)
        runs = {(each.series, each.run) for each in points if not each.is_single}
        key = attrgetter("series", "cell", "metric", "baseline", "contender", "run")
        rows = [(*key(each), _moment(each.at), each.model_dump_json()) for each in points]
        with self._open(write=True) as connection:
            before = set(connection.execute("SELECT series, cell, metric, baseline, contender, run FROM point"))
            connection.executemany("DELETE FROM point WHERE series = ? AND run = ?", runs)
            connection.executemany("INSERT OR REPLACE INTO point VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        return len(set(map(key, points)) - before)

    def annotate(self, annotation: Annotation) -> None:
        row = (_moment(annotation.at), annotation.series, annotation.model_dump_json())
        with self._open(write=True) as connection:
            connection.execute("INSERT OR REPLACE INTO annotation VALUES (?, ?, ?)", row)

    def points(self, series: str = "") -> list[Point]:
        with self._open() as connection:
            rows = connection.execute("SELECT series, content FROM point ORDER BY at, run, rowid").fetchall()
        names = sorted({name for name, _ in rows})
        if series and series not in names:
            raise SpecError(f"{self.path} has no series {series!r}.", hint=f"It has: {', '.join(names) or 'none'}.")
        return [self._read(Point, content) for name, content in rows if series in ("", name)]

    def annotations(self) -> list[Annotation]:
        with self._open() as connection:
            rows = connection.execute("SELECT content FROM annotation ORDER BY at, content").fetchall()
        return [self._read(Annotation, content) for (content,) in rows]

    @contextlib.contextmanager
    def _open(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Open the file in one transaction; writing creates it if necessary."""
        if not write and not self.path.is_file():
            raise SpecError(f"{self.path} does not exist.", hint="`bakeoff history add RUN` creates a history.")
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
            what = f"is a history of format {found}" if found else "is not a bakeoff history"
            raise ResultsError(f"{self.path} {what}; this program reads format {FORMAT}.")

    def _read(self, kind: type[_T], content: str) -> _T:
        try:
            return kind.model_validate_json(content)
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise ResultsError(f"history {self.path} is damaged: {problem}.") from None


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
