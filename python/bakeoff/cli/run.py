"""`bakeoff run`, and what every command that runs a study shares: progress, report, exit code, signals."""

import contextlib
import signal
import sys
import threading
import webbrowser
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Self

from bakeoff import features
from bakeoff.cli.arguments import ClusterOutput, FailOn, Format, Nodes, Output, Publish, Verdict
from bakeoff.cli.options import Take, command
from bakeoff.cli.plan import Scale, show
from bakeoff.cli.printing import console
from bakeoff.cli.study_request import naming_the_line, request_study
from bakeoff.errors import ExitCode, SpecError
from bakeoff.plan.workloads import kind_of
from bakeoff.report import build_view, render_html, render_json, render_screen
from bakeoff.report.context import VerdictQuestion, question_of
from bakeoff.report.live import live_for
from bakeoff.report.markdown import objection, publish
from bakeoff.report.view import ReportView
from bakeoff.results import RunDirectory, open_run, runs_root
from bakeoff.run.forecast import forecast, require_budget, require_disk
from bakeoff.run.kept_loads import kept_bytes
from bakeoff.run.measuring import check_workloads
from bakeoff.run.own_data import with_expected_sizes
from bakeoff.run.resume import resumed_study
from bakeoff.run.runner import AfterVerdict, Invocation, run_study
from bakeoff.spec import Frozen, Study
from bakeoff.spec.fields import Argument, Conditions, Option, Sizes
from bakeoff.stats.model import Analysis, Word
from bakeoff.stats.progress import Listener
from bakeoff.stats.stopping import control_name


@dataclass(frozen=True)
class RunOptions:
    """How a run is shown and where it is stored."""

    runs_root: Path
    command_line: tuple[str, ...] = field(default_factory=lambda: ("bakeoff", *sys.argv[1:]))
    passwords: dict[str, str] = field(default_factory=dict)  # by arm name; never written anywhere
    quiet: bool = False
    json: bool = False
    open_report: bool = False
    resume: RunDirectory | None = None
    publish: bool = False  # fail if the control does not hold
    fail_on: frozenset[FailOn] | None = None
    samples: Mapping[str, str] = field(default_factory=dict)  # digest -> statement with its literals
    explaining: AfterVerdict | None = None
    cluster: Nodes | None = None

    @classmethod
    def of(cls, output: Output, verdict: Verdict | None = None, **others: Any) -> Self:  # noqa: ANN401
        return cls(
            runs_root=runs_root(output.runs),
            quiet=output.quiet,
            json=output.output is Format.JSON,
            open_report=output.open_report,
            fail_on=verdict.fail_on if verdict else None,
            **others,
        )


def explaining(verdict: Verdict, *, of_s: float) -> AfterVerdict | None:
    """Return how differences are explained after a run of `of_s` seconds; None if they are not."""
    explain = features.part("explain", "after_verdict")
    if explain is None:
        if verdict.explain_budget is not None:
            raise SpecError("--explain-budget: explain is not installed.", hint="Leave the option out.")
        return None
    after: AfterVerdict | None = explain.asked(verdict.explain_budget, none=verdict.no_explain, of_s=of_s)
    return after


def check_and_run(study: Study, options: RunOptions, *, no_verdict: bool, dry_run: bool = False) -> int:
    check_study(study, options, no_verdict=no_verdict, shows=dry_run)
    return ExitCode.DONE if dry_run else run_and_report(study, options)


def check_study(study: Study, options: RunOptions, *, no_verdict: bool, shows: bool = False) -> None:
    check_workloads(study)
    _check_fail_on(study, options)
    seen = forecast(with_expected_sizes(study, options.passwords), elsewhere=options.cluster is not None)
    if shows:
        show(seen, Format.JSON if options.json else Format.TEXT)
    if not options.cluster:  # each node checks its own
        require_disk(seen)
    if not no_verdict:
        require_budget(seen)


