"""What a study varies, and what was published about it: kept with the study, so that a report can tell years later."""

from enum import StrEnum
from itertools import combinations

from pydantic import BaseModel, ConfigDict


class Part(StrEnum):
    """What a factor belongs to; it decides what arms that differ in it can share."""

    SERVER = "server"  # a server of its own; builds are shared where the option does not touch the data
    DATA = "data"  # loads of its own
    CLIENT = "client"  # only the way to talk to the server: the same settings and the same loads


class Frozen(BaseModel):
    """Base of the values here."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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
    """Which combinations of some two-level factors were chosen, and what can therefore not be told apart.

    Attributes:
        factors: the fractioned ones; all others are crossed with them in full.
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
        """Interactions of two fractioned factors in groups; those of one group have the same estimate, their sum."""
        groups: dict[frozenset[frozenset[str]], list[tuple[str, str]]] = {}
        for pair in combinations(self.factors, 2):
            same = {frozenset(pair)} | {frozenset(pair) ^ frozenset(word) for word in self.words}
            groups.setdefault(frozenset(effect for effect in same if len(effect) == 2), []).append(pair)
        return tuple(tuple(group) for group in groups.values())

    def mixed_with(self, first: str, second: str) -> tuple[tuple[str, str], ...]:
        """The other interactions of two factors that one cannot be told from; () when it stands alone."""
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
            f"Interactions that cannot be told apart, only their sum is estimated: {'; '.join(named)}."
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
    """

    question: str = ""
    about: str = ""
    scale: str = ""
    factors: tuple[Factor, ...] = ()
    levels: dict[str, tuple[str, ...]] = {}
    excluded: int = 0
    fraction: Fraction | None = None
    published: Published | None = None
