"""The data model of a study: arms, workloads, concurrencies, data, a stopping rule. A duel is the smallest study."""

import math
import re
from collections.abc import Callable
from enum import StrEnum
from itertools import combinations
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from bakeoff import features
from bakeoff.errors import SpecError
from bakeoff.spec.server_name import Frozen, Origin, ServerSpec


class Part(StrEnum):
    """What a factor belongs to, and so what arms that differ in it share."""

    SERVER = "server"  # loads are shared where the option does not affect the stored data
    DATA = "data"  # each level has its own loads
    CLIENT = "client"  # same server settings and same loads


class Factor(Frozen):
    """What is varied.

    Attributes:
        parts: of the settings that its levels hold; usually one.
        levels: as written, in order.
    """

    name: str
    parts: tuple[Part, ...]
    levels: tuple[str, ...]


class PublishedFigure(Frozen):
    """A published throughput of one arm in one cell; only ratios of such figures are compared."""

    cell: str
    arm: str
    value: float


class Published(Frozen):
    """Figures that somebody published for the same question.

    Attributes:
        source: who, where, when.
        unit: what the figures count.
    """

    source: str
    unit: str
    figures: tuple[PublishedFigure, ...]


class Fraction(Frozen):
    """Which combinations of some two-level factors were chosen, and which effects are therefore confounded.

    Attributes:
        factors: the two-level ones in the fraction; all others are crossed with them in full.
        words: the defining relation: sets of factors whose levels determine each other.
        measured, complete: combinations (arms) of the fraction, and of all levels.
    """

    factors: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]
    measured: int
    complete: int

    @property
    def resolution(self) -> int:
        """Length of the shortest word."""
        return min(map(len, self.words))

    def mixed_pairs(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """Two-factor interactions in groups; only the sum of a group can be estimated."""
        groups: dict[frozenset[frozenset[str]], list[tuple[str, str]]] = {}
        for pair in combinations(self.factors, 2):
            same = {frozenset(pair)} | {frozenset(pair) ^ frozenset(word) for word in self.words}
            groups.setdefault(frozenset(effect for effect in same if len(effect) == 2), []).append(pair)
        return tuple(tuple(group) for group in groups.values())

    def mixed_with(self, first: str, second: str) -> tuple[tuple[str, str], ...]:
        """The two-factor interactions confounded with that of these factors; () when there is none."""
        pair = {first, second}
        group = next((group for group in self.mixed_pairs() if any(set(each) == pair for each in group)), ())
        return tuple(each for each in group if set(each) != pair)

    def sentences(self) -> tuple[str, ...]:
        """The fraction and its aliases in words: for the plan, the run and the report."""
        roman = {3: "III", 4: "IV", 5: "V", 6: "VI", 7: "VII"}.get(self.resolution, str(self.resolution))
        named = [" = ".join(f"{a} × {b}" for a, b in group) for group in self.mixed_pairs() if len(group) > 1]
        return (
            f"A fraction: {self.measured} of {self.complete} combinations, of resolution {roman} in "
            f"{', '.join(self.factors)} (`design: full` measures all).",
            f"Effects of single factors are mixed only with interactions of {self.resolution - 1} and more factors.",
            f"Interactions that cannot be distinguished, only their sum is estimated: {'; '.join(named)}."
            if named
            else f"Interactions of two factors are mixed only with those of {self.resolution - 2} and more.",
        )


class Design(Frozen):
    """Where the arms of a study come from.

    Attributes:
        question: in words; may be empty.
        about: where the question comes from; may be empty.
        scale: `demo`, `small`, `paper`, or empty for what the file itself says.
        factors: in the file's order.
        levels: arm -> level of each factor, in the order of the factors; the control has its baseline's.
        excluded: combinations left out by `where`.
        fraction: how the combinations were chosen; None: all that `where` leaves.
        together: an arm is measured until its cell is finished, also when its own ratio is settled: effects need epochs
            that have every arm.
    """

    question: str = ""
    about: str = ""
    scale: str = ""
    factors: tuple[Factor, ...] = ()
    levels: dict[str, tuple[str, ...]] = {}
    excluded: int = 0
    fraction: Fraction | None = None
    together: bool = False
    published: Published | None = None


LOADS_MAX = 1_000
RATE_MAX = 1e9
"""Events per second: one a nanosecond."""
DATABASE_PATTERN = r"^[A-Za-z0-9_$-]{1,64}$"
SEED_MAX = 2**63 - 1
THREADS_MAX = 10_000
"""Connections of one arm: the engine takes no more."""

OptionValue = bool | int | float | str


class Profile(StrEnum):
    """Which settings bakeoff makes equal before measuring."""

    MATCHED = "matched"  # same memory and durability on all arms
    STOCK = "stock"  # each version's own defaults


class Data(Frozen):
    """Content and declaration of the tables. Arms with equal data and equal server can share a build.

    Attributes:
        charset, collation: of the database, hence of the tables; None: the server's default.
        table_charset, table_collation: of the tables, where it is not the database's.
        column_charset, column_collation: of the columns that hold texts, where it is not the table's.
        table_options: appended to CREATE TABLE (`ROW_FORMAT=COMPRESSED`).
        engine: storage engine, as `--mysql-storage-engine`.
        options: of the workloads' scripts, for this arm alone (`table_size`); they go over the workload's own.
        source: a dump (docs/data.md) that is loaded in place of what the scripts' `prepare` makes: its path, or the URL
            of a running server before its data was taken.
        source_bytes: what the data of a URL is expected to take; of a path the dump says it.
    """

    charset: str | None = None
    collation: str | None = None
    table_charset: str | None = None
    table_collation: str | None = None
    column_charset: str | None = None
    column_collation: str | None = None
    table_options: str = ""
    engine: str = "innodb"
    options: tuple[tuple[str, OptionValue], ...] = ()
    source: str = ""
    source_bytes: int = 0

    @property
    def text_charset(self) -> str | None:
        """Character set of the text columns, the innermost that is named; None: the server's default."""
        return self.column_charset or self.table_charset or self.charset

    @property
    def text_collation(self) -> str | None:
        """Collation of the text columns; None: the default of their character set on that server."""
        if self.column_charset:
            return self.column_collation
        return self.table_collation if self.table_charset else self.collation

    @property
    def declared_table_options(self) -> str:
        """Table options of CREATE TABLE."""
        words = [f"DEFAULT CHARACTER SET {self.table_charset}"] if self.table_charset else []
        words += [f"COLLATE {self.table_collation}"] if self.table_collation else []
        return " ".join([*words, self.table_options]).strip()


CONNECTION_WORDS = {
    "transport": ("socket", "tcp"),
    "tls": ("disabled", "preferred", "required"),
    "prepare_mode": ("server", "client"),
}
"""Fields of a connection that take one of a few words."""


class Connection(Frozen):
    """How the client talks to the server; words in lower case.

    Attributes:
        charset, collation: of the connection; None: that of the data, so that no conversion is measured.
        transport: `socket` or `tcp`.
        tls: `disabled` by default, so that it never differs by accident.
        prepare_mode: `server` or `client`.

    Raises:
        SpecError: a word that is none of `CONNECTION_WORDS`.
    """

    charset: str | None = None
    collation: str | None = None
    transport: str = "socket"
    tls: str = "disabled"
    prepare_mode: str = "server"

    @field_validator(*CONNECTION_WORDS)
    @classmethod
    def _known(cls, word: str, info: ValidationInfo) -> str:
        assert info.field_name
        known = CONNECTION_WORDS[info.field_name]
        if word.lower() not in known:
            raise SpecError(f"{word!r} is no {info.field_name}.", hint=f"Write one of {', '.join(known)}.")
        return word.lower()


class Arm(Frozen):
    """One combination of levels: a server, its data, the way to talk to it.

    Attributes:
        name: short and unique in the study (`A`, `B`, `A'`).
        label: what a reader calls it (`mysql:8.0.15`).
        slowdown_percent: injected slowdown, for testing the method: uncounted events per 100 counted.
    """

    name: str
    label: str
    server: ServerSpec
    data: Data = Data()
    connection: Connection = Connection()
    slowdown_percent: float = Field(default=0.0, ge=0.0)


class Placement(StrEnum):
    """Where the client thread and the server thread of a connection run."""

    PAIRED = "paired"  # both on one CPU: connection i on CPU i modulo their number
    FREE = "free"  # chosen by the kernel


class Workload(Frozen):
    """A script and its options, sysbench's names (`table_size`, `range_size`); or a capture, which is replayed.

    Attributes:
        script: bundled name (`oltp_read_only`), or path of a Lua file or a capture.
        rate_per_s: open loop at this rate; None: closed loop.
        speed: of a capture: by the clock, captured seconds in a second; None: closed loop.
        name: what its cells are called; empty: the script's name.
        writes: it changes data; None: True unless bakeoff knows the script to read only, or finds it out of a capture.
    """

    script: str
    options: tuple[tuple[str, OptionValue], ...] = ()
    rate_per_s: float | None = Field(default=None, gt=0)
    speed: float | None = Field(default=None, ge=1e-6, le=1e6)
    name: str = ""
    writes: bool | None = None


class Question(Frozen):
    """What a study asks; a feature has a record of its own (`question.py`), whose kind is the feature's name.

    Attributes:
        reference: the log ratio that a comparison is measured against: measuring may end once it is excluded.
    """

    adds_arms: ClassVar[bool] = False
    """Whether arms join while it is measured; the first two start it."""

    noun: ClassVar[str] = "duel"

    kind: str = "verdict"
    reference: float = 0.0

    @property
    def is_verdict(self) -> bool:
        """Whether it is the core's own: FASTER, SLOWER or EQUIVALENT."""
        return self.kind == "verdict"

    def map_arms(self, _change: Callable[[tuple[Arm, ...]], tuple[Arm, ...]]) -> "Question":
        """The question with the arms that it holds itself changed."""
        return self


def _as_question(value: object) -> object:
    """Read a question as the record of its feature."""
    kind = value.get("kind", "verdict") if isinstance(value, dict) else "verdict"
    if kind == "verdict":
        return value
    module = features.part(kind, "question") if kind in features.NAMES else None
    if module is None:
        raise SpecError(f"study: it asks a question of kind {kind!r}, which this bakeoff does not know.")
    return module.QUESTION.record.model_validate(value)


class Study(Frozen):
    """Everything that a run needs to know.

    Attributes:
        arms: the baseline first; at least two.
        workloads, threads: their product is the cells.
        tables, table_size: the data that `prepare` loads, shared by all workloads.
        database: of sysbench's tables; other scripts have one of their own, whose name begins so.
        capture_database: on running servers, of captured statements whose schema neither the log nor the URL tells.
        precision: half-width w at which measuring ends, natural-log units.
        has_target: the precision was asked for, so that a report remarks when the budget ends before it is reached.
        equivalence: margin Delta of the verdict EQUIVALENT, natural-log units.
        question: what is asked of the arms: a verdict, unless a feature asks something else.
        warm_s: seconds of load before each workload's measuring, after every start.
        budget_s: wall time from loading to verdict, downloads left out.
        builds: independent loads of the data per arm, rotated over epochs.
        combine_hosts: one verdict over hosts of a cluster that are unlike machines, too.
        freeze: stop the resting server (SIGSTOP); None: only for workloads that write.
        placement: None: paired where that is better and possible.
        seed: everything random in the run follows from it.
        design: the factors and levels behind the arms, and published figures; None: a duel.
        client: host of the client, for ssh; None: client and servers share this machine.
    """

    title: str
    arms: tuple[Arm, ...]
    workloads: tuple[Workload, ...]
    threads: tuple[int, ...] = (4,)
    tables: int = Field(default=4, ge=1, le=1000)
    table_size: int = Field(default=100_000, ge=1)
    database: str = "sbtest"
    capture_database: str = ""
    precision: float = Field(default=math.log(1.01), gt=0)
    has_target: bool = False
    equivalence: float = Field(default=math.log(1.01), gt=0)
    question: Annotated[SerializeAsAny[Question], BeforeValidator(_as_question)] = Question()
    budget_s: float = Field(default=600.0, gt=0)
    builds: int = Field(default=2, ge=1)
    combine_hosts: bool = Field(default=False, exclude_if=lambda combined: not combined)
    warm_s: float = Field(default=3.0, ge=0)
    profile: Profile = Profile.MATCHED
    freeze: bool | None = None
    placement: Placement | None = None
    seed: int = 0
    design: Design | None = None
    client: str | None = Field(default=None, pattern=r"^[^\s-]\S*$", exclude_if=lambda client: client is None)

    @property
    def baseline(self) -> Arm:
        """The arm that every ratio is over."""
        return self.arms[0]

    @property
    def starting_arms(self) -> tuple[Arm, ...]:
        """The arms that are there from the start: all, unless arms join while it is measured."""
        return self.arms[:2] if self.question.adds_arms else self.arms

    @property
    def has_running_server(self) -> bool:
        """A server among them was running already: it is not restarted, and its tables outlive the run."""
        return any(arm.server.origin is Origin.URL for arm in self.arms)

    @model_validator(mode="after")
    def _consistent(self) -> "Study":
        names = [arm.name for arm in self.arms]
        if len(names) < 2 or len(set(names)) < len(names):
            raise SpecError("study: it takes at least two arms, each with a name of its own.")
        design = self.design
        if design and any(len(design.levels.get(name, ())) != len(design.factors) for name in names):
            raise SpecError("study: its design needs a level of every factor for every arm.")
        if not re.fullmatch(DATABASE_PATTERN, self.database):
            raise SpecError(
                f"database {self.database!r}: a name has 1 to 64 letters, digits, _, $ and -.",
                hint="Name another one, or leave it out for sbtest.",
                field=("database",),
            )
        self._check_sources()
        if not self.workloads or not self.threads or min(self.threads) < 1:
            raise SpecError("study: it takes at least one workload and one number of threads above zero.")
        return self

    def loaded_from(self, client: str) -> "Study":
        """Return this study with its client on another host.

        Raises:
            SpecError: the study asks for something that needs client and servers on one machine.
        """
        if not re.fullmatch(r"[^\s-]\S*", client):
            raise SpecError(f"--client {client!r}: expected [USER@]HOST.")
        why = "client and servers are on different hosts"
        if self.has_running_server:
            raise SpecError(
                f"--client: {self.title} has a running server, which --client does not reach.",
                hint="Run bakeoff on the client's host, and name all servers by URL.",
            )
        if self.placement is Placement.PAIRED:
            raise SpecError(f"--placement paired: {why}, so their threads cannot share a CPU.", hint="Leave it out.")
        if self.freeze:
            raise SpecError(f"--freeze: {why}, and the client cannot stop a server.", hint="Leave it out.")
        if self.design and "transport" in [factor.name for factor in self.design.factors]:
            raise SpecError(f"factor transport: {why}, so all connections are TCP.", hint="Leave the factor out.")
        return self.model_copy(update={"client": client})

    def _check_sources(self) -> None:
        """Own data is loaded on every arm or on none, and never into a running server."""
        with_source = [arm for arm in self.arms if arm.data.source]
        if remote := next((arm for arm in with_source if arm.server.origin is Origin.URL), None):
            raise SpecError(
                f"data: {remote.server} is a running server, into which bakeoff loads no dump.",
                hint="Leave the data out: a running server is used with its own.",
                field=("arms", remote.name, "data", "source"),
            )
        if with_source and len(with_source) < len(self.arms):
            raise SpecError("data: some arms have a dump and others none.", hint="Name one for every arm.")


def control_of(arm: Arm) -> Arm:
    """A second instance of an arm: its true ratio is 1, so it shows whether this machine can be trusted today."""
    return arm.model_copy(update={"name": f"{arm.name}'", "label": f"{arm.label} (control)", "slowdown_percent": 0.0})
