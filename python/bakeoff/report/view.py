"""The content of a report before it has a format: numbers formatted, nothing escaped yet."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from operator import not_
from typing import Any, Generic, Literal, Self, TypeVar

from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, Field, field_validator

from bakeoff.errors import ExitCode
from bakeoff.stats import model
from bakeoff.units import visible

T = TypeVar("T")

Record = dict[str, str | int | float | bool | None]


class Frozen(model.Frozen):
    """Base of a report's parts. Makes control characters visible: titles, labels and logs are untrusted."""

    @field_validator("*")
    @classmethod
    def _visible(cls, value: object) -> object:
        if isinstance(value, str) and not isinstance(value, StrEnum | Markup):
            return visible(value)
        if isinstance(value, tuple):
            return tuple(cls._visible(each) for each in value)
        if isinstance(value, dict):
            return {key: cls._visible(each) for key, each in value.items()}
        return value


class Role(StrEnum):
    BASELINE = "baseline"
    CONTENDER = "contender"
    CONTROL = "control"


class Tone(StrEnum):
    FASTER = "faster"
    SLOWER = "slower"
    EQUAL = "equal"
    OPEN = "open"
    CONTROL = "control"


# The head: arms, verdicts, the forest plot, warnings and footnotes.


class ArmView(Frozen):
    name: str
    label: str
    role: Role
    slot: int
    version: str
    setup: str


class VerdictView(Frozen):
    """The verdict of one cell and contender.

    `headline` follows the contender's name (`is 10.3% slower (9.8% to 10.8%)`); `remark` is what `sentence` adds to it.
    """

    cell: str
    workload: str
    threads: str
    contender: str
    slot: int
    tone: Tone
    words: tuple[str, ...]
    headline: str
    sentence: str
    remark: str
    ratio: str
    change: str
    interval: str
    basis: str
    notes: tuple[int, ...]


class ForestRow(Frozen):
    """One line of the forest plot: a cell or a control. Positions are per cent of the axis.

    `named` has only what differs between the lines; `rates` are events per second of the baseline and the contender.
    """

    kind: str
    label: str
    short: str
    named: str
    contender: str
    slot: int
    tone: Tone
    low: float | None
    point: float
    high: float | None
    epochs: tuple[float, ...]
    cut_left: bool
    cut_right: bool
    ratio: str
    interval: str
    verdict: str
    rates: str
    notes: tuple[int, ...]

    @property
    def measured(self) -> bool:
        return bool(self.epochs)


class Forest(Frozen):
    """Ratios with intervals on one logarithmic axis.

    `margin` has the positions of the equivalence margin, or is None if it is too narrow to be seen; `ticks` are
    position and text.
    """

    one: float = 0.0
    margin: tuple[float, float] | None = None
    ticks: tuple[tuple[float, str], ...] = ()
    rows: tuple[ForestRow, ...] = ()
    legend: str = ""


class Footnote(Frozen):
    number: int
    word: str
    text: str
    where: tuple[str, ...]

    @property
    def located(self) -> str:
        """`stalls differ. (oltp_read_only · 4 threads, mysql:8.0)`."""
        where = self.where[0] if len(self.where) == 1 else f"{len(self.where)} comparisons"
        return f"{self.text} ({where})"


@dataclass(frozen=True)
class Conclusion:
    """What a report says about a question. A terminal shows `table` instead of the comparisons.

    If it `replaces_verdicts`, the answer rests on all arms together. Programs get `document`, as `key` in JSON.
    Verdicts decide the exit code unless it is given.
    """

    asks: str
    lead: tuple[str, ...] = ()
    table: "Table | None" = None
    replaces_verdicts: bool = False
    document: BaseModel | None = None
    key: str = ""
    exit_code: ExitCode | None = None


def marks(notes: Iterable[int]) -> str:
    """` [1] [3]`: references to footnotes."""
    return "".join(f" [{number}]" for number in notes)


class Status(Frozen):
    word: str
    text: str


# The parts of a section.


class Prose(Frozen):
    """A paragraph; words between backticks are code."""

    kind: Literal["prose"] = "prose"
    text: str
    small: bool = False


class Code(Frozen):
    kind: Literal["code"] = "code"
    text: str


class Value(Frozen):
    """A table cell: a value, its comparison (`1.12×`) in small print below, and a link."""

    text: str
    sub: str = ""
    href: str = Field(default="", exclude_if=not_)


def value_text(value: Value) -> str:
    return f"{value.text} ({value.sub})" if value.sub else value.text


class Row(Frozen):
    """A table row. Adjacent rows with the same `group` share a heading; `slot` is the arm's colour."""

    group: str
    values: tuple[Value, ...]
    slot: int | None = None

    @classmethod
    def of(cls, *values: Value | str, group: str = "", slot: int | None = None) -> Self:
        made = (Value(text=value) if isinstance(value, str) else value for value in values)
        return cls(group=group, values=tuple(made), slot=slot)


