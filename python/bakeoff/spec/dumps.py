"""Recognise a dump (a file of SQL, a directory of mydumper or MySQL Shell) and list its files in loading order."""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bakeoff.errors import HostError, SpecError, within
from bakeoff.find_engine import require_engine
from bakeoff.spec.server_name import check_file_name, is_url, url_database

_COMPRESSED = r"(\.(gz|zst|xz))?"
# Bytes of SQL per byte on disk, by the file's first bytes; typical for rows as text.
_EXPANSION = {b"\x1f\x8b": 4.0, b"\x28\xb5\x2f\xfd": 5.0, b"\xfd7zXZ": 6.0}
_BYTES_IN_SERVER = 1.3
"""Bytes in InnoDB, with indexes, per byte of SQL (sbtest: 200 bytes of SQL per row, 260 in the server)."""
SYSTEM_SCHEMAS = frozenset({"mysql", "sys", "information_schema", "performance_schema"})
TABLE_TYPES = ("BASE TABLE", "SYSTEM VERSIONED")
"""Types in information_schema.tables that hold rows; the second is MariaDB's. As a tuple they are valid SQL."""
# Endings of mydumper's file names, after the names of database and table, in loading order.
_MYDUMPER_STAGES = (
    r"-schema-create\.sql",
    r"-schema(-sequence)?\.sql",
    r"(\.\d+)*\.sql",
    r"-schema-post\.sql",
    r"-schema-view\.sql",
    r"-schema-triggers\.sql",
)
_ROWS_STAGE = 2
_CREATE_DATABASE = re.compile(
    r"^CREATE\s+DATABASE\s+(?:/\*.*?\*/\s*)?(?:IF\s+NOT\s+EXISTS\s+)?([`\"])((?:(?!\1).|\1\1)+)\1",
    re.MULTILINE | re.IGNORECASE,
)
_HEAD_S = 60.0  # timeout for reading the beginning of a file

DumpFile = dict[str, Any]
"""As the engine's `load` takes it: `path`, `database`, `delimiter`, `rows`."""


@dataclass(frozen=True)
class Dump:
    """The files of a dump by stage; those of one stage load in parallel. `databases` come from file names."""

    stages: tuple[tuple[DumpFile, ...], ...]
    databases: tuple[str, ...] = ()

    @property
    def server_bytes(self) -> int:
        return sum(_sql_bytes(Path(file["path"])) for stage in self.stages for file in stage)


def read_dump(source: str) -> Dump:
    path = Path(source)
    with within("data", "source"):
        check_file_name("data", source)
    try:
        if path.is_dir():
            dump = _directory(path)
        elif path.is_file():
            dump = Dump((({"path": str(path.absolute())},),))
        else:
            raise _wrong(source, "there is no such file or directory.")
    except OSError as error:
        raise HostError(f"data {source} cannot be read: {error.strerror}.", field=("data", "source")) from None
    if not any(dump.stages):
        raise _wrong(source, "it holds no tables.")
    return dump


def _wrong(source: str | Path, reason: str, hint: str = "") -> SpecError:
    return SpecError(f"data {source}: {reason}", hint=hint, field=("data", "source"))


def head_of(path: str) -> bytes:
    try:
        ran = subprocess.run([require_engine(), "head", path], capture_output=True, timeout=_HEAD_S, check=False)
    except subprocess.TimeoutExpired:
        raise HostError(f"data {path} was not read within {_HEAD_S:g} s.", field=("data", "source")) from None
    if ran.returncode:
        reason = " ".join(ran.stderr.decode(errors="replace").split()).removeprefix("bakeoff-engine: ")
        raise HostError(f"data {reason}.", field=("data", "source"))
    return ran.stdout


def default_database(source: str) -> str:
    if is_url(source):
        return url_database(source)
    databases = read_dump(source).databases
    return databases[0] if len(databases) == 1 else ""


