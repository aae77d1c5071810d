"""The section "Queries" of a replay: which queries are slower, or answer differently."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

from bakeoff.replay.answer_rules import DOCUMENT, ROWS_KINDS, Answers, Compared, DigestAnswers
from bakeoff.replay.capture_view import REASONS
from bakeoff.replay.digests import OTHER, DigestTimes, digest_times
from bakeoff.report import numbers
from bakeoff.report.context import Context, Place, SectionSource
from bakeoff.report.view import Code, Column, Prose, Record, RecordList, Section, Status, Table, step_rows
from bakeoff.stats.model import FlagKind
from bakeoff.units import format_ns

_SHOWN = 20  # rows of a table; queries that are slower or differ come first
_DETAILED = 60
_SHORT = 72  # characters of a query in the table
_LONG = 2000
_LOSING, _SCREEN_SHORT = 3, 32  # queries in a terminal and their characters
_P95 = 1  # place among QUANTILES
_MOVES = 0.01  # warn if queries that fail on one side only take this share of the time

LEFT_OUT = REASONS | {"enough of its digest": "a plain read whose digest had been compared often enough"}
"""Why a statement's answers were not compared."""


@dataclass(frozen=True)
class Query:
    """One digest in one cell on one contender: its times, its answers, or both."""

    cell: str
    contender: str
    digest: str
    text: str
    times: DigestTimes | None
    compared: Compared
    answers: DigestAnswers | None

    @property
    def differs(self) -> tuple[str, ...]:
        kinds = ("errors", *ROWS_KINDS, "columns", "warnings")
        found = [kind for kind in kinds if kind in self.compared.differences]
        return (*found, *(["plan"] if self.compared.plan else []))

    @property
    def word(self) -> str:
        if self.failing_arms:
            return "fails"
        return self.times.word if self.times else ""

    @property
    def failing_arms(self) -> int:
        """Number of the two arms that refused at least half of what was compared."""
        return sum(2 * failed >= max(1, self.compared.executed) for failed in self.compared.failed.values())

    @property
    def is_flagged(self) -> bool:
        return bool(self.differs) or self.word == "SLOWER"


