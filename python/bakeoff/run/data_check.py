"""Check that all arms hold the same rows (docs/reference/method.md).

Text is compared as utf8mb4, however it is stored. Skipped are times (scripts fill them at load time), floating-point
numbers (versions print them differently), JSON (text on MariaDB), BIT and geometry.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from pydantic_core import to_jsonable_python

from bakeoff.errors import ResultsError, RunInvalid
from bakeoff.results import RunDirectory
from bakeoff.servers import Server
from bakeoff.spec import Study
from bakeoff.spec.dumps import TABLE_TYPES, quoted
from bakeoff.stats.differences import AllAnswers, Answer, RowAnswers, row_differences
from bakeoff.stats.progress import Listener

_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_WHOLE_NUMBERS = _NUMBERS - {"decimal", "year"}

_WHOLE_TABLE_ROWS = 200_000  # larger tables are read in stretches: a full scan of ten million rows takes too long
_STRETCHES, _STRETCH_ROWS = 20, 1000
_SAMPLED_ROWS = 16
_ORDERED_ROWS = 20


@dataclass(frozen=True)
class _Column:
    name: str
    kind: str
    collation: str | None
    is_key: bool

    @property
    def quoted(self) -> str:
        return quoted(self.name)

    @property
    def comparable(self) -> str | None:
        """An expression whose value does not depend on how the column is stored; None if there is none."""
        if self.kind in _TEXTS:
            return f"CONVERT({self.quoted} USING utf8mb4)"
        if self.kind in _BYTES:
            return f"HEX({self.quoted})"
        return self.quoted if self.kind in _NUMBERS else None


@dataclass(frozen=True)
class _Table:
    name: str
    columns: tuple[_Column, ...]

    @property
    def key(self) -> str | None:
        """The primary key if it is a single integer, so that rows can be addressed without scanning."""
        keys = [column for column in self.columns if column.is_key]
        return keys[0].quoted if len(keys) == 1 and keys[0].kind in _WHOLE_NUMBERS else None

    @property
    def compared(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.columns if each.comparable)

    @property
    def row(self) -> str:
        parts = ", ".join(f"IFNULL({each.comparable}, '(null)')" for each in self.columns if each.comparable)
        return f"CONVERT(CONCAT_WS('|', {parts}) USING utf8mb4)"


def ask_tables(server: Server, databases: Iterable[str], *, quick: bool = False) -> dict[str, dict[str, Answer]]:
    """Query every table: {`sbtest.sbtest1`: {`rows`, `sample`, `order`: Answer}}, {} without comparable columns."""
    return {
        f"{database}.{table.name}": _ask(server, database, table, quick=quick)
        for database in databases
        for table in _tables(server, database)
    }


def write_answers(run: RunDirectory, answers: Mapping[str, RowAnswers], name: str) -> None:
    """Keep the answers of all arms. ResultsError if the run has finished epochs with other answers."""
    kept = run.read(name, AllAnswers) if run.finished_epochs() else None
    if kept is None:
        run.write_json(name, to_jsonable_python(answers, exclude_none=True))
        return
    # If the arms differed before, the rows do not depend on the seed alone, or servers read them differently.
    unlike = {(each.table, each.query) for each in row_differences(run.study().arms, kept)}
    for table, query, sentence in other_answers(kept, answers):
        if (table, query) not in unlike:
            raise ResultsError(
                f"run {run.name} was measured with other rows: {sentence}.",
                hint="Put the data back as it was (a dump, a script that fills the tables), or start a new run.",
            )


def other_answers(before: Mapping[str, RowAnswers], now: Mapping[str, RowAnswers]) -> Iterator[tuple[str, str, str]]:
    """Return answers that differ from what the same arm gave before: table, query name, both answers in words."""
    for arm in [arm for arm in now if arm in before]:
        then, today = (
            {(table, query): answer for table, answers in each[arm].items() for query, answer in answers.items()}
            for each in (before, now)
        )
        for table, query in sorted(then.keys() | today.keys()):
            old, new = then.get((table, query)), today.get((table, query))
            if (old and (old.columns, old.answer)) != (new and (new.columns, new.answer)):
                both = " and ".join(each.answer if each else "nothing" for each in (old, new))
                yield table, query, f"arm {arm}, table {table}, query {query}: {both} now"


def judge_rows(study: Study, answers: Mapping[str, RowAnswers], listener: Listener) -> None:
    """Check that all arms hold the same rows; note a difference that your own data may have."""
    differences = row_differences(study.arms, answers)
    if not differences:
        return
    first, more = differences[0], f" ({len(differences) - 1} more differences)" if len(differences) > 1 else ""
    found = first.text({arm.name: arm.label for arm in study.arms})
    text = f"the arms do not hold the same rows: {first.table}, query {first.query}: {found}{more}."
    # With your own data, you judge what versions make of it.
    ours = not (study.has_running_server or study.baseline.data.source)
    if ours and all(PurePath(each.script).suffix != ".lua" for each in study.workloads):
        raise RunInvalid(text, hint="The arms were given the same rows: a server has changed or lost some.")
    listener.note(text)


def _ask(server: Server, database: str, table: _Table, *, quick: bool) -> dict[str, Answer]:
    name = f"{quoted(database)}.{quoted(table.name)}"
    columns, key = table.compared, table.key
    found: dict[str, Answer] = {}
    if not columns:
        return found
    low = high = None
    if key:
        ((low, high),) = server.query(f"SELECT MIN({key}), MAX({key}) FROM {name}")
    if not quick:  # a full scan
        ((count,),) = server.query(f"SELECT COUNT(*) FROM {name}", limited=not server.ours)
        where = ""
        if key and low is not None and high is not None and count > _WHOLE_TABLE_ROWS:
            where = _stretches(server, name, key, int(low), int(high))
        sql = f"SELECT COUNT(*), COALESCE(SUM(CRC32({table.row})), 0) FROM {name}{where}"
        ((read, total),) = server.query(sql, limited=not server.ours)
        found["rows"] = Answer(sql=sql, answer=f"{count} rows, checksum {int(total):x} of {read}", columns=columns)
    if key and low is not None and high is not None:
        points = _spread(int(low), int(high), _SAMPLED_ROWS)
        wanted = ", ".join(map(str, sorted(set(_keys(server, name, key, points, 1, int(high))))))
        sql = f"SELECT {table.row} FROM {name} WHERE {key} IN ({wanted}) ORDER BY {key}"
        found["sample"] = Answer(sql=sql, answer=_digest(server.query(sql)), columns=columns)
        text = next((column for column in table.columns if column.kind in _TEXTS), None)
        if text:
            (last,) = _keys(server, name, key, [int(low)], _STRETCH_ROWS, int(high))
            sql = (
                f"SELECT {table.row} FROM {name} WHERE {key} BETWEEN {low} AND {last} "
                f"ORDER BY {text.quoted}, {key} LIMIT {_ORDERED_ROWS}"
            )
            found["order"] = Answer(
                sql=sql, answer=_digest(server.query(sql)), collation=text.collation, columns=columns
            )
    return found


def _tables(server: Server, database: str) -> list[_Table]:
    sql = (
        "SELECT c.table_name, c.column_name, c.data_type, c.collation_name, c.column_key "
        "FROM information_schema.columns c JOIN information_schema.tables t "
        "ON t.table_schema = c.table_schema AND t.table_name = c.table_name "
        f"WHERE c.table_schema = %s AND t.table_type IN {TABLE_TYPES} ORDER BY c.table_name, c.ordinal_position"
    )
    tables: dict[str, list[_Column]] = {}
    for table, name, kind, collation, key in server.query(sql, (database,)):
        column = _Column(str(name), _word(kind), str(collation) if collation else None, _word(key) == "pri")
        tables.setdefault(str(table), []).append(column)
    return [_Table(name, tuple(columns)) for name, columns in tables.items()]


def _word(value: str | bytes) -> str:
    return (value.decode() if isinstance(value, bytes) else str(value)).lower()


def _spread(low: int, high: int, count: int) -> list[int]:
    return sorted({low + (high - low) * place // max(count - 1, 1) for place in range(count)})


def _keys(server: Server, name: str, key: str, starts: Sequence[int], place: int, high: int) -> list[int]:
    """Return the key of the row at each place after each start; `high` if there are fewer rows."""
    columns = (f"(SELECT {key} FROM {name} WHERE {key} >= {at} ORDER BY {key} LIMIT {place - 1}, 1)" for at in starts)
    (found,) = server.query(f"SELECT {', '.join(columns)}")
    return [high if each is None else int(each) for each in found]


def _stretches(server: Server, name: str, key: str, low: int, high: int) -> str:
    starts = _spread(low, max(low, high - _STRETCH_ROWS + 1), _STRETCHES)
    ends = _keys(server, name, key, starts, _STRETCH_ROWS, high)
    return " WHERE " + " OR ".join(f"{key} BETWEEN {a} AND {b}" for a, b in zip(starts, ends, strict=True))


def _digest(rows: list[tuple[object, ...]]) -> str:
    text = "\n".join("|".join(str(value) for value in row) for row in rows)
    return f"{len(rows)} rows, {hashlib.sha256(text.encode()).hexdigest()[:12]}"
