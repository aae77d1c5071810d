"""Reading my.cnf files the way mysqld does, as far as a benchmark needs: groups, comments, quotes."""

import re
from collections.abc import Mapping
from pathlib import Path

from bakeoff.errors import SpecError
from bakeoff.servers.versions import Version, version_text


def server_groups(family: str, version: Version) -> frozenset[str]:
    """The groups that a server reads: those of every version, and those of its own series (`mysqld-8.0`)."""
    programs = ("mysqld", "mariadb", "mariadbd") if family == "mariadb" else ("mysqld",)
    return frozenset({"server", *programs, *(f"{each}-{version_text(version[:2])}" for each in programs)})


def read_cnf(file: Path, family: str, version: Version) -> dict[str, str]:
    """Options that a cnf file has for one server, names with underscores; a later line wins.

    A bare name has an empty value.

    Args:
        file: as the user named it.
        family: `mysql` or `mariadb`, and
        version: of the server; groups of other servers are passed over, as mysqld does.

    Raises:
        SpecError: no such file, or a line that cannot be read; names file and line.
    """
    try:
        lines = file.expanduser().read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "not UTF-8 text"
        raise SpecError(f"cnf file {file} cannot be read: {reason}.") from None
    options: dict[str, str] = {}
    groups = server_groups(family, version)
    group = ""
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("!"):
            raise SpecError(
                f"{file}:{number}: {line.split()[0]} is not followed.", hint="Name the other file as a second @FILE."
            )
        if line.startswith("["):
            if not line.endswith("]"):
                raise SpecError(f"{file}:{number}: a group is written [name], this is {line!r}.")
            group = line[1:-1].strip()
            continue
        if not group:
            raise SpecError(
                f"{file}:{number}: an option before the first [group].", hint="Begin the file with [mysqld]."
            )
        if group in groups:
            name, equals, value = line.partition("=")
            name = name.strip().lstrip("-").replace("-", "_")
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
                raise SpecError(f"{file}:{number}: {line!r} is not option=value.")
            options[name] = _unquoted(value) if equals else ""
    return options


def read_client_group(file: Path) -> dict[str, str]:
    """The `[client]` group of a user's ~/.my.cnf; empty when there is none. Unreadable lines are passed over."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    options: dict[str, str] = {}
    group = ""
    for line in (raw.strip() for raw in lines):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1]
        elif group == "client" and line and line[0] not in "#;!":
            name, _, value = line.partition("=")
            options[name.strip().replace("-", "_")] = _unquoted(value)
    return options


def write_cnf(options: Mapping[str, str], remark: str) -> str:
    """The text of a my.cnf with these options, for a run directory and for readers."""
    lines = [f"# {remark}", "[mysqld]"]
    lines += [f"{name} = {value}" if value else name for name, value in options.items()]
    return "\n".join(lines) + "\n"


def _unquoted(value: str) -> str:
    text = value.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return re.split(r"\s+#", text, maxsplit=1)[0]
