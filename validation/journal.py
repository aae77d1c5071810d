"""The directory of one run of the gauntlet: what was asked, on which machine, and what each test found so far.

`results.json` is rewritten after every test, whole or not at all: a run of hours can be killed and gone on with.
Each test has a folder beside it, which it finds again then.
"""

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from bakeoff.errors import ResultsError
from bakeoff.results import Host, gather_host
from bakeoff.results.epoch_data import write_atomically
from bakeoff.results.manifest import bakeoff_version, checkout_commit, python_version
from validation.model import Check, Finding, Size

FORMAT = 1
"""Version of results.json.

1: the first one (docs/gauntlet.md).
"""


class Frozen(BaseModel):
    """Base of the values here."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Entry(Frozen):
    """A test that has been run.

    Attributes:
        passed: None when the machine could not run it.
        found: in words; for a test that broke off, the error's line.
        broke_off: the test itself raised an error: it failed, and is run again on `--resume`.
        seconds: of wall time.
        commit: of the code that ran it; a run may be gone on with after a change.
    """

    test: str
    what: str
    target: str
    passed: bool | None
    found: str
    figures: dict[str, JsonValue] = {}
    broke_off: bool = False
    seconds: float
    commit: str | None

    @property
    def result(self) -> str:
        """In the table's word."""
        return {True: "ok", False: "FAILED", None: "could not run"}[self.passed]


class Record(Frozen):
    """All of `results.json`.

    Attributes:
        only: the tests asked for; empty: all of the size.
        started_at, ended_at: UTC; `ended_at` is None until every test asked for has been run.
        commit: of the checkout, `+` after it when it had changes.
        command: the command line.
    """

    format: int = FORMAT
    size: Size
    only: tuple[str, ...]
    seed: int
    server: str
    started_at: datetime
    ended_at: datetime | None = None
    bakeoff: str
    commit: str | None
    python: str
    command: tuple[str, ...]
    host: Host
    entries: tuple[Entry, ...] = ()

    @property
    def failed(self) -> tuple[Entry, ...]:
        """Those whose target does not hold."""
        return tuple(entry for entry in self.entries if entry.passed is False)

    def has(self, check: Check) -> bool:
        """Whether the check needs not be run (again)."""
        return any((e.test, e.what) == (check.test, check.what) and not e.broke_off for e in self.entries)


class Journal:
    """A run's directory.

    Args:
        path: the directory; it holds a `results.json` (`begin` makes one).
        record: what that file says.
    """

    def __init__(self, path: Path, record: Record) -> None:
        self.path = path
        self.record = record

    @classmethod
    def begin(
        cls, root: Path, *, size: Size, only: tuple[str, ...], seed: int, server: str, command: tuple[str, ...]
    ) -> "Journal":
        """Make `gauntlet-<date>T<time>` in `root`."""
        now = datetime.now(UTC)
        path = _new_folder(root, f"gauntlet-{now:%Y%m%dT%H%M%S}")
        record = Record(
            size=size,
            only=only,
            seed=seed,
            server=server,
            started_at=now,
            bakeoff=bakeoff_version(),
            commit=checkout_commit(),
            python=python_version(),
            command=command,
            host=gather_host(path),
        )
        journal = cls(path, record)
        journal._write()
        return journal

    @classmethod
    def open(cls, path: Path) -> "Journal":
        """Open one to go on with it.

        Raises:
            ResultsError: it is none, or of another format.
        """
        file = path / "results.json"
        try:
            content = json.loads(file.read_bytes())
            found = content.get("format")
            if found != FORMAT:
                raise ResultsError(f"{file}: format {found} is not {FORMAT}.", hint="Use the bakeoff that wrote it.")
            return cls(path, Record.model_validate(content))
        except OSError as error:
            raise ResultsError(
                f"{file}: {error.strerror}.", hint="Name a directory that `bakeoff gauntlet` made."
            ) from None
        except (json.JSONDecodeError, ValidationError, AttributeError) as error:
            raise ResultsError(f"{file}: damaged: {str(error).splitlines()[0]}.", hint="Begin a new run.") from None

    def folder_of(self, check: Check) -> Path:
        """The check's own folder, made when missing; servers' accounts may enter it."""
        words = re.sub(r"[^a-z0-9]+", "-", check.what.lower()).strip("-")[:40].strip("-")
        path = self.path / f"{check.test.lower()}-{words}"
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
        return path

    def add(self, check: Check, finding: Finding, *, seconds: float, broke_off: bool = False) -> Entry:
        """Keep what a test found, in place of an earlier attempt that broke off."""
        entry = Entry(
            test=check.test,
            what=check.what,
            target=check.target,
            passed=finding.passed,
            found=finding.found,
            figures=json.loads(json.dumps(dict(finding.figures), default=_plain)),
            broke_off=broke_off,
            seconds=round(seconds, 2),
            commit=checkout_commit(),
        )
        entries = {(each.test, each.what): each for each in self.record.entries} | {(entry.test, entry.what): entry}
        self.record = self.record.model_copy(update={"entries": tuple(entries.values())})
        self._write()
        return entry

    def end(self) -> None:
        """Say that every test asked for has been run."""
        self.record = self.record.model_copy(update={"ended_at": datetime.now(UTC)})
        self._write()

    def _write(self) -> None:
        write_atomically(self.path / "results.json", (self.record.model_dump_json(indent=1) + "\n").encode())


def _new_folder(root: Path, name: str) -> Path:
    for number in range(1, 100):
        path = root / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        os.chmod(path, 0o755)  # noqa: PTH101 — servers' accounts enter, whatever the umask
        return path
    raise ResultsError(f"{root}: a hundred runs began in the same second.", hint="Wait a second.")


def _plain(value: Any) -> Any:  # noqa: ANN401 — numpy's scalars and arrays, or whatever a test put there
    return value.tolist() if hasattr(value, "tolist") else str(value)
