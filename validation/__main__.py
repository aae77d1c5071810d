"""The program `python -m validation`: checks on this machine whether bakeoff's verdicts can be trusted."""

import signal
import sys
import time
from pathlib import Path

import click

from bakeoff.errors import BakeoffError, ExitCode, SpecError
from bakeoff.servers import Catalog
from bakeoff.spec import Origin, parse_server
from validation import machines
from validation import record as recorder
from validation import suite as suites
from validation.check import Check, Size
from validation.soak import soak

_SERVER = "mysql:8.0.15"
_PATH = click.Path(path_type=Path)

seed_option = click.option("--seed", default=1, show_default=True, help="Seed of everything random.")
server_option = click.option("--server", default=_SERVER, show_default=True, help="As on bakeoff's command line.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Check on this machine whether bakeoff's verdicts can be trusted: docs/reference/validation.md."""


@cli.command()
@click.option(
    "--size", type=click.Choice([str(size) for size in Size]), default="replay", show_default=True,
    help="replay: minutes, no server; quick: 7 minutes; full: hours.",
)  # fmt: skip
@click.option("--only", default="", help="Tests by number, separated by commas: G1,G3.")
@click.option("--server", help=f"Server that real tests run on. [default: {_SERVER}]")
@click.option(
    "--runs", type=_PATH, envvar="BAKEOFF_RUNS", default=Path("bakeoff-runs"), show_default=True,
    help="Parent directory of validation-<time>.",
)  # fmt: skip
@seed_option
def suite(size: str, only: str, server: str | None, runs: Path, seed: int) -> int:
    """Test the method against known truths.

    Exit code 1 if a target does not hold, 3 if no test could tell.
    """
    names = tuple(name.strip().upper() for name in only.split(",") if name.strip())
    chosen = Size(size)
    checks = suites.select(chosen, names)
    if server:
        _check_server(server, chosen)
    command = ("python", "-m", "validation", *sys.argv[1:])
    run = suites.SuiteRun.begin(runs, size=chosen, only=names, seed=seed, server=server or _SERVER, command=command)
    return _run_suite(run, checks)


@cli.command()
@click.argument("directory", type=_PATH)
def resume(directory: Path) -> int:
    """Continue an interrupted run of the suite with its own options."""
    run = suites.SuiteRun.open(directory)
    return _run_suite(run, suites.select(run.record.size, run.record.only))


def _run_suite(run: suites.SuiteRun, checks: tuple[Check, ...]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, signal.default_int_handler)
    try:
        suites.run_checks(run, checks, report=lambda text: click.echo(text, err=True))
    except KeyboardInterrupt:
        click.echo(suites.markdown(run.record), nl=False)
        click.echo(f"interrupted. Continue with: python -m validation resume {run.path}", err=True)
        return ExitCode.INTERRUPTED
    click.echo(suites.markdown(run.record), nl=False)
    click.echo(f"Results: {run.path}/results.json", err=True)
    if run.record.failed:
        return ExitCode.DIFFERENCE
    return ExitCode.DONE if any(entry.passed for entry in run.record.entries) else ExitCode.NOT_READY


def _check_server(text: str, size: Size) -> None:
    """Raise SpecError for a server that the tests cannot run on, before minutes are spent."""
    if size is Size.REPLAY:
        raise SpecError("--server: size replay starts no server.", hint="Leave --server out, or add --size quick.")
    spec = parse_server(text)
    if spec.is_running:
        raise SpecError(
            "--server: a running server cannot be tested because the tests restart their servers.",
            hint="Name one that bakeoff starts: --server mysql:8.0.",
        )
    if spec.origin is Origin.CATALOG:
        Catalog.load().resolve(spec)


@cli.command("soak")
@click.option("--folder", type=_PATH, required=True, help="Directory that server accounts can enter.")
@click.option("--minutes", default=120.0, show_default=True, help="Budget of the duel.")
@server_option
@seed_option
def soak_test(folder: Path, minutes: float, server: str, seed: int) -> int:
    """Run one long duel whose servers crash at random; exit code 1 if memory grows or anything is left behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.INTERRUPTED))
    seen = soak(folder, server=server, minutes=minutes, seed=seed, report=_report)
    early, late = seen.quarters_bytes
    print(
        f"{seen.crashes} crashes, {seen.valid} valid epochs, {seen.discarded} discarded; "
        f"memory {early / 1e6:.0f} MB in the second quarter, {late / 1e6:.0f} MB in the last"
    )
    for wrong in seen.wrong:
        print(f"WRONG: {wrong}")
    return ExitCode.DIFFERENCE if seen.wrong else ExitCode.DONE


@cli.command()
@click.argument("name")
@server_option
@click.option("--restarts", default=30, show_default=True, help="Number of restarts.")
@click.option("--seconds", default=12.0, show_default=True, help="Seconds measured after each restart.")
@click.option("--threads", default=4, show_default=True, help="Connections.")
@click.option("--to", type=_PATH, default=machines.TRACES, help="Output directory. [default: the shipped sets]")
@seed_option
def record(name: str, server: str, restarts: int, seconds: float, threads: int, to: Path, seed: int) -> int:
    """Record traces of a real server, NAME.npz and NAME.json, for size replay."""
    traces = recorder.record(
        server,
        restarts=restarts,
        seconds=seconds,
        threads=threads,
        seed=seed,
        report=_report,
    )
    path = to / f"{name}.npz"
    traces.write(path)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB, other processes used {traces.origin.load:.0%} of the machine")
    return ExitCode.DONE


def _report(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code. Print an expected error as one line on standard error."""
    try:
        return int(cli.main(arguments or ["--help"], prog_name="python -m validation", standalone_mode=False) or 0)
    except BakeoffError as error:
        print(f"validation: {error}", file=sys.stderr)
        return error.exit_code
    except click.ClickException as error:
        text = " ".join(error.format_message().split())
        print(f"validation: {text} Try `python -m validation --help`.", file=sys.stderr)
        return ExitCode.USAGE
    except (KeyboardInterrupt, click.Abort):
        print("validation: interrupted.", file=sys.stderr)
        return ExitCode.INTERRUPTED


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
