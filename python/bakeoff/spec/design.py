"""What a study varies, and what was published about it: kept with the study, so that a report can tell years later."""

from enum import StrEnum

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


class Design(Frozen):
    """Where the arms of a study come from.

    Attributes:
        question: in words; may be empty.
        about: where the question comes from; may be empty.
        scale: `demo`, `small`, `paper`, or empty for what the file itself says.
        factors: in the file's order.
        levels: arm -> level of each factor, in the order of the factors; the control has its baseline's.
        excluded: combinations left out by `where`.
    """

    question: str = ""
    about: str = ""
    scale: str = ""
    factors: tuple[Factor, ...] = ()
    levels: dict[str, tuple[str, ...]] = {}
    excluded: int = 0
    published: Published | None = None
