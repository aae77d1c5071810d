"""Reads one server's options from my.cnf files, and writes the my.cnf of a started server."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from bakeoff.errors import SpecError
from bakeoff.servers.options import EMPTY_VALUES, Target, file_name, is_password, own_option, whole_name
from bakeoff.servers.releases import Version, version_text
from bakeoff.spec.cnf_lines import CnfLine, read_cnf_text
from bakeoff.spec.server_name import joined, stem, values_of, with_later

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


@dataclass
class Asked:
    """Options as given, before they are translated. `places` are `file:line`; `problems` would stop mysqld."""

    options: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[SpecError] = field(default_factory=list)

    def overridden_by(self, typed: Mapping[str, str]) -> Self:
        self.options = with_later(self.options, typed)
        self.places = {name: place for name, place in self.places.items() if name not in typed}
        return self

    def all_notes(self) -> list[str]:
        if not self.left_out:
            return self.notes
        names = ", ".join(dict.fromkeys(self.left_out))
        return [*self.notes, f"left out, because bakeoff sets them itself: {names}"]

    def add(self, target: Target, line: CnfLine) -> None:
        if not _NAME.fullmatch(line.name):
            self.problems.append(SpecError(f"{line.place}: {line.name!r} is not the name of an option."))
            return
        if not line.is_text:
            self.problems.append(SpecError(f"{line.place}: the value of {line.name} is not UTF-8 text."))
            return
        name, value = whole_name(target, line.name), line.value
        if is_password(name):
            return
        of_another_place = stem(name) == "secure_file_priv" and "/" in value
        if of_another_place or own_option(name, value):
            value = file_name(name, value)
            self.left_out.append(f"the folder of {name}" if value else name)
            if not value:
                return
        if name != line.name:
            self.notes.append(f"{line.place}: {line.name} became {name}")
        if stem(name) == "plugin_load":  # replaces what was collected
            self.options.pop("plugin_load_add", None)
        self.options[name] = joined(self.options.pop(name, None), name, value)  # goes last, since the last one counts
        self.places[name] = line.place


def server_groups(family: str, version: Version) -> frozenset[str]:
    programs, groups = ["mysqld"], {"server"}
    if family == "mariadb":
        programs += ["mariadb", "mariadbd"]
        groups |= {"client-server", "galera"}
        if version >= (11,):
            groups |= {f"mariadb-{version[0]}", f"mariadbd-{version[0]}"}
    return frozenset({*groups, *programs, *(f"{each}-{version_text(version[:2])}" for each in programs)})


def read_cnf(file: Path, target: Target, asked: Asked | None = None) -> Asked:
    """Add a server's options from a cnf file to `asked`, except passwords and options that bakeoff sets itself."""
    asked = asked or Asked()
    text = read_cnf_text(file)
    asked.notes += text.notes
    asked.problems += text.problems
    groups = server_groups(target.family, target.version)
    for line in text.lines:
        if line.group in groups:
            asked.add(target, line)
    return asked


def read_client_group(file: Path) -> dict[str, str]:
    try:
        lines = read_cnf_text(file).lines
    except SpecError:
        return {}
    return {line.name: line.value for line in lines if line.group == "client" and line.is_text}


def write_cnf(options: Mapping[str, str], remark: str) -> str:
    lines = [f"# {remark}", "[mysqld]"]
    for name, text in options.items():
        lines += [
            f"{name} = {_quoted(value)}" if value or name in EMPTY_VALUES else name for value in values_of(name, text)
        ]
    return "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    value = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    if not re.search(r"""[#"']|^\s|\s$""", value):
        return value
    return '"' + value.replace('"', '\\"') + '"'
