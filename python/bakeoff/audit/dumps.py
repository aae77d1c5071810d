"""Parse what people keep of a server: variables and status in six formats, CREATE TABLE, summaries of pt-*."""

import csv
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from bakeoff.spec.study_file import level_text

FACTS: dict[str, Any] = tomllib.loads(files("bakeoff.audit").joinpath("facts.toml").read_text("utf-8"))

_HEADER = "variable_name"
_ALWAYS = {"version", "uptime", "max_connections", "innodb_buffer_pool_size"}  # a list without a header has one of them
_NAME = r"[A-Za-z_][\w.]*"
_ROW = re.compile(rf"^\| ({_NAME}) +\|(.*)\|$", re.MULTILINE)
_AFTER_TABLE = re.compile(r"\+-|mysql>|MariaDB \[|\d+ rows in set|Query OK|\(")
_RECORD = re.compile(rf"^ *{_HEADER}: ({_NAME})\n *(?:variable_)?value: ?(.*)$", re.MULTILINE | re.IGNORECASE)
_CREATE = re.compile(
    r"CREATE TABLE (?:IF NOT EXISTS )?(`(?:[^`]|``)+`|\w+) ?\(\n(.*?)\n\)([^;|\n]*(?:\n/\*!.*?\*/)?)", re.DOTALL
)


class Damaged(ValueError):
    """The text is of a known format, but cut or broken."""


def named_values(text: str) -> dict[str, str]:
    """Read names and values in the first format that fits; empty if none does. Damaged if the text was cut."""
    headed, last = _HEADER in text[:5000].lower(), text.rstrip("\n ").rpartition("\n")[2]
    if text.lstrip()[:1] in ("[", "{"):
        found = dict(_json(text))
    elif headed and (rows := _ROW.findall(text)):
        if not _AFTER_TABLE.match(last):
            raise Damaged("a table that was cut: its last border is missing")
        found = {name: value.strip() for name, value in rows}
    elif headed and (records := _RECORD.findall(text)):
        if re.match(rf"\*|\s*{_HEADER}:", last, re.IGNORECASE):
            raise Damaged("a dump that was cut: its last record has no value")
        found = dict(records)
    else:
        found = dict(_rows(text))
        if found and headed and (not re.search(r"[\t,;]", last) or last.count('"') % 2):
            raise Damaged("a dump that was cut: its last line has no value")
    is_dump = headed or _ALWAYS & {name.lower() for name in found}
    return {name: value for name, value in found.items() if name.lower() != _HEADER} if is_dump else {}


def _rows(text: str) -> list[tuple[str, str]]:
    """Read tab-separated lines, skipping all others, or CSV."""
    pairs = re.findall(rf"^({_NAME})\t([^\t\n]*)$", text, re.MULTILINE)
    mark = re.match(rf'"?{_NAME}"?([,;])', text.lstrip())
    rows = [row for row in csv.reader(text.splitlines(), delimiter=mark[1]) if row] if mark and not pairs else []
    is_csv = all(len(row) == 2 and re.fullmatch(_NAME, row[0]) for row in rows)
    return [(row[0], row[1]) for row in rows] if rows and is_csv else pairs


def _json(text: str) -> Iterator[tuple[str, str]]:
    """Read one object of names, rows of names and values, or a row per line as MySQL Shell writes them."""
    rows, at = list[Any](), 0
    try:
        while rest := re.compile(r"\s*(?=\S)").match(text, at):
            document, at = json.JSONDecoder().raw_decode(text, rest.end())
            held = document.get("rows", document) if isinstance(document, dict) else document
            rows += held if isinstance(held, list) else [held]
    except (json.JSONDecodeError, RecursionError):
        raise Damaged("JSON that was cut or has an error") from None
    for row in (each for each in rows if isinstance(each, dict)):
        lower = {name.lower(): value for name, value in row.items()}
        pairs = {lower[_HEADER]: lower.get("value", lower.get("variable_value"))} if _HEADER in lower else row
        yield from ((str(name), str(level_text(value))) for name, value in pairs.items() if value is not None)


