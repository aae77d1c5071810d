"""The content of a report before it has a form: every number formatted, every text plain, nothing escaped yet.

A report is a small head, which every form needs by name, and a list of sections, which the forms walk through.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from operator import not_
from typing import Literal, Self

from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, Field, field_validator

from bakeoff.errors import ExitCode
from bakeoff.stats import model
from bakeoff.units import visible

Record = dict[str, str | int | float | bool | None]
"""A flat record for programs, unrounded."""


class Frozen(model.Frozen):
    """Base of a report's parts. Titles, labels, settings and logs come from others: none may command a terminal."""

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
    """What an arm is in this study."""

    BASELINE = "baseline"
    CONTENDER = "contender"
    CONTROL = "control"


class Tone(StrEnum):
    """What kind of verdict a line gives; the renderers' colour and sign follow from it."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUAL = "equal"
    OPEN = "open"
    CONTROL = "control"


# The head: arms, verdicts, the forest plot, warnings and footnotes.


class ArmView(Frozen):
    """One arm as a reader meets it.

    Attributes:
        slot: number of its colour and shape, the same in every chart.
        version: as the server itself gives it; empty when it was not recorded.
        setup: how it differs in a line (`utf8mb4_0900_ai_ci · innodb_flush_method=fsync`); empty for nothing special.
    """

    name: str
    label: str
    role: Role
    slot: int
    version: str
    setup: str


class VerdictView(Frozen):
    """The verdict of one cell and contender.

    Attributes:
        headline: what follows the contender's name (`is at least 10.3% slower`).
        sentence: the whole verdict in words.
        remark: what the sentence adds to headline and figures; mostly empty.
        ratio, change, interval: `0.888×`, `−11.2%`, `0.880 to 0.896`; each empty while there is none.
        basis: what it rests on (`8 restarts · target precision reached`).
        notes: numbers of footnotes.
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
    """One line of the forest plot. Positions are per cent of the axis; `low`, `high` None while there is no interval.

    Attributes:
        kind: `cell`, `control` or `mean`.
        short: the label where there is little space (`oltp_read_only/4`).
        point: of the ratio; means nothing, and is not to be drawn, when the row is not `measured`.
        epochs: one position for every epoch.
        cut_left, cut_right: the interval goes on beyond the axis.
    """

    kind: str
    label: str
    short: str
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
    notes: tuple[int, ...]

    @property
    def measured(self) -> bool:
        """There is a ratio; an arm that completed nothing has none."""
        return bool(self.epochs) or self.kind == "mean"


class Forest(Frozen):
    """Ratios with intervals on one logarithmic axis.

    Attributes:
        one: position of ratio 1.
        margin: positions of the equivalence margin; None: too narrow to be seen on this axis.
        ticks: position and text.
        legend: what the marks and the margin are, in words.
        withheld: why a contender has no mean, a sentence each.
    """

    one: float = 0.0
    margin: tuple[float, float] | None = None
    ticks: tuple[tuple[float, str], ...] = ()
    rows: tuple[ForestRow, ...] = ()
    legend: str = ""
    withheld: tuple[str, ...] = ()


class Footnote(Frozen):
    """A flag raised by the statistics, with the comparisons it belongs to."""

    number: int
    word: str
    text: str
    where: tuple[str, ...]


@dataclass(frozen=True)
class Conclusion:
    """What a report says about a question.

    Attributes:
        asks: the question in words.
        lead: sentences before all others.
        replaces_verdicts: the answer rests on all arms together, so no comparison has a verdict of its own.
        document: the answer for programs; None if the verdicts are the answer.
        key: name of the document in JSON.
        exit_code: None if the verdicts decide.
    """

    asks: str
    lead: tuple[str, ...] = ()
    replaces_verdicts: bool = False
    document: BaseModel | None = None
    key: str = ""
    exit_code: ExitCode | None = None


class Status(Frozen):
    """A warning that stands above everything else (`UNTRUSTED`)."""

    word: str
    text: str


# The parts of a section.


class Prose(Frozen):
    """A paragraph; words between backticks are code."""

    kind: Literal["prose"] = "prose"
    text: str
    small: bool = False


class Steps(Frozen):
    """A numbered list."""

    kind: Literal["steps"] = "steps"
    items: tuple[str, ...]


class Code(Frozen):
    """A command or a file, to be copied as it is."""

    kind: Literal["code"] = "code"
    text: str


class Value(Frozen):
    """A table's cell: the value, under it in small what it is compared with (`1.12×`); `href`: a page it leads to."""

    text: str
    sub: str = ""
    href: str = Field(default="", exclude_if=not_)


class Row(Frozen):
    """A table's row; rows of equal `group` stand under one heading; `slot` gives the arm's colour."""

    group: str
    values: tuple[Value, ...]
    slot: int | None = None

    @classmethod
    def of(cls, *values: Value | str, group: str = "", slot: int | None = None) -> Self:
        """A row of values, given as such or as text."""
        made = (Value(text=value) if isinstance(value, str) else value for value in values)
        return cls(group=group, values=tuple(made), slot=slot)


