"""The `bakeoff` command: its subcommands, and the message and exit code of every error."""

import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from bakeoff import features
from bakeoff.cli.commands import MACHINE, RESULTS, Commands, CommandSource
from bakeoff.errors import BakeoffError, ExitCode, ServerError, SpecError
from bakeoff.units import visible

_COMMANDS = {
    "duel": CommandSource("bakeoff.cli.duel", "duel", "Compare servers: which is faster, and by how much."),
    "run": CommandSource("bakeoff.cli.run", "run", "Run a study: every arm in every cell."),
    "plan": CommandSource("bakeoff.cli.plan", "plan", "Show what a study would run: arms, minutes, memory, disk."),
    "report": CommandSource(
        "bakeoff.cli.report", "report", "Render a run's report as HTML or another format.", RESULTS
    ),
    "list": CommandSource("bakeoff.cli.listing", "list_things", "List studies, servers, workloads or runs.", RESULTS),
    "runs": CommandSource("bakeoff.cli.listing", "runs_app", "Delete runs.", RESULTS),
    "doctor": CommandSource("bakeoff.cli.doctor", "doctor", "Check how well this machine can measure.", MACHINE),
    "server": CommandSource("bakeoff.cli.server", "app", "Install, start or remove servers.", MACHINE),
    "cache": CommandSource("bakeoff.cli.listing", "cache_app", "Free disk space of the server cache.", MACHINE),
    "sysbench": CommandSource(__name__, "sysbench", "Drop-in for sysbench on MySQL and MariaDB.", MACHINE),
}


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False},
)
@click.pass_context
def sysbench(context: click.Context) -> None:
    """Drop-in for sysbench on MySQL and MariaDB: same options, same scripts, same output."""
    from bakeoff.engine import engine_path
    from bakeoff.find_engine import become_sysbench

    become_sysbench(str(engine_path()), context.args)


@cache
def app() -> Commands:
    sources = dict(_COMMANDS)
    for module in features.parts("commands"):
        sources |= module.COMMANDS
    return Commands(
        sources,
        "bakeoff duel mysql:5.7 mysql:8.0",
        "bakeoff run charset-collation --scale demo",
        "bakeoff report latest --open",
        name="bakeoff",
        help="Which of these MySQL setups is faster for this workload, by how much, and how sure are we?",
        params=[
            _flag("--version", "-V", text="Show the version and exit.", action=_print_version),
            _flag("--install-completion", text="Install completion for this shell.", action=_install_completion),
        ],
    )


def _flag(*names: str, text: str, action: Callable[[], None]) -> click.Option:
    def act(context: click.Context, _: click.Parameter, asked: bool) -> None:
        if asked:
            action()
            context.exit()

    return click.Option(names, is_flag=True, is_eager=True, expose_value=False, help=text, callback=act)


def _print_version() -> None:
    from bakeoff.results.manifest import bakeoff_version

    print(f"bakeoff {bakeoff_version()}")


def _install_completion() -> None:
    shell = Path(os.environ.get("SHELL", "")).name
    places = {
        "bash": ".local/share/bash-completion/completions/bakeoff",
        "zsh": ".zfunc/_bakeoff",
        "fish": ".config/fish/completions/bakeoff.fish",
    }
    made = get_completion_class(shell)
    if made is None or shell not in places:
        raise SpecError(f"--install-completion: shell {shell!r} is unknown.", hint="Set SHELL to bash, zsh or fish.")
    path = Path.home() / places[shell]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(made(app(), {}, "bakeoff", "_BAKEOFF_COMPLETE").source(), encoding="utf-8")
    print(f"{path}: takes effect in a new shell" + (" whose fpath has ~/.zfunc" if shell == "zsh" else ""))


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit code. Every error is a sentence on standard error, never a traceback."""
    # git bisect would read 2 and 5 as `this build is slow`.
    in_bisection = arguments[:1] == ["gate"] and "--bisect" in arguments
    try:
        if "_BAKEOFF_COMPLETE" in os.environ:
            app().main(prog_name="bakeoff")  # for the shell's completion; exits
        # `app()(arguments)` would handle Ctrl-C and closed pipes in its own way.
        with app().make_context("bakeoff", arguments or ["--help"]) as context:
            return int(app().invoke(context) or ExitCode.DONE)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except BakeoffError as error:
        _complain(str(error), error.log_tail if isinstance(error, ServerError) else "")
        mistyped = in_bisection and error.exit_code is ExitCode.USAGE
        return ExitCode.BISECT_ABORT if mistyped else error.exit_code
    except click.ClickException as error:
        where = getattr(error, "ctx", None)
        command_line = where.command_path if where else "bakeoff"
        message = _in_a_line(error.format_message(), where)
        _complain(f"{message} Try `{command_line} --help`.")
        return ExitCode.BISECT_ABORT if in_bisection else ExitCode.USAGE
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted.")
        return ExitCode.INTERRUPTED
    except OSError as error:
        place = f" {error.filename}:" if error.filename else ""
        _complain(f"the system refused:{place} {error.strerror or error}.")
        return ExitCode.NOT_READY
    except Exception as error:
        with tempfile.NamedTemporaryFile(
            "w", prefix="bakeoff-bug-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            traceback.print_exc(file=file)
        _complain(f"a bug in bakeoff: {type(error).__name__}: {error}. Details: {file.name}")
        return ExitCode.BISECT_ABORT if in_bisection else ExitCode.INTERNAL


def _in_a_line(message: str, context: click.Context | None) -> str:
    """Turn a message of click into sentences on one line, with its suggestion for a typo."""
    text = re.sub(r"(\d+)<=x<=(\d+)", r"\1 to \2", " ".join(message.split()))
    text = re.sub(r"x>=(\d+)", r"at least \1", text).removesuffix(".")
    text = re.sub(r" \((Did you mean .+\?)\)$", r" \1", text)
    text += "" if text.endswith((".", "?")) else "."
    if context and text.startswith("No such option") and any(each.name == "option" for each in context.command.params):
        text += " An option of the script is written -o NAME=VALUE."
    if re.match("No such command '[a-z]+:", text):
        text += " Write bakeoff duel SERVER SERVER."
    return text


def _complain(message: str, log_tail: str = "") -> None:
    from bakeoff.cli.printing import print_sentence  # importing Rich is slow
    from bakeoff.redaction import without_url_passwords

    # A mistyped command may hold a URL with a password.
    print_sentence(f"bakeoff: {without_url_passwords(message)}", indent=len("bakeoff: "), stderr=True)
    for line in log_tail.strip().splitlines()[-8:]:
        print(f"  | {visible(line)}", file=sys.stderr)
