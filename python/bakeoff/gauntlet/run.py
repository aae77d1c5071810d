"""Runs the tests of a size in order, and keeps what each found as soon as it is there."""

import time
from collections.abc import Callable, Sequence

from bakeoff.gauntlet.journal import Journal, Record
from bakeoff.gauntlet.model import Check, Finding, Setting


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
