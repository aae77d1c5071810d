"""Whether every arm holds the same rows: answers to the same questions, compared.

Arms whose data is meant to differ (rows, content of the texts, options of the scripts) are not compared; arms that
differ in character set, engine, row format or column type are: how rows are stored must not change what they are.
"""

from collections.abc import Mapping, Sequence

from bakeoff.spec import Arm, Data
from bakeoff.stats.model import Frozen

_STORAGE_OPTIONS = frozenset({"column_type", "column_length", "mysql_storage_engine", "create_table_options"})


class Answer(Frozen):
    """What one server answers.

    Attributes:
        sql: the question, for whoever wants to ask it again.
        answer: the result as text; checksums are of utf8mb4.
        collation: that the order of the rows depends on; only answers of equal collations are compared.
    """

    sql: str
    answer: str
    collation: str | None = None


Answers = Mapping[str, Mapping[str, Answer]]
"""Table -> name of the query -> answer."""


class RowDifference(Frozen):
    """Two arms, or groups of them, that answer differently.

    Attributes:
        arms: answer -> arms that gave it, in the study's order; the first answer is the first arm's.
    """

    table: str
    query: str
    sql: str
    arms: tuple[tuple[str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        """One line without labels."""
        said = "; ".join(f"{', '.join(names)}: {answer}" for answer, names in self.arms)
        return f"table {self.table}, query {self.query}: {said}"


def rows_key(data: Data) -> tuple[tuple[str, object], ...]:
    """What the rows of an arm follow from, besides the seed: arms of equal keys must hold equal rows."""
    return tuple(sorted(pair for pair in data.options if pair[0] not in _STORAGE_OPTIONS))


def row_differences(arms: Sequence[Arm], answers: Mapping[str, Answers]) -> tuple[RowDifference, ...]:
    """Compare the answers of arms.

    Args:
        arms: in the study's order; those without answers are left out.
        answers: by arm name.
    """
    found: list[RowDifference] = []
    for key in dict.fromkeys(rows_key(arm.data) for arm in arms):
        names = [arm.name for arm in arms if rows_key(arm.data) == key and arm.name in answers]
        tables = dict.fromkeys(table for name in names for table in answers[name])
        for table in tables:
            queries = dict.fromkeys(query for name in names for query in answers[name].get(table, {}))
            for query in queries:
                found += _differences(table, query, names, answers)
    return tuple(found)


def _differences(table: str, query: str, names: Sequence[str], answers: Mapping[str, Answers]) -> list[RowDifference]:
    by_collation: dict[str | None, dict[str, list[str]]] = {}
    sql = ""
    for name in names:
        answer = answers[name].get(table, {}).get(query)
        if answer is None and table in answers[name]:
            continue  # a question that this arm's columns do not allow, such as an order
        text = answer.answer if answer else "no such table"
        sql = sql or (answer.sql if answer else "")
        by_collation.setdefault(answer.collation if answer else None, {}).setdefault(text, []).append(name)
    return [
        RowDifference(
            table=table, query=query, sql=sql, arms=tuple((text, tuple(arms)) for text, arms in by_answer.items())
        )
        for by_answer in by_collation.values()
        if len(by_answer) > 1
    ]
