"""The data model of a study: arms, workloads, concurrencies, data, a stopping rule. A duel is the smallest study."""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import combinations
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from bakeoff import features
from bakeoff.errors import SpecError
from bakeoff.spec.fields import RATE_MAX, Cache, Conditions, Frozen, Placement, Sizes
from bakeoff.spec.server_name import Origin, ServerSpec


class Part(StrEnum):
    SERVER = "server"  # loads are shared where the option does not affect the stored data
    DATA = "data"  # each level has its own loads
    CLIENT = "client"  # same server settings and same loads


class Factor(Frozen):
    name: str
    parts: tuple[Part, ...]
    levels: tuple[str, ...]


class PublishedFigure(Frozen):
    cell: str
    arm: str
    value: float


class PublishedClaim(Frozen):
    """A published statement about two arms. `low` and `high` bound the ratio of their throughputs, unless None."""

    says: str
    cell: str
    numerator: str
    denominator: str
    low: float | None
    high: float | None


class Published(Frozen):
    source: str
    unit: str = ""
    figures: tuple[PublishedFigure, ...] = ()
    claims: tuple[PublishedClaim, ...] = ()


class Fraction(Frozen):
    """Which combinations of some two-level factors were chosen. `words`: sets of factors that determine each other."""

    factors: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]
    measured: int
    complete: int

    @property
    def resolution(self) -> int:
        return min(map(len, self.words))

    def mixed_pairs(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """Group the two-factor interactions; only the sum of a group can be estimated."""
        groups: dict[frozenset[frozenset[str]], list[tuple[str, str]]] = {}
        for pair in combinations(self.factors, 2):
            same = {frozenset(pair)} | {frozenset(pair) ^ frozenset(word) for word in self.words}
            groups.setdefault(frozenset(effect for effect in same if len(effect) == 2), []).append(pair)
        return tuple(tuple(group) for group in groups.values())

    def mixed_with(self, first: str, second: str) -> tuple[tuple[str, str], ...]:
        pair = {first, second}
        group = next((group for group in self.mixed_pairs() if any(set(each) == pair for each in group)), ())
        return tuple(each for each in group if set(each) != pair)

    def sentences(self) -> tuple[str, ...]:
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
    """The factors and levels behind the arms of a study. `levels`: arm -> level of each factor.

    `fraction` is None for all combinations that `where` leaves. With `together` an arm is measured until its cell is
    finished, because effects need epochs that have every arm.
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


OptionValue = bool | int | float | str


class Data(Frozen):
    """Content and declaration of the tables. Arms with equal data and equal server can share a build.

    Attributes:
        charset, collation: of the database; None for the server's default. Those of tables and columns inherit.
        options: script options of this arm alone (`table_size`); they override the workload's.
        source: path of a dump that is loaded instead of running `prepare`, or URL of a running server.
        source_bytes: expected size of the data of a URL.
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
        """Character set of the text columns; None for the server's default."""
        return self.column_charset or self.table_charset or self.charset

    @property
    def text_collation(self) -> str | None:
        """Collation of the text columns; None for the default of their character set on that server."""
        if self.column_charset:
            return self.column_collation
        return self.table_collation if self.table_charset else self.collation

    @property
    def declared_table_options(self) -> str:
        words = [f"DEFAULT CHARACTER SET {self.table_charset}"] if self.table_charset else []
        words += [f"COLLATE {self.table_collation}"] if self.table_collation else []
        return " ".join([*words, self.table_options]).strip()


CONNECTION_WORDS = {
    "transport": ("socket", "tcp"),
    "tls": ("disabled", "preferred", "required"),
    "prepare_mode": ("server", "client"),
}


class Connection(Frozen):
    """How the client talks to the server. The charset and collation of the data by default, so nothing is converted."""

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
            raise SpecError(f"{info.field_name} cannot be {word!r}.", hint=f"Write one of {', '.join(known)}.")
        return word.lower()


class Arm(Frozen):
    """One combination of levels: a server, its data, the way to talk to it.

    `slowdown_percent` is injected, for testing the method: uncounted events per 100 counted.
    """

    name: str
    label: str
    server: ServerSpec
    data: Data = Data()
    connection: Connection = Connection()
    slowdown_percent: float = Field(default=0.0, ge=0.0)

    def renamed(self, name: str, label: str) -> Self:
        return self.model_copy(update={"name": name, "label": label})

    def with_server(self, server: ServerSpec) -> Self:
        return self.model_copy(update={"server": server})

    def with_data(self, data: Data) -> Self:
        return self.model_copy(update={"data": data})


class WorkloadFields(Frozen):
    script: str = Field(
        description="Bundled name (`bakeoff list workloads`), or path of a Lua file or a capture beside the study."
    )
    rate_per_s: float | None = Field(
        default=None, gt=0, le=RATE_MAX, description="Open loop at this many events per second."
    )
    speed: float | None = Field(
        default=None, ge=1e-6, le=1e6, description="Replay speed relative to the captured timing; 1 is real time."
    )
    name: str = Field(default="", pattern="^[A-Za-z0-9_.-]*$", description="What its cells are called.")
    writes: bool | None = Field(
        default=None, description="It changes data; default: true, unless a bundled script or a capture only reads."
    )


class Workload(WorkloadFields):
    """A script and its options, under sysbench's names (`table_size`), or a capture, which is replayed."""

    options: tuple[tuple[str, OptionValue], ...] = ()

    def configured(self, options: tuple[tuple[str, OptionValue], ...], rate_per_s: float | None) -> Self:
        return self.model_copy(update={"options": (*self.options, *options), "rate_per_s": rate_per_s})


class Question(Frozen):
    """What a study asks. A feature can add a record (`question.py`); its kind is the feature's name.

    `reference` is the log ratio that a comparison is measured against.
    """

    decisive: ClassVar[bool] = False
    """Whether to stop measuring a comparison once `reference` is excluded, however wide its interval is."""

    adds_arms: ClassVar[bool] = False
    """Whether arms join during the run, which starts with the first two."""

    noun: ClassVar[str] = "duel"

    kind: str = "verdict"
    reference: float = 0.0

    @property
    def is_verdict(self) -> bool:
        return self.kind == "verdict"

    def map_arms(self, _change: Callable[[tuple[Arm, ...]], tuple[Arm, ...]]) -> "Question":
        return self


def _as_question(value: object) -> object:
    kind = value.get("kind", "verdict") if isinstance(value, dict) else "verdict"
    if kind == "verdict":
        return value
    module = features.part(kind, "question") if kind in features.NAMES else None
    if module is None:
        raise SpecError(f"study: it asks a question of kind {kind!r}, which this bakeoff does not know.")
    return module.QUESTION.record.model_validate(value)


class Study(Sizes, Conditions):
    """Everything that a run needs to know. `workloads` and `threads` make the cells; the first arm is the baseline.

    Attributes:
        capture_database: database of captured statements on running servers when neither the log nor the URL names one.
        precision, equivalence: half-widths in natural-log units.
        has_target: the precision was asked for, so the report says when the budget ends before it is reached.
        client: host of the client, as ssh knows it; None: client and servers share this machine.
    """

    title: str
    arms: tuple[Arm, ...]
    workloads: tuple[Workload, ...]
    capture_database: str = ""
    has_target: bool = False
    question: Annotated[SerializeAsAny[Question], BeforeValidator(_as_question)] = Question()
    seed: int = 0
    design: Design | None = None
    client: str | None = Field(default=None, pattern=r"^[^\s-]\S*$", exclude_if=lambda client: client is None)

    @property
    def baseline(self) -> Arm:
        return self.arms[0]

    @property
    def starting_arms(self) -> tuple[Arm, ...]:
        return self.arms[:2] if self.question.adds_arms else self.arms

    @property
    def has_running_server(self) -> bool:
        return any(arm.server.is_running for arm in self.arms)

    @model_validator(mode="after")
    def _consistent(self) -> "Study":
        names = [arm.name for arm in self.arms]
        if len(names) < 2 or len(set(names)) < len(names):
            raise SpecError("study: at least two arms with different names are required.")
        design = self.design
        if design and any(len(design.levels.get(name, ())) != len(design.factors) for name in names):
            raise SpecError("study: its design needs a level of every factor for every arm.")
        self._check_sources()
        self._check_limits()
        if not self.workloads:
            raise SpecError("study: at least one workload is required.")
        return self

    def with_arms(self, arms: Iterable[Arm]) -> Self:
        return self.model_copy(update={"arms": tuple(arms)})

    def loaded_from(self, client: str) -> "Study":
        """Return this study with its client on another host; SpecError if it needs both on one machine."""
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

    def _check_limits(self) -> None:
        limited = [arm for arm in self.arms if arm.server.limits]
        if outside := next((arm for arm in limited if arm.server.origin in (Origin.URL, Origin.DOCKER)), None):
            raise SpecError(
                f"{outside.server}: bakeoff does not start its process, so it cannot be limited.",
                hint="Leave the limits out, or name a server of the catalogue, path: or tarball:.",
                field=("arms", outside.name, "server"),
            )
        if self.cache is Cache.COLD and (running := next((arm for arm in self.arms if arm.server.is_running), None)):
            raise SpecError(
                f"cache cold: {running.server} is a running server, which bakeoff does not restart.",
                hint="Leave it out, or let bakeoff start all servers.",
                field=("cache",),
            )
        if self.placement is Placement.PAIRED and (few := next((a for a in limited if a.server.machine.cpus), None)):
            raise SpecError(
                "placement paired: arms with cpus differ in the CPUs that connections could share.",
                hint="Leave the placement out.",
                field=("arms", few.name, "server", "limits", "cpus"),
            )

    def _check_sources(self) -> None:
        with_source = [arm for arm in self.arms if arm.data.source]
        if remote := next((arm for arm in with_source if arm.server.is_running), None):
            raise SpecError(
                f"data: {remote.server} is a running server, and bakeoff does not load a dump into one.",
                hint="Leave the data out: a running server is used with its own.",
                field=("arms", remote.name, "data", "source"),
            )
        if with_source and len(with_source) < len(self.arms):
            raise SpecError("data: some arms have a dump and others do not.", hint="Name one for every arm.")


def control_of(arm: Arm) -> Arm:
    """Return a second instance of an arm: its true ratio is 1, so it shows whether this machine can be trusted."""
    return arm.model_copy(update={"name": f"{arm.name}'", "label": f"{arm.label} (control)", "slowdown_percent": 0.0})
