"""The table of commands: each is imported when it is called, so that `bakeoff --help` stays quick."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

COMPARE, RESULTS, MACHINE = "Compare servers", "Look at results", "Servers and this machine"
HELP_NAMES = {"help_option_names": ["-h", "--help"]}
_SECTIONS = ("Arguments", "Workload", "Data", "Connection", "Servers", "Length", "Cluster", "Output", "Options")


@dataclass(frozen=True)
class CommandSource:
    """Where a command is defined, its line in the list of commands, and the heading above it."""

    module: str
    name: str
    summary: str
    section: str = COMPARE


class Command(click.Command):
    """A command whose help shows its options in sections, each with its default and range in one bracket."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in _SECTIONS}
        for parameter in self.get_params(ctx):
            record = getattr(parameter, "record", None) or parameter.get_help_record(ctx)
            if record:
                sections.setdefault(getattr(parameter, "section", "Options"), []).append(record)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class Group(click.Group):
    command_class = Command

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 — click's own
        super().__init__(context_settings=HELP_NAMES, no_args_is_help=False, **attributes)


class Commands(Group):
    """The commands of a table, each imported when it is called."""

    def __init__(self, sources: Mapping[str, CommandSource], **attributes: Any) -> None:  # noqa: ANN401
        super().__init__(**attributes)
        self.sources = sources
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
