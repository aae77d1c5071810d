"""The section "Queries" of a replay: which queries are slower, or answer otherwise."""

import math
from collections import Counter
from collections.abc import Iterator

from bakeoff.replay.answer_rules import ROWS_KINDS, Answers
from bakeoff.replay.capture_view import REASONS
from bakeoff.replay.digests import EXECUTIONS_MIN
from bakeoff.replay.replayed import Query, Replayed
from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.performance import mean_curve, percentile_series
from bakeoff.report.sections import Place, Records, SectionSource
from bakeoff.report.view import Charts, Code, Panel, Prose, Record, Row, Section, Series, Status, Table, step_rows
from bakeoff.stats.model import FlagKind
from bakeoff.units import format_ns

_SHOWN = 40  # rows of the table; queries that differ are always shown, up to `_DETAILED`
_DETAILED = 60
_SHORT = 72  # characters of a query in the table
_LONG = 2000
_P95 = 1  # place among QUANTILES
_MOVES = 0.01  # share of the time: queries that fail on one side move the ratio by as much

LEFT_OUT = REASONS | {"enough of its digest": "a plain read whose digest had been compared often enough"}
"""Why a statement's answers were not compared."""


def _answers_of(context: Context, cell: str) -> Answers | None:
    return next((context.once(Replayed).answers_of(each) for each in context.cells_planned if each.name == cell), None)


def findings(context: Context) -> tuple[str, ...]:
    """What a replay found, a sentence or two for each cell and contender."""
    queries = context.once(Replayed).queries
    if not queries:
        return ()
    places = dict.fromkeys((query.cell, query.contender) for query in queries)
    several = len({cell for cell, _ in places}) > 1, len({contender for _, contender in places}) > 1
    return tuple(_found(context, [q for q in queries if (q.cell, q.contender) == place], several) for place in places)


def _found(context: Context, queries: list[Query], several: tuple[bool, bool]) -> str:
    cell, contender = queries[0].cell, queries[0].contender
    names = [context.cell_title(cell)] * several[0] + [context.labels[contender]] * several[1]
    where = f"{', '.join(names)}: " if names else ""
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
        f"{rows} return{'s' if rows == 1 else ''} other rows" if rows else "",
        _some(on_one, f"fail{'s' if on_one == 1 else ''} on one side only"),
        _some(on_both[True], f"fail{'s' if on_both[True] == 1 else ''} on both, with other errors"),
        _some(on_both[False], f"fail{'s' if on_both[False] == 1 else ''} on both"),
        f"{kinds['plan']} with another plan" if kinds["plan"] else "",
        *(f"{kinds[kind]} with other {kind}" if kinds[kind] else "" for kind in ("warnings", "columns")),
    ]
    answers = _answers_of(context, cell)
    tables = len(answers.other_tables.get(contender, {})) if answers else 0
    found.append(f"{tables} table{'s' if tables > 1 else ''} with another checksum" if tables else "")
    text = ", ".join(each for each in found if each) or _nothing_found(queries)
    return f"{where}Total work {total}. {text[0].upper()}{text[1:]}."


def _nothing_found(queries: list[Query]) -> str:
    """What was tested and compared. Queries that were not tested are not counted as equal."""
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
    return f"{_queries(count)} {what}" if count else ""


def different_work(context: Context) -> Iterator[Status]:
    """Warn if queries that one arm refuses move a ratio, as refusing is faster than working."""
    for place in dict.fromkeys((query.cell, query.contender) for query in context.once(Replayed).queries):
        queries = [q for q in context.once(Replayed).queries if (q.cell, q.contender) == place and q.times]
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
        cell, arm = place
        rest = math.fsum(each.share for each in both) / contender
        yield Status(
            word=FlagKind.DIFFERENT_WORK,
            text=f"{context.cell_title(cell)}, {context.labels[arm]}: {numbers.share(shares[whose])} of the {whose}'s "
            "time is in queries that fail on one side only. The ratio counts them; that of the others is about "
            f"{rest:.2f}×.",
        )


