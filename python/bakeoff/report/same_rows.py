"""Whether all arms hold the same rows, as the answers in `rows/` and in the first epoch say."""

from collections.abc import Mapping
from typing import Any

from bakeoff.report.context import Context
from bakeoff.report.view import Row, Status, Table, Value
from bakeoff.stats.same_rows import Answer, RowDifference, row_differences

_LINES = 40


def same_rows_table(context: Context) -> Table:
    """One line a table of each load: what was compared, and what came out; every difference with its arms."""
    rows: list[Row] = []
    for moment, answers in _moments(context).items():
        differences = row_differences(context.study.arms, answers)
        tables = dict.fromkeys(table for tables in answers.values() for table in tables)
        for table in tables:
            queries = dict.fromkeys(query for each in answers.values() for query in each.get(table, {}))
            found = [each for each in differences if each.table == table]
            if not queries and not found:
                continue  # it cannot be asked cheaply, as a restored server is
            arms = sum(table in tables for tables in answers.values())
            told = "; ".join(_words(context, each) for each in found) or f"same on {arms} arms"
            values = (Value(text=table), Value(text=", ".join(queries)), Value(text=told))
            rows.append(Row(group=moment, values=values))
    left = len(rows) - _LINES
    return Table(
        id="same-rows",
        group_title="asked",
        columns=("table", "queries", "answers"),
        rows=tuple(rows[:_LINES]),
        note=(
            "Counts and checksums of rows, rows sampled by primary key, and the first rows in the order of a text; "
            "texts compared as utf8mb4, orders only between equal collations, arms only where rows are to be equal. "
            "Columns of times and floating-point numbers are left out."
            + (f" {left} more tables are in the run directory." if left > 0 else "")
        ),
        all_text=True,
    )


def same_rows_status(context: Context) -> Status | None:
    """What to say at the head of the report when arms hold different rows."""
    for moment, answers in _moments(context).items():
        differences = row_differences(context.study.arms, answers)
        if differences:
            more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
            return Status(
                word="DIFFERENT ROWS",
                text=f"The arms do not hold the same rows ({moment}): table {differences[0].table}, query "
                f"{differences[0].query}: {_words(context, differences[0])}{more}. Ratios compare different work.",
            )
    return None


def _words(context: Context, difference: RowDifference) -> str:
    return " but ".join(
        f"{answer} on {', '.join(context.labels[name] for name in names)}" for answer, names in difference.arms
    )


def _moments(context: Context) -> dict[str, dict[str, dict[str, dict[str, Answer]]]]:
    """When asked -> arm -> table -> query -> answer."""
    found: dict[str, dict[str, dict[str, dict[str, Answer]]]] = {}
    build = 0
    while (kept := context.run.read_json(f"rows/{build}.json")) is not None:
        found[f"load {build}"] = {arm: _answers(tables) for arm, tables in kept.items()}
        build += 1
    loaded = found.get("load 0", {})
    for outcome in context.outcomes[:1]:
        asked: Mapping[str, Mapping[str, Any]] = context.run.server_json(outcome.epoch, "rows.json")
        if asked:
            found["first epoch"] = {arm: _answers(tables, loaded.get(arm, {})) for arm, tables in asked.items()}
    return found


def _answers(
    tables: Mapping[str, Mapping[str, Any]], loaded: Mapping[str, Mapping[str, Answer]] | None = None
) -> dict[str, dict[str, Answer]]:
    """Answers as written: with their questions, or (in an epoch) with the questions of the load."""
    made: dict[str, dict[str, Answer]] = {}
    for table, queries in tables.items():
        made[table] = {}
        for query, written in queries.items():
            if isinstance(written, str):
                known = (loaded or {}).get(table, {}).get(query)
                made[table][query] = Answer(
                    sql=known.sql if known else "", answer=written, collation=known.collation if known else None
                )
            else:
                made[table][query] = Answer.model_validate(written)
    return made
