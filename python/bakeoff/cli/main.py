"""The `bakeoff` command: its sub-commands, and the message and exit code of every error."""

import os
import re
import sys
import tempfile
import traceback
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bakeoff.cli.help import Command
from bakeoff.errors import BakeoffError, ExitCode, ServerError
from bakeoff.units import visible

_COUNT = re.compile(r"-[1-9]\d{0,5}")
_TAKE_RUNS = ("report", "explain", "compare", "run", "runs", "history")
# Ports have four digits or five, and versions of servers (`mysql:8`) have fewer.
_ADDRESS = re.compile(r"auto|local|ray://\S+|[\w.-]+:\d{4,5}|\[[0-9a-f:]+\]:\d{4,5}")
_SYSBENCH_NAMES = {"mysql_db": "--database", "rand_seed": "--seed", "time": "--budget", "warmup_time": "--warm-up"}
_SYSBENCH_ACCESS = ("mysql_socket", "mysql_host", "mysql_port", "mysql_user", "mysql_password")


def sysbench(context: typer.Context) -> None:
    """Drop-in for sysbench on MySQL and MariaDB: same options, same scripts, same output."""
    from bakeoff.engine import engine_path
    from bakeoff.find_engine import become_sysbench

    become_sysbench(str(engine_path()), context.args)


@dataclass(frozen=True)
class _Source:
    """Where a command's function (or Typer) is, and its line in the list of commands."""

    module: str
    name: str
    summary: str
    settings: dict[str, Any] = field(default_factory=dict)

    def load(self, name: str) -> Any:  # noqa: ANN401 — Typer keeps Click's types private
        """Import it; that takes up to a second, which `bakeoff --help` and the other commands do without."""
        found = getattr(import_module(self.module), self.name)
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name, cls=Command, **self.settings)(found)
        return typer.main.get_command(alone)


_COMMANDS = {
    "duel": _Source("bakeoff.cli.duel", "duel", "Compare setups on real servers: which is faster, and by how much."),
    "gate": _Source("bakeoff.gate.command", "gate", "Fail when a build is slower than allowed: for CI and git bisect."),
    "bisect": _Source("bakeoff.search.command", "bisect", "Find the build, or the options, that made a server slower."),
    "replay": _Source("bakeoff.replay.command", "replay", "Compare servers by your own SQL, and judge every query."),
    "run": _Source("bakeoff.cli.run", "run", "Run a study: every arm in every cell."),
    "plan": _Source("bakeoff.cli.plan", "plan", "Show what a study would run: arms, minutes, memory and disk."),
    "report": _Source("bakeoff.cli.report", "report", "Render a run's report: HTML, or another format."),
    "explain": _Source(
        "bakeoff.explain.command", "explain", "Say where a run's differences come from, by more epochs."
    ),
    "compare": _Source("bakeoff.cli.report", "compare", "Compare earlier runs in what they have in common."),
    "history": _Source("bakeoff.history.command", "app", "Keep what runs found over months: what changed when."),
    "capture": _Source(
        "bakeoff.replay.capture_command", "app", "Make a capture of query logs: events, digests, totals."
    ),
    "list": _Source("bakeoff.cli.listing", "list_things", "List studies, servers, workloads or runs."),
    "doctor": _Source(
        "bakeoff.cli.doctor", "doctor", "Say what here would spoil a measurement, and what can be resolved."
    ),
    "cluster": _Source("bakeoff.cluster.command", "app", "Look at the nodes of a Ray cluster."),
    "server": _Source("bakeoff.cli.server", "app", "Install, start or remove servers."),
    "runs": _Source("bakeoff.cli.listing", "runs_app", "Delete runs."),
    "cache": _Source("bakeoff.cli.listing", "cache_app", "Free what the cache of servers can do without."),
    "sysbench": _Source(
        __name__,
        "sysbench",
        "Drop-in for sysbench on MySQL and MariaDB.",
        {
            "add_help_option": False,
            "context_settings": {
                "ignore_unknown_options": True,
                "allow_extra_args": True,
                "allow_interspersed_args": False,
            },
        },
    ),
}


class _Commands(TyperGroup):
    """The commands of `_COMMANDS`, each imported when it is called."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401
        super().__init__(**attributes)
        self.commands: Any = dict.fromkeys(_COMMANDS)  # for suggestions after a typo

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401
        """Names, in the order of the help."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Import one command; None: no such."""
        return _COMMANDS[cmd_name].load(cmd_name) if cmd_name in _COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write the list of commands from their summaries."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, source.summary) for name, source in _COMMANDS.items()])


