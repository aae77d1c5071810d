"""`bakeoff server`: the servers themselves."""

import typer

app = typer.Typer(no_args_is_help=True, help="Install, start and remove servers.", rich_markup_mode=None)


@app.command("install")
def install_servers(names: list[str]) -> None:
    """Fetch servers into the cache."""