def _directory(path: Path) -> Dump:
    names = sorted(each.name for each in path.iterdir() if each.is_file())
    with within("data", "source"):
        for name in names:
            check_file_name(f"data {path}:", name)
    if "@.json" in names:
        try:
            return _shell_dump(path, names)
        except (AttributeError, KeyError, TypeError):
            raise _wrong(path, "the dump's JSON files are damaged.") from None
    if any(re.search(rf"-schema\.sql{_COMPRESSED}$", name) for name in names):
        return _mydumper_dump(path, names)
    why = "the directory is not a dump of mydumper or MySQL Shell."
    hint = "mydumper writes NAME-schema.sql files, MySQL Shell writes @.json, and mysqldump a single file."
    raise _wrong(path, why, hint)


def _mydumper_dump(path: Path, names: list[str]) -> Dump:
    stages: list[list[DumpFile]] = [[] for _ in _MYDUMPER_STAGES]
    renamed: dict[str, str] = {}
    for name in names:
        if name == "metadata" or name.startswith("metadata."):
            continue
        if re.search(rf"\.dat{_COMPRESSED}$", name):
            why = f"{name} holds rows for LOAD DATA."
            raise _wrong(path, why, "Let mydumper write INSERTs: leave --load-data and --csv out.")
        # Try the pattern of row files last, because it matches every name.
        for stage, pattern in sorted(enumerate(_MYDUMPER_STAGES), key=lambda each: each[0] == _ROWS_STAGE):
            if found := re.fullmatch(rf"(?P<database>[^.]+?)(\.(?P<table>.+?))?{pattern}{_COMPRESSED}", name):
                database = found["database"]
                if re.fullmatch(r"mydumper_\d+", database):
                    database = renamed.get(database) or renamed.setdefault(database, _own_name(path, names, database))
                # The file that creates a database names it itself.
                create = stage == 0
                # A file of rows always has a table in its name.
                if database not in SYSTEM_SCHEMAS and (stage != _ROWS_STAGE or found["table"]):
                    file = {"path": str(path / name), "database": "" if create else database}
                    # mydumper puts a space after semicolons that end a line inside a routine.
                    stages[stage].append(file | ({} if stage == _ROWS_STAGE else {"delimiter": ";\n"}))
                break
    databases = dict.fromkeys(file["database"] for stage in stages for file in stage if file["database"])
    return Dump(tuple(map(tuple, stages)), tuple(databases))


def _own_name(path: Path, names: list[str], database: str) -> str:
    """Return the real name of a database that mydumper calls `mydumper_N` because no file could have its name."""
    create = next((each for each in names if re.fullmatch(rf"{database}-schema-create\.sql{_COMPRESSED}", each)), None)
    found = _CREATE_DATABASE.search(head_of(str(path / create)).decode(errors="replace")) if create else None
    if not found:
        why = f"{database} stands for a database whose name is not in {database}-schema-create.sql."
        raise _wrong(path, why, "mydumper writes that file unless --no-schemas is given.")
    return found[2].replace(found[1] * 2, found[1])


def _shell_dump(path: Path, names: list[str]) -> Dump:
    """List `SCHEMA.sql`, `SCHEMA@TABLE.sql`, and `SCHEMA@TABLE@@N.tsv.zst` with `SCHEMA@TABLE.json`."""
    if "@.done.json" not in names:
        raise _wrong(path, "the dump was not finished.", "@.done.json is missing.")
    basenames = _json(path / "@.json").get("basenames", {})
    schemas = [schema for schema in basenames if schema not in SYSTEM_SCHEMAS]
    stages: list[list[DumpFile]] = [[] for _ in range(6)]

    def add(stage: int, name: str, database: str, rows: dict[str, Any] | None = None) -> None:
        if name in names:
            stages[stage].append({"path": str(path / name), "database": database, "rows": rows})

    for schema in schemas:
        base = basenames[schema]
        described = _json(path / f"{base}.json")
        add(0, f"{base}.sql", "")
        for table in described.get("tables", []):
            of_table = described["basenames"][table]
            about = _json(path / f"{of_table}.json")
            add(1, f"{of_table}.sql", schema)
            if about.get("includesData", True):
                rows = _shell_rows(path, schema, table, about["options"])
                # Each partition has separate files.
                for of_rows in (about.get("basenames") or {"": of_table}).values():
                    for name in _shell_chunks(path, names, of_rows, about):
                        add(2, name, schema, rows)
            add(4, f"{of_table}.triggers.sql", schema)
        for view in described.get("views", []):
            of_view = described["basenames"][view]
            add(1, f"{of_view}.pre.sql", schema)
            add(3, f"{of_view}.sql", schema)
    add(5, "@.post.sql", "")
    return Dump(tuple(map(tuple, stages)), tuple(schemas))


