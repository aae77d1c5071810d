"""`bakeoff run`; and for every command that runs a study: progress, report, verdict, exit code, signals."""

import contextlib
import signal
import sys
import threading
import webbrowser
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from bakeoff import features
from bakeoff.cli.arguments import (
    Client,
    ExplainBudget,
    FailOn,
    FailOnOption,
    Format,
    Hosts,
    NoExplain,
    NoVerdict,
    On,
    Open,
    Publish,
    Quiet,
    Ray,
    Runs,
    Seed,
    format_option,
    naming_the_line,
    nodes_wanted,
    request_study,
)
from bakeoff.cli.plan import show
from bakeoff.cli.printing import console
from bakeoff.cluster import Wanted
from bakeoff.errors import ExitCode, SpecError
from bakeoff.plan.workloads import kind_of
from bakeoff.report import build_view, render_html, render_json, render_terminal
from bakeoff.report.live import live_for
from bakeoff.report.publish import objection, publish
from bakeoff.report.question import Finish, question_of
from bakeoff.report.view import ReportView
from bakeoff.results import RunDirectory, open_run, runs_root
from bakeoff.run.forecast import forecast, require_budget, require_disk
from bakeoff.run.kept_loads import kept_bytes
from bakeoff.run.own_data import with_expected_sizes
from bakeoff.run.resume import resumed_study
from bakeoff.run.runner import AfterVerdict, run_study
from bakeoff.run.workload_checks import check_workloads
from bakeoff.spec import Origin, Study
from bakeoff.stats.model import Analysis, Word
from bakeoff.stats.progress import Listener
from bakeoff.stats.stopping import control_name
from bakeoff.units import parse_duration_s


@dataclass(frozen=True)
class RunOptions:
    """How a run is shown and where it is stored.

    Attributes:
        passwords: by arm name; never written anywhere. Those not in it come from MYSQL_PWD or ~/.my.cnf.
        resume: a run to go on with.
        publish: also write the files to be published, and fail when the control does not hold.
        fail_on: what makes the exit code 1.
        samples: of a replay, by digest a statement with its literals; empty unless they may be shown.
        explaining: how differences are explained; None: not at all.
        cluster: where it is measured; None: on this machine.
    """

    runs_root: Path
    command_line: tuple[str, ...] = field(default_factory=lambda: ("bakeoff", *sys.argv[1:]))
    passwords: dict[str, str] = field(default_factory=dict)
    quiet: bool = False
    json: bool = False
    open_report: bool = False
    resume: RunDirectory | None = None
    publish: bool = False
    fail_on: frozenset[FailOn] | None = None
    samples: Mapping[str, str] = field(default_factory=dict)
    explaining: AfterVerdict | None = None
    cluster: Wanted | None = None


def explaining(budget: str | None, *, none: bool, of_s: float) -> AfterVerdict | None:
    """Return how differences are explained after a run, or None if they are not.

    Args:
        budget: `--explain-budget`.
        none: `--no-explain`.
        of_s: the run's own budget.

    Raises:
        SpecError: the options contradict each other, the budget is not a duration, or explain is not installed.
    """
    explain = features.part("explain", "after_verdict")
    if explain is None:
        if budget is not None:
            raise SpecError("--explain-budget: explain is not installed.", hint="Leave the option out.")
        return None
    asked: AfterVerdict | None = explain.asked(budget, none=none, of_s=of_s)
    return asked


def check_and_run(study: Study, options: RunOptions, *, no_verdict: bool, dry_run: bool = False) -> int:
    """Check that a study can be run here, then run and report it, or only show what it would take; the exit code.

    Raises: as `check_study`.
    """
    check_study(study, options, no_verdict=no_verdict, shows=dry_run)
    return ExitCode.DONE if dry_run else run_and_report(study, options)


def check_study(study: Study, options: RunOptions, *, no_verdict: bool, shows: bool = False) -> None:
    """Check that a study can be run here, and show what it would take where that is wanted.

    Raises:
        SpecError: a workload or an option is unknown, or the budget is too small for a verdict that is wanted.
        HostError: the disk is too small.
    """
    check_workloads(study)
    _check_fail_on(study, options)
    seen = forecast(with_expected_sizes(study, options.passwords), elsewhere=options.cluster is not None)
    if shows:
        show(seen, Format.JSON if options.json else Format.TEXT)
    if not options.cluster:  # each node looks at its own
        require_disk(seen)
    if not no_verdict:
        require_budget(seen)


def run_and_report(study: Study, options: RunOptions) -> int:
    """Run a study and report it; returns the exit code.

    The first Ctrl-C (or SIGTERM) drops the epoch in flight and reports the anytime-valid interval.
    """
    with question_of(study).ending(study) as finish:
        return _run_and_report(study, options, finish)


