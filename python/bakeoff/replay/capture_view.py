"""The view of a capture (`bakeoff capture show`): its digests by time, and what cannot be replayed."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bakeoff.replay.answer_rules import KNOWN
from bakeoff.report import numbers
from bakeoff.report.view import Record, ReportView, Row, Section, Table, Value
from bakeoff.units import format_duration, format_ns, shortened

Totals = Mapping[str, Any]

REASONS: dict[str, str] = KNOWN["reasons"]  # why an event cannot be replayed

_TEXT_MAX = 1000  # characters of a statement; the capture has 8 kB


def capture_view(summary: Totals, path: Path, *, limit: int, literals: bool) -> ReportView:
    overall, digests = summary["overall"], summary["digests"][:limit]
    timed = overall["total_us"] > 0
    shown = f"{len(digests)} of {_count(overall['digests'])}" if len(digests) < overall["digests"] else ""
    order = "by time" if timed else "by count: the log has no times"
    figures = Section.of(
        f"Digests {order}{f', {shown}' if shown else ''}",
        _figures(digests, overall, timed=timed),
        anchor="digests",
        in_terminal=True,
    )
    statements = Section.of(
        "Statements", _statements(digests, literals=literals), anchor="statements", in_terminal=True
    )
    refused = Section.of("Cannot be replayed", _refused(summary), anchor="refused", in_terminal=True)
    return ReportView(
        run=path.name,
        title=path.name,
        question=f"What is in {path.name}?",
        dateline=_dateline(summary),
        sections=tuple(section for section in (figures, statements, refused) if section),
        records=tuple(_record(each, literals=literals) for each in digests),
    )


def _count(value: float) -> str:
    return f"{value:,}"


_COUNTED = {"events": "statement", "digests": "digest", "connections": "connection", "transactions": "transaction"}


def _dateline(summary: Totals) -> str:
    overall = summary["overall"]
    parts = [
        f"{' and '.join(dict.fromkeys(overall['formats']))} log".replace("sql log", "SQL").replace(
            "digests log", "digests of performance_schema"
        ),
        *(f"{_count(overall[key])} {noun}{'s' * (overall[key] != 1)}" for key, noun in _COUNTED.items()),
    ]
    if overall["count"] != overall["events"]:
        parts[1] += f" that stand for {_count(overall['count'])}"
    first, last = overall["first_us"], overall["last_us"]
    if first is not None and last is not None:
        parts.append(f"{_moment(first)} to {_moment(last)} ({format_duration((last - first) / 1e6)})")
        if last - first >= 1e6:
            parts.append(f"{overall['count'] * 1e6 / (last - first):,.1f} statements per second")
    if overall["total_us"]:
        parts.append(f"{format_ns(overall['total_us'] * 1000)} of query time")
    if overall["skipped_bytes"]:
        parts.append(f"{_count(overall['skipped_bytes'])} bytes belong to no event")
    if summary["header"]["redacted"]:
        parts.append("literals replaced")
    return " · ".join(parts)


def _moment(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")


def _figures(digests: Sequence[Totals], overall: Totals, *, timed: bool) -> Table:
    base = overall["total_us"] if timed else overall["count"]
    failed = any(each["errors"] for each in digests)
    rows = []
    for rank, each in enumerate(digests, start=1):
        share = each["total_us" if timed else "count"] / base if base else 0.0
        times = [format_ns(each[key] * 1000) for key in ("total_us", "p50_us", "p95_us", "p99_us", "max_us")]
        per_statement = [numbers.count(each[key] / each["count"]) for key in ("rows_examined", "rows_sent")]
        values = [numbers.share(share), _count(each["count"])]
        if timed:
            values += [*times, *per_statement, *([_count(each["errors"])] if failed else [])]
        rows.append(Row.of(*values, group=str(rank)))
    of_times = ("total", "p50", "p95", "p99", "max", "read", "sent", *(("failed",) if failed else ()))
    return Table(
        id="digests",
        group_title="#",
        columns=("share", "count", *(of_times if timed else ())),
        rows=tuple(rows),
        note="Read and sent: rows of one statement, mean." if timed else "",
    )


def _statements(digests: Sequence[Totals], *, literals: bool) -> Table:
    rows = tuple(
        Row.of(
            each["digest"],
            Value(text=_shortened(each["text"]), sub=_shortened(each["sample"]) if literals else ""),
            group=str(rank),
        )
        for rank, each in enumerate(digests, start=1)
    )
    return Table(id="statements", group_title="#", columns=("digest", "statement"), rows=rows, all_text=True)


def _shortened(text: str) -> str:
    return shortened(text, _TEXT_MAX)


def _refused(summary: Totals) -> Table:
    rows = []
    for reason, count in sorted(summary["overall"]["not_replayable"].items(), key=lambda item: -item[1]):
        found = [each for each in summary["digests"] if reason in each["not_replayable"]]
        found.sort(key=lambda each: -each["not_replayable"][reason])
        title = f"{REASONS.get(reason, reason)} ({_count(count)})"
        rows += [Row.of(_shortened(e["text"]), _count(e["not_replayable"][reason]), group=title) for e in found[:10]]
        if len(found) > 10:
            rest = sum(each["not_replayable"][reason] for each in found[10:])
            rows.append(Row.of(f"{len(found) - 10} other digests", _count(rest), group=title))
    return Table(id="refused", group_title="why", columns=("statement", "events"), rows=tuple(rows))


def _record(totals: Totals, *, literals: bool) -> Record:
    flat = {key: value for key, value in totals.items() if key not in ("not_replayable", "sample")}
    flat["not_replayable"] = sum(totals["not_replayable"].values())
    return flat | ({"sample": totals["sample"]} if literals else {})
