"""`bakeoff gate`: whether a build is slower than allowed, for CI and for `git bisect run` (docs/reference/gate.md)."""

import re
import threading
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

from bakeoff.cli.arguments import DataOptions, InjectSlowdown, Output, WorkloadOptions
from bakeoff.cli.duel import arm_of, data_and_connection, parse_servers, passwords_of, study_of, workloads_of
from bakeoff.cli.options import Take, command
from bakeoff.cli.run import RunOptions, check_study, run_and_report
from bakeoff.cli.study_request import naming_the_line, request_study
from bakeoff.errors import BakeoffError, ExitCode, SpecError
from bakeoff.gate.outputs import codes_for, errors_in, history_command, writable
from bakeoff.gate.rule import DEFAULT_NAME, OnUnclear, as_gate, as_question
from bakeoff.report.live import live_for
from bakeoff.run.arms import download_reporter
from bakeoff.run.machine_check import Severity, examine
from bakeoff.servers import install
from bakeoff.servers.paths import work_root
from bakeoff.spec import Frozen, Study
from bakeoff.spec.fields import Argument, Conditions, Option, Sizes
from bakeoff.stats.stopping import contenders
from bakeoff.units import parse_percent


def _parse_share(text: str) -> float:
    share = parse_percent(text)
    if not 0.001 <= share <= 0.5:
        raise SpecError(f"{text!r} is outside 0.1% to 50%.", hint="Write --max-slowdown 2%.")
    return share


class GateOptions(Frozen):
    """What a gate compares, allows and writes."""

    servers: Annotated[
        list[str], Argument("The baseline first, unless --baseline names it: path:main path:pr", "SERVER")
    ] = []
    study: Annotated[
        str | None,
        Option(
            "Take workloads, data, settings and, if none are named, servers from a study file.",
            "FILE",
            section="What is compared",
        ),
    ] = None
    baseline: Annotated[str | None, Option("The build to compare with.", "SERVER", section="What is compared")] = None
    max_slowdown: Annotated[
        float, Option("Loss of throughput that is allowed.", "PERCENT", _parse_share, default="2%")
    ] = 0.02
    on_unclear: Annotated[OnUnclear | None, Option("What to do when the gate cannot tell.", default="exit code 6")] = (
        None
    )
    bisect: Annotated[bool, Option("Exit codes for git bisect run: 125 for a build that cannot be judged.")] = False
    junit: Annotated[Path | None, Option("Write JUnit XML, a test for each comparison.", "FILE")] = None
    name: Annotated[str, Option("Name of this gate, if a project has several.", "NAME")] = DEFAULT_NAME
    history: Annotated[Path | None, Option("Add the run to this history, as series --name.", "FILE")] = None
    inject_slowdown: InjectSlowdown = None


@command(
    "bakeoff gate path:main path:pr --max-slowdown 2% --junit gate.xml",
    "bakeoff gate --baseline mysql:8.0.15 path:build -w oltp_point_select",
    "bakeoff gate path:main path:pr --study gate.yaml",
    most_used=("--max-slowdown", "--workload", "--threads", "--budget", "--junit"),
)
def gate(
    options: GateOptions,
    workload: Annotated[WorkloadOptions, Take("workload", "option")],
    data: Annotated[DataOptions, Take("data")],
    sizes: Annotated[Sizes, Take("threads", "tables", "table_size", "budget_s")],
    conditions: Annotated[Conditions, Take("database", "seed")],
    output: Annotated[Output, Take("runs", "quiet", "output")],
) -> int:
    """Compare builds until it is known whether one is slower than allowed.

    Exit codes: 0 passed, 1 failed, 6 cannot tell.
    """
    with codes_for(bisect=options.bisect), errors_in(writable(options.junit, "--junit"), options.name):
        _check_name(options.name)
        if options.history:
            history_command().History(options.history).check()
        ask = partial(
            as_gate,
            max_slowdown=options.max_slowdown,
            name=options.name,
            on_unclear=options.on_unclear,
            bisect=options.bisect,
            junit=options.junit and options.junit.absolute(),
            history=writable(options.history, "--history"),
        )
        named = ([options.baseline] if options.baseline else []) + options.servers
        run_options = RunOptions.of(output)
        if options.study is not None:
            in_file = workload.given() | data.given() | sizes.given() | conditions.given()
            if said := next((name for name in in_file if name not in ("budget_s", "seed")), None):
                flag = f"--{said.replace('_', '-')}"
                raise SpecError(f"gate: with --study the file says what {flag} would.", hint="Leave it out.")
            if named:
                parse_servers(named, f"gate --study {options.study}")
            request = request_study(options.study, changes=sizes.given() | conditions.given(), servers=named)
            with nullcontext() if named else naming_the_line(request):
                return _run(ask(_checked(request.study, options.inject_slowdown)), run_options)
        specs = parse_servers(named, "gate")
        own, tables_data, connection = data_and_connection(data)
        made = study_of(
            own.database,
            sizes,
            conditions,
            title=" against ".join(map(str, specs)),
            arms=tuple(arm_of(at, specs, tables_data, connection) for at in range(len(specs))),
            workloads=workloads_of(workload),
        )
        run_options = replace(run_options, passwords=passwords_of(made.arms, named, own))
        return _run(ask(_checked(made, options.inject_slowdown)), run_options)


def _checked(study: Study, slowdown_percent: float | None) -> Study:
    for arm in study.arms:
        if arm.server.is_running:
            message = f"gate: {arm.server} is a running server; a gate needs servers that it can restart."
            raise SpecError(message, hint="Name a build that bakeoff starts: path:DIR.")
    if any(workload.rate_per_s or workload.speed for workload in study.workloads):
        message = "gate: a fixed rate or speed fixes the throughput, so there is nothing to judge."
        raise SpecError(message, hint="Leave the rate out.")
    if slowdown_percent:
        slow, last = {"slowdown_percent": slowdown_percent}, contenders(study)[-1]
        arms = tuple(arm.model_copy(update=slow) if arm.name == last else arm for arm in study.arms)
        study = study.with_arms(arms)
    return study


def _run(study: Study, options: RunOptions) -> int:
    if as_question(study).bisect:
        _require_builds(study, options)
    check_study(study, options, no_verdict=False)
    with live_for(study, quiet=options.quiet, json=options.json) as live:
        for finding in examine(work_root()):
            if finding.severity >= Severity.WARNING:
                live.note(f"{finding.subject}: {finding.found}. {finding.advice}".strip())
    return run_and_report(study, options)


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
        raise SpecError(
            f"--name: {name!r} is not a name of letters, digits, dots, _ and -.", hint="Write --name reads."
        )


def _require_builds(study: Study, options: RunOptions) -> None:
    """Check the builds early: `git bisect run` skips a missing build, and ends without the baseline."""
    with live_for(study, quiet=options.quiet, json=options.json) as live:
        reporter = download_reporter(live, threading.Event())
        for server in dict.fromkeys([*(arm.server for arm in study.arms[1:]), study.baseline.server]):
            try:
                install(server, reporter)
            except BakeoffError as error:
                is_baseline = server == study.baseline.server
                error.exit_code = ExitCode.BISECT_ABORT if is_baseline else ExitCode.BISECT_SKIP
                raise