def run_and_report(study: Study, options: RunOptions) -> int:
    """Run a study and report it. The first Ctrl-C drops the epoch in flight and reports the anytime-valid interval."""
    explains_only = options.explaining is not None and options.explaining.only
    question = VerdictQuestion() if explains_only else question_of(study)  # an explained gate has answered already
    with question.ending(study) as finish:
        stop = threading.Event()
        with live_for(study, quiet=options.quiet, json=options.json) as live, ending_in_order(stop):
            if study.has_running_server:
                them = " and ".join(dict.fromkeys(str(arm.server) for arm in study.arms if arm.server.is_running))
                live.note(f"{them}: a running server is not restarted, so there will be an interval and no verdict")
            run, analysis = _run(study, options, live, stop)
            live.stage("writing the report")
            view = build_view(run, analysis, samples=options.samples)
            run.write_text("report.html", render_html(view))
            published = publish(run, view) if options.publish else None
        show_report(run, view, options)
        if published:
            print(f"bakeoff: to be published: {published}", file=sys.stderr)
            if reason := objection(analysis):
                print(f"bakeoff: not yet: {reason}", file=sys.stderr)
                return ExitCode.INTERRUPTED if stop.is_set() else ExitCode.DIFFERENCE
        finish(run, view)
        if stop.is_set():
            return ExitCode.INTERRUPTED
        if not explains_only and view.conclusion and view.conclusion.exit_code is not None:
            return view.conclusion.exit_code
        return ExitCode.DIFFERENCE if _differences(analysis, view) & (options.fail_on or set()) else ExitCode.DONE


def _run(study: Study, options: RunOptions, live: Listener, stop: threading.Event) -> tuple[RunDirectory, Analysis]:
    root = options.runs_root
    invocation = Invocation(options.command_line, options.passwords, options.resume, options.explaining)
    if not options.cluster:
        return run_study(study, root, invocation, listener=live, stop=stop)
    driver = features.part("cluster", "driver")
    assert driver, "`Where.nodes` has found it"
    measured: tuple[RunDirectory, Analysis] = driver.run_over_cluster(
        study, root, invocation, wanted=options.cluster, listener=live, stop=stop
    )
    return measured


def show_report(run: RunDirectory, view: ReportView, options: RunOptions) -> None:
    if options.json:
        print(render_json(view))
    else:
        render_screen(view, console())
    if options.open_report:
        webbrowser.open(run.path.joinpath("report.html").resolve().as_uri())


def _differences(analysis: Analysis, view: ReportView) -> frozenset[FailOn]:
    words = [comparison.verdict.words for comparison in analysis.comparisons if not comparison.is_control]
    slower = any(Word.SLOWER in each and Word.EQUIVALENT not in each for each in words)
    found = {FailOn.SLOWER} if slower else set()
    replay = features.part("replay", "answer_rules")
    rows_kinds = set(replay.ROWS_KINDS) if replay else set()
    for record in view.records_of("queries"):
        kinds = str(record.get("differs", "")).split()
        found |= {FailOn(kind) for kind in kinds if kind in list(FailOn)}
        found |= {FailOn.ROWS} if rows_kinds & set(kinds) else set()
        found |= {FailOn.SLOWER} if "digest" in record and record["verdict"] == Word.SLOWER else set()
    return frozenset(found)


@contextlib.contextmanager
def ending_in_order(stop: threading.Event) -> Iterator[None]:
    """Let the first signal set `stop`; the second raises KeyboardInterrupt, which stops servers without a report."""

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
    """Return the signals that end a command, except those that were ignored from the start (`nohup`, SIGHUP)."""
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]


# ---- bakeoff run -----------------------------------------------------------------------------------------------------


class StudyOptions(Frozen):
    study: Annotated[
        str | None, Argument("A study file, or the name of one that ships; not needed to resume.", "STUDY")
    ] = None
    scale: Scale = ""
    control: Annotated[bool, Option("Add a second instance of the baseline.", section="What is compared")] = False
    publish: Publish = False
    resume: Annotated[
        str | None, Option("Continue a run that was killed: its directory or name.", "RUN", section="What is compared")
    ] = None


