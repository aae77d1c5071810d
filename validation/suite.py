"""Runs the checks of the validation suite and prints the table.

The run directory's `results.json` is rewritten after every check, so a run of hours can be killed and continued.
"""

import json
import platform
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError

from bakeoff.errors import ResultsError, SpecError
from bakeoff.files import write_atomically
from bakeoff.results import Host, gather_host
from bakeoff.results.manifest import bakeoff_version, checkout_commit
from bakeoff.stats.model import Frozen
from bakeoff.units import format_duration
from validation import (
    bisections,
    causes,
    fake_checks,
    fault_injection,
    gates,
    histories,
    hosts,
    number_checks,
    real_checks,
    replay_checks,
    simulation,
    sizes,
)
from validation.check import Check, Finding, Setting, Size

CHECKS: tuple[Check, ...] = (
    *replay_checks.REPLAY_CHECKS,
    *number_checks.NUMBER_CHECKS,
    *hosts.HOST_CHECKS,
    *gates.GATE_CHECKS,
    *histories.HISTORY_CHECKS,
    *bisections.BISECTION_CHECKS,
    *simulation.RULE_CHECKS,
    *sizes.SIZE_CHECKS,
    *fake_checks.FAKE_CHECKS,
    *fault_injection.FAULT_CHECKS,
    *real_checks.CLIENT_CHECKS,
    *real_checks.REAL_CHECKS,
    *real_checks.DUEL_CHECKS,
    *causes.CAUSE_CHECKS,
)
"""All checks. Within a size, `test` and `what` identify one."""

FORMAT = 1
"""Version of results.json."""


