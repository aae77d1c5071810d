"""`bakeoff doctor`: check this machine, try what it can resolve, prove known answers."""

import dataclasses
import json
import threading
from typing import Annotated, Any

import click
from pydantic import Field

from bakeoff.cli.arguments import Format, FormatOption
from bakeoff.cli.options import Take, command
from bakeoff.cli.printing import print_sentence, print_table
from bakeoff.cli.run import ending_in_order
from bakeoff.errors import ExitCode, HostError, SpecError
from bakeoff.report import numbers
from bakeoff.run.machine_check import PROOF_S, TEST_RUN_S, Finding, Proof, Severity, examine, resolve, smallest_budget_s
from bakeoff.run.machine_check import prove as run_duels
from bakeoff.servers import is_installed, known_servers
from bakeoff.servers.paths import work_root
from bakeoff.spec import parse_server
from bakeoff.spec.fields import THREADS_MAX, Conditions, Option
from bakeoff.stats.progress import Listener
from bakeoff.stats.resolution import Resolution
from bakeoff.units import format_duration

_THREADS = 4
_INDENT = 9  # columns of a finding's mark
_MARKS = {Severity.OK: "ok", Severity.NOTE: "note", Severity.WARNING: "warning", Severity.PROBLEM: "PROBLEM"}


@command(
    "bakeoff doctor",
    "bakeoff doctor --quick",
    "bakeoff doctor --prove --server mysql:8.0",
    most_used=("--quick", "--prove", "--server", "--threads"),
)
def doctor(
    conditions: Annotated[Conditions, Take("seed")],
    server: Annotated[
        str | None,
        Option("Server of the test run, fetched if it is missing.", "SERVER", default="the newest installed one"),
    ] = None,
    threads: Annotated[
        int | None, Field(ge=1, le=THREADS_MAX), Option("Connections in the test run.", "N", default=str(_THREADS))
    ] = None,
    quick: Annotated[bool, Option("Look only: no test run, no forecast.")] = False,
    prove: Annotated[
        bool, Option("Duel equal servers, then with an injected slowdown of 5%: are the answers right here?")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> int:
    """Say what on this machine would spoil a measurement, and by a test run of two equal servers what it can resolve.

    The exit code is 3 when a run could not be trusted or started, 1 when --prove finds a wrong answer.
    """
    seed = conditions.given().get("seed")
    for option, given in (("--prove", prove or None), ("--server", server), ("--threads", threads), ("--seed", seed)):
        if quick and given is not None:
            raise SpecError(f"doctor: --quick makes no test run, so {option} has no effect.", hint="Leave one out.")
    if server and parse_server(server).is_running:
        raise SpecError(
            "doctor: a running server cannot be tested, because the test run restarts its servers.",
            hint="Name one that bakeoff starts: --server mysql:8.0.",
        )
    threads = threads or _THREADS
    findings = examine(work_root())
    name = None if quick else server or _newest_here()
    if output is Format.TEXT:
        _print_findings(findings)
    worst = max(finding.severity for finding in findings)
    if prove:
        return _prove(findings, name, conditions.seed, threads, output)
    found = budget_s = None
    if name is not None and worst is not Severity.PROBLEM:
        budget_s = smallest_budget_s(name, threads=threads)
        click.echo(f"bakeoff: a test run of two equal servers {name}, about {TEST_RUN_S:.0f} s …", err=True)
        stop = threading.Event()
        with ending_in_order(stop):
            found = resolve(name, seed=conditions.seed, threads=threads, listener=Listener(), stop=stop)
        if stop.is_set():
            return ExitCode.INTERRUPTED
    if output is Format.JSON:
        click.echo(json.dumps(_as_json(findings, name, found) | {"budget_needed_s": budget_s}, indent=1))
    elif found is not None:
        _print_under(numbers.resolution(found))
        _print_under(numbers.resolution_basis(found, f"{name}, oltp_point_select, {threads} threads"))
    elif name is not None and worst is not Severity.PROBLEM:
        _print_under("The test run was too short here for three usable epochs: nothing can be forecast.")
    elif name is None and not quick:
        _print_under("No server is installed: `bakeoff doctor --server mysql:8.0` fetches one and forecasts.")
    if output is Format.TEXT and budget_s is not None:
        _print_under(
            f"A verdict takes a budget of about {format_duration(budget_s)} or more, in a duel of two different "
            "servers and the default tables; `bakeoff duel --dry-run` tells for others."
        )
    return ExitCode.NOT_READY if worst is Severity.PROBLEM else ExitCode.DONE


def _prove(findings: list[Finding], server: str | None, seed: int, threads: int, output: Format) -> int:
    if server is None:
        raise HostError("doctor: no server is installed.", hint="Name one: --server mysql:8.0.")
    proofs: list[Proof] = []
    possible = all(finding.severity is not Severity.PROBLEM for finding in findings)
    stop = threading.Event()
    if possible:
        click.echo(f"bakeoff: two to four duels of {server}, each at most {PROOF_S:.0f} s …", err=True)
        with ending_in_order(stop):
            proofs = run_duels(server, seed=seed, threads=threads, listener=Listener(), stop=stop)
    if stop.is_set():
        return ExitCode.INTERRUPTED
    if output is Format.JSON:
        document = _as_json(findings, server, None) | {"server": server, "proof": [vars(proof) for proof in proofs]}
        click.echo(json.dumps(document, indent=1))
    elif possible:
        rows = [(proof.expected, proof.found, "yes" if proof.holds else "NO") for proof in proofs]
        print_table(("expected", "found", "holds"), rows)
    if not possible:
        return ExitCode.NOT_READY
    return ExitCode.DONE if all(proof.holds for proof in proofs) else ExitCode.DIFFERENCE


def _newest_here() -> str | None:
    here = [entry for entry in known_servers() if is_installed(entry)]
    newest = max(here, key=lambda entry: (entry.flavour == "mysql", entry.numbers), default=None)
    return f"{newest.flavour}:{newest.version}" if newest else None


def _print_findings(findings: list[Finding]) -> None:
    for finding in findings:
        print_sentence(f"{_MARKS[finding.severity]:8} {finding.subject}: {finding.found}", indent=_INDENT)
        if finding.advice:
            _print_under(f"→ {finding.advice}")


def _print_under(text: str) -> None:
    print_sentence(" " * _INDENT + text, indent=_INDENT)


def _as_json(findings: list[Finding], server: str | None, found: Resolution | None) -> dict[str, Any]:
    rows = [dataclasses.asdict(finding) | {"severity": finding.severity.name.lower()} for finding in findings]
    return {
        "findings": rows,
        "server": server if found else None,
        "resolution": found.model_dump(mode="json") if found else None,
    }
