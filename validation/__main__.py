"""The program `python -m validation`: proves, on this machine, that bakeoff's verdicts can be trusted."""

import os
import signal
import sys
import threading
import time
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import numpy as np
import typer

from bakeoff.cli.printing import console
from bakeoff.cli.run import ending_signals
from bakeoff.errors import BakeoffError, ExitCode, SpecError
from bakeoff.servers import Catalog
from bakeoff.spec import Origin, parse_server
from validation import (
    bisections,
    gates,
    gates_measured,
    histories,
    hosts,
    machines,
    procedures,
    procedures_measured,
    simulation,
    versions,
)
from validation import campaign as campaigns
from validation import causes as planted
from validation import record as recorder
from validation import suite as suites
from validation.check import Size
from validation.duels import LoadClass, Outcome
from validation.journal import append_entry, read_entries
from validation.soak import soak

_SERVER = "mysql:8.0.15"
_GATES = Path(__file__).parent.parent / "bench/results/validation/gates.jsonl"

app = typer.Typer(
    name="validation",
    help="Prove, on this machine, that bakeoff's verdicts can be trusted: docs/validation.md.",
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Seed = Annotated[int, typer.Option(help="Everything random follows from it.")]
Server = Annotated[str, typer.Option(help="As on bakeoff's command line.")]
JournalFolder = Annotated[Path, typer.Option(help="Of the journals; server accounts must be able to enter.")]
WarmUp = Annotated[str, typer.Option(help="Of each duel.")]
Budget = Annotated[str, typer.Option(help="Of each duel.")]


class TableFormat(StrEnum):
    """How the table is printed."""

    TEXT = "text"
    MARKDOWN = "md"
    JSON = "json"


@app.command()
def suite(
    size: Annotated[
        Size | None,
        typer.Option(help="replay: minutes, no server (the default); quick: 7 minutes; full: hours."),
    ] = None,
    only: Annotated[str, typer.Option(help="Tests by number, with commas: G1,G3.")] = "",
    seed: Annotated[int | None, typer.Option(help="Everything random follows from it. [default: 1]")] = None,
    server: Annotated[str | None, typer.Option(help=f"What real tests run on. [default: {_SERVER}]")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Continue a run that was ended.")] = None,
    runs: Annotated[
        Path | None, typer.Option(help="Where validation-<time> is made; default: ./bakeoff-runs or $BAKEOFF_RUNS.")
    ] = None,
    output: Annotated[TableFormat, typer.Option("--format", help="text, md for a document, json for programs.")] = (
        TableFormat.TEXT
    ),
) -> int:
    """Test the method against known truths; exit code 1 when a target does not hold, 3 when no test could tell."""
    names = tuple(name.strip().upper() for name in only.split(",") if name.strip())
    if resume:
        if size or names or seed is not None or server:
            raise SpecError("--resume continues with the options given then.", hint="Leave the other options out.")
        run = suites.SuiteRun.open(resume)
        checks = suites.select(run.record.size, run.record.only)
    else:
        size = size or Size.REPLAY
        checks = suites.select(size, names)
        if server:
            _check_server(server, size)
        run = suites.SuiteRun.begin(
            runs or Path(os.environ.get("BAKEOFF_RUNS", "bakeoff-runs")),
            size=size,
            only=names,
            seed=1 if seed is None else seed,
            server=server or _SERVER,
            command=("python", "-m", "validation", *sys.argv[1:]),
        )
    for number in ending_signals():
        signal.signal(number, signal.default_int_handler)
    try:
        suites.run_checks(run, checks, report=lambda text: typer.echo(text, err=True))
    except KeyboardInterrupt:
        _print(run.record, output)
        typer.echo(f"interrupted. Continue with: python -m validation suite --resume {run.path}", err=True)
        return ExitCode.INTERRUPTED
    _print(run.record, output)
    typer.echo(f"Findings: {run.path}/results.json", err=True)
    if run.record.failed:
        return ExitCode.DIFFERENCE
    return ExitCode.DONE if any(entry.passed for entry in run.record.entries) else ExitCode.NOT_READY


def _check_server(text: str, size: Size) -> None:
    """Refuse, before minutes are spent, a server that the tests cannot run on.

    Raises:
        SpecError: they cannot.
    """
    if size is Size.REPLAY:
        raise SpecError("--server: the size replay starts no server.", hint="Leave --server out, or add --size quick.")
    spec = parse_server(text)
    if spec.origin is Origin.URL:
        raise SpecError(
            "--server: a running server cannot be tested: the tests start their servers again and again.",
            hint="Name one that bakeoff starts: --server mysql:8.0.",
        )
    if spec.origin is Origin.CATALOG:
        Catalog.load().resolve(spec)


def _print(record: suites.Record, output: TableFormat) -> None:
    if output is TableFormat.JSON:
        typer.echo(record.model_dump_json(indent=1))
    elif output is TableFormat.MARKDOWN:
        typer.echo(suites.markdown(record), nl=False)
    else:
        page = console()
        if not page.is_terminal:
            page.width = 140
        suites.print_table(record, page)


@app.command()
def campaign(
    folder: JournalFolder,
    kinds: Annotated[
        str,
        typer.Option(help="aa=50,slow2=20,swap=5,grid=2: so many for every server; aa@mariadb:10.11=50 for one alone."),
    ],
    server: Annotated[list[str], typer.Option(help="As on bakeoff's command line; repeatable.")],
    lanes: Annotated[int, typer.Option(help="Duels at a time.")] = 1,
    background: Annotated[bool, typer.Option("--background", help="Bursts of other load beside them.")] = False,
    precision: str = "2%",
    warm_up: WarmUp = campaigns.WARM_UP,
    budget: Budget = campaigns.BUDGET,
    minutes: Annotated[float | None, typer.Option(help="Start no duel later; those that run finish.")] = None,
    seed: Seed = 1,
) -> int:
    """Run many duels whose true ratio is known into one journal; the same words continue one that was ended."""
    duels = campaigns.planned(
        campaigns.parse_kinds(kinds),
        server,
        seed=seed,
        precision=precision,
        warm_up=warm_up,
        budget=budget,
        background=background,
    )
    running = campaigns.Campaign(folder, lanes=lanes, background=background, seed=seed)

    def end(_number: int, _frame: FrameType | None) -> None:
        if running.stop.is_set():
            running.kill.set()
        running.stop.set()
        typer.echo("ending when the running duels have finished; once more to end them now")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    if minutes:
        timer = threading.Timer(60 * minutes, running.stop.set)
        timer.daemon = True
        timer.start()
    finished = running.run(duels, report=_report)
    return ExitCode.DONE if len(finished) == len(duels) else ExitCode.DIFFERENCE


def _end_in_order_on_sigterm() -> None:
    """So that what a command started, servers too, is stopped with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.INTERRUPTED))


def _report(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


@app.command("soak")
def soak_test(
    folder: JournalFolder,
    minutes: Annotated[float, typer.Option(help="Of the duel.")] = 120.0,
    server: Server = _SERVER,
    seed: Seed = 1,
) -> int:
    """Run one long duel whose servers crash at random; exit code 1 when memory grows or anything is left."""
    _end_in_order_on_sigterm()
    seen = soak(folder, server=server, minutes=minutes, seed=seed, report=_report)
    early, late = seen.quarters_bytes
    print(
        f"{seen.crashes} crashes, {seen.valid} epochs that count, {seen.discarded} discarded; "
        f"memory {early / 1e6:.0f} MB in the second quarter, {late / 1e6:.0f} MB in the last"
    )
    for wrong in seen.wrong:
        print(f"WRONG: {wrong}")
    return ExitCode.DIFFERENCE if seen.wrong else ExitCode.DONE


@app.command()
def causes(
    folder: JournalFolder,
    names: Annotated[list[str] | None, typer.Argument(help="Causes by name; default: all.")] = None,
    times: Annotated[int, typer.Option(help="How often each is planted.")] = 1,
    attribute: Annotated[bool, typer.Option("--attribute", help="Find the setting, too, among three.")] = False,
    seed: Seed = 1,
) -> int:
    """Plant causes on real servers and print what the report names; exit code 1 below nine of ten families right.

    Those that `FOLDER/causes.jsonl` has, with or without `--attribute`, are not planted again.
    """
    unknown = set(names or ()) - planted.CAUSES.keys()
    if unknown:
        raise SpecError(f"no cause is called {min(unknown)!r}.", hint=f"There are: {', '.join(planted.CAUSES)}.")
    _end_in_order_on_sigterm()
    journal = folder / planted.JOURNAL
    for turn in range(times):
        for name in names or planted.CAUSES:
            known = read_entries(journal, planted.Reported)
            if not any((each.cause, each.seed) == (name, seed + turn) for each in known):
                found = planted.plant(
                    name, folder / f"{name.replace(' ', '-')}-{turn}", seed=seed + turn, attribute=attribute
                )
                append_entry(journal, found)
                _report(f"{name}: {'right' if found.right else 'WRONG'}, {found.settings}: {found.sentence}")
    reported = read_entries(journal, planted.Reported)
    print(planted.table(reported))
    asked = {name: [each.right for each in reported if each.cause == name] for name in names or planted.CAUSES}
    return ExitCode.DIFFERENCE if any(10 * sum(own) < 9 * len(own) for own in asked.values()) else ExitCode.DONE


@app.command()
def summary(
    journal: Annotated[list[Path], typer.Argument(exists=True, help="duels.jsonl of a campaign or a suite.")],
) -> int:
    """Print what duels add up to: false claims, coverage, claims and time; and each miss with its epochs."""
    outcomes = [outcome for path in journal for outcome in read_entries(path, Outcome)]
    failed = [outcome for outcome in outcomes if outcome.error]
    print(campaigns.summary_table(campaigns.first_by_key(outcomes).values()))
    print(f"\nDuels that failed: {len(failed)}.")
    for outcome in failed:
        print(f"- {outcome.duel.key}: {outcome.error}")
    return ExitCode.DONE


@app.command("procedures")
def compare_procedures(
    folder: JournalFolder,
    minutes: Annotated[
        float, typer.Option(help="To measure, in whole rounds of about 5 minutes; 0: only report what was measured.")
    ] = 0.0,
    server: Server = _SERVER,
    budget: Annotated[
        str, typer.Option(help="Of a duel; every other procedure gets its wall time.")
    ] = campaigns.BUDGET,
    warm_up: Annotated[str, typer.Option(help="Of a duel and of every serial run.")] = campaigns.WARM_UP,
    duels: Annotated[list[Path] | None, typer.Option(help="Another journal of duels to count; repeatable.")] = None,
    serial_only: Annotated[bool, typer.Option("--serial-only", help="Run no duels: --duels has them.")] = False,
    load: Annotated[
        list[LoadClass] | None, typer.Option(help="Count only measurements beside such load; repeatable.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="SVG to write.")] = None,
    seed: Seed = 1,
) -> int:
    """Measure the procedures in common use and bakeoff on a server against itself, in equal wall time."""
    if minutes:
        _end_in_order_on_sigterm()
        procedures_measured.measure(
            folder,
            server,
            warm_up=warm_up,
            budget=budget,
            until=time.monotonic() + 60 * minutes,
            seed=seed,
            report=_report,
            with_duels=not serial_only,
        )
    known = read_entries(folder / procedures_measured.JOURNAL, procedures_measured.Series)
    series = [each for each in known if (each.warm_up, each.budget) == (warm_up, budget)]
    outcomes = [
        outcome
        for path in (folder / campaigns.JOURNAL, *(duels or ()))
        for outcome in campaigns.first_by_key(read_entries(path, Outcome)).values()
        if _asks(outcome, server, warm_up, budget)
    ]
    if load:
        series = [each for each in series if procedures_measured.typical_load(each) in load]
        outcomes = [outcome for outcome in outcomes if outcome.machine and outcome.machine.load in load]
    asked = list(procedures_measured.judgements(series, outcomes))
    if not asked:
        raise SpecError(f"{folder}: nothing has been measured with these options.", hint="Give --minutes 20.")
    print(f"\n{procedures_measured.conditions(series, outcomes, budget)}\n\n{procedures.table(asked)}")
    if picture:
        from validation.procedures_chart import draw  # drawing takes a second to import

        picture.write_text(draw(asked), encoding="utf-8")
        print(f"\n{picture}")
    return ExitCode.DONE


def _asks(outcome: Outcome, server: str, warm_up: str, budget: str) -> bool:
    duel = outcome.duel
    return set(duel.servers) == {server} and (duel.warm_up, duel.budget) == (warm_up, budget)


@app.command("procedures-replay")
def replay_procedures(
    traces: Annotated[
        list[str] | None, typer.Argument(help="Sets that ship (default: all), or paths of .npz files.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Judgements of each.")] = 1000,
    seed: Seed = 1,
) -> int:
    """Compare the procedures in common use and bakeoff on recorded traces, half a minute for each set."""
    for name in traces or machines.shipped_traces():
        origin = machines.Traces.read(name).origin
        print(
            f"{machines.Recorded(name)} ({origin.server}, {origin.machine}, others use {origin.load:.0%}; "
            f"{procedures.WALL_S:.0f} s each):\n"
        )
        print(procedures.table(procedures.replayed(machines.Recorded(name), repeats=repeats, seed=seed)), "\n")
    return ExitCode.DONE


@app.command()
def record(
    name: Annotated[str, typer.Argument(help="Of the set: NAME.npz and NAME.json.")],
    server: Server = _SERVER,
    restarts: int = 30,
    seconds: Annotated[float, typer.Option(help="Measured after each restart.")] = 12.0,
    threads: int = 4,
    to: Annotated[Path, typer.Option(help="Folder; the default is that of the sets that ship.")] = machines.TRACES,
    seed: Seed = 1,
) -> int:
    """Record traces of a real server for the size replay."""
    traces = recorder.record(
        server,
        restarts=restarts,
        seconds=seconds,
        threads=threads,
        seed=seed,
        report=lambda text: typer.echo(text, err=True),
    )
    path = to / f"{name}.npz"
    traces.write(path)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB, others used {traces.origin.load:.0%} of the machine")
    return ExitCode.DONE


@app.command()
def simulate(
    bimodal: Annotated[
        bool, typer.Option("--bimodal", help="Print the quantiles that the flag for two states compares with.")
    ] = False,
    scale: Annotated[float, typer.Option(help="Share of the full number of runs.")] = 1.0,
    seed: Seed = 1,
) -> int:
    """Print every promise of the method with the rate found in simulated runs; exit code 1 when one is not kept."""
    if bimodal:
        sizes, runs = (6, 7, 8, 10, 12, 15, 20, 30, 40, 60), max(1000, int(100_000 * scale))
        for n, quantile in simulation.bimodal_quantiles(np.random.default_rng(seed), runs=runs, sizes=sizes).items():
            print(f"{n:3d}  {quantile:.3f}")
        return ExitCode.DONE
    counts = simulation.all_promises(seed, scale=scale)
    for count in counts:
        limit = f"<= {count.at_most:.1%}" if count.at_most is not None else f">= {count.at_least:.1%}"
        mark = "ok" if count.kept else "NO"
        print(f"{mark:3} {count.share:7.2%} {limit:>9} of {count.runs:5d}  {count.what}; {count.note}")
    return ExitCode.DONE if all(count.kept for count in counts) else ExitCode.DIFFERENCE


@app.command("hosts")
def simulate_hosts(
    size: Annotated[hosts.HostSize, typer.Option(help="small: seconds; full: minutes.")] = hosts.HostSize.SMALL,
    times: Annotated[int, typer.Option(metavar="N", min=0, help="Simulated runs a line; 0: as the size has.")] = 0,
    seed: Seed = 1,
) -> int:
    """How often intervals over several hosts hold the truth, by number of hosts and by how much these differ."""
    found = hosts.all_lines(seed, size=size, times=times)
    print(hosts.table(found))
    return ExitCode.DONE if all(line.expected for line in found) else ExitCode.DIFFERENCE


@app.command("gates")
def simulate_gates(
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="Simulated gates for each line.")] = 1000,
    seed: Seed = 1,
) -> int:
    """How often `bakeoff gate` passes, fails and cannot tell, by known slowdowns; beside it the rules of others."""
    recorded = gates.read_epochs()
    print(
        f"{runs} gates a line, 2 % allowed; {len(recorded.values) // 2} recorded epochs "
        f"(standard deviation {recorded.values.std(ddof=1):.2%})\n"
    )
    print(gates.table(gates.all_rates(seed, runs=runs)))
    return ExitCode.DONE


@app.command("gates-measured")
def measure_gates(
    minutes: Annotated[float, typer.Option(help="Run further gates for so long; 0: only print.")] = 0.0,
    server: Server = _SERVER,
    journal: Annotated[Path, typer.Option(help="Of all gates; server accounts must enter its folder.")] = _GATES,
    seed: Seed = 1,
) -> int:
    """What gates of a real server against itself said, slowed by nothing, 1 and 3 %; beside it the rules of others."""
    if minutes:
        _end_in_order_on_sigterm()
        gates_measured.series(journal, server, minutes=minutes, seed=seed, report=_report)
    if not (found := read_entries(journal, gates_measured.GateOutcome)):
        raise SpecError(f"{journal}: no gate has been run.", hint="Give --minutes 60.")
    print(gates_measured.table(found))
    return ExitCode.DONE


@app.command("histories")
def simulate_histories(
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="Simulated histories of each kind.")] = 1000,
    seed: Seed = 1,
    others: Annotated[
        bool, typer.Option("--others", help="Also Otava and ruptures, from an environment made for them by pip.")
    ] = False,
    watched: Annotated[bool, typer.Option("--watched", help="Only: one that is looked at after every run.")] = False,
    published: Annotated[bool, typer.Option("--published", help="Only: series that others published.")] = False,
) -> int:
    """Change points in simulated histories: false ones, and true ones found (docs/history.md)."""
    if published:
        for line in histories.published_table(others=others):
            print(line)
    elif watched:
        print(f"{histories.watched(seed=seed, runs=runs):.1%} of {runs} stationary histories ever had a change")
    else:
        for line in histories.table(seed=seed, runs=runs, others=others):
            print(line, flush=True)
    return ExitCode.DONE


@app.command("versions")
def measure_versions(
    server: Annotated[
        list[str] | None, typer.Option(help="In order; repeatable. [default: the catalogue's of that flavour]")
    ] = None,
    reference: Annotated[str, typer.Option(help="That every server is measured beside.")] = _SERVER,
    history: Annotated[Path, typer.Option(metavar="FILE", help="To add to.")] = Path("versions.db"),
    budget: Budget = "20m",
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Where the run is kept.")] = Path("bakeoff-runs"),
    seed: Seed = 1,
) -> int:
    """The versions of the catalogue as a history, which `bakeoff history show` and `report` show (docs/history.md)."""
    _end_in_order_on_sigterm()
    flavour = reference.partition(":")[0]
    servers = server or versions.versions_of(flavour, but=reference)
    run = versions.measure(servers, reference=reference, budget=budget, seed=seed, runs=runs)
    count = versions.remember(run, history, series=flavour)
    print(f"{history}: {count} points of {len(servers)} servers over {reference}, run {run.path}")
    return ExitCode.DONE


@app.command("bisections")
def simulate_bisections(
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="Simulated bisections for each line.")] = 200,
    seed: Seed = 1,
) -> int:
    """How often `bakeoff bisect` finds a known build or known options, and in how many epochs."""
    for line in bisections.table(seed, runs=runs):
        print(line, flush=True)
    return ExitCode.DONE


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit code. An expected error is one line on standard error."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("python -m validation", arguments or ["--help"]) as context:
            return int(command.invoke(context) or ExitCode.DONE)
    except typer.Exit as ended:
        return ended.exit_code
    except BakeoffError as error:
        print(f"validation: {error}", file=sys.stderr)
        return error.exit_code
    except typer.TyperException as error:
        text = " ".join(error.format_message().split())
        print(f"validation: {text} Try `python -m validation --help`.", file=sys.stderr)
        return ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        print("validation: interrupted.", file=sys.stderr)
        return ExitCode.INTERRUPTED


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
