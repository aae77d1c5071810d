"""What a server binary says about itself: the texts of `--version` and `--verbose --help`, read."""

import re

from bakeoff.errors import ServerError


def flavour_and_version(text: str) -> tuple[str, str]:
    """Flavour and version out of `mysqld --version`.

    Raises:
        ServerError: it is not a line of mysqld, or of a debug build, which nobody should measure.
    """
    found = re.search(r"Ver\s+(.+?)\s+for\s+\S+\s+on\s+\S+(.*)", text)
    if not found:
        raise ServerError(f"not the version line of a MySQL or MariaDB server: {text.strip()[:120]!r}.")
    version = found[1]
    if "debug" in version.lower():
        raise ServerError(f"{version} is a debug build; measuring it would tell nothing.", hint="Name a release build.")
    if "mariadb" in version.lower():
        return "mariadb", version
    return ("percona" if "percona" in found[2].lower() else "mysql"), version


def options_in_help(help_text: str) -> frozenset[str]:
    """Option names in `mysqld --verbose --help`, with underscores.

    Both those described at the top and those in the table at the end. Empty when it is no such text: the binary could
    not be asked, and every option is tried as it is.
    """
    described = re.findall(r"^ +(?:-\S, +)?--([a-z][A-Za-z0-9-]+)", help_text, re.MULTILINE)
    _, _, table = help_text.partition("\n----")
    listed = re.findall(r"^([a-z][A-Za-z0-9-]+)(?:\s|$)", table.partition("\n\n")[0], re.MULTILINE)
    return frozenset(name.replace("-", "_") for name in (*described, *listed)) if listed else frozenset()