def _run_and_report(study: Study, options: RunOptions, finish: Finish) -> int:
    stop = threading.Event()
    with live_for(study, quiet=options.quiet, json=options.json) as live, ending_in_order(stop):
        running = [str(arm.server) for arm in study.arms if arm.server.origin is Origin.URL]
        if running:
            them = " and ".join(dict.fromkeys(running))
            live.note(f"{them}: a running server is not restarted, so there will be an interval and no verdict")
        run, analysis = _run(study, options, live, stop)
        live.stage("writing the report")
        view = build_view(run, analysis, samples=options.samples)
        run.write_text("report.html", render_html(view))
        published = publish(run, view) if options.publish else None
    show_report(run, view, options)
    if published:
        print(f"bakeoff: to be published: {published}", file=sys.stderr)
        reason = objection(analysis)
        if reason:
            print(f"bakeoff: not yet: {reason}", file=sys.stderr)
            return ExitCode.INTERRUPTED if stop.is_set() else ExitCode.DIFFERENCE
    finish(run, view)
    if stop.is_set():
        return ExitCode.INTERRUPTED
    if view.conclusion and view.conclusion.exit_code is not None:
        return view.conclusion.exit_code
    return ExitCode.DIFFERENCE if _differences(analysis, view) & (options.fail_on or set()) else ExitCode.DONE


def _run(study: Study, options: RunOptions, live: Listener, stop: threading.Event) -> tuple[RunDirectory, Analysis]:
    """Run a study here or on the nodes of a cluster."""
    if options.cluster:
        from bakeoff.cluster.driver import run_over_cluster

        return run_over_cluster(
            study,
            options.runs_root,
            wanted=options.cluster,
            listener=live,
            stop=stop,
            command_line=options.command_line,
            resume=options.resume,
        )
    return run_study(
        study,
        options.runs_root,
        listener=live,
        stop=stop,
        passwords=options.passwords,
        command_line=options.command_line,
        resume=options.resume,
        after_verdict=options.explaining,
    )


def show_report(run: RunDirectory, view: ReportView, options: RunOptions) -> None:
    """Print a report, and open its page when that was asked for."""
    if options.json:
        print(render_json(view))
    else:
        render_terminal(view, console())
    if options.open_report:
        webbrowser.open(run.path.joinpath("report.html").resolve().as_uri())


def _differences(analysis: Analysis, view: ReportView) -> frozenset[FailOn]:
    """What was found that a run may fail on: by the verdicts, and by a replay's queries and tables."""
    found = {FailOn.SLOWER} if _is_slower(analysis) else set()
    replay = features.part("replay", "answer_rules")
    rows_kinds = set(replay.ROWS_KINDS) if replay else set()
    for record in view.records_of("queries"):
        kinds = str(record.get("differs", "")).split()
        found |= {FailOn(kind) for kind in kinds if kind in list(FailOn)}
        found |= {FailOn.ROWS} if rows_kinds & set(kinds) else set()
        found |= {FailOn.SLOWER} if "digest" in record and record["verdict"] == Word.SLOWER else set()
    return frozenset(found)


def _is_slower(analysis: Analysis) -> bool:
    """Whether a contender is claimed to be slower by more than the margin of equivalence."""
    words = [comparison.verdict.words for comparison in analysis.comparisons if not comparison.is_control]
    return any(Word.SLOWER in each and Word.EQUIVALENT not in each for each in words)