def queries_section(context: Context) -> Section | None:
    """The queries of a replay by time lost, and details of those that differ."""
    queries = context.once(Replayed).queries
    flagged = [query for query in queries if query.is_flagged][:_DETAILED]
    shown = [query for at, query in enumerate(queries) if at < _SHOWN or query in flagged]
    return Section.of(
        "Queries",
        *(Prose(text=sentence, small=True) for sentence in _coverage(context) if queries),
        _table(context, shown, left=len(queries) - len(shown)),
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
        f"Queries with at least {EXECUTIONS_MIN} executions on both arms in each of six epochs are tested; verdicts "
        "are corrected over all of them (Holm). Lost: extra time of the contender, as a share of all time."
    )


def _several(context: Context) -> bool:
    return len({(query.cell, query.contender) for query in context.once(Replayed).queries}) > 1


def _where(context: Context, query: Query) -> str:
    return f"{context.cell_title(query.cell)}, {context.labels[query.contender]}" if _several(context) else ""


def _lost(share: float) -> str:
    """`+4.2%`, `−0.3%`, `0.0%`."""
    text = f"{share * 100:+.1f}%".replace("-", numbers.MINUS)
    return text[1:] if float(text[1:-1]) == 0 else text


def _table(context: Context, queries: list[Query], *, left: int) -> Table:
    rows = []
    for query in sorted(queries, key=lambda query: _where(context, query)):
        times = query.times
        cells = ["", "", "", "not timed", "", ""]
        if times:
            p95 = [quantiles[_P95] if quantiles else None for quantiles in times.quantiles_ns.values()]
            cells = [
                f"{times.executions[query.contender]:,}",
                numbers.share(times.share),
                numbers.estimate_short(times.estimate) if times.estimate else "n/a",
                query.word,
                "" if times.time_lost is None else _lost(times.time_lost),
                " → ".join("n/a" if ns is None else format_ns(ns) for ns in p95),
            ]
        rows.append(Row.of(_short(query.text), *cells, ", ".join(query.differs), group=_where(context, query)))
    notes = Counter(query.times.note for query in queries if query.times and query.times.note)
    untested = "; ".join(f"{note} ({count})" for note, count in notes.most_common())
    why = [context.with_labels(f"Not tested: {untested}.")] if notes else []
    more = [f"{left:,} other queries are in the CSV and JSON forms."] if left else []
    return Table(
        id="queries",
        group_title="cell" if _several(context) else "",
        columns=("query", "calls", "share", "ratio", "verdict", "lost", "p95", "differs in"),
        rows=tuple(rows),
        note=" ".join((*why, *more)),
        wide=("calls", "p95"),
    )


def _short(text: str, length: int = _SHORT) -> str:
    """A digest's text as people write SQL (`o.id, COUNT (*)`), shortened in the middle."""
    plain = " ".join(text.replace("`", "").split()).replace(" . ", ".")
    plain = plain.replace(" ,", ",").replace("( ", "(").replace(" )", ")")
    end = length // 2 - 1
    return plain if len(plain) <= length else f"{plain[: length - end - 1].rstrip()}…{plain[-end:].lstrip()}"


def _failures(context: Context) -> Table:
    """Statements that failed while they were timed, the most frequent first."""
    texts = {query.digest: query.text for query in context.once(Replayed).queries}
    found = sorted(context.once(Replayed).failures.items(), key=lambda item: -sum(item[1].values()))
    rows = tuple(
        Row.of(_short(texts.get(digest, digest)), error, *(f"{count[arm]:,}" for arm in context.compared_arms))
        for (_, digest, error), count in found[:_SHOWN]
    )
    columns = ("query that failed while timed", "error", *(context.labels[arm] for arm in context.compared_arms))
    more = f"{len(found) - _SHOWN:,} other lines are in failures.json of each epoch." if len(found) > _SHOWN else ""
    return Table(id="failures", columns=columns, rows=rows, note=more)