class Replayed:
    """What a replay found, computed once per report: `context.once(Replayed)`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @cached_property
    def failures(self) -> dict[tuple[str, str, str], Counter[str]]:
        """(cell, digest, error) -> arm -> statements that failed while they were timed."""
        found: dict[tuple[str, str, str], Counter[str]] = {}
        for epoch in self._context.valid_epochs:
            for row in self._context.run.failures(epoch):
                error = f"{row['sql_errno']} {row['message']}"
                found.setdefault((row["cell"], row["operation"], error), Counter())[row["arm"]] += row["count"]
        return found

    @cached_property
    def digests(self) -> tuple[DigestTimes, ...]:
        running = [arm.name for arm in self._context.study.arms if arm.server.is_running]
        analysis = self._context.analysis
        found = digest_times(
            self._context.histograms,
            baseline=analysis.baseline,
            ended=analysis.stopped,
            running=running,
            host_of=self._context.host_of,
        )
        return tuple(each for each in found if each.contender in analysis.contenders)

    @cached_property
    def answers(self) -> dict[str, Answers]:
        return self._context.run.read(DOCUMENT, dict[str, Answers]) or {}

    @cached_property
    def other_tables(self) -> list[tuple[str, str, str]]:
        """Arm, table, and how the table differs after the writes."""
        by_arm = [pair for answers in self.answers.values() for pair in answers.other_tables.items()]
        return [(arm, table, how) for arm, tables in by_arm for table, how in tables.items()]

    @cached_property
    def by_cell(self) -> dict[str, Answers]:
        scripts = {
            cell.name: self._context.study.workloads[cell.workload_index].script for cell in self._context.cells_planned
        }
        return {cell: self.answers[script] for cell, script in scripts.items() if script in self.answers}

    @cached_property
    def by_place(self) -> dict[tuple[str, str], list[Query]]:
        """Queries by cell and contender."""
        found: dict[tuple[str, str], list[Query]] = {}
        for query in self.queries:
            found.setdefault((query.cell, query.contender), []).append(query)
        return found

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        times = {(each.cell, each.contender, each.digest): each for each in self.digests}
        found = []
        for cell in self._context.cells_planned:
            answers = self.by_cell.get(cell.name)
            judged = answers.digests if answers else {}
            for contender in self._context.analysis.contenders:
                timed = [digest for at, arm, digest in times if (at, arm) == (cell.name, contender)]
                for digest in dict.fromkeys([*timed, *judged]):
                    known = judged.get(digest)
                    text = known.text if known else "all other queries" if digest == OTHER else digest
                    compared = known.compared.get(contender, Compared()) if known else Compared()
                    own = times.get((cell.name, contender, digest))
                    found.append(Query(cell.name, contender, digest, text, own, compared, known))
        return tuple(sorted(found, key=lambda q: (-((q.times and q.times.time_lost) or 0.0), not q.differs, q.text)))


def findings(context: Context) -> tuple[str, ...]:
    return tuple(_found(context, place, queries) for place, queries in context.once(Replayed).by_place.items())


def losing_most(context: Context) -> Iterator[str]:
    """Yield the three queries that lose most time, for a terminal."""
    for query in context.once(Replayed).queries[:_LOSING]:
        times = query.times
        if times and times.estimate and times.time_lost and _lost(times.time_lost)[0] == "+":
            size = (
                f"{numbers.ratio_of(times.estimate)} ({numbers.interval(times.estimate.interval) or 'no interval yet'})"
            )
            yield f"{_lost(times.time_lost)} time, {size}, {query.word}: {_short(query.text, _SCREEN_SHORT)}"


def _found(context: Context, place: tuple[str, str], queries: list[Query]) -> str:
    cell, contender = place
    where = f"{_place(context, place)}: " if len(context.once(Replayed).by_place) > 1 else ""
    comparison = next((c for c in context.primary if (c.cell, c.contender) == (cell, contender)), None)
    total = "has no ratio"
    if comparison and comparison.estimate.n:
        interval = numbers.interval(comparison.estimate.interval)
        total = f"{numbers.ratio_of(comparison.estimate)}{f' ({interval})' if interval else ''}"
    words = Counter(query.word for query in queries)
    slower = [query.times for query in queries if query.times and query.word == "SLOWER"]
    share = f" ({numbers.share(sum(each.share for each in slower))} of the time)" if slower else ""
    rows = sum(any(kind in ROWS_KINDS for kind in query.differs) for query in queries)
    kinds = Counter(kind for query in queries for kind in query.differs)
    on_both = Counter("errors" in query.differs for query in queries if query.failing_arms == 2)
    on_one = kinds["errors"] - on_both[True]
    found = [
        _some(words["SLOWER"], "slower") + share if slower else "",
        _some(words["FASTER"], "faster"),
        _some(rows, "return{s} other rows"),
        _some(on_one, "fail{s} on one side only"),
        _some(on_both[True], "fail{s} on both, with other errors"),
        _some(on_both[False], "fail{s} on both"),
        f"{kinds['plan']} with another plan" if kinds["plan"] else "",
        *(f"{kinds[kind]} with other {kind}" if kinds[kind] else "" for kind in ("warnings", "columns")),
    ]
    answers = context.once(Replayed).by_cell.get(cell)
    tables = len(answers.other_tables.get(contender, {})) if answers else 0
    found.append(f"{numbers.counted(tables, 'table')} with another checksum" if tables else "")
    text = ", ".join(each for each in found if each) or _nothing_found(queries)
    return f"{where}Total work {total}. {text[0].upper()}{text[1:]}."


def _nothing_found(queries: list[Query]) -> str:
    tested = sum(query.word == "unclear" for query in queries)
    compared = sum(query.compared.executed > 0 for query in queries)
    left = len(queries) - tested
    if tested:
        times = f"none of {_queries(tested)} tested is shown to be slower or faster"
        times += f", {left} {'was' if left == 1 else 'were'} not tested" if left else ""
    else:
        times = f"none of {_queries(left)} was tested for time"
    return f"{times}, none of {compared} compared gives other answers" if compared else times


def _queries(count: int) -> str:
    return f"{count} {'query' if count == 1 else 'queries'}"


def _some(count: int, what: str) -> str:
    return f"{_queries(count)} {what.format(s='s' if count == 1 else '')}" if count else ""


def different_work(context: Context) -> Iterator[Status]:
    """Warn if a ratio includes queries that one arm refuses, because refusing is faster than working."""
    for place, queries in context.once(Replayed).by_place.items():
        failing = [q.times for q in queries if q.times and q.failing_arms == 1]
        shares = {
            "baseline": math.fsum(each.share for each in failing),
            "contender": math.fsum(each.contender_share for each in failing),
        }
        whose = max(shares, key=shares.__getitem__)
        both = [q.times for q in queries if q.times and q.times.estimate and q.failing_arms != 1]
        contender = math.fsum(each.share * math.exp(-each.estimate.mean) for each in both if each.estimate)
        if shares[whose] < _MOVES or not contender:
            continue
        rest = math.fsum(each.share for each in both) / contender
        yield Status(
            word=FlagKind.DIFFERENT_WORK,
            text=f"{_place(context, place)}: {numbers.share(shares[whose])} of the {whose}'s "
            "time is in queries that fail on one side only. The ratio counts them; that of the others is about "
            f"{rest:.2f}×.",
        )


def queries_section(context: Context) -> Section | None:
    queries = context.once(Replayed).queries
    flagged = [query for query in queries if query.is_flagged][:_DETAILED]
    shown = sorted(range(len(queries)), key=lambda at: (not queries[at].is_flagged, at))[:_SHOWN]
    return Section.of(
        "Queries",
        *(Prose(text=sentence, small=True) for sentence in _coverage(context) if queries),
        _table(context, [queries[at] for at in sorted(shown)], left=len(queries) - len(shown)),
        _failures(context),
        _left_out(context),
        _other_tables(context),
        *(_detail(context, query, f"query-{at}") for at, query in enumerate(flagged)),
        anchor="queries",
        nav="Queries",
        in_terminal=True,
    )


def _coverage(context: Context) -> Iterator[str]:
    for answers in context.once(Replayed).answers.values():
        why = f" in {answers.limit_s:.0f} s"
        if answers.ended_by:
            query = _short(answers.ended_by)
            why = f" because data may differ after a query that took too long on one side only: {query}"
        left = f"; {answers.not_reached:,} were not reached{why}" if answers.not_reached else ""
        tables = f" After writes the checksums of {answers.tables} tables were compared." if answers.tables else ""
        yield (
            f"Answers of {answers.executed:,} statements of {len(answers.digests):,} queries were compared one by one "
            f"without timing{left}.{tables}"
        )
    yield (
        "Queries that both arms completed in six epochs or more are tested; verdicts are corrected over all of them "
        "(Holm). Lost: extra time of the contender, as a share of all time."
    )


def _place(context: Context, place: tuple[str, str]) -> str:
    cell, contender = place
    return f"{context.cell_title(cell)}, {context.labels[contender]}"


def _where(context: Context, query: Query) -> str:
    several = len(context.once(Replayed).by_place) > 1
    return _place(context, (query.cell, query.contender)) if several else ""


def _lost(share: float) -> str:
    """`+4.2%`, `−0.3%`, `0.0%`."""
    text = f"{share * 100:+.1f}%".replace("-", numbers.MINUS)
    return text[1:] if float(text[1:-1]) == 0 else text


def _table(context: Context, queries: list[Query], *, left: int) -> Table:
    notes = Counter(query.times.note for query in queries if query.times and query.times.note)
    untested = "; ".join(f"{note} ({count})" for note, count in notes.most_common())
    why = [context.with_labels(f"Not tested: {untested}.")] if notes else []
    more = [f"{left:,} other queries are in the CSV and JSON forms."] if left else []

    def mean(times: DigestTimes) -> str:
        return _change(times.means_ns.get(arm) for arm in times.executions)

    def p95(times: DigestTimes) -> str:
        return _change(quantiles[_P95] if quantiles else None for quantiles in times.quantiles_ns.values())

    return Table.of(
        "queries",
        sorted(queries, key=lambda query: _where(context, query)),
        Column("query", lambda query: _short(query.text)),
        Column("calls", lambda q: q.times and q.times.executions[q.contender], "{:,}".format, wide=True),
        Column("share", lambda q: q.times and q.times.share, numbers.share),
        Column("ratio", lambda q: q.times, lambda t: numbers.estimate_short(t.estimate) if t.estimate else "n/a"),
        Column("verdict", lambda q: q.word if q.times else "not timed"),
        Column("lost", lambda q: q.times and q.times.time_lost, _lost),
        Column("mean", lambda query: query.times, mean, wide=True),
        Column("p95", lambda query: query.times, p95, wide=True),
        Column("differs in", lambda query: ", ".join(query.differs)),
        group=lambda query: _where(context, query),
        group_title="cell" if len(context.once(Replayed).by_place) > 1 else "",
        note=" ".join((*why, *more)),
    )


def _change(times_ns: Iterable[float | None]) -> str:
    return " → ".join("n/a" if ns is None else format_ns(ns) for ns in times_ns)


def _short(text: str, length: int = _SHORT) -> str:
    """Shorten a digest's text in the middle, as people write SQL (`o.id, COUNT (*)`)."""
    plain = " ".join(text.replace("`", "").split()).replace(" . ", ".")
    plain = plain.replace(" ,", ",").replace("( ", "(").replace(" )", ")")
    end = length // 2 - 1
    return plain if len(plain) <= length else f"{plain[: length - end - 1].rstrip()}…{plain[-end:].lstrip()}"


