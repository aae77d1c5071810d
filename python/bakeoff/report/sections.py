"""The seam between the report and features: what each may add to a report, and where.

A feature's `sections.py` exports `SECTIONS`, a tuple of `SectionSource`. `report/build.py` orders them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

from bakeoff.report.context import Context
from bakeoff.report.view import Record, Section, Status


class Place(IntEnum):
    """Where a section stands. Within a place the core's sections come first, then those of features."""

    ANSWER = 1
    CAUSES = 2
    QUERIES = 3
    THROUGHPUT = 4
    LATENCY = 5
    STUDY = 6
    COSTS = 7
    SETUP = 8


@dataclass(frozen=True)
class Records:
    """Flat records for programs: a list in JSON, and rows of the CSV file if `in_csv`."""

    name: str
    make: Callable[[Context], Iterable[Record]]
    in_csv: bool = False


def _nothing(_: Context) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class SectionSource:
    """A section, and what belongs to it elsewhere in the report.

    Attributes:
        make: returns None if the run has nothing to show.
        findings: sentences for the summary: before the verdicts' if its place is before `THROUGHPUT`, else after.
        statuses: warnings above everything else.
        key_figures: lines that the terminal shows.
    """

    place: Place
    make: Callable[[Context], Section | None]
    findings: Callable[[Context], Iterable[str]] = _nothing
    statuses: Callable[[Context], Iterable[Status]] = _nothing
    key_figures: Callable[[Context], Iterable[str]] = _nothing
    records: Records | None = None
