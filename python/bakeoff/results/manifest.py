"""`manifest.json`: which program, on which machine, asked how, made this run directory."""

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from bakeoff.results.host import Host

FORMAT = 2
"""Version of the run directory's format.

1: the first one.
2: placement of threads in the study and in the plan (docs/results.md).
"""


class Manifest(BaseModel):
    """What a run directory says about itself.

    Attributes:
        created_at: UTC.
        commit: of the checkout that bakeoff ran from, with `+` when it had changes; None when installed.
        command: the command line as given, passwords struck out.
        engine: the engine's `hello` (version, build), or empty when no engine took part.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    name: str
    title: str
    created_at: datetime
    bakeoff: str
    commit: str | None
    python: str
    command: tuple[str, ...]
    seed: int
    engine: dict[str, JsonValue]
    host: Host


def bakeoff_version() -> str:
    """Version of the installed package, or `0+checkout`."""
    try:
        return version("bakeoff")
    except PackageNotFoundError:
        return "0+checkout"


def python_version() -> str:
    """`CPython 3.11.2`."""
    return f"{platform.python_implementation()} {platform.python_version()}"


def checkout_commit() -> str | None:
    """Commit of the git checkout that this file lies in, `+` after it when there are changes; None outside one."""
    here = Path(__file__).resolve().parent
    try:
        commit = _git(here, "rev-parse", "--short=12", "HEAD")
        dirty = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+" if dirty else commit


def now() -> datetime:
    """The time in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


def _git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(directory), *arguments], capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()
