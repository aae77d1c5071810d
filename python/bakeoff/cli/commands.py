"""The table of commands: each is imported when it is called, so that `bakeoff --help` stays quick."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

COMPARE, RESULTS, MACHINE = "Compare servers", "Look at results", "Servers and this machine"
HELP_NAMES = {"help_option_names": ["-h", "--help"]}
_PANELS = ("What is compared", "Workload", "Data", "How long", "Where", "Output")
_UNGROUPED_MAX = 8  # up to this many options, a help shows one list instead of panels


@dataclass(frozen=True)
class CommandSource:
    """Where a command is defined, its line in the list of commands, and the heading above it."""

    module: str
    name: str
    summary: str
    section: str = COMPARE


class _WithExamples(click.Command):
    """A command whose help has examples below its first sentences."""

    examples: Sequence[str] = ()

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"  {example}\n")


class Command(_WithExamples):
    """A command whose help shows its options in panels, the most used first."""

    most_used: Sequence[str] = ()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        arguments = [each for each in self.get_params(ctx) if isinstance(each, click.Argument)]
        options = {each.opts[0]: each for each in self.get_params(ctx) if isinstance(each, click.Option)}
        most_used = [options.pop(name) for name in self.most_used]
        panels: dict[str, list[click.Parameter]] = {"Arguments": [*arguments]}
        if len(most_used) + len(options) > _UNGROUPED_MAX:
            panels |= {"Most used": [*most_used], **{title: [] for title in _PANELS}}
            for each in options.values():
                panels[getattr(each, "section", "Output")].append(each)
        else:
            panels["Options"] = [*most_used, *options.values()]
        for title, parameters in panels.items():
            records = (getattr(each, "record", None) or each.get_help_record(ctx) for each in parameters)
            if rows := list(filter(None, records)):
                with formatter.section(title):
                    formatter.write_dl(rows)


class Group(_WithExamples, click.Group):
    """A group of commands. Its examples are those of its first commands."""

    command_class = Command

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 — click's own
        super().__init__(context_settings=HELP_NAMES, no_args_is_help=False, **attributes)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        super().add_command(cmd, name)
        if isinstance(cmd, _WithExamples):
            self.examples = [*self.examples, *cmd.examples[:1]][:3]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)


class Commands(Group):
    """The commands of a table, each imported when it is called."""

    def __init__(self, sources: Mapping[str, CommandSource], *examples: str, **attributes: Any) -> None:  # noqa: ANN401
        super().__init__(**attributes)
        self.sources, self.examples = sources, examples
        self.commands: Any = dict.fromkeys(sources)  # names, for suggestions after a typo

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.sources)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        source = self.sources.get(cmd_name)
        if source is None:
            return None
        found = getattr(import_module(source.module), source.name)
        assert isinstance(found, click.Command)
        found.name = cmd_name
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title in dict.fromkeys(source.section for source in self.sources.values()):
            with formatter.section(title):
                rows = [(name, each.summary) for name, each in self.sources.items() if each.section == title]
                formatter.write_dl(rows, col_max=12)
