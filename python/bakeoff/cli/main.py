"""The `bakeoff` command: its sub-commands, and the message and exit code of every error."""

import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Annotated

import typer

from bakeoff.cli import doctor, duel, listing, plan, report, server
from bakeoff.cli import run as run_command
from bakeoff.engine import engine_path
from bakeoff.errors import BakeoffError, ExitCode, ServerError
from bakeoff.find_engine import become_sysbench
from bakeoff.results.manifest import bakeoff_version
from bakeoff.units import visible

# `bakeoff sysbench` is here for the list of commands: `start.main` hands its arguments to the engine before this.
_UNPARSED = {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False}


def sysbench(context: typer.Context) -> None:
    """Drop-in for sysbench on MySQL and MariaDB: same options, same scripts, same output."""
    become_sysbench(str(engine_path()), context.args)


app = typer.Typer(
    name="bakeoff",
    help="Which of these MySQL setups is faster for this workload, by how much, and how sure are we?",
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"bakeoff {bakeoff_version()}")
        raise typer.Exit


@app.callback()
def before_the_command(
    version: Annotated[
        bool, typer.Option("--version", "-V", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that stand before a command."""


app.command("duel")(duel.duel)
app.command("run")(run_command.run)
app.command("plan")(plan.plan)
app.command("report")(report.report)
app.command("compare")(report.compare)
app.command("list")(listing.list_things)
app.command("doctor")(doctor.doctor)
app.add_typer(server.app, name="server")
app.command("sysbench", add_help_option=False, context_settings=_UNPARSED)(sysbench)


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit code. Every error is one line on standard error, never a traceback."""
    command = typer.main.get_command(app)
    try:
        # `app(arguments)` would handle Ctrl-C and closed pipes in its own way.
        with command.make_context("bakeoff", arguments or ["--help"]) as context:
            return int(command.invoke(context) or ExitCode.DONE)
    except typer.Exit as ended:
        return ended.exit_code
    except BakeoffError as error:
        _complain(str(error), error.log_tail if isinstance(error, ServerError) else "")
        return error.exit_code
    except typer.TyperException as error:
        _complain(f"{' '.join(error.format_message().split())} Try `bakeoff --help`.")
        return ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted.")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`bakeoff list | head`); nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    except OSError as error:
        place = f" {error.filename}:" if error.filename else ""
        _complain(f"the system refused:{place} {error.strerror or error}.")
        return ExitCode.NOT_READY
    except Exception as error:
        _complain(f"a bug in bakeoff: {type(error).__name__}: {error}. Details: {_keep_traceback()}")
        return ExitCode.INTERNAL


def _complain(message: str, log_tail: str = "") -> None:
    print(f"bakeoff: {visible(message)}", file=sys.stderr)
    for line in log_tail.strip().splitlines()[-8:]:
        print(f"  | {visible(line)}", file=sys.stderr)


def _keep_traceback() -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="bakeoff-bug-", suffix=".txt", delete=False, encoding="utf-8") as file:
        traceback.print_exc(file=file)
    return Path(file.name)
