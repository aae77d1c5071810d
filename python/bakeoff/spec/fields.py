"""The fields of a study, declared once: keys of a study file, options of the commands, values of the stored record.

`bakeoff.cli.options` turns them into command-line options, pydantic into the YAML schema and the record.
"""

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from bakeoff.errors import SpecError
from bakeoff.units import parse_duration_s, parse_precision, parse_rows

LOADS_MAX = 1_000
RATE_MAX = 1e9
"""Events per second: one per nanosecond."""
SEED_MAX = 2**63 - 1
TABLES_MAX = 1_000
THREADS_MAX = 10_000
DATABASE_PATTERN = r"^[A-Za-z0-9_$-]{1,64}$"


IN_FILE = "in a file"
"""Pydantic context for reading a study file: mistakes are collected, each with its place in the file."""


@dataclass(frozen=True)
class Option:
    """What the help and the schema say about a field, and how to read its text.

    `parse` raises SpecError; by default the field's type decides. `default` describes one that is computed.
    """

    help: str = ""
    metavar: str = ""
    parse: Callable[[str], Any] | None = field(default=None, repr=False)
    flags: str = ""
    default: str = ""
    section: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401
        parse, schema = self.parse, handler(source)
        if parse is None:
            return schema

        def read(value: object, info: ValidationInfo) -> object:
            if info.context is IN_FILE and type(value) is int:  # `budget: 60`; units are optional
                value = str(value)
            try:
                return parse(value) if isinstance(value, str) else value
            except SpecError as error:
                if info.context is not IN_FILE:
                    raise SpecError(error.message, hint=error.hint, field=(info.field_name or "",)) from None
                raise PydanticCustomError("spec", "{reason}", {"reason": error.message, "hint": error.hint}) from None

        either = core_schema.union_schema([core_schema.str_schema(), schema])
        return core_schema.with_info_before_validator_function(read, schema, json_schema_input_schema=either)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(schema) | ({"description": self.help} if self.help else {})


class Argument(Option):
    """A positional argument; `metavar` is its name."""


class Frozen(BaseModel):
    """Immutable base model. Rejects unknown fields and NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    SECTION: ClassVar[str] = "Output"

    def given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


class Profile(StrEnum):
    """Which settings bakeoff makes equal before measuring."""

    MATCHED = "matched"  # same memory and durability on all arms
    STOCK = "stock"  # each version's own defaults


class Placement(StrEnum):
    """The CPUs of the client thread and the server thread of a connection."""

    PAIRED = "paired"  # both on one CPU: connection i on CPU i modulo their number
    FREE = "free"  # chosen by the kernel


class Cache(StrEnum):
    """Whether the time that a server with empty caches takes to be fast again is measured, too."""

    WARM = "warm"
    COLD = "cold"


def typed(text: str) -> Any:  # noqa: ANN401 — the type is the field's
    """A default as a user would type it; the field's parser reads it."""
    return text


def split_list(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise SpecError(f"an entry of {text!r} is empty.", hint="Write a,b,c.")
    if len(set(parts)) < len(parts):
        raise SpecError(f"an entry appears twice in {text!r}.", hint="Leave one out.")
    return parts


def parse_threads(text: str) -> tuple[int, ...]:
    parts = split_list(text)
    if odd := next((part for part in parts if not re.fullmatch(r"[1-9]\d{0,8}", part)), None):
        raise SpecError(f"{odd!r} is not a whole number above zero.", hint="Write --threads 1,4,16.")
    counts = tuple(map(int, parts))
    if max(counts) > THREADS_MAX:
        raise SpecError(f"{max(counts)} is more than {THREADS_MAX}.", hint="Write --threads 1,16,64.")
    return counts


def parse_database(text: str) -> str:
    if not re.fullmatch(DATABASE_PATTERN, text):
        raise SpecError(
            f"{text!r} is not a database name (1 to 64 letters, digits, _, $ and -).",
            hint="Choose another one, or leave it out for sbtest.",
        )
    return text


class Sizes(Frozen):
    """How much is measured. A scale of a study file may change it; what is asked stays the same."""

    model_config = ConfigDict(validate_default=True, validate_by_name=True)

    threads: Annotated[
        tuple[Annotated[int, Field(ge=1, le=THREADS_MAX, strict=True)], ...],
        Field(min_length=1),
        Option("Connections; each number is a cell: 1,16,64.", "N,...", parse_threads, section="Workload"),
    ] = Field(default=typed("4"))
    tables: Annotated[int, Field(ge=1, le=TABLES_MAX), Option("Tables to load.", "N", section="Data")] = 4
    table_size: Annotated[
        int, Field(ge=1), Option("Rows per table: 20000, 100k, 10m.", "ROWS", parse_rows, section="Data")
    ] = Field(default=typed("100k"))
    precision: Annotated[
        float,
        Field(gt=0),
        Option(
            "Half-width at which to stop.", "PERCENT", parse_precision,
            default="1%, or what the budget allows", section="How long"
        ),
    ] = Field(default=typed("1%"))  # fmt: skip
    equivalence: Annotated[
        float,
        Field(gt=0),
        Option("Margin of EQUIVALENT.", "PERCENT", parse_precision, default="the precision", section="How long"),
    ] = Field(default_factory=lambda known: known.get("precision"))
    budget_s: Annotated[
        float,
        Field(gt=0),
        Option("Wall time from loading to verdict: 90s, 4m, 1h.", "DURATION", parse_duration_s, section="How long"),
    ] = Field(default=typed("10m"), validation_alias="budget")
    builds: Annotated[
        int, Field(ge=1, le=LOADS_MAX), Option("Independent loads of the data per arm.", "N", section="Data")
    ] = 2
    warm_s: Annotated[
        float,
        Field(ge=0),
        Option("Load before each workload is measured: 2s, 5m.", "DURATION", parse_duration_s, section="How long"),
    ] = Field(default=typed("3s"), validation_alias="warm_up")


class Conditions(Frozen):
    """How it is measured, the same at every scale."""

    SECTION = "What is compared"

    database: Annotated[
        str, Option("Database of the tables.", "NAME", parse_database, default="the dump's, or sbtest", section="Data")
    ] = "sbtest"
    profile: Annotated[Profile, Option("matched: same memory and durability; stock: each version's defaults.")] = (
        Profile.MATCHED
    )
    freeze: Annotated[
        bool | None, Option("Stop resting servers (SIGSTOP).", default="only when a workload writes", section="Where")
    ] = None
    placement: Annotated[
        Placement | None,
        Option(
            "paired: client and server thread of a connection on one CPU; free: where the kernel puts them.",
            default="paired where it helps",
            section="Where",
        ),
    ] = None
    cache: Annotated[
        Cache,
        Field(exclude_if=lambda cache: cache is Cache.WARM),
        Option("cold: restart every arm with empty caches, and time how long it takes to be fast again."),
    ] = Cache.WARM
    combine_hosts: Annotated[
        bool, Field(exclude_if=lambda combined: not combined), Option("One verdict over unlike machines of a cluster.")
    ] = False
    seed: Annotated[
        int,
        Field(ge=0, le=SEED_MAX),
        Option("Everything random follows from it.", "N", default="a new one, printed", section="Workload"),
    ] = Field(default_factory=lambda: secrets.randbelow(2**31))
