"""`bakeoff replay`: compare servers with your own statements, and judge every query."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from bakeoff.cli.arguments import DataOptions, Format, Output, Verdict
from bakeoff.cli.duel import arm_of, data_and_connection, parse_servers, passwords_of, refuse_twins, study_of
from bakeoff.cli.options import Take, command
from bakeoff.cli.printing import console
from bakeoff.cli.run import RunOptions, check_and_run, explaining
from bakeoff.errors import HostError, SpecError
from bakeoff.replay.capture_command import reading
from bakeoff.replay.capture_view import capture_view
from bakeoff.replay.captures import UnknownFormatError, capture_totals, make_capture
from bakeoff.replay.measuring import CaptureFacts, capture_facts
from bakeoff.replay.prune import capture_lock
from bakeoff.replay.workload import is_capture
from bakeoff.report import render_terminal
from bakeoff.results import runs_root
from bakeoff.servers.paths import locked, share
from bakeoff.spec import Frozen, Workload
from bakeoff.spec.dumps import SYSTEM_SCHEMAS
from bakeoff.spec.fields import DATABASE_PATTERN, THREADS_MAX, Argument, Conditions, Option, Sizes
from bakeoff.spec.server_name import check_file_name

_THREADS_MOST = 64  # sessions by default, however many connections were open in the capture
_SHOWN_DIGESTS = 5

_ONE_SESSION = (
    "Note: one session, because no two statements or transactions of the log overlap (a general log does not say "
    "when a statement ended); --threads gives more."
)


class ReplayOptions(Frozen):
    workload: Annotated[Path, Argument("A capture, a query log, or a file of SQL; see `bakeoff capture`.", "WORKLOAD")]
    servers: Annotated[list[str], Argument("The baseline first: mysql:5.7 mysql:8.0 …", "SERVER")]
    threads: Annotated[
        int | None,
        Field(ge=1, le=THREADS_MAX),
        Option(
            "Sessions; for reads also more than the capture has connections.",
            "N",
            default="the connections at work at once in the capture, at most 64",
            section="Workload",
        ),
    ] = None
    speed: Annotated[
        float | None,
        Option(
            "Replay at the captured times: 1 as captured, 0.5 half as fast, 10.",
            "FACTOR",
            default="as fast as it goes",
            section="Workload",
        ),
    ] = None
    writes: Annotated[
        bool,
        Option("On running servers: replay writes too, in every epoch; with --i-have-a-backup.", section="Workload"),
    ] = False
    i_have_a_backup: Annotated[
        bool, Option("The data of these running servers may be changed by --writes.", section="Workload")
    ] = False
    show_literals: Annotated[bool, Option("Show statements as they were captured in the report.", section="Output")] = (
        False
    )
    dry_run: Annotated[bool, Option("Show what it would take; start nothing.", section="How long")] = False


@command(
    "bakeoff replay slow.log mysql:5.7 mysql:8.0 --data shop.sql.gz",
    "bakeoff replay shop.capture mysql:5.7 mysql:8.0 --data shop.sql --open",
    "bakeoff replay queries.sql mysql://app@old/shop mysql://app@new/shop",
    most_used=("--data", "--budget", "--threads", "--fail-on", "--open"),
)
def replay(
    asked: ReplayOptions,
    data: Annotated[DataOptions, Take("data")],
    sizes: Annotated[Sizes, Take("precision", "budget_s")],
    conditions: Annotated[Conditions, Take("database", "profile", "seed")],
    verdict: Verdict,
    output: Output,
) -> int:
    """Replay captured statements on servers with your data; judge the time, rows, errors and plan of every query."""
    specs = parse_servers(asked.servers, "replay shop.capture")
    check_file_name("workload", str(asked.workload.absolute()))
    refuse_twins(specs, "replay", hint="Name another server, or another database.", with_database=True)
    on_running = any(spec.is_running for spec in specs)
    if data.data and on_running:
        raise SpecError("replay: a running server is used with its own data.", hint="Leave --data out.")
    _check_writes(writes=asked.writes, backup=asked.i_have_a_backup, on_running=on_running)
    if asked.speed is not None and not 1e-6 <= asked.speed <= 1e6:
        raise SpecError(f"--speed: {asked.speed:g} is outside 1e-6 to 1e6.", hint="Write --speed 1.")
    capture = as_capture(asked.workload, runs_root(output.runs), quiet=output.quiet)
    totals = capture_totals(capture)
    with console(stderr=True).status("reading the capture"):
        facts = capture_facts(str(capture))
    reads_only = on_running and not asked.writes
    if not output.quiet and output.output is Format.TEXT:
        _print_capture(totals, capture, facts, reads_only=reads_only, literals=asked.show_literals)
    once = "by the clock" if asked.speed else "with writes" if facts.writes and not reads_only else ""
    own, tables_data, connection = data_and_connection(data)
    study = study_of(
        own.database or _schema_of(totals),
        sizes,
        conditions,
        title=f"{asked.workload.stem}: {' against '.join(map(str, specs))}",
        arms=tuple(arm_of(at, specs, tables_data, connection) for at in range(len(specs))),
        workloads=(
            Workload(
                script=str(capture.resolve()),
                speed=asked.speed,
                writes=bool(facts.writes) if on_running and asked.writes else None,
                name=re.sub(r"[^A-Za-z0-9_-]", "_", asked.workload.name.partition(".")[0]),
            ),
        ),
        threads=(_sessions(asked.threads, facts, once=once, quiet=output.quiet),),
        capture_database=conditions.given().get("database", ""),
    )
    samples = {each["digest"]: str(each["sample"]) for each in totals["digests"]} if asked.show_literals else {}
    options = RunOptions.of(
        output,
        verdict,
        passwords=passwords_of(study.arms, asked.servers, own),
        explaining=explaining(verdict, of_s=study.budget_s),
        samples=samples,
    )
    return check_and_run(study, options, no_verdict=verdict.no_verdict, dry_run=asked.dry_run)


def _check_writes(*, writes: bool, backup: bool, on_running: bool) -> None:
    if backup and not writes:
        raise SpecError("--i-have-a-backup only applies with --writes.", hint="Write --writes too, or leave it out.")
    if writes and not on_running:
        reason = "only for running servers; on servers that bakeoff starts, writes are always replayed."
        raise SpecError(f"--writes: {reason}", hint="Leave it out.")
    if writes and not backup:
        hint = "Replay on copies, or write --i-have-a-backup too."
        raise SpecError("replay: --writes changes the data of running servers, which nothing restores.", hint=hint)


def as_capture(workload: Path, root: Path, *, quiet: bool) -> Path:
    """Return the workload if it is a capture, else make one from it in `captures` beside the runs.

    That capture contains the log's literals, so only its owner may read it.
    """
    if not workload.is_file():
        raise SpecError(f"replay: {workload} is not a file.", hint="Name a capture, a log or a file of SQL.")
    if is_capture(str(workload)):
        try:
            capture_totals(workload)
        except UnknownFormatError:
            pass  # a compressed log
        else:
            return workload
    with workload.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
    made = root / "captures" / f"{workload.name.partition('.')[0]}-{digest}.capture"
    lock = capture_lock(made)
    share(lock)  # until this process ends, so that `runs prune` keeps a capture that no run uses yet
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
    except UnknownFormatError as error:
        # Only `capture` has an option for the format.
        hint = f"Make a capture of it: bakeoff capture {log} --format slow -o shop.capture"
        raise SpecError(error.message, hint=hint) from None
    finally:
        os.umask(before)


def _sessions(asked: int | None, facts: CaptureFacts, *, once: str, quiet: bool) -> int:
    """Choose the number of sessions, and say so on standard error if it may surprise.

    `once` says why each connection is replayed only once.
    """
    sessions = asked or min(_THREADS_MOST, facts.at_once)
    note = _ONE_SESSION if not asked and sessions == 1 and facts.connections > 1 else ""
    if once and sessions > facts.connections:
        sessions = facts.connections
        if asked:
            note = f"Note: {sessions} of {asked} threads, one per connection of the capture: {once} each runs once."
    elif asked and (copies := facts.copies(asked)) > 1:
        note = (
            f"Note: the capture has fewer connections ({facts.connections}) than --threads: each is replayed {copies} "
            "times at once, with the same statements in the same order."
        )
    if note and not quiet:
        console(stderr=True).print(note)
    return sessions


def _schema_of(totals: Mapping[str, Any]) -> str:
    schemas = (str(each["schema"]) for each in totals["digests"] if each["schema"])
    usable = (each for each in schemas if each.lower() not in SYSTEM_SCHEMAS and re.fullmatch(DATABASE_PATTERN, each))
    return next(usable, "")


def _print_capture(
    totals: dict[str, Any], capture: Path, facts: CaptureFacts, *, reads_only: bool, literals: bool
) -> None:
    page = console(stderr=True)
    render_terminal(capture_view(totals, capture, limit=_SHOWN_DIGESTS, literals=literals), page)
    if reads_only and facts.writes:
        counts = ", ".join(f"{word} ({count:,})" for word, count in facts.writes.most_common())
        page.print(f"On running servers only plain reads are replayed. Left out: {counts}.")
