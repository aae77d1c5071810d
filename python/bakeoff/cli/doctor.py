"""`bakeoff doctor`."""

import dataclasses
import json
import secrets
import threading
from typing import Annotated, Any

import typer

from bakeoff.cli.arguments import Format, format_option
from bakeoff.cli.execution import ending_in_order
from bakeoff.errors import ExitCode, SpecError
from bakeoff.report import numbers
from bakeoff.report.live import QuietLive
from bakeoff.run.doctor import TRIAL_S, Finding, Severity, examine, resolve
from bakeoff.servers import Catalog, is_installed
from bakeoff.servers.paths import work_root
from bakeoff.spec import Origin, parse_server
from bakeoff.stats.resolution import Resolution

_THREADS = 4
_MARKS = {Severity.OK: "ok", Severity.NOTE: "note", Severity.WARNING: "warning", Severity.PROBLEM: "PROBLEM"}


def doctor(
    server: Annotated[
        str | None,
        typer.Option(help="Server of the trial, fetched when missing; default: the newest that is here."),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help=f"Connections in the trial. [default: {_THREADS}]")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Look only: no trial, nothing forecast.")] = False,
    seed: Annotated[int | None, typer.Option(help="Everything random in the trial follows from it.")] = None,
    output: Annotated[Format, format_option] = Format.TEXT,
) -> int:
    """What on this machine would spoil a measurement, and what it can resolve: a trial of two equal servers.

    Exit code 3 when a run could not be trusted or started.
    """
    for option, given in (("--server", server), ("--threads", threads), ("--seed", seed)):
        if quick and given is not None:
            raise SpecError(
                f"doctor: --quick makes no trial, so there is nothing to do with {option}.", hint="Leave one out."
            )
    if server and parse_server(server).origin is Origin.URL:
        raise SpecError(
            "doctor: a running server cannot be tried: the trial starts its servers again and again.",
            hint="Name one that bakeoff starts: --server mysql:8.0.",
        )
    threads = threads or _THREADS
    findings = examine(work_root())
    name = None if quick else server or _newest_here()
    if output is Format.TEXT:
        _print_findings(findings)
    worst = max(finding.severity for finding in findings)
    found = None
    if name is not None and worst is not Severity.PROBLEM:
        typer.echo(f"bakeoff: a trial of two equal servers {name}, about {TRIAL_S:.0f} s …", err=True)
        stop = threading.Event()
        with ending_in_order(stop):
            found = resolve(
                name,
                seed=secrets.randbelow(2**31) if seed is None else seed,
                threads=threads,
                listener=QuietLive(),
                stop=stop,
            )
        if stop.is_set():
            return ExitCode.INTERRUPTED
    if output is Format.JSON:
        typer.echo(json.dumps(_as_json(findings, name, found), indent=1))
    elif found is not None:
        typer.echo(f"{'':8} {numbers.sentence(found)}")
        typer.echo(f"{'':8} {numbers.grounds(found, f'{name}, oltp_point_select, {threads} threads')}")
    elif name is not None and worst is not Severity.PROBLEM:
        typer.echo(f"{'':8} The trial was too short here for three usable epochs: nothing can be forecast.")
    elif name is None and not quick:
        typer.echo(f"{'':8} No server is here to try: `bakeoff doctor --server mysql:8.0` fetches one and forecasts.")
    return ExitCode.NOT_READY if worst is Severity.PROBLEM else ExitCode.DONE


def _newest_here() -> str | None:
    """The newest MySQL of the catalogue that is in the cache, else the newest of anything."""
    here = [entry for entry in Catalog.load().entries if is_installed(entry)]
    newest = max(here, key=lambda entry: (entry.flavour == "mysql", entry.numbers), default=None)
    return f"{newest.flavour}:{newest.version}" if newest else None


def _print_findings(findings: list[Finding]) -> None:
    for finding in findings:
        typer.echo(f"{_MARKS[finding.severity]:8} {finding.subject}: {finding.found}")
        if finding.advice:
            typer.echo(f"{'':8} → {finding.advice}")


def _as_json(findings: list[Finding], server: str | None, found: Resolution | None) -> dict[str, Any]:
    rows = [dataclasses.asdict(finding) | {"severity": finding.severity.name.lower()} for finding in findings]
    return {
        "findings": rows,
        "server": server if found else None,
        "resolution": found.model_dump(mode="json") if found else None,
    }
