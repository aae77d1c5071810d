"""`bakeoff gate`: whether a build is slower than allowed, for CI systems and for `git bisect run` (docs/ci.md)."""

import re
import secrets
import threading
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bakeoff.cli.arguments import (
    Database,
    Dump,
    Format,
    Quiet,
    Runs,
    ScriptOptions,
    Seed,
    format_option,
    naming_the_line,
    request_study,
)
from bakeoff.cli.duel import (
    arm_of,
    data_and_connection,
    number_of,
    parse_servers,
    passwords_of,
    slowdown_percent,
    threads_of,
    workloads_of,
)
from bakeoff.cli.run import RunOptions, check_study, run_and_report
from bakeoff.errors import BakeoffError, ExitCode, SpecError
from bakeoff.gate.outputs import codes_for, errors_in, writable
from bakeoff.gate.rule import DEFAULT_NAME, OnUnclear, as_gate, as_question
from bakeoff.history.history_file import History
from bakeoff.report.live import live_for
from bakeoff.results import runs_root
from bakeoff.run.machine_check import Severity, examine
from bakeoff.run.reporters import download_reporter
from bakeoff.servers import install
from bakeoff.servers.paths import work_root
from bakeoff.spec import Origin, Study
from bakeoff.stats.stopping import contenders
from bakeoff.units import parse_duration_s, parse_percent


def gate(
    servers: Annotated[
        list[str] | None,
        typer.Argument(metavar="SERVER", help="The baseline first, unless --baseline names it: path:main path:pr"),
    ] = None,
    study: Annotated[
        str | None, typer.Option(metavar="FILE", help="Workloads, data and settings of a study file; its servers, too.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(metavar="SERVER", help="The build to compare with.")] = None,
    max_slowdown: Annotated[
        str, typer.Option("--max-slowdown", metavar="PERCENT", help="Loss of throughput that is allowed.")
    ] = "2%",
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload", "-w", metavar="SCRIPT", help="Several with commas; repeatable. [default: oltp_read_only]"
        ),
    ] = None,
    threads: Annotated[str | None, typer.Option(metavar="N,...", help="Connections: 1,16. [default: 4]")] = None,
    tables: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=1000, help="Tables to load. [default: 4]")
    ] = None,
    table_size: Annotated[
        str | None, typer.Option("--table-size", metavar="ROWS", help="Rows a table. [default: 100k]")
    ] = None,
    option: ScriptOptions = None,
    data: Dump = None,
    database: Database = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Wall time from loading to answer. [default: the study's, or 10m]"),
    ] = None,
    on_unclear: Annotated[
        OnUnclear | None,
        typer.Option("--on-unclear", help="What to do when the gate cannot tell. [default: exit code 6]"),
    ] = None,
    bisect: Annotated[
        bool,
        typer.Option("--bisect", help="Exit codes for git bisect run: 125 for a build that cannot be judged."),
    ] = False,
    junit_file: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML, a test for each comparison.")
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Of this gate, where a project has several: letters, digits, . _ -")
    ] = DEFAULT_NAME,
    history: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add the run to this history, as series --name.")
    ] = None,
    inject_slowdown: Annotated[
        str | None,
        typer.Option("--inject-slowdown", metavar="PERCENT", help="Slow the last server down, to try the gate: 5%."),
    ] = None,
    seed: Seed = None,
    runs: Runs = None,
    quiet: Quiet = False,
    output: Annotated[Format, format_option] = Format.TEXT,
) -> int:
    """Compare builds until it is known whether one is slower than allowed.

    Exit codes: 0 passed, 1 failed, 6 cannot tell.
    """
    own_options = {
        "--workload": workload, "--threads": threads, "--tables": tables, "--table-size": table_size,
        "--option": option, "--data": data, "--database": database,
    }  # fmt: skip
    with codes_for(bisect=bisect), errors_in(writable(junit_file, "--junit"), name):
        _check_name(name)
        share = _share(max_slowdown)
        if history:
            History(history).check()
        ask = partial(
            as_gate, max_slowdown=share, name=name, on_unclear=on_unclear, bisect=bisect,
            junit=junit_file and junit_file.absolute(), history=writable(history, "--history"),
        )  # fmt: skip
        if study is not None and (given := [each for each, value in own_options.items() if value is not None]):
            raise SpecError(f"gate: with --study the file says what {given[0]} would.", hint="Leave it out.")
        named = ([baseline] if baseline else []) + (servers or [])
        specs = parse_servers(named, f"gate --study {study}" if study else "gate") if named or study is None else []
        options = RunOptions(runs_root=runs_root(runs), quiet=quiet, json=output is Format.JSON)
        if study is not None:
            request = request_study(study, scale="", budget=budget, seed=seed, servers=named)
            with nullcontext() if named else naming_the_line(request):
                return _run(ask(_checked(request.study, inject_slowdown)), options)
        own, tables_data, connection = data_and_connection(data)
        made = Study(
            title=" against ".join(map(str, specs)),
            arms=tuple(arm_of(at, specs, tables_data, connection) for at in range(len(specs))),
            workloads=workloads_of(workload or ["oltp_read_only"], option),
            threads=threads_of(threads or "4"),
            tables=tables or 4,
            table_size=number_of(table_size or "100k", "--table-size"),
            database=database or own.database or "sbtest",
            budget_s=parse_duration_s(budget or "10m"),
            seed=secrets.randbelow(2**31) if seed is None else seed,
        )
        options = replace(options, passwords=passwords_of(made.arms, named, own))
        return _run(ask(_checked(made, inject_slowdown)), options)


