"""`bakeoff runs rm|prune` and `bakeoff cache prune`: delete runs, and what the cache of servers can do without."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from bakeoff.cli.arguments import Runs
from bakeoff.errors import SpecError
from bakeoff.results import RunDirectory, find_run, list_runs, runs_root
from bakeoff.servers import free_cache
from bakeoff.servers.paths import allocated_bytes, bytes_on_disk, cache_root
from bakeoff.units import format_bytes

runs_app = typer.Typer(help="Delete runs.", add_completion=False, rich_markup_mode=None)
cache_app = typer.Typer(help="The cache of servers.", add_completion=False, rich_markup_mode=None)


@cache_app.callback()
def _with_commands() -> None:
    """Without a callback, Typer would make the only command the application itself."""


@runs_app.command("rm")
def remove_runs(
    names: Annotated[list[str], typer.Argument(metavar="RUN", help="Paths or names; latest is the newest run.")],
    runs: Runs = None,
) -> None:
    """Delete runs."""
    _delete(list(dict.fromkeys(find_run(name, runs) for name in names)))


@runs_app.command("prune")
def prune_runs(
    keep: Annotated[int, typer.Option(min=0, help="How many of the newest runs stay.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    runs: Runs = None,
) -> None:
    """Delete all but the newest runs, and captures that `bakeoff replay` has made and no run that stays uses."""
    found = [run.path for run in list_runs(runs)]
    old = found[keep:] + _unused_captures(runs_root(runs), found[:keep])
    for path in () if yes else old:
        typer.echo(path)
    if old and not yes and not _agreed("Delete them?"):
        raise SpecError("runs prune: nothing was deleted.", hint="--yes deletes without asking.")
    _delete(old)


@cache_app.command("prune")
def prune_cache(
    everything: Annotated[bool, typer.Option("--all", help="The servers, too; they are fetched again.")] = False,
) -> None:
    """Delete what can be made again in seconds.

    These are the servers' fresh data directories, what bakeoffs that were killed left behind, and data that was taken
    from running servers (--data mysql://…), without which their runs cannot be resumed.
    """
    before = bytes_on_disk(cache_root())
    free_cache(servers=everything)
    left = bytes_on_disk(cache_root())
    typer.echo(f"{format_bytes(max(0, before - left))} freed; {cache_root()} has {format_bytes(left)} left")


def _unused_captures(root: Path, kept: list[Path]) -> list[Path]:
    studies = [(run / "study.json").read_text(errors="replace") for run in kept if (run / "study.json").is_file()]
    captures = sorted((root / "captures").glob("*.capture"))
    return [each for each in captures if not any(each.name in study for study in studies)]


def _agreed(question: str) -> bool:
    try:
        return typer.confirm(question)
    except typer.Abort:  # the end of the input, or Ctrl-C
        typer.echo()
        return False


def _delete(paths: list[Path]) -> None:
    for path in paths:
        size = allocated_bytes([path]) if path.is_file() else bytes_on_disk(path)
        if path.is_file():
            path.unlink()
        else:
            with RunDirectory(path).hold():
                shutil.rmtree(path)
        typer.echo(f"{path.name} deleted, {format_bytes(size)} freed")