class Table(Frozen):
    """A table of formatted values. One without rows is not shown.

    Attributes:
        columns: headings; all empty for a list of facts. All but the first hold numbers unless `all_text`.
        page_only: too long for Markdown.
        wide: columns that a terminal leaves out if the table does not fit, the last one first.
    """

    kind: Literal["table"] = "table"
    id: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    group_title: str = ""
    all_text: bool = False
    note: str = ""
    page_only: bool = False
    wide: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        items: Iterable[T],
        *columns: "Column[T]",
        group: Callable[[T], str] | None = None,
        slot: Callable[[T], int | None] | None = None,
        **fields: Any,  # noqa: ANN401 # the other fields of a table
    ) -> Self:
        """Make a table with a row per item. A column after the first that is empty in every row is left out.

        `group` gives the heading of an item's row, `slot` its arm's colour, `fields` the table's other fields.
        """
        items = list(items)
        cells = [[column.value(item) for item in items] for column in columns]
        kept = [at for at, own in enumerate(cells) if not at or any(each.text or each.sub for each in own)]
        rows = tuple(
            Row(
                group=group(item) if group else "",
                values=tuple(cells[at][number] for at in kept),
                slot=slot(item) if slot else None,
            )
            for number, item in enumerate(items)
        )
        wide = tuple(columns[at].title for at in kept if columns[at].wide)
        return cls(id=name, columns=tuple(columns[at].title for at in kept), rows=rows, wide=wide, **fields)

    @classmethod
    def listed(cls, name: str, columns: Sequence[str], rows: Iterable[Sequence[Value | str]], **fields: Any) -> Self:  # noqa: ANN401
        made = tuple(Row.of(*row) for row in rows)
        return cls(id=name, columns=tuple(columns), rows=made, all_text=True, **fields)

    @property
    def is_facts(self) -> bool:
        return not any(self.columns)


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of a table made of items. None and "" show nothing; a narrow terminal leaves out `wide` ones."""

    title: str
    get: Callable[[T], Any]
    format: Callable[[Any], Value | str] = str
    wide: bool = False

    def value(self, item: T) -> Value:
        got = self.get(item)
        if isinstance(got, Value):
            return got
        made = "" if got is None or got == "" else self.format(got)
        return Value(text=made) if isinstance(made, str) else made


def identifier(*words: str) -> str:
    return "-".join("".join(c if c.isalnum() else "-" for c in word) for word in words)


def step_rows(plans: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return a row for each step of several plans, some of which may have fewer steps."""
    return [(str(at), *step) for at, step in enumerate(zip_longest(*plans, fillvalue=""), start=1)]


class Series(Frozen):
    """Points of one line, in columns of equal length.

    `key` is a colour (`arm-0` …, `ink`). The line breaks where `group` changes, as at a restart; `tips` are shown at
    points.
    """

    name: str
    key: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    group: tuple[int, ...] = ()
    tips: tuple[str, ...] = ()
    line: bool = True


class Panel(Frozen):
    """One small chart; its id has letters, digits and dashes.

    Attributes:
        mark: `line` or `points`.
        x_kind: `linear`, `threads` (logarithmic, ticks where measured) or `tail` (x = −log10(1 − quantile)).
        boundaries: x of vertical lines.
        one: the text of a line at 1, or empty.
    """

    id: str
    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    mark: str = "line"
    x_kind: str = "linear"
    y_zero: bool = True
    boundaries: tuple[float, ...] = ()
    one: str = ""


class Charts(Frozen):
    """Charts side by side, on the page only; Markdown refers to `published` ones as pictures."""

    kind: Literal["charts"] = "charts"
    panels: tuple[Panel, ...]
    intro: str = ""
    note: str = ""
    legend: bool = True
    published: bool = False


