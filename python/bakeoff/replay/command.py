"""`bakeoff replay`: compare servers by one's own statements, and judge every query (docs/replay.md)."""

import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bakeoff.captures import capture_totals, make_capture
from bakeoff.cli.arguments import (
    Budget,
    ExplainBudget,
    FailOnOption,
    Format,
    NoExplain,
    NoVerdict,
    Open,
    Precision,
    ProfileOption,
    Quiet,
    Runs,
    Seed,
    format_option,
)
from bakeoff.cli.duel import arm_of, data_and_connection, parse_servers, passwords_of, refuse_twins
from bakeoff.cli.printing import console
from bakeoff.cli.run import RunOptions, check_and_run, explaining
from bakeoff.errors import HostError, SpecError
from bakeoff.replay.capture_command import reading
from bakeoff.replay.capture_view import capture_view
from bakeoff.replay.captures import CaptureFacts, capture_facts
from bakeoff.replay.prune import capture_lock
from bakeoff.replay.workload import is_capture
from bakeoff.report import render_terminal
from bakeoff.results import runs_root
from bakeoff.servers.paths import locked, share
from bakeoff.spec import Origin, Profile, Study, Workload
from bakeoff.spec.dumps import SYSTEM_SCHEMAS
from bakeoff.spec.study import DATABASE_PATTERN, THREADS_MAX
from bakeoff.units import parse_duration_s, parse_precision

_THREADS_MOST = 64
"""Sessions by default, however many connections were open in the capture."""

_SHOWN_DIGESTS = 5

_ONE_SESSION = (
    "Note: one session, since by the log no two statements or transactions ran at once (a general log does not say "
    "when a statement ended); --threads gives more."
)


def replay(
    workload: Annotated[
        Path,
        typer.Argument(metavar="WORKLOAD", help="A capture, a query log, or a file of SQL; see `bakeoff capture`."),
    ],
    servers: Annotated[list[str], typer.Argument(metavar="SERVER", help="The baseline first: mysql:5.7 mysql:8.0 …")],
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DUMP",
            help="The tables: a dump or mysql://user@host/DATABASE (docs/data.md); not of running servers.",
        ),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of statements whose schema the log does not tell. [default: the dump's, or the URL's]",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=THREADS_MAX,
            help="Sessions; for reads also more than the capture has connections. [default: the connections at work at "
            "once in the capture, at most 64]",
        ),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            metavar="FACTOR", help="By the clock: 1 as captured, 0.5 half as fast, 10. [default: as fast as it goes]"
        ),
    ] = None,
    precision: Precision = None,
    budget: Budget = "10m",
    writes: Annotated[
        bool,
        typer.Option("--writes", help="Of running servers: replay writes too, in every epoch; with --i-have-a-backup."),
    ] = False,
    i_have_a_backup: Annotated[
        bool, typer.Option("--i-have-a-backup", help="The data of these running servers may be changed by --writes.")
    ] = False,
    no_verdict: NoVerdict = False,
    profile: ProfileOption = Profile.MATCHED,
    fail_on: FailOnOption = None,
    explain_budget: ExplainBudget = None,
    no_explain: NoExplain = False,
    show_literals: Annotated[
        bool, typer.Option("--show-literals", help="Show statements as they were captured in the report.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would take; start nothing.")] = False,
    seed: Seed = None,
    runs: Runs = None,
    open_report: Open = False,
    quiet: Quiet = False,
    output: Annotated[Format, format_option] = Format.TEXT,
) -> int:
    """Replay captured statements on servers with your data; judge the time, rows, errors and plan of every query."""
    specs = parse_servers(servers, "replay shop.capture")
    refuse_twins(specs, "replay", hint="Name another server, or another database.", with_database=True)
    on_running = any(spec.origin is Origin.URL for spec in specs)
    if data and on_running:
        raise SpecError("replay: a running server is used with its own data.", hint="Leave --data out.")
    _check_writes(writes=writes, backup=i_have_a_backup, on_running=on_running)
    if speed is not None and not 1e-6 <= speed <= 1e6:
        raise SpecError(f"--speed: {speed:g} is no speed.", hint="Write --speed 1.")
    root = runs_root(runs)
    capture = as_capture(workload, root, quiet=quiet)
    totals = capture_totals(capture)
    with console(stderr=True).status("reading the capture"):
        facts = capture_facts(str(capture))
    reads_only = on_running and not writes
    if not quiet and output is Format.TEXT:
        _print_capture(totals, capture, facts, reads_only=reads_only, literals=show_literals)
    once = "by the clock" if speed else "with writes" if facts.writes and not reads_only else ""
    sessions = _sessions(threads, facts, once=once, quiet=quiet)
    own, tables_data, connection = data_and_connection(data)
    arms = tuple(arm_of(at, specs, tables_data, connection) for at in range(len(specs)))
    study = Study(
        title=f"{workload.stem}: {' against '.join(map(str, specs))}",
        arms=arms,
        workloads=(
            Workload(
                script=str(capture.resolve()),
                speed=speed,
                writes=bool(facts.writes) if on_running and writes else None,
                name=workload.name.partition(".")[0],
            ),
        ),
        threads=(sessions,),
        database=database or own.database or _schema_of(totals) or "sbtest",
        capture_database=database or "",
        precision=parse_precision(precision or "1%"),
        has_target=precision is not None,
        equivalence=parse_precision(precision or "1%"),
        budget_s=parse_duration_s(budget),
        profile=profile,
        seed=secrets.randbelow(2**31) if seed is None else seed,
    )
    samples = {each["digest"]: str(each["sample"]) for each in totals["digests"]} if show_literals else {}
    options = RunOptions(
        runs_root=root,
        passwords=passwords_of(arms, servers, own),
        quiet=quiet,
        json=output is Format.JSON,
        open_report=open_report,
        fail_on=fail_on,
        explaining=explaining(explain_budget, none=no_explain, of_s=study.budget_s),
        samples=samples,
    )
    return check_and_run(study, options, no_verdict=no_verdict, dry_run=dry_run)


