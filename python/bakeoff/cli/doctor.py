"""`bakeoff doctor`."""

import json
from typing import Annotated

import typer

from bakeoff.cli.output import Format, format_option
from bakeoff.errors import ExitCode
from bakeoff.servers.places import work_root
from bakeoff.trial.doctor import Severity, examine

_MARKS = {Severity.OK: "ok", Severity.NOTE: "note", Severity.WARNING: "warning", Severity.PROBLEM: "PROBLEM"}


def doctor(output: Annotated[Format, format_option] = Format.TEXT) -> int:
    """What on this machine would spoil a measurement. Exit code 3 when a run could not be trusted or started."""
    findings = examine(work_root())
    if output is Format.JSON:
        rows = [
            {"subject": f.subject, "severity": f.severity.name.lower(), "found": f.found, "advice": f.advice}
            for f in findings
        ]
        typer.echo(json.dumps(rows, indent=1))
    else:
        for finding in findings:
            typer.echo(f"{_MARKS[finding.severity]:8} {finding.subject}: {finding.found}")
            if finding.advice:
                typer.echo(f"{'':8} → {finding.advice}")
    worst = max(finding.severity for finding in findings)
    return ExitCode.NOT_READY if worst is Severity.PROBLEM else ExitCode.DONE
