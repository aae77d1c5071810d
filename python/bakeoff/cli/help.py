"""How a command's help names its arguments and options: by words, without Python's types."""

import re
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose help reads as the man page does."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 — Typer keeps Click's types private
        """Words of the usage line: `SERVER...` where Typer writes `{SERVER}...`."""
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write the arguments and the options."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            if rows := list(parameter_rows(self, ctx, kind)):
                with formatter.section(title):
                    formatter.write_dl(rows)


def parameter_rows(command: Any, ctx: Any, *kinds: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    """Name and meaning of each argument or option of a command: `--builds N`, `Loads per arm. [default: 2; 1 to 9]`."""
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is None or parameter.param_type_name not in kinds:
            continue
        name, meaning = record
        if parameter.param_type_name == "argument":
            name, meaning = parameter.metavar, meaning.removesuffix("  [required]")
        name = re.sub(r"<([^<>]*)>", r"\1", name)  # text|json
        meaning = re.sub(r"(\d+)<=x<=(\d+)", r"\1 to \2", meaning or "")
        meaning = re.sub(r"x>=(\d+)", r"at least \1", meaning)
        yield name, meaning.replace("]  [", "; ").replace("  [", " [")