class Table(Frozen):
    """A table with formatted values; one without rows is not shown.

    Attributes:
        id: stable name for programs and links.
        columns: headings, the first one of a text column, the others of numbers unless `all_text`; all empty for a
            list of facts.
        group_title: heading of the groups' column; empty when there is none.
        page_only: too long for Markdown.
        wide: columns that a terminal leaves out.
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

    @property
    def is_facts(self) -> bool:
        """Names and values without headings."""
        return not any(self.columns)


def step_rows(plans: Iterable[Sequence[str]]) -> list[Row]:
    """A row for each step, with that of every plan; a plan may have ended before."""
    return [Row.of(str(at), *step) for at, step in enumerate(zip_longest(*plans, fillvalue=""), start=1)]


class Series(Frozen):
    """Points of one line, in columns of equal length.

    Attributes:
        key: colour key: `arm-0` …, `cpu-user` …, `ink`.
        low, high: a band around y, or empty.
        group: lines break where it changes (a restart lies between), or empty.
        tips: the text of each point when pointed at, or empty.
        line: whether the points are joined.
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
    """One small chart: data and words, no drawing.

    Attributes:
        id: unique within the report, letters, digits and dashes.
        mark: `line`, `points` or `stack`.
        x_kind: `linear`, `threads` (logarithmic, ticks where measured), `tail` (x = −log10(1 − quantile)) or `frames`
            (a small frame for every `group` of its lines, all with the same axes).
        y_zero: the axis starts at 0.
        y_max: where it ends; None: at the data.
        boundaries: x of epoch limits.
        one: the text of a line at 1; empty: there is none.
        level, level_band: a horizontal line and its band, or None.
    """

    id: str
    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    mark: str = "line"
    x_kind: str = "linear"
    y_zero: bool = True
    y_max: float | None = None
    boundaries: tuple[float, ...] = ()
    one: str = ""
    level: float | None = None
    level_band: tuple[float, float] | None = None


class Charts(Frozen):
    """Charts side by side, on the page only.

    Attributes:
        intro: a paragraph before them.
        note: small print after them.
        legend: show the arms' colours above them.
        published: a text that is published has them as pictures beside it.
    """

    kind: Literal["charts"] = "charts"
    panels: tuple[Panel, ...]
    intro: str = ""
    note: str = ""
    legend: bool = True
    published: bool = False


class Bar(Frozen):
    """Where the processors' time went while one arm was loaded in one cell: shares of 1."""

    group: str
    label: str
    slot: int
    parts: tuple[tuple[str, float], ...]
    text: str


class Bars(Frozen):
    """Bars below each other, on the page only."""

    kind: Literal["bars"] = "bars"
    id: str
    bars: tuple[Bar, ...]