@contextlib.contextmanager
def ending_in_order(stop: threading.Event) -> Iterator[None]:
    """The first signal sets `stop`; the second raises KeyboardInterrupt: servers are stopped, nothing is reported."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in ending_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ending_signals() -> list[signal.Signals]:
    """The signals that end a command, but those ignored when bakeoff started (`nohup` ignores SIGHUP)."""
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]


# ---- bakeoff run -----------------------------------------------------------------------------------------------------


def run(
    study: Annotated[
        str | None,
        typer.Argument(metavar="STUDY", help="A study file, or the name of one that ships; not needed to resume."),
    ] = None,
    scale: Annotated[str, typer.Option(metavar="NAME", help="demo, small, paper: a size that the study has.")] = "",
    budget: Annotated[str | None, typer.Option(metavar="DURATION", help="Instead of the study's: 90s, 4m, 1h.")] = None,
    no_verdict: NoVerdict = False,
    precision: Annotated[str | None, typer.Option(metavar="PERCENT", help="Instead of the study's: 1%.")] = None,
    control: Annotated[bool, typer.Option("--control", help="Add a second instance of the baseline.")] = False,
    publish: Publish = False,
    fail_on: FailOnOption = None,
    explain_budget: ExplainBudget = None,
    no_explain: NoExplain = False,
    resume: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Go on with a run that was killed: a run directory, or a run's name."),
    ] = None,
    ray: Ray = None,
    hosts: Hosts = None,
    on: On = None,
    client: Client = None,
    seed: Seed = None,
    runs: Runs = None,
    open_report: Open = False,
    quiet: Quiet = False,
    output: Annotated[Format, format_option] = Format.TEXT,
) -> int:
    """Run a study: every arm in every cell, until the intervals are narrow enough or the budget is spent."""
    begun = open_run(resume, runs) if resume is not None else None
    if begun and client is None:
        client = begun.study().client
    options = RunOptions(
        runs_root=runs_root(runs),
        quiet=quiet,
        json=output is Format.JSON,
        open_report=open_report,
        publish=publish,
        fail_on=fail_on,
        cluster=nodes_wanted(ray, hosts, on, explain_budget=explain_budget, client=client),
    )
    if begun is not None:
        _refuse_changes(
            study, begun.study(), scale=scale, precision=precision, seed=seed, control=control, client=client
        )
        of_s = parse_duration_s(budget) if budget else begun.study().budget_s
        options = replace(options, explaining=_explaining_begun(begun, explain_budget, none=no_explain, of_s=of_s))
        return _resume(study, begun, options, scale=scale, budget=budget, precision=precision)
    if study is None:
        raise SpecError("run: no study is named.", hint="Write bakeoff run STUDY; see `bakeoff list studies`.")
    request = request_study(
        study, scale=scale, budget=budget, precision=precision, seed=seed, control=control or publish
    )
    asked = explaining(explain_budget, none=no_explain, of_s=request.study.budget_s)
    with naming_the_line(request):
        asked_study = request.study.loaded_from(client) if client else request.study
        return check_and_run(asked_study, replace(options, explaining=asked), no_verdict=no_verdict)


def _check_fail_on(study: Study, options: RunOptions) -> None:
    of_replays = (options.fail_on or frozenset()) - {FailOn.SLOWER}
    if of_replays and not any(kind_of(workload.script).fixed_work for workload in study.workloads):
        raise SpecError(
            f"--fail-on: {', '.join(sorted(of_replays))} can only be seen in a replay.", hint="Write --fail-on slower."
        )


def _resume(
    name: str | None, run: RunDirectory, options: RunOptions, *, scale: str, budget: str | None, precision: str | None
) -> int:
    """Resume a run. A study given with it must be the run's own."""
    begun = run.study()
    _check_fail_on(begun, options)
    if options.publish and control_name(begun) is None:
        raise SpecError(
            f"run: {run.name} was begun without a control, so it cannot be published.",
            hint="Begin it anew with --publish.",
        )
    named = None
    if name is not None:
        scale = scale or (begun.design.scale if begun.design else "")
        control = control_name(begun) is not None
        named = request_study(name, scale=scale, precision=precision, control=control).study
    with question_of(begun).ending(begun):
        study = resumed_study(run, budget_s=parse_duration_s(budget) if budget else None, asked=named)
        if not options.cluster:
            require_disk(forecast(study), there_bytes=kept_bytes(run))
        return run_and_report(study, replace(options, resume=run))


def _explaining_begun(run: RunDirectory, budget: str | None, *, none: bool, of_s: float) -> AfterVerdict | None:
    """How differences of a resumed run are explained: those of a gate or a bisection are not, as if it had not ended.

    Raises: as `explaining`; SpecError also for `--explain-budget` of a gate or a bisection.
    """
    begun = run.study()
    if begun.question.is_verdict:
        return explaining(budget, none=none, of_s=of_s)
    if budget is not None:
        raise SpecError(
            f"run: {run.name} is a {begun.question.noun}, which explains nothing.", hint="Leave --explain-budget out."
        )
    return None


def _refuse_changes(
    name: str | None,
    begun: Study,
    *,
    scale: str,
    precision: str | None,
    seed: int | None,
    control: bool,
    client: str | None,
) -> None:
    """Refuse changes to a resumed run, except of its budget; --scale and --precision may describe the given study."""
    changes = {
        "--scale": name is None and bool(scale),
        "--precision": name is None and precision is not None,
        "--seed": seed not in (None, begun.seed),
        "--control": control and control_name(begun) is None,
        "--client": client != begun.client,
    }
    changed = [option for option, is_changed in changes.items() if is_changed]
    if changed:
        raise SpecError(
            "run: a resumed run keeps its study; only its budget can be changed.",
            hint=f"Leave {' and '.join(changed)} out.",
        )
