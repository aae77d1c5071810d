"""`bakeoff server`: install, start and remove servers, without comparing anything."""

import json
import os
import signal
import threading
from typing import Annotated

import click
from rich import get_console
from rich.progress import DownloadColumn, Progress, TaskID, TransferSpeedColumn

from bakeoff.cli.arguments import Format, FormatOption
from bakeoff.cli.commands import Group
from bakeoff.cli.listing import Kind, print_list
from bakeoff.cli.options import command
from bakeoff.cli.run import ending_signals
from bakeoff.errors import ExitCode, SpecError
from bakeoff.servers import find_entry, install, installed, remove, sandbox
from bakeoff.servers.fetch import NOTICE
from bakeoff.spec import Profile, parse_server
from bakeoff.spec.fields import Argument, Option
from bakeoff.units import format_bytes, visible

app = Group(help="Install, start and remove servers.")

Names = Annotated[list[str], Argument("mysql:8.0, mariadb:10.11, path:DIR; see `bakeoff server list`.", "SERVER")]


@command("bakeoff server list", "bakeoff server list -v", into=app, name="list")
def list_servers(
    verbose: Annotated[bool, Option("Installed ones only, and how each was checked.", flags="--verbose -v")] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """List the servers that can be had by name, and say which are here."""
    print_list(Kind.SERVERS, output, verbose=verbose)


@command(
    "bakeoff server install mysql:8.4 mariadb:11.8", "bakeoff server install mysql:8.4 --full", into=app, name="install"
)
def install_servers(
    names: Names,
    full: Annotated[bool, Option("The vendor's full tarball, with debug symbols for profiles.")] = False,
    mirror: Annotated[
        str | None, Option("Folder of tarballs, or an address that has them.", "PLACE", default="BAKEOFF_MIRROR")
    ] = None,
) -> None:
    """Fetch servers and unpack them into the cache.

    A server that is there already is left alone. See docs/reference/servers.md for where it comes from.
    """
    if mirror:
        os.environ["BAKEOFF_MIRROR"] = mirror
    specs = [parse_server(name) for name in names]
    with _Downloads() as downloads:
        for spec in specs:
            installation = install(spec, downloads.see, full=full)
            downloads.say(f"{installation.name} ({installation.version_text}) is ready: {installation.basedir}")


@command(
    "bakeoff server start mysql:8.0",
    "bakeoff server start mysql:8.0,max_connections=500 --profile matched",
    into=app,
    name="start",
)
def start_server(
    name: Annotated[str, Argument("mysql:8.0, or with settings: mysql:8.0,innodb_flush_method=fsync.", "SERVER")],
    profile: Annotated[
        Profile, Option("matched: memory and durability as in a duel; stock: the version's defaults.")
    ] = Profile.STOCK,
) -> int:
    """Start one server to play with, until Ctrl-C.

    It prints how to connect. Ctrl-C stops the server and deletes its data.
    """
    spec = parse_server(name)
    if spec.is_running:
        raise SpecError(f"server {spec}: it is running already.")
    ended = threading.Event()
    with _Downloads() as downloads, sandbox(spec, profile=profile, progress=downloads.see) as box:
        for number in ending_signals():
            signal.signal(number, lambda *_: ended.set())
        for line in box.lines():
            downloads.say(line)
        downloads.say("stop     Ctrl-C")
        while not ended.wait(0.5):
            if not box.instance.running:
                downloads.say(f"{box.instance.installation.name} has stopped. Its log says:")
                downloads.say(visible(box.instance.error_log_tail()))
                return ExitCode.NOT_READY
    return ExitCode.DONE


@command("bakeoff server rm mysql:5.7", "bakeoff server rm --all", into=app, name="rm")
def remove_servers(
    names: Annotated[tuple[str, ...], Argument("As `bakeoff server list` names them: mysql:8.0.15.", "SERVER")] = (),
    everything: Annotated[bool, Option("Remove every installed server.", flags="--all")] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Remove servers from the cache, and say what that frees.

    Their templates (fresh data directories) are removed too.
    """
    if bool(names) == everything:
        raise SpecError("server rm: name servers, or give --all.", hint="See bakeoff server list.")
    here = installed()
    chosen = list(here) if everything else [_installed_name(name, here) for name in names]
    freed: dict[str, int] = {}
    for name in chosen:
        freed[name] = remove(name)
        if output is Format.TEXT:
            click.echo(f"{name} removed, {format_bytes(freed[name])} freed")
    if output is Format.JSON:
        click.echo(json.dumps(freed))
    elif not freed:
        click.echo("nothing was installed")


def _installed_name(text: str, here: dict[str, int]) -> str:
    if text in here:
        return text
    name = find_entry(parse_server(text)).name
    if name not in here:
        raise SpecError(f"server rm: {name} is not installed.", hint=f"Installed: {', '.join(here) or 'none'}.")
    return name


class _Downloads(Progress):
    """Progress bars of downloads, on a terminal only, and lines above them."""

    def __init__(self) -> None:
        columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
        terminal = get_console().is_terminal
        super().__init__(*columns, transient=True, redirect_stdout=False, disable=not terminal)
        self._of: dict[str, TaskID] = {}

    def see(self, what: str, done: int, total: int | None) -> None:
        if total == NOTICE:
            self.say(what)
            return
        if what not in self._of:
            self._of[what] = self.add_task(what, total=total)
        self.update(self._of[what], completed=done, total=total)

    def say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)