class Drawing(Frozen):
    """A feature's own HTML, on the page only.

    Attributes:
        html: safe to be shown as it is.
        script: added to the page once, however many drawings need it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    kind: Literal["drawing"] = "drawing"
    html: Markup
    script: Markup = Markup("")


class Fold(Frozen):
    """Something long, folded away, on the page only."""

    kind: Literal["fold"] = "fold"
    title: str
    content: Table | Code


class Section(Frozen):
    """A heading and what stands under it; a section inside a section has a smaller heading.

    Attributes:
        anchor: its id in the page, for links; empty: none.
        nav: its name in the page's list of contents; empty: it is not listed.
        note: a paragraph right under the heading.
        in_terminal: its tables are short and important enough for a terminal.
        folded: the page has it at its end, closed; Markdown and JSON show it like any other.
    """

    kind: Literal["section"] = "section"
    title: str
    parts: tuple["Part", ...]
    anchor: str = ""
    nav: str = ""
    note: str = ""
    in_terminal: bool = False
    folded: bool = False

    @classmethod
    def of(cls, title: str, *parts: "Part | None", **fields: str | bool) -> Self | None:
        """A section of the parts that hold something; None when none does."""
        kept = tuple(part for part in parts if part is not None and not _is_empty(part))
        return cls(title=title, parts=kept, **fields) if kept else None  # type: ignore[arg-type] # checked by the class

    def sections(self) -> Iterator["Section"]:
        """This section and all inside it."""
        yield self
        for part in self.parts:
            if isinstance(part, Section):
                yield from part.sections()


Part = Prose | Steps | Code | Table | Charts | Bars | Drawing | Fold | Section


def _is_empty(part: Part) -> bool:
    match part:
        case Table():
            return not part.rows
        case Charts():
            return not part.panels
        case Bars():
            return not part.bars
        case Fold():
            return _is_empty(part.content)
        case Prose() | Code():
            return not part.text
        case _:
            return False


def tables_of(sections: tuple[Section, ...]) -> dict[str, Table]:
    """Id -> table of the sections and those inside them, in order; folded ones left out."""
    inner = (each for section in sections for each in section.sections())
    return {part.id: part for section in inner for part in section.parts if isinstance(part, Table)}


CARDS_MAX = 12
"""Cells that get a card; of more, and of several contenders, the forest plot shows more in less room."""

_SHORT_NOTE = 160  # characters of a footnote that stands on its card


class RecordList(Frozen):
    """Flat records of a feature, and whether the CSV file has them, too."""

    name: str
    rows: tuple[Record, ...]
    in_csv: bool = False


class ReportView(Frozen):
    """Everything a report shows, in the order in which it is shown. Captures and histories have no verdicts, no arms.

    Attributes:
        arms_table: the arms with a column for each setting that differs; None while a list of them is as clear.
        summary: the result in a few sentences.
        on_cards: those of them that the cards say, too.
        means: for each contender the geometric mean over several cells, in a sentence.
        conditions: how busy the machine was, in a sentence; empty when unknown.
        key_figures: figures with a name of their own, in a line each (`tpmC, 4 threads, mysql:8.0: 19,355 (…)`).
        effort: epochs counted and discarded; where the wall time went.
        command: the command line that repeats the run; empty when unknown.
        conclusion: what is said about the question; None of captures and histories.
        says_more: the summary says more than the verdicts do.
        records: one flat record per comparison, unrounded: ratios, times in ns, rates per second.
        more_records: those of features.
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
    on_cards: tuple[str, ...] = Field(default=(), exclude=True)
    says_more: bool = Field(default=False, exclude=True)
    verdicts: tuple[VerdictView, ...] = ()
    means: tuple[str, ...] = ()
    conditions: str = ""
    forest: Forest = Forest()
    sections: tuple[Section, ...]
    key_figures: tuple[str, ...] = ()
    effort: tuple[str, ...] = ()
    command: str = ""
    footnotes: tuple[Footnote, ...] = ()
    conclusion: Conclusion | None = Field(default=None, exclude=True)
    records: tuple[Record, ...]
    more_records: tuple[RecordList, ...] = ()

    @property
    def cards(self) -> tuple[tuple[VerdictView, ForestRow], ...]:
        """Every verdict with its line of the forest plot, each for a card; empty when the plot is shown whole."""
        if len(self.verdicts) > CARDS_MAX or len({verdict.contender for verdict in self.verdicts}) > 1:
            return ()
        return tuple(zip(self.verdicts, (row for row in self.forest.rows if row.kind == "cell"), strict=True))

    @property
    def lines(self) -> tuple[ForestRow, ...]:
        """The lines of the forest plot that no card shows."""
        return tuple(row for row in self.forest.rows if not (self.cards and row.kind == "cell"))

    @property
    def lead(self) -> tuple[str, ...]:
        """The summary; beside cards without the sentences that they say, too."""
        return tuple(sentence for sentence in self.summary if not (self.cards and sentence in self.on_cards))

    def notes_of(self, verdict: VerdictView) -> tuple[tuple[Footnote, ...], tuple[int, ...]]:
        """A card's footnotes: those that are short enough to stand there, and the numbers of the others."""
        own = [note for note in self.footnotes if note.number in verdict.notes]
        short = tuple(note for note in own if len(note.text) <= _SHORT_NOTE and len(note.where) == 1)
        return short, tuple(note.number for note in own if note not in short)

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Every chart."""
        return tuple(panel for part in self._parts() if isinstance(part, Charts) for panel in part.panels)

    @property
    def scripts(self) -> tuple[Markup, ...]:
        """Scripts that the page's drawings need, each once."""
        found = (part.script for part in self._parts() if isinstance(part, Drawing) and part.script)
        return tuple(dict.fromkeys(found))

    @property
    def has_words(self) -> bool:
        """Whether the page has the list of the report's own words."""
        folded = (part.content for part in self._parts() if isinstance(part, Fold))
        return any(isinstance(content, Table) and content.id == "words" for content in folded)

    def records_of(self, name: str) -> tuple[Record, ...]:
        """A feature's records; empty if the run has none."""
        return next((each.rows for each in self.more_records if each.name == name), ())

    def _parts(self) -> Iterator["Part"]:
        return (part for section in self.sections for inner in section.sections() for part in inner.parts)

    @property
    def dashed(self) -> frozenset[str]:
        """Colour keys of the lines that are dashed in charts: the control's."""
        return frozenset(f"arm-{arm.slot}" for arm in self.arms if arm.role is Role.CONTROL)

    @property
    def tables(self) -> dict[str, Table]:
        """Id -> table, folded ones left out."""
        return ({"arms": self.arms_table} if self.arms_table else {}) | tables_of(self.sections)