def split_status(values: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split into variables and status, whose names begin with a capital; both get names in lower case."""
    lower = {name.lower(): value for name, value in values.items()}
    if "uptime" not in lower or "version" not in lower:  # one of them alone
        return ({}, lower) if "uptime" in lower else (lower, {})
    status = {name.lower(): value for name, value in values.items() if name[0].isupper()}
    return {name: value for name, value in lower.items() if name not in status}, status


@dataclass(frozen=True)
class Table:
    """What CREATE TABLE says; `lines` are columns and keys, as all versions would write them."""

    engine: str
    collation: str
    options: str
    lines: frozenset[str]


def tables(text: str) -> dict[str, Table]:
    """Read every CREATE TABLE, as printed in any format or by mysqldump."""
    if "(\\n" in text:  # mysql --batch
        text = text.replace("\\n", "\n")
    found = _CREATE.findall(text.replace("utf8mb3", "utf8"))
    if len(found) < len(re.findall(r"^(?:\|[^|\n]*\||.*\t|Create Table:|) *CREATE TABLE ", text, re.MULTILINE)):
        raise Damaged("a CREATE TABLE that does not end")
    return {name.strip("`"): _table(body, after) for name, body, after in found}


def _table(body: str, after: str) -> Table:
    head, _, partitions = after.replace("CHARACTER SET", "CHARSET").partition("\n")
    options = {name.upper(): value.strip("'") for name, value in re.findall(r"(\w+)=('[^']*'|\S+)", head)}
    charset, engine = options.pop("CHARSET", ""), options.pop("ENGINE", "the server's")
    collation = options.pop("COLLATE", "") or (_default_collation(charset) if charset else "the server's")
    options.pop("AUTO_INCREMENT", None)
    return Table(
        engine,
        collation,
        re.sub(r"(/\*!\d+|\*/|\s)+", " ", " ".join([*sorted(map("=".join, options.items())), partitions])).strip(),
        frozenset(_as_newest(line.strip().rstrip(","), collation) for line in body.split("\n")),
    )


def _default_collation(charset: str) -> str:
    return str(FACTS["default_collations"].get(charset, f"{charset}_general_ci"))


def _as_newest(line: str, collation: str) -> str:
    """Write a column without display widths, and with a collation only if it is not the table's."""
    line = re.sub(r"\b((?:tiny|small|medium|big)?int)\(\d+\)", r"\1", line)
    line = re.sub(r"DEFAULT '(-?\d+)'", r"DEFAULT \1", line)
    line = re.sub(r"CHARACTER SET \w+ (?=COLLATE)", "", line)
    line = re.sub(r"CHARACTER SET (\w+)", lambda named: f"COLLATE {_default_collation(named[1])}", line)
    return line.replace(f" COLLATE {collation}", "")


def summary(text: str) -> tuple[dict[str, str], dict[str, str]] | None:
    """Read pt-summary or pt-mysql-summary as (machine, variables); None if the text is neither."""
    title = re.match(r"\s*# Percona Toolkit (System|MySQL) Summary", text)
    if title is None:
        return None
    if "# The End #" not in text:
        raise Damaged("a summary that was cut: its end is missing")
    pairs = [(label.strip(), value.strip()) for label, value in re.findall(r"^([^|\n]+?) \|(.*\S)", text, re.M)]
    if title[1] == "System":
        named = FACTS["pt_summary"]
        huge = re.findall(r"^(Transparent huge pages) are (.*?)\.?$", text, re.MULTILINE)
        return dict([*((named[label], value) for label, value in pairs if label in named), *huge]), {}
    names = FACTS["pt_mysql_summary"]
    variables = {names.get(label, label): _in_bytes(value) for label, value in reversed(pairs)}
    return {}, {name: value for name, value in variables.items() if re.fullmatch(r"[a-z][a-z0-9]*_\w+|version", name)}


def _in_bytes(value: str) -> str:
    size = re.fullmatch(r"(\d+(?:\.\d+)?)([kMGT])", value)
    return str(round(float(size[1]) * 1024 ** ("kMGT".index(size[2]) + 1))) if size else value