def _shell_chunks(path: Path, names: list[str], base: str, about: dict[str, Any]) -> list[str]:
    """List the row files of a table or partition: BASE.EXTENSION, or BASE@0.EXTENSION to BASE@@N.EXTENSION."""
    end = "." + about.get("extension", "tsv.zst")
    if not about.get("chunking", False):
        found, wanted = [name for name in names if name == base + end], 1
    else:
        found = [name for name in names if re.fullmatch(rf"{re.escape(base)}@@?\d+{re.escape(end)}", name)]
        last = [int(name.removeprefix(f"{base}@@").removesuffix(end)) for name in found if f"{base}@@" in name]
        wanted = last[0] + 1 if last else len(found) + 1
    if len(found) < wanted:
        missing = f"{wanted - len(found)} file{'s' if wanted - len(found) > 1 else ''} of rows of {base}{end}"
        raise _wrong(path, f"{missing} missing.", "Copy the directory whole.")
    return found


def _shell_rows(path: Path, schema: str, table: str, options: dict[str, Any]) -> dict[str, Any]:
    known = {"fieldsTerminatedBy": "\t", "fieldsEnclosedBy": "", "fieldsEscapedBy": "\\", "linesTerminatedBy": "\n"}
    known["defaultCharacterSet"] = "utf8mb4"
    other = [name for name, value in known.items() if options.get(name, value) != value]
    decode = options.get("decodeColumns", {})
    if other or not set(decode.values()) <= {"FROM_BASE64", "UNHEX"}:
        why = f"table {schema}.{table} has a format that bakeoff cannot read ({', '.join(other) or 'decodeColumns'})."
        raise _wrong(path, why, "Dump it with MySQL Shell's own dialect, the default.")
    columns = ", ".join(quoted(column) for column in options["columns"])
    return {
        "insert": f"INSERT INTO {quoted(schema)}.{quoted(table)} ({columns}) VALUES ",
        "functions": [decode.get(column, "") for column in options["columns"]],
    }


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, FileNotFoundError):
        raise SpecError(f"data {path.parent}: {path.name} is missing or damaged.", field=("data", "source")) from None
    return found


def _sql_bytes(path: Path) -> int:
    with path.open("rb") as file:
        head = file.read(6)
    times = next((times for magic, times in _EXPANSION.items() if head.startswith(magic)), 1.0)
    return int(path.stat().st_size * times * _BYTES_IN_SERVER)


def is_utf16(head: bytes) -> bool:
    """Whether the beginning of a file is UTF-16: it has a byte order mark, or a zero in every other byte."""
    marked = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    return marked or (len(head) >= 4 and any(not any(head[place:8:2]) for place in (0, 1)))


def used_databases(sql: str) -> tuple[str, ...]:
    """Return the databases that SQL text switches to; as in the mysql client, a line end also ends a USE."""
    use = r"^\ufeff?USE[^\S\n]+(?:`((?:[^`]|``)+)`|([\w$]+?))[^\S\n]*(?:;|\$\$|//|$)"
    found = re.findall(use, sql, re.MULTILINE | re.IGNORECASE)
    names = (quoted.replace("``", "`") or plain for quoted, plain in found)
    return tuple(dict.fromkeys(name for name in names if name.lower() not in SYSTEM_SCHEMAS))


TEXTS_DIFFER = "Which texts are equal, and their order, can differ between arms."


def as_loaded(label: str, translated: Mapping[str, str]) -> str:
    """Say what replaced names in a dump that a server does not know; empty if nothing was replaced."""
    said = [f"{name} as {other}" if other else f"SQL mode {name} left out" for name, other in translated.items()]
    return f"{label} has the dump's {', '.join(said)}" if said else ""
