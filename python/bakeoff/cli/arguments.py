"""From `STUDY --scale … --budget …` to a study: what `run` and `plan` share, and where their mistakes are told."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bakeoff.errors import BakeoffError, HostError, SpecError
from bakeoff.plan.factorial import make_study
from bakeoff.servers import Catalog, is_installed
from bakeoff.spec import Study
from bakeoff.spec.study_file import LoadedStudy, find_study, read_study
from bakeoff.units import parse_duration_s, parse_precision


@dataclass(frozen=True)
class Asked:
    """A study and the file that it comes from."""

    loaded: LoadedStudy
    study: Study


def ask(
    name: str,
    *,
    scale: str,
    budget: str | None = None,
    precision: str | None = None,
    seed: int | None = None,
    control: bool = False,
) -> Asked:
    """Read a study file and let the command line change its budget, precision and seed, or add a control.

    Raises:
        SpecError: whatever is wrong with the file, or with the command line.
    """
    loaded = read_study(find_study(name), scale=scale, installed=_installed())
    changed: dict[str, float | int] = {"control": True} if control else {}
    if budget is not None:
        changed["budget"] = parse_duration_s(budget)
    if precision is not None:
        changed["precision"] = parse_precision(precision)
    if seed is not None:
        changed["seed"] = seed
    loaded = replace(loaded, form=loaded.form.model_copy(update=changed))
    return Asked(loaded, make_study(loaded, seed=secrets.randbelow(2**31)))


def _installed() -> list[str]:
    """Servers of the catalogue that are in the cache, oldest first within a flavour."""
    return [f"{each.flavour}:{each.version}" for each in Catalog.load().entries if is_installed(each)]


@contextlib.contextmanager
def telling_the_line(asked: Asked) -> Iterator[None]:
    """Give mistakes that only a server or this machine can find their line in the study file."""
    try:
        yield
    except SpecError as error:
        raise _placed(error, asked) from None
    except HostError as error:
        place = _size_place(error, asked.loaded)
        if place is None:
            raise
        raise HostError(asked.loaded.error(*place, reason=error.message).message, hint=error.hint) from None


def _size_place(error: HostError, loaded: LoadedStudy) -> tuple[str, ...] | None:
    """What makes the study too large for this machine: the buffer pool for memory, else the rows."""
    kind = error.message.partition(":")[0]
    if kind not in ("memory", "disk"):
        return None
    if kind == "memory":
        for place in (("settings", "buffer_pool"), ("factors", "buffer_pool")):
            if place[1] in getattr(loaded.form, place[0]):
                return place
    chosen = loaded.form.scales.get(loaded.scale)
    return ("scales", loaded.scale, "table_size") if chosen and chosen.table_size else ("table_size",)


def _placed(error: SpecError, asked: Asked) -> BakeoffError:
    """The error at the level that it speaks of: the one whose setting's value or name stands in the message."""
    design = asked.study.design
    loaded = asked.loaded
    if error.message.startswith("workload"):
        return loaded.error("workloads", reason=error.message, hint=error.hint)
    if error.arm is None or design is None or error.arm not in design.levels:
        return error
    chosen = list(zip((factor.name for factor in design.factors), design.levels[error.arm], strict=True))
    for factor, level in reversed(chosen):
        for setting, value in loaded.levels[factor][level].items():
            plain = {"page_size": "innodb_page_size"}.get(setting, setting.partition(".")[2] or setting)
            if setting != "server" and (value in error.message or plain in error.message):
                return loaded.error(*loaded.place_of(factor, level), reason=error.message, hint=error.hint)
    for factor, level in chosen:
        if "server" in loaded.levels[factor][level]:
            return loaded.error(*loaded.place_of(factor, level), reason=error.message, hint=error.hint)
    return loaded.error("settings", reason=error.message, hint=error.hint)


# Options that several commands share.


class Format(StrEnum):
    """How a command answers."""

    TEXT = "text"
    JSON = "json"


format_option = typer.Option("--format", help="text for people, json for programs.")

Seed = Annotated[
    int | None, typer.Option("--seed", help="Everything random follows from it; default: a new one, printed.")
]
Runs = Annotated[
    Path | None,
    typer.Option("--runs", help="Folder for run directories; default: ./bakeoff-runs or $BAKEOFF_RUNS."),
]
Open = Annotated[bool, typer.Option("--open", help="Open the report in a browser.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict.")]
Publish = Annotated[
    bool, typer.Option("--publish", help="For a report to be published: with a control; fails when that does not hold.")
]


def console(*, piped_width: int | None = None) -> Console:
    """Where tables are printed. Text is shown as it is: people write `[…]` and `:x:` into questions and levels.

    Args:
        piped_width: columns when nobody looks at a terminal; None: as the environment says.
    """
    made = _Console(markup=False, emoji=False)
    if piped_width and not made.is_terminal:
        made.width = piped_width
    return made


class _Console(Console):
    """Leaves a reader that went away to `bakeoff.cli.main`, as `print` does; Rich would end the process with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def runs_root(asked: Path | None) -> Path:
    """Where run directories are made."""
    return asked or Path(os.environ.get("BAKEOFF_RUNS", "bakeoff-runs"))