def _check_writes(*, writes: bool, backup: bool, on_running: bool) -> None:
    """Check `--writes` and `--i-have-a-backup`: they are for running servers, and one takes the other."""
    if backup and not writes:
        raise SpecError("--i-have-a-backup: it is for --writes.", hint="Write --writes too, or leave it out.")
    if writes and not on_running:
        reason = "no server here is a running one, and in servers of bakeoff's own writes are replayed anyway."
        raise SpecError(f"--writes: {reason}", hint="Leave it out.")
    if writes and not backup:
        hint = "Replay on copies, or write --i-have-a-backup too."
        raise SpecError("replay: --writes changes the data of running servers, which nothing restores.", hint=hint)


def as_capture(workload: Path, root: Path, *, quiet: bool) -> Path:
    """The workload itself when it is a capture, else one that is made of it in `captures` beside the runs.

    That one has the log's literals: only its owner may read it, and a line says where it is.

    Raises:
        SpecError: it is neither a capture nor a log. HostError: it cannot be read, or nothing can be written there.
    """
    if not workload.is_file():
        raise SpecError(f"replay: {workload} is no file.", hint="Name a capture, a log or a file of SQL.")
    if is_capture(str(workload)):
        try:
            capture_totals(workload)
        except SpecError as error:
            if "it is no capture" not in error.message:
                raise
            # It is a compressed log.
        else:
            return workload
    with workload.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
    made = root / "captures" / f"{workload.name.partition('.')[0]}-{digest}.capture"
    lock = capture_lock(made)
    share(lock)  # until this process ends: `runs prune` deletes a capture that no run uses yet
    with locked(f"{lock}.making"):
        if not made.exists():
            _make(workload, made)
    if not quiet:
        place = f"Capture: {made}, with the log's literals; `bakeoff runs prune` deletes it when no run uses it."
        console(stderr=True).print(place, soft_wrap=True)
    return made


def _make(log: Path, capture: Path) -> None:
    try:
        capture.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(f"replay: {capture.parent} cannot be made: {error.strerror}.") from None
    before = os.umask(0o077)
    try:
        with reading(console(stderr=True)) as report:
            make_capture([str(log)], capture, redact=False, log_format=None, on_progress=report)
    except SpecError as error:
        if not error.hint:
            raise
        # The format is not recognised, and only `capture` has an option that names it.
        hint = f"Make a capture of it: bakeoff capture {log} --format slow -o shop.capture"
        raise SpecError(error.message, hint=hint) from None
    finally:
        os.umask(before)


def _sessions(asked: int | None, facts: CaptureFacts, *, once: str, quiet: bool) -> int:
    """How many sessions the replay has; a line on standard error when that may not be what is expected.

    Args:
        asked: `--threads`.
        facts: of the capture.
        once: why each connection is replayed but once; empty: where sessions are more, several times at once.
        quiet: say nothing.
    """
    sessions = asked or min(_THREADS_MOST, facts.at_once)
    note = _ONE_SESSION if not asked and sessions == 1 and facts.connections > 1 else ""
    if once and sessions > facts.connections:
        sessions = facts.connections
        if asked:
            note = f"Note: {sessions} of {asked} threads, one a connection of the capture: {once} each runs once."
    elif asked and (copies := facts.copies(asked)) > 1:
        note = (
            f"Note: the capture has fewer connections ({facts.connections}) than --threads: each is replayed {copies} "
            "times at once, with the same statements in the same order."
        )
    if note and not quiet:
        console(stderr=True).print(note)
    return sessions


def _schema_of(totals: Mapping[str, Any]) -> str:
    """The schema of the digest with the most time that has one for tables of one's own."""
    schemas = (str(each["schema"]) for each in totals["digests"] if each["schema"])
    usable = (each for each in schemas if each.lower() not in SYSTEM_SCHEMAS and re.fullmatch(DATABASE_PATTERN, each))
    return next(usable, "")


def _print_capture(
    totals: dict[str, Any], capture: Path, facts: CaptureFacts, *, reads_only: bool, literals: bool
) -> None:
    """What is in the capture and what cannot be replayed, on standard error, before anything starts."""
    page = console(stderr=True)
    render_terminal(capture_view(totals, capture, limit=_SHOWN_DIGESTS, literals=literals), page)
    if reads_only and facts.writes:
        counts = ", ".join(f"{word} ({count:,})" for word, count in facts.writes.most_common())
        page.print(f"On running servers only plain reads are replayed. Left out: {counts}.")
