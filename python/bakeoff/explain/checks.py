"""Checks of `bakeoff doctor`: whether perf may profile servers here."""

from collections.abc import Iterator

from bakeoff.explain.perf import permission
from bakeoff.run.machine_check import Finding, Severity


def checks() -> Iterator[Finding]:
    allowed = permission()
    if allowed.reason:
        advice = "Verdicts need no profile, but reports cannot say where the CPU goes."
        yield Finding("perf", Severity.NOTE, allowed.reason.rstrip("."), advice)
    else:
        yield Finding("perf", Severity.OK, f"perf may profile ({allowed.event})")
