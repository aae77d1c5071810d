"""The `bakeoff` command: its sub-commands, and the message and exit code of every error."""

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import typer

from bakeoff.cli import doctor, duel, listing, plan, report, server
from bakeoff.cli import run as run_command
from bakeoff.engine import engine_path
from bakeoff.errors import BakeoffError, ExitCode, ServerError

# `bakeoff sysbench` is here for the list of commands: `run` hands its arguments to the engine before typer sees them.
_UNPARSED = {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False}


def sysbench(context: typer.Context) -> None:
    """Drop-in for sysbench on MySQL and MariaDB: same options, same scripts, same output."""
    become_sysbench(context.args)


def become_sysbench(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by `bakeoff-engine sysbench ARGUMENTS` (docs/sysbench.md).

    Arguments (also `--help`) and signals reach the engine unchanged; exit codes are sysbench's (0, 1, 2).

    Raises:
        HostError: there is no engine.
    """
    engine = str(engine_path())
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(engine, [engine, "sysbench", *arguments])


app = typer.Typer(
    name="bakeoff",
    help="Which of these MySQL setups is faster for this workload, by how much, and how sure are we?",
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("duel")(duel.duel)
app.command("run")(run_command.run)
app.command("plan")(plan.plan)
app.command("report")(report.report)
app.command("compare")(report.compare)
app.command("list")(listing.list_things)
app.command("doctor")(doctor.doctor)
app.add_typer(server.app, name="server")
app.command("sysbench", add_help_option=False, context_settings=_UNPARSED)(sysbench)


def main() -> None:
    """Run the command line and exit with one of `ExitCode`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit code. Every error is one line on standard error, never a traceback."""
    command = typer.main.get_command(app)
    try:
        if arguments[:1] == ["sysbench"]:
            become_sysbench(arguments[1:])
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
    print(f"bakeoff: {message}", file=sys.stderr)
    for line in log_tail.strip().splitlines()[-8:]:
        print(f"  | {line}", file=sys.stderr)


def _keep_traceback() -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="bakeoff-bug-", suffix=".txt", delete=False, encoding="utf-8") as file:
        traceback.print_exc(file=file)
    return Path(file.name)


if __name__ == "__main__":
    main()