class Drawing(Frozen):
    """A feature's own HTML, on the page only. The page has each style and script once."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    kind: Literal["drawing"] = "drawing"
    html: Markup
    style: Markup
    script: Markup


class Fold(Frozen):
    """A long table or text, on the page only, closed until it is opened."""

    kind: Literal["fold"] = "fold"
    title: str
    content: Table | Code


class Section(Frozen):
    """A heading and its content.

    `nav` is its name in the page's contents, if listed there. `in_terminal`: short and important enough for a terminal.
    """

    kind: Literal["section"] = "section"
    title: str
    parts: tuple["Part", ...]
    anchor: str = ""
    nav: str = ""
    note: str = ""
    in_terminal: bool = False

    @classmethod
    def of(cls, title: str, *parts: "Part | None", **fields: str | bool) -> Self | None:
        """Make a section of the parts that are not empty; None if there are none."""
        kept = tuple(part for part in parts if part is not None and not _is_empty(part))
        return cls(title=title, parts=kept, **fields) if kept else None  # type: ignore[arg-type] # checked by the class

    def sections(self) -> Iterator["Section"]:
        yield self
        for part in self.parts:
            if isinstance(part, Section):
                yield from part.sections()


Part = Prose | Code | Table | Charts | Drawing | Fold | Section


def _is_empty(part: Part) -> bool:
    match part:
        case Table():
            return not part.rows
        case Charts():
            return not part.panels
        case Fold():
            return _is_empty(part.content)
        case Prose() | Code():
            return not part.text
        case _:
            return False


class RecordList(Frozen):
    name: str
    rows: tuple[Record, ...]
    in_csv: bool = False


COMPARISONS = "comparisons"  # id of the table of all comparisons
ROWS_MAX = 20
_ROWS_LARGEST = 10


class Screen(Frozen):
    """The end of a run on a terminal, and the top of a page, besides question, warnings and footnotes.

    Attributes:
        charts: ratios over the thread counts, on the page only.
        caption: what all rows of the table share.
        ranks: row numbers, the largest difference first; empty if the rows are already in order of importance.
        why: the causes, in four lines of 80 columns; the section below has the rest.
        figures: findings that are not in the table.
        published: published ratios; a page has their table instead.
    """

    answer: str = ""
    charts: Charts | None = None
    caption: str = ""
    table: Table | None = None
    ranks: tuple[int, ...] = ()
    why: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    effort: str = ""

    def shown(self, most: int = ROWS_MAX) -> list[int]:
        """Return the numbers of the rows to show: all, or only the largest if there are more than `most`."""
        every = range(len(self.table.rows) if self.table else 0)
        return [*every] if len(every) <= most else [*(self.ranks or every)][: min(most, _ROWS_LARGEST)]


class ReportView(Frozen):
    """Everything a report shows, in its order. Captures and histories have no verdicts, arms and conclusion.

    Attributes:
        arms_table: None if a list of the arms is as clear.
        records: one flat record per comparison, unrounded: ratios, times in ns, rates per second.
    """

    format: int = 2
    run: str
    directory: str = ""
    title: str
    question: str
    dateline: str
    statuses: tuple[Status, ...] = ()
    arms: tuple[ArmView, ...] = ()
    arms_table: Table | None = None
    summary: tuple[str, ...] = ()
    verdicts: tuple[VerdictView, ...] = ()
    means: tuple[str, ...] = ()
    conditions: str = ""
    forest: Forest = Forest()
    sections: tuple[Section, ...]
    screen: Screen = Field(default=Screen(), exclude=True)
    effort: tuple[str, ...] = ()
    command: str = ""
    footnotes: tuple[Footnote, ...] = ()
    conclusion: Conclusion | None = Field(default=None, exclude=True)
    records: tuple[Record, ...]
    more_records: tuple[RecordList, ...] = ()

    @property
    def lines(self) -> tuple[tuple[ForestRow, ...], tuple[ForestRow, ...]]:
        """Return the lines of the forest plot that a page shows first, and the others."""
        shown = self.screen.shown() if self.screen.table and self.screen.table.id == COMPARISONS else []
        cells = [row for row in self.forest.rows if row.kind == "cell"]
        first = tuple(cells[at] for at in shown)
        return first, tuple(row for row in self.forest.rows if row not in first)

    @property
    def controls(self) -> tuple[ForestRow, ...]:
        return tuple(row for row in self.forest.rows if row.kind == "control")

    @property
    def below(self) -> tuple[Section, ...]:
        """Return the sections without those that only repeat the table of the first page."""
        return tuple(section for section in self.sections if section.parts != (self.screen.table,))

    @property
    def doubts(self) -> tuple[Status, ...]:
        """Return what weakens the result: the warnings, then every other kind of footnote once."""
        words = {status.word for status in self.statuses}
        kinds: dict[str, list[str]] = {}
        for note in self.footnotes:
            kinds.setdefault(note.word, []).append(note.located)
        more = {word: f" … and {len(texts) - 1} more." if texts[1:] else "" for word, texts in kinds.items()}
        notes = (Status(word=word, text=texts[0] + more[word]) for word, texts in kinds.items() if word not in words)
        return (*self.statuses, *notes)

    @property
    def panels(self) -> tuple[Panel, ...]:
        return tuple(panel for part in self.parts() if isinstance(part, Charts) for panel in part.panels)

    @property
    def scripts(self) -> tuple[Markup, ...]:
        return tuple(dict.fromkeys(part.script for part in self.parts() if isinstance(part, Drawing)))

    @property
    def styles(self) -> tuple[Markup, ...]:
        return tuple(dict.fromkeys(part.style for part in self.parts() if isinstance(part, Drawing)))

    @property
    def has_words(self) -> bool:
        return self.conclusion is not None

    def records_of(self, name: str) -> tuple[Record, ...]:
        return next((each.rows for each in self.more_records if each.name == name), ())

    def parts(self) -> Iterator["Part"]:
        if self.screen.charts:
            yield self.screen.charts
        yield from (part for section in self.sections for inner in section.sections() for part in inner.parts)

    @property
    def tables(self) -> dict[str, Table]:
        found = (self.screen.table, self.arms_table, *self.parts())
        return {part.id: part for part in found if isinstance(part, Table)}