def _left_out(context: Context) -> Table:
    skipped: Counter[str] = Counter()
    for answers in context.once(Replayed).answers.values():
        skipped.update(answers.skipped)
    rows = tuple(Row.of(LEFT_OUT.get(reason, reason), f"{count:,}") for reason, count in skipped.most_common())
    return Table(id="not-compared", columns=("answers not compared", "statements"), rows=rows)


def _other_tables(context: Context) -> Table:
    rows = tuple(
        Row.of(table, how, group=context.labels.get(arm, arm))
        for answers in context.once(Replayed).answers.values()
        for arm, tables in answers.other_tables.items()
        for table, how in tables.items()
    )
    columns = ("table after the writes", "how it differs")
    return Table(id="other-tables", group_title="arm", columns=columns, rows=rows, all_text=True)


def _detail(context: Context, query: Query, name: str) -> Section | None:
    arms = (context.analysis.baseline, query.contender)
    labels = tuple(context.labels[arm] for arm in arms)
    known = query.answers
    plans = [known.plans.get(arm, ()) if known else () for arm in arms] if query.compared.plan else [(), ()]
    read = known.rows_examined if known else {}
    facts = [(kind, *query.compared.examples.get(kind, ("", ""))) for kind in query.differs if kind != "plan"]
    if read and set(arms) <= read.keys():
        facts.append(("rows read", f"{read[arms[0]]:,}", f"{read[arms[1]]:,}"))
    return Section.of(
        _short(query.text, 100) + (f" ({_where(context, query)})" if _several(context) else ""),
        Code(text=context.samples.get(query.digest, query.text)[:_LONG]),
        Table(
            id=f"{name}-differences",
            columns=("difference", *labels),
            rows=tuple(Row.of(*fact) for fact in facts),
            all_text=True,
        ),
        Table(
            id=f"{name}-plans",
            columns=("step", *labels),
            rows=tuple(step_rows(plans)),
            all_text=True,
        ),
        Charts(panels=_curves(context, query, name), legend=False),
    )


def _curves(context: Context, query: Query, name: str) -> tuple[Panel, ...]:
    """Latency of one query on both arms against the share of executions that were faster."""
    series: list[Series] = []
    clock = "service"
    for arm in (context.analysis.baseline, query.contender):
        key = (query.cell, arm, query.digest)
        rows = [
            row
            for messages in context.histograms.values()
            for row in messages
            if (row["cell"], row["arm"], row["operation"]) == key and row["count"]
        ]
        curve = mean_curve(rows) if rows else []
        clock = rows[0]["clock"] if rows else clock
        if curve:
            series.append(percentile_series(context, arm, curve, {}))
    title = f"Latency of {_short(query.text, 40)}"
    return (
        (
            Panel(
                id=f"{name}-latency",
                title=title,
                x_title="share of executions",
                y_title=f"{clock} time, ms",
                series=tuple(series),
                x_kind="tail",
            ),
        )
        if series
        else ()
    )


def records(context: Context) -> Iterator[Record]:
    """A flat record per query, and per table that differs: ratios as ratios, times in ns."""
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
                named = zip(("p50", "p95", "p99"), times.quantiles_ns[arm], strict=False)
                record |= {f"{side}_{name}_ns": ns for name, ns in named}
        if estimate:
            low, high = estimate.interval.low, estimate.interval.high
            record |= {"ratio": math.exp(estimate.mean), "epochs": estimate.n}
            record |= {"ratio_low": None if low is None else math.exp(low)}
            record |= {"ratio_high": None if high is None else math.exp(high)}
        yield record
    for answers in context.once(Replayed).answers.values():
        for arm, tables in answers.other_tables.items():
            for table, how in tables.items():
                differs = "checksum" if how.startswith("checksum only") else "rows"
                label = context.labels.get(arm, arm)
                yield of_all | {"contender": label, "table": table, "differs": differs, "how": how}


SECTIONS = (
    SectionSource(
        Place.QUERIES,
        queries_section,
        findings=findings,
        statuses=different_work,
        records=Records("queries", records, in_csv=True),
    ),
)