app = typer.Typer(
    name="bakeoff",
    cls=_Commands,
    help="Which of these MySQL setups is faster for this workload, by how much, and how sure are we?",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        from bakeoff.results.manifest import bakeoff_version

        print(f"bakeoff {bakeoff_version()}")
        raise typer.Exit


@app.callback()
def before_the_command(
    version: Annotated[
        bool, typer.Option("--version", "-V", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that stand before a command."""


def run(arguments: list[str]) -> int:
    """Run one command; returns its exit code. Every error is a sentence on standard error, never a traceback."""
    command = typer.main.get_command(app)
    # git bisect would take 2 and 5 for the answer that a build is slow.
    in_bisection = arguments[:1] == ["gate"] and "--bisect" in arguments
    try:
        if arguments and arguments[0] in _TAKE_RUNS and any(map(_COUNT.fullmatch, arguments)):
            arguments = with_counted_runs(arguments, command)  # their `-2` is a run, not an option
        arguments = with_address(arguments)
        if "_BAKEOFF_COMPLETE" in os.environ:
            command.main(prog_name="bakeoff")  # for the shell's completion; exits
        # `app(arguments)` would handle Ctrl-C and closed pipes in its own way.
        with command.make_context("bakeoff", arguments or ["--help"]) as context:
            return int(command.invoke(context) or ExitCode.DONE)
    except typer.Exit as ended:
        return ended.exit_code
    except BakeoffError as error:
        _complain(str(error), error.log_tail if isinstance(error, ServerError) else "")
        return error.exit_code
    except typer.TyperException as error:
        where = getattr(error, "ctx", None)
        command_line = where.command_path if where else "bakeoff"
        message = _in_a_line(error.format_message(), where.command.params if where else ())
        _complain(f"{message} Try `{command_line} --help`.")
        return ExitCode.BISECT_ABORT if in_bisection else ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted.")
        return ExitCode.INTERRUPTED
    except OSError as error:
        place = f" {error.filename}:" if error.filename else ""
        _complain(f"the system refused:{place} {error.strerror or error}.")
        return ExitCode.NOT_READY
    except Exception as error:
        _complain(f"a bug in bakeoff: {type(error).__name__}: {error}. Details: {_keep_traceback()}")
        return ExitCode.BISECT_ABORT if in_bisection else ExitCode.INTERNAL


def with_counted_runs(arguments: list[str], command: Any) -> list[str]:  # noqa: ANN401
    """The arguments with `latest-1` for `-2` where a run stands: not in a remark or as another option's value."""
    names, command = [], command.get_command(None, arguments[0])
    for name in arguments[1:2] if hasattr(command, "get_command") else ():
        names, command = [name], command.get_command(None, name)
    if command is None or names == ["annotate"]:
        return arguments
    options = (each for each in command.params if each.param_type_name == "option" and not each.is_flag)
    with_value = {text for each in options if each.metavar != "RUN" for text in each.opts}
    return [
        f"latest-{int(word[1:]) - 1}" if _COUNT.fullmatch(word) and before not in with_value else word
        for before, word in zip(["", *arguments], arguments, strict=False)
    ]


def with_address(arguments: list[str]) -> list[str]:
    """The arguments with `--ray auto` where `--ray` is followed by no address: its value may be left out."""
    following = [*arguments, ""][1:]
    return [
        f"{word}=auto" if word == "--ray" and not _ADDRESS.fullmatch(after) else word
        for word, after in zip(arguments, following, strict=False)
    ]


def _in_a_line(message: str, params: Iterable[Any]) -> str:
    """A message of the parser as sentences on one line, with the word that was probably meant.

    Args:
        message: of the parser.
        params: what the command takes.
    """
    text = " ".join(message.split()).replace(": Value error, ", ": ")
    taken = {name for each in params for name in each.opts}
    unknown = re.match(r"No such option: --([\w-]+)", text) if "--option" in taken else None
    if unknown and (instead := _remedy_of_sysbench(unknown[1].replace("-", "_"), taken)):
        return f"{unknown[0]}. {instead}"
    text = re.sub(r" \(Possible options: (.+)\)$", r". Did you mean \1?", text)
    text += "" if text.endswith((".", "?")) else "."
    if choice := re.search("'(.*)' is not one of ('.*')", text):
        near = get_close_matches(choice[1], re.findall("'(.*?)'", choice[2]), n=1)
        text += f" Did you mean {near[0]}?" if near else ""
    if re.match("No such command '[a-z]+:", text):
        text += " Write bakeoff duel SERVER SERVER."
    return text


def _remedy_of_sysbench(name: str, taken: Container[str]) -> str:
    """What to write for an option of sysbench or of one of its scripts; empty: it is neither."""
    from bakeoff.engine import describe_workloads
    from bakeoff.run.workload_checks import ELSEWHERE, RAND

    if name in _SYSBENCH_ACCESS:
        return "Name a running server, mysql://USER@HOST:PORT/?socket=PATH, and set MYSQL_PWD."
    if (meant := _SYSBENCH_NAMES.get(name)) in taken:
        return f"Write {meant}."
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    of_scripts: set[str] = set()
    with suppress(BakeoffError):  # without the engine, which this command would not have reached
        of_scripts = {option["name"] for workload in describe_workloads() for option in workload["options"]}
    return f"Write -o {name}=VALUE." if name in of_scripts.union(RAND) else ""


def _complain(message: str, log_tail: str = "") -> None:
    from bakeoff.cli.printing import print_sentence  # Rich takes its time, which commands that end well may do without
    from bakeoff.redaction import without_url_passwords

    # A mistyped command may hold a URL with a password.
    print_sentence(f"bakeoff: {without_url_passwords(message)}", indent=len("bakeoff: "), stderr=True)
    for line in log_tail.strip().splitlines()[-8:]:
        print(f"  | {visible(line)}", file=sys.stderr)


def _keep_traceback() -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="bakeoff-bug-", suffix=".txt", delete=False, encoding="utf-8") as file:
        traceback.print_exc(file=file)
    return Path(file.name)