def select(size: Size, only: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return the checks of a size in the order of their numbers, or only some numbers."""
    belonging = sorted(
        (check for check in CHECKS if size in check.sizes), key=lambda check: int(check.test.removeprefix("G"))
    )
    asked = {name.strip().upper() for name in only}
    known = dict.fromkeys(check.test for check in belonging)
    for name in sorted(asked - known.keys()):
        raise SpecError(f"--only: size {size} has no test {name}.", hint=f"It has {', '.join(known) or 'none'}.")
    return tuple(check for check in belonging if not asked or check.test in asked)


class Entry(Frozen):
    """A check that has been run.

    Attributes:
        passed: None if the machine could not run it.
        broke_off: whether it raised an error; it then failed, and runs again when the run is continued.
        commit: of the code that ran it, since a run may be continued after a change.
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
        return {True: "ok", False: "FAILED", None: "could not run"}[self.passed]


class Record(Frozen):
    """Content of `results.json`.

    Attributes:
        only: numbers of the tests; empty for all of the size.
        ended_at: None until every check has been run.
        commit: of the checkout, followed by `+` if it had changes.
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
        return tuple(entry for entry in self.entries if entry.passed is False)

    def has(self, check: Check) -> bool:
        """Return whether the check need not run (again)."""
        return any((e.test, e.what) == (check.test, check.what) and not e.broke_off for e in self.entries)


class SuiteRun:
    """Directory of one run of the suite."""

    def __init__(self, path: Path, record: Record) -> None:
        self.path = path
        self.record = record

    @classmethod
    def begin(
        cls, root: Path, *, size: Size, only: tuple[str, ...], seed: int, server: str, command: tuple[str, ...]
    ) -> "SuiteRun":
        now = datetime.now(UTC)
        path = root / f"validation-{now:%Y%m%dT%H%M%S%f}"
        path.mkdir(parents=True)
        path.chmod(0o755)  # server accounts must be able to enter
        record = Record(
            size=size,
            only=only,
            seed=seed,
            server=server,
            started_at=now,
            bakeoff=bakeoff_version(),
            commit=checkout_commit(),
            python=platform.python_version(),
            command=command,
            host=gather_host(path),
        )
        run = cls(path, record)
        run._write()
        return run

    @classmethod
    def open(cls, path: Path) -> "SuiteRun":
        file = path / "results.json"
        try:
            content = json.loads(file.read_bytes())
            found = content.get("format")
            if found != FORMAT:
                raise ResultsError(f"{file}: format {found} is not {FORMAT}.", hint="Use the bakeoff that wrote it.")
            return cls(path, Record.model_validate(content))
        except OSError as error:
            raise ResultsError(
                f"{file}: {error.strerror}.", hint="Name a directory that `python -m validation suite` made."
            ) from None
        except (json.JSONDecodeError, ValidationError, AttributeError) as error:
            raise ResultsError(f"{file}: damaged: {str(error).splitlines()[0]}.", hint="Begin a new run.") from None

    def folder_of(self, check: Check) -> Path:
        words = re.sub(r"[^a-z0-9]+", "-", check.what.lower()).strip("-")[:40].strip("-")
        path = self.path / f"{check.test.lower()}-{words}"
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
        return path

    def add(self, check: Check, finding: Finding, *, seconds: float, broke_off: bool = False) -> Entry:
        """Record a finding, in place of an earlier attempt that broke off."""
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
        self.record = self.record.model_copy(update={"ended_at": datetime.now(UTC)})
        self._write()

    def _write(self) -> None:
        write_atomically(self.path / "results.json", (self.record.model_dump_json(indent=1) + "\n").encode())


def _plain(value: Any) -> Any:  # noqa: ANN401 — numpy scalars and arrays, or other values
    return value.tolist() if hasattr(value, "tolist") else str(value)


def run_checks(run: SuiteRun, checks: Sequence[Check], *, report: Callable[[str], None] = lambda text: None) -> Record:
    """Run the checks that the run does not have yet; `report` prints a line of progress."""
    for place, check in enumerate(checks, start=1):
        if run.record.has(check):
            continue
        report(f"{check.test} ({place} of {len(checks)}): {check.what}")
        begin = time.monotonic()
        finding, broke_off = _run(check, run, report)
        entry = run.add(check, finding, seconds=time.monotonic() - begin, broke_off=broke_off)
        report(f"  {entry.result}: {entry.found} ({entry.seconds:.0f} s)")
    run.end()
    return run.record


def _run(check: Check, run: SuiteRun, report: Callable[[str], None]) -> tuple[Finding, bool]:
    setting = Setting(
        size=run.record.size,
        seed=run.record.seed,
        folder=run.folder_of(check),
        server=run.record.server,
        report=lambda text: report(f"  {text}"),
    )
    try:
        return check.run(setting), False
    except Exception as error:
        lines = str(error).strip().splitlines() or ["no reason given"]
        return Finding(found=f"{type(error).__name__}: {lines[0]}", passed=False), True


def markdown(record: Record) -> str:
    """Format the results as Markdown, with machine, date and command."""
    lines = [
        dateline(record),
        "",
        f"    {' '.join(record.command)}",
        "",
        "| G | what | target | found | result |",
        "|---|---|---|---|---|",
        *(_row(entry) for entry in record.entries),
        "",
        summary(record),
    ]
    return "\n".join(lines) + "\n"


def summary(record: Record) -> str:
    by = [sum(entry.passed is state for entry in record.entries) for state in (True, False, None)]
    parts = [f"{by[0]} of {len(record.entries)} hold"]
    parts += [f"{by[1]} FAILED"] if by[1] else []
    parts += [f"{by[2]} could not run"] if by[2] else []
    unfinished = "" if record.ended_at else " Not finished: continue it with `resume`."
    return ", ".join(parts) + "." + unfinished


def dateline(record: Record) -> str:
    host = record.host
    machine = f"{host.cpus_usable} CPUs ({host.cpu_model}), {host.memory_bytes / 2**30:.0f} GiB, {host.system}"
    took = format_duration(sum(entry.seconds for entry in record.entries))
    commit = f" ({record.commit})" if record.commit else ""
    return (
        f"validation --size {record.size}, seed {record.seed}, {record.started_at:%Y-%m-%d %H:%M} UTC, {took}; "
        f"bakeoff {record.bakeoff}{commit}; {machine}"
    )


def _row(entry: Entry) -> str:
    cells = (entry.test, entry.what, entry.target, entry.found, entry.result)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
