"""What a report says, before it has a form: every number formatted once, every text plain, nothing escaped yet.

`build_view` makes it; the renderers (html, markdown, terminal, csv, json) only lay it out. JSON-serialisable, so that a
snapshot of it is a test of everything the renderers have in common.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Base of the values here."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Role(StrEnum):
    """What an arm is in this study."""

    BASELINE = "baseline"
    CONTENDER = "contender"
    CONTROL = "control"


class Tone(StrEnum):
    """What kind of answer a line gives; the renderers' colour and sign follow from it."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUAL = "equal"
    OPEN = "open"
    CONTROL = "control"


class ArmView(Frozen):
    """One arm as a reader meets it.

    Attributes:
        slot: number of its colour and shape, the same in every chart.
        version: what the server itself said; empty when it was not recorded.
        setup: how it differs in a line (`utf8mb4_0900_ai_ci · innodb_flush_method=fsync`); empty for nothing special.
    """

    name: str
    label: str
    role: Role
    slot: int
    version: str
    setup: str


class Answer(Frozen):
    """The verdict of one cell and contender.

    Attributes:
        headline: what follows the contender's name (`is at least 10.3% slower`).
        sentence: the whole answer in words.
        remark: what the sentence adds to headline and figures; mostly empty.
        ratio, change, interval: `0.888×`, `−11.2%`, `0.880 to 0.896`; each empty while there is none.
        basis: what it stands on (`8 restarts · target precision reached`).
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
        short: the label where room is scarce (`oltp_read_only/4`).
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
        margin: positions of the equivalence margin.
        ticks: position and text.
    """

    one: float
    margin: tuple[float, float]
    ticks: tuple[tuple[float, str], ...]
    rows: tuple[ForestRow, ...]


class Series(Frozen):
    """Points of one line, in columns of equal length.

    Attributes:
        key: colour key: `arm-0` …, `cpu-user` …, `ink`.
        low, high: a band around y, or empty.
        group: lines break where it changes (a restart lies between), or empty.
        tips: what a point says when pointed at, or empty.
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
        x_kind: `linear`, `threads` (logarithmic, ticks where measured) or `tail` (x = −log10(1 − quantile)).
        y_zero: the axis starts at 0.
        y_max: where it ends; None: at the data.
        boundaries: x of epoch limits.
        level, level_band: a horizontal line and its band, or None.
    """

    id: str
    title: str
    x_title: str
    y_title: str
    mark: str
    series: tuple[Series, ...]
    x_kind: str = "linear"
    y_zero: bool = True
    y_max: float | None = None
    boundaries: tuple[float, ...] = ()
    level: float | None = None
    level_band: tuple[float, float] | None = None
    note: str = ""


class Value(Frozen):
    """A table's cell: the value, and under it in small what it is compared with (`1.12×`)."""

    text: str
    sub: str = ""


class Row(Frozen):
    """A table's row; rows of equal `group` stand under one heading; `slot` gives the arm's colour."""

    group: str
    values: tuple[Value, ...]
    slot: int | None = None


class Table(Frozen):
    """A table with formatted values.

    Attributes:
        id: stable name for programs and links.
        group_title: heading of the groups' column; empty when there is none.
        columns: headings, the first one of a text column, the others of numbers unless `all_text`.
    """

    id: str
    group_title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    all_text: bool = False
    note: str = ""


class Bar(Frozen):
    """Where the processors' time went while one arm was loaded in one cell: shares of 1."""

    group: str
    label: str
    slot: int
    parts: tuple[tuple[str, float], ...]
    text: str


class Footnote(Frozen):
    """A flag raised by the statistics, with what it belongs to."""

    number: int
    word: str
    text: str
    where: tuple[str, ...]


class Status(Frozen):
    """A warning that stands above everything else (`UNTRUSTED`)."""

    word: str
    text: str


class Document(Frozen):
    """A configuration file as it was used."""

    name: str
    text: str


class ReportView(Frozen):
    """Everything a report shows, in the order in which it is shown."""

    format: int = 1
    run: str
    directory: str
    title: str
    question: str
    dateline: str
    statuses: tuple[Status, ...]
    arms: tuple[ArmView, ...]
    lead: tuple[str, ...]
    answers: tuple[Answer, ...]
    summary: tuple[str, ...]
    conditions: str
    forest: Forest
    throughput: Table
    threads_panels: tuple[Panel, ...]
    scaling: Table
    scaling_panels: tuple[Panel, ...]
    time_panels: tuple[Panel, ...]
    stability: Table
    jitter_panels: tuple[Panel, ...]
    warm_up_panels: tuple[Panel, ...]
    epoch_panels: tuple[Panel, ...]
    latency_note: str
    latency: Table
    percentile_panels: tuple[Panel, ...]
    costs: Table
    sizes: Table
    published: Table
    effects: Table
    interactions: Table
    pairs: tuple[Table, ...]
    tpcc: Table
    tpcc_types: Table
    sets: Table
    cpu_bars: tuple[Bar, ...]
    arm_panels: tuple[Panel, ...]
    host_panels: tuple[Panel, ...]
    pilot: Table
    pilot_panels: tuple[Panel, ...]
    data: Table
    same_rows: Table
    declared: Table
    undeclared: Table
    other_settings: Table
    documents: tuple[Document, ...]
    environment: Table
    method: tuple[str, ...]
    wall: Table
    command: str
    discarded: Table
    attempts: str
    footnotes: tuple[Footnote, ...]
    detail_note: str
    records: tuple[dict[str, str | int | float | bool | None], ...]