@command(
    "bakeoff run charset-collation --scale demo",
    "bakeoff run study.yaml --budget 1h --open",
    "bakeoff run --resume latest",
    most_used=("--scale", "--budget", "--precision", "--resume", "--open"),
)
def run(
    options: StudyOptions,
    sizes: Annotated[Sizes, Take("budget_s", "precision", shown="the study's")],
    conditions: Annotated[Conditions, Take("seed")],
    verdict: Verdict,
    output: ClusterOutput,
) -> int:
    """Run a study: every arm in every cell, until the intervals are narrow enough or the budget is spent."""
    begun = open_run(options.resume, output.runs) if options.resume is not None else None
    run_options = RunOptions.of(output, verdict, publish=options.publish, cluster=output.nodes(verdict.explain_budget))
    changes = sizes.given() | conditions.given()
    if begun is not None:
        _refuse_changes(options, changes, begun.study(), output.client)
        of_s = sizes.budget_s if "budget_s" in changes else begun.study().budget_s
        run_options = replace(run_options, explaining=_explaining_begun(begun, verdict, of_s=of_s))
        return _resume(options, changes, begun, run_options)
    if options.study is None:
        raise SpecError("run: no study is named.", hint="Write bakeoff run STUDY; see `bakeoff list studies`.")
    if options.control or options.publish:
        changes |= {"control": True}
    request = request_study(options.study, scale=options.scale, changes=changes)
    run_options = replace(run_options, explaining=explaining(verdict, of_s=request.study.budget_s))
    with naming_the_line(request):
        study = request.study if output.client is None else request.study.loaded_from(output.client)
        return check_and_run(study, run_options, no_verdict=verdict.no_verdict)


def _check_fail_on(study: Study, options: RunOptions) -> None:
    of_replays = (options.fail_on or frozenset()) - {FailOn.SLOWER}
    if of_replays and not any(kind_of(workload.script).fixed_work for workload in study.workloads):
        raise SpecError(
            f"--fail-on: {', '.join(sorted(of_replays))} can only be seen in a replay.", hint="Write --fail-on slower."
        )


def _resume(asked: StudyOptions, changes: Mapping[str, Any], run: RunDirectory, options: RunOptions) -> int:
    """Resume a run. A study given with it must be the run's own."""
    begun = run.study()
    _check_fail_on(begun, options)
    controlled = control_name(begun) is not None
    if options.publish and not controlled:
        raise SpecError(
            f"run: {run.name} was started without a control, so it cannot be published.",
            hint="Start a new run with --publish.",
        )
    named = None
    if asked.study is not None:
        scale = asked.scale or (begun.design.scale if begun.design else "")
        changed = {"control": controlled} | {name: changes[name] for name in ("precision",) if name in changes}
        named = request_study(asked.study, scale=scale, changes=changed).study
    with question_of(begun).ending(begun):
        study = resumed_study(run, budget_s=changes.get("budget_s"), asked=named)
        if not options.cluster:
            require_disk(forecast(study), there_bytes=kept_bytes(run))
        return run_and_report(study, replace(options, resume=run))


def _explaining_begun(run: RunDirectory, verdict: Verdict, *, of_s: float) -> AfterVerdict | None:
    begun = run.study()
    if begun.question.is_verdict:
        return explaining(verdict, of_s=of_s)
    if verdict.explain_budget is not None:
        raise SpecError(
            f"run: {run.name} is a {begun.question.noun}, which does not explain differences.",
            hint="Leave --explain-budget out.",
        )
    return None


def _refuse_changes(asked: StudyOptions, changes: Mapping[str, Any], begun: Study, client: str | None) -> None:
    """Refuse changes to a resumed run, except of its budget; --scale and --precision may describe the given study."""
    changed = {
        "--scale": asked.study is None and bool(asked.scale),
        "--precision": asked.study is None and "precision" in changes,
        "--seed": changes.get("seed", begun.seed) != begun.seed,
        "--control": asked.control and control_name(begun) is None,
        "--client": client not in (None, begun.client),
    }
    if any(changed.values()):
        options = " and ".join(option for option, is_changed in changed.items() if is_changed)
        raise SpecError(
            "run: a resumed run keeps its study; only its budget can be changed.", hint=f"Leave {options} out."
        )