def _checked(study: Study, inject_slowdown: str | None) -> Study:
    """Return the study with the slowdown that was asked for, after checking that a gate can judge it."""
    for arm in study.arms:
        if arm.server.origin is Origin.URL:
            message = f"gate: {arm.server} is a running server, which is not restarted: there would be no answer."
            raise SpecError(message, hint="Name a build that bakeoff starts: path:DIR.")
    if any(workload.rate_per_s or workload.speed for workload in study.workloads):
        message = "gate: it judges throughput, which is fixed where a rate or a speed is given."
        raise SpecError(message, hint="Leave the rate out.")
    if inject_slowdown:
        slow, last = {"slowdown_percent": slowdown_percent(inject_slowdown)}, contenders(study)[-1]
        arms = tuple(arm.model_copy(update=slow) if arm.name == last else arm for arm in study.arms)
        study = study.model_copy(update={"arms": arms})
    return study


def _run(study: Study, options: RunOptions) -> int:
    """Check that it can be run, say what would spoil the measurement here, then run the gate."""
    if as_question(study).bisect:
        _require_builds(study, options)
    check_study(study, options, no_verdict=False)
    with live_for(study, quiet=options.quiet, json=options.json) as live:
        for finding in examine(work_root()):
            if finding.severity >= Severity.WARNING:
                live.note(f"{finding.subject}: {finding.found}. {finding.advice}".strip())
    return run_and_report(study, options)


def _share(text: str) -> float:
    """Loss of throughput that is allowed, a share."""
    share = parse_percent(text, "--max-slowdown")
    if not 0.001 <= share <= 0.5:
        raise SpecError(f"--max-slowdown: {text!r} is outside 0.1% to 50%.", hint="Write --max-slowdown 2%.")
    return share


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
        raise SpecError(f"--name: {name!r} is no name of letters, digits, dots, _ and -.", hint="Write --name reads.")


def _require_builds(study: Study, options: RunOptions) -> None:
    """Check that the builds are there: git bisect run passes over one that is not, and ends without the baseline.

    Raises:
        BakeoffError: one is not, with the exit code for that.
    """
    with live_for(study, quiet=options.quiet, json=options.json) as live:
        reporter = download_reporter(live, threading.Event())
        for server in dict.fromkeys([*(arm.server for arm in study.arms[1:]), study.baseline.server]):
            try:
                install(server, reporter)
            except BakeoffError as error:
                is_baseline = server == study.baseline.server
                error.exit_code = ExitCode.BISECT_ABORT if is_baseline else ExitCode.BISECT_SKIP
                raise