def _failures(context: Context) -> Table:
    texts = {query.digest: query.text for query in context.once(Replayed).queries}
    found = sorted(context.once(Replayed).failures.items(), key=lambda item: -sum(item[1].values()))
    more = f"{len(found) - _SHOWN:,} other lines are in failures.json of each epoch." if len(found) > _SHOWN else ""
    return Table.of(
        "failures",
        found[:_SHOWN],
        Column("query that failed while timed", lambda each: _short(texts.get(each[0][1], each[0][1]))),
        Column("error", lambda each: each[0][2]),
        *(
            Column(context.labels[arm], lambda each, arm=arm: f"{each[1][arm]:,}")  # type: ignore[misc]
            for arm in context.compared_arms
        ),
        note=more,
    )


def _left_out(context: Context) -> Table:
    skipped: Counter[str] = Counter()
    for answers in context.once(Replayed).answers.values():
        skipped.update(answers.skipped)
    return Table.of(
        "not-compared",
        skipped.most_common(),
        Column("answers not compared", lambda each: LEFT_OUT.get(each[0], each[0])),
        Column("statements", itemgetter(1), "{:,}".format),
    )


def _other_tables(context: Context) -> Table:
    return Table.of(
        "other-tables",
        context.once(Replayed).other_tables,
        Column("table after the writes", itemgetter(1)),
        Column("how it differs", itemgetter(2)),
        group=lambda each: context.labels.get(each[0], each[0]),
        group_title="arm",
        all_text=True,
    )


