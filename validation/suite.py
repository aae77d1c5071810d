"""Runs the tests of a size in order, and keeps what each found as soon as it is there."""

import time
from collections.abc import Callable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from bakeoff.errors import SpecError
from bakeoff.units import format_duration
from validation import fake_checks, fault_injection, real_checks, replay_checks, replay_laws
from validation.journal import Entry, Journal, Record
from validation.model import Check, Finding, Setting, Size

# Every test of the gauntlet, in the order of the method's table.

CHECKS: tuple[Check, ...] = (
    *replay_checks.EQUAL_ARMS_CHECKS,
    *replay_checks.PLANTED_CHECKS,
    *replay_checks.QUANTILES_CHECKS,
    *replay_laws.CHECKS,
    *fake_checks.FAKE_TRUTH_CHECKS,
    *fake_checks.FAKE_DRIFT_CHECKS,
    *fake_checks.FAKE_QUANTILES_CHECKS,
    *fake_checks.FAKE_STALLS_CHECKS,
    *real_checks.CEILING_CHECKS,
    *fault_injection.CHECKS,
    *real_checks.CONFIG_TRAPS_CHECKS,
    *real_checks.WRITE_DEBT_CHECKS,
    *real_checks.REAL_DUELS_CHECKS,
)
"""All of them. A pair of `test` and `what` names one check within a size."""


def select(size: Size, only: Sequence[str] = (), *, checks: Sequence[Check] | None = None) -> tuple[Check, ...]:
    """The checks of a size, in the order of their numbers.

    Args:
        size: which size is asked for.
        only: numbers of the tests (`G1`, `g3`); none: all of the size.
        checks: to choose from; None: all that are registered.

    Raises:
        SpecError: a number that this size does not have.
    """
    belonging = sorted(
        (check for check in (CHECKS if checks is None else checks) if size in check.sizes),
        key=lambda c: _number(c.test),
    )
    asked = {name.strip().upper() for name in only}
    known = dict.fromkeys(check.test for check in belonging)
    for name in sorted(asked - known.keys()):
        raise SpecError(f"--only: size {size} has no test {name}.", hint=f"It has {', '.join(known) or 'none'}.")
    return tuple(check for check in belonging if not asked or check.test in asked)


def _number(test: str) -> int:
    return int(test.removeprefix("G"))


def run_checks(journal: Journal, checks: Sequence[Check], *, tell: Callable[[str], None] = lambda text: None) -> Record:
    """Run those that have not been run yet.

    Args:
        journal: where findings are kept; what is there already is not run again, except tests that broke off.
        checks: in the order to run them.
        tell: progress, a line at a time.

    Returns:
        The record, with every check of `checks`.

    Raises:
        KeyboardInterrupt: ended by the user; `journal.record` holds what is finished.
    """
    for place, check in enumerate(checks, start=1):
        if journal.record.has(check):
            continue
        tell(f"{check.test} ({place} of {len(checks)}): {check.what}")
        begin = time.monotonic()
        finding, broke_off = _run(check, journal, tell)
        entry = journal.add(check, finding, seconds=time.monotonic() - begin, broke_off=broke_off)
        tell(f"  {entry.result}: {entry.found} ({entry.seconds:.0f} s)")
    journal.end()
    return journal.record


def _run(check: Check, journal: Journal, tell: Callable[[str], None]) -> tuple[Finding, bool]:
    setting = Setting(
        size=journal.record.size,
        seed=journal.record.seed,
        folder=journal.folder_of(check),
        server=journal.record.server,
        tell=lambda text: tell(f"  {text}"),
    )
    try:
        return check.run(setting), False
    except Exception as error:
        lines = str(error).strip().splitlines() or ["no reason given"]
        return Finding(found=f"{type(error).__name__}: {lines[0]}", passed=False), True


# The table of target against result, for a terminal and for a document.

_STYLES = {True: "green", False: "bold red", None: "yellow"}


def print_table(record: Record, console: Console) -> None:
    """Print to a console; without colours the words still say everything."""
    table = RichTable("G", "result", "test and target", "found", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for entry in record.entries:
        result = Text(entry.result, style=_STYLES[entry.passed], no_wrap=True)
        asked = Text.assemble(entry.what, "\n", (entry.target, "dim"))
        table.add_row(Text(entry.test), result, asked, Text(entry.found))
    console.print()
    console.print(table)
    console.print()
    console.print(Text(summary(record)))
    console.print(Text(dateline(record), style="dim"))


def markdown(record: Record) -> str:
    """The same for a document, with the machine, the date and the command."""
    lines = [
        f"{dateline(record)}",
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
    """How many hold: `12 of 14 hold, 1 FAILED, 1 could not run.` is its form."""
    by = [sum(entry.passed is state for entry in record.entries) for state in (True, False, None)]
    parts = [f"{by[0]} of {len(record.entries)} hold"]
    parts += [f"{by[1]} FAILED"] if by[1] else []
    parts += [f"{by[2]} could not run"] if by[2] else []
    unfinished = "" if record.ended_at else " Not finished: go on with --resume."
    return ", ".join(parts) + "." + unfinished


def dateline(record: Record) -> str:
    """When, with which bakeoff, for how long, on what."""
    host = record.host
    machine = f"{host.cpus_usable} CPUs ({host.cpu_model}), {host.memory_bytes / 2**30:.0f} GiB, {host.system}"
    took = format_duration(sum(entry.seconds for entry in record.entries))
    commit = f" ({record.commit})" if record.commit else ""
    return (
        f"gauntlet --size {record.size}, seed {record.seed}, {record.started_at:%Y-%m-%d %H:%M} UTC, {took}; "
        f"bakeoff {record.bakeoff}{commit}; {machine}"
    )


def _row(entry: Entry) -> str:
    cells = (entry.test, entry.what, entry.target, entry.found, entry.result)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
