"""Read my.cnf files as mysqld does: groups, comments, quotes and escapes, `!include` and `!includedir`."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from bakeoff.errors import SpecError
from bakeoff.files import expanded, from_here

_LEVELS_MAX = 10  # mysqld skips deeper files
_BLANKS = " \t\n\v\f\r"
_NOT_UTF_8 = re.compile(r"[\udc80-\udcff]")
_COMMENT = re.compile(r"""((?:"(?:\\.|[^"\\])*(?:"|$)|'(?:\\.|[^'\\])*(?:'|$)|[^"'#])*)#.*""")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " ", '"': '"', "'": "'", "\\": "\\"}


@dataclass(frozen=True)
class CnfLine:
    """One option in a cnf file. `place` is `file:line`; bytes of the value that are not UTF-8 become surrogates."""

    place: str
    group: str
    name: str
    value: str

    @property
    def is_text(self) -> bool:
        return not _NOT_UTF_8.search(self.name + self.value)


@dataclass
class CnfText:
    """Options in the order mysqld reads them; `problems` for which it refuses the file; `notes` on what it ignores."""

    lines: list[CnfLine] = field(default_factory=list)
    problems: list[SpecError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_cnf_text(file: Path) -> CnfText:
    """Read all groups of a cnf file and of the files that it includes."""
    found = CnfText()
    _read_into(found, expanded(file), from_here(str(file)), level=0)
    return found


def _read_into(found: CnfText, path: Path, shown: str, level: int) -> None:
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as problem:
        raise SpecError(f"cnf file {shown} cannot be read: {problem.strerror}.") from None
    group = None
    # Not `splitlines`: it also splits at characters such as U+2028, which a comment may hold.
    for number, raw in enumerate(text.split("\n"), start=1):
        line, place = raw.strip(_BLANKS), f"{shown}:{number}"
        if not line or line[0] in "#;":
            continue
        if line[0] == "!":
            _include(found, path.parent, line, place, level)
        elif line[0] != "[":
            if group is None:
                group = ""  # say it once
                wrong = f"{place}: an option before the first [group]."
                hint = "Begin the file with [mysqld], in UTF-8 without a byte order mark."
                found.problems.append(SpecError(wrong, hint=hint))
            found.lines.append(CnfLine(place, group, *parse_option(line)))
        elif "]" in line:
            group = line[1:].partition("]")[0].rstrip(_BLANKS)
        else:
            found.problems.append(SpecError(f"{place}: a group is written [name], this is {line!r}."))


def _include(found: CnfText, folder: Path, line: str, place: str, level: int) -> None:
    keyword, *rest = line[1:].strip(_BLANKS).split(maxsplit=1) or [""]
    named = "".join(rest).partition("#")[0].strip(_BLANKS)
    if keyword not in ("include", "includedir"):
        found.notes.append(f"{place}: !{keyword} is ignored: it is not !include or !includedir")
    elif not named:
        found.problems.append(SpecError(f"{place}: !{keyword} names no file.", hint="Write the path after it."))
    elif level == _LEVELS_MAX:
        raise SpecError(f"{place}: more than {_LEVELS_MAX} files include one another.", hint="Look for a cycle.")
    else:
        try:
            path, files = folder / expanded(Path(named)), []
        except SpecError as error:
            found.problems.append(SpecError(f"{place}: {error.message}"))
            return
        if keyword == "includedir":
            try:
                files = sorted(each for each in path.iterdir() if each.name.endswith(".cnf") and each.is_file())
            except OSError as problem:
                wrong = f"{place}: !includedir {named} cannot be followed: {problem.strerror}."
                found.problems.append(SpecError(wrong, hint="Create the folder, or remove the line."))
        elif path.is_file():
            files = [path]
        else:
            found.notes.append(f"{place}: !include {named} is ignored: there is no such file")
        for file in files:
            _read_into(found, file, from_here(str(file)), level + 1)


def parse_option(line: str) -> tuple[str, str]:
    """Parse `name = value` as mysqld does: a # outside quotes begins a comment, and values have escapes."""
    found = _COMMENT.fullmatch(line)
    name, _, value = (found[1] if found else line).partition("=")
    value = value.strip(_BLANKS)
    if len(value) > 1 and value[0] in "\"'" and value[0] == value[-1]:
        value = value[1:-1]
    value = re.sub(r"\\(.)", lambda escape: _ESCAPED.get(escape[1], escape[0]), value)
    return name.strip(_BLANKS).lstrip("-").replace("-", "_"), value