def _detail(context: Context, query: Query, name: str) -> Section | None:
    arms = (context.analysis.baseline, query.contender)
    labels = tuple(context.labels[arm] for arm in arms)
    known = query.answers
    plans = [known.plans.get(arm, ()) if known else () for arm in arms] if query.compared.plan else [(), ()]
    read = known.rows_examined if known else {}
    facts = [(kind, *query.compared.examples.get(kind, ("", ""))) for kind in query.differs if kind != "plan"]
    if read and set(arms) <= read.keys():
        facts.append(("rows read", f"{read[arms[0]]:,}", f"{read[arms[1]]:,}"))
    where = _where(context, query)
    return Section.of(
        _short(query.text, 100) + (f" ({where})" if where else ""),
        Code(text=context.samples.get(query.digest, query.text)[:_LONG]),
        Table.listed(f"{name}-differences", ("difference", *labels), facts),
        Table.listed(f"{name}-plans", ("step", *labels), step_rows(plans)),
    )


def records(context: Context) -> Iterator[Record]:
    of_all: Record = {"run": context.run.name, "baseline": context.labels[context.analysis.baseline]}
    for query in context.once(Replayed).queries:
        times, estimate = query.times, query.times.estimate if query.times else None
        record: Record = of_all | {
            "cell": query.cell,
            "contender": context.labels[query.contender],
            "digest": query.digest,
            "query": _short(query.text, _LONG),
            "verdict": query.word or "not timed",
            "differs": " ".join(query.differs),
        }
        if times:
            record |= {"share": times.share, "time_lost": times.time_lost, "p_adjusted": times.p_adjusted}
            for side, arm in (("baseline", context.analysis.baseline), ("contender", query.contender)):
                record[f"{side}_calls"] = times.executions[arm]
                record[f"{side}_mean_ns"] = times.means_ns.get(arm)
                named = zip(("p50", "p95", "p99"), times.quantiles_ns[arm], strict=False)
                record |= {f"{side}_{name}_ns": ns for name, ns in named}
        if estimate:
            record |= {"epochs": estimate.n, **numbers.ratio_fields(estimate)}
        yield record
    for arm, table, how in context.once(Replayed).other_tables:
        differs = "checksum" if how.startswith("checksum only") else "rows"
        yield of_all | {"contender": context.labels.get(arm, arm), "table": table, "differs": differs, "how": how}


SECTIONS = (
    SectionSource(
        Place.QUERIES,
        queries_section,
        findings=findings,
        statuses=different_work,
        key_figures=losing_most,
        records=lambda context: RecordList(name="queries", rows=tuple(records(context)), in_csv=True),
    ),
)
