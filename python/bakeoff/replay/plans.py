"""Plans of all server versions in one form: a line per table, compared without the optimizer's estimates."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bakeoff.replay.answer_rules import KNOWN

_NOTHING_READ = re.compile(r"impossible|no matching|const table|const row", re.IGNORECASE)
# Not another plan: the engine checks a condition on the same index instead of the server.
_NOT_COMPARED = frozenset({"index condition"})

Explained = Sequence[Mapping[str, Any]]  # rows of EXPLAIN by column in lower case


class Step(NamedTuple):
    """How one table is read, in join order."""

    part: str | None
    """Which part of the statement, such as `derived`; None if unknown."""
    table: str
    access: str
    key: str
    key_parts: int | None
    flags: tuple[str, ...]

    def __str__(self) -> str:
        parts = "" if not self.key_parts else f", {self.key_parts} part{'s' if self.key_parts > 1 else ''}"
        key = f" {self.key}{parts}" if self.key else ""
        part = f"{self.part}: " if self.part else ""
        return f"{part}{self.table or '(no table)'}: {self.access}{key}{''.join(f'; {flag}' for flag in self.flags)}"


def steps_of(explained: Explained, key_parts: Mapping[tuple[str, str], int]) -> tuple[Step, ...]:
    return tuple(_step(row, key_parts) for row in explained if "UNION RESULT" not in _text(row, "select_type"))


def _step(row: Mapping[str, Any], key_parts: Mapping[tuple[str, str], int]) -> Step:
    extra, key, table = (_text(row, name) for name in ("extra", "key", "table"))
    part = _text(row, "select_type").lower()
    flags: list[str] = []
    for words, flag in KNOWN["plan_flags"].items():
        if words in extra and flag not in flags and not (flag == "index only" and flags[-1:] == ["index condition"]):
            flags.append(flag)
    if not table:
        known = "nothing is read" if _NOTHING_READ.search(extra) else extra.lower()
        return Step(_part(part), "", known, "", None, ())
    access = _text(row, "type").lower()
    return Step(
        part=_part(part),
        table=re.sub(r"^<(\w+?)\d+>$", r"<\1>", table),
        access="const" if access == "system" else "all rows" if access == "all" else access,
        key=re.sub(r"^(<auto_key\d+>|key\d+)$", "(made for it)", key),
        key_parts=key_parts.get((table, key)),
        flags=tuple(flags),
    )


def _part(select_type: str) -> str:
    # MariaDB explains an UPDATE as simple.
    return "" if select_type in ("simple", "primary", "update", "delete") else select_type


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value.decode("utf8", "replace") if isinstance(value, bytes) else str(value or "")


def same_plan(base: Sequence[Step], other: Sequence[Step]) -> bool:
    """Compare the order of tables, how each is read, and the key parts used."""
    if len(base) != len(other):
        return False
    for ours, theirs in zip(base, other, strict=True):
        parts = ours.key_parts == theirs.key_parts or None in (ours.key_parts, theirs.key_parts)
        flags = (set(ours.flags) ^ set(theirs.flags)) - _NOT_COMPARED
        part = ours.part == theirs.part or None in (ours.part, theirs.part)
        if ours[1:4] != theirs[1:4] or not part or not parts or flags:
            return False
    return True


def key_parts_of(document: object) -> dict[tuple[str, str], int]:
    """Return the used key parts by table and key, from an EXPLAIN FORMAT=JSON document."""
    found: dict[tuple[str, str], int] = {}
    waiting = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
            used = part.get("used_key_parts", part.get("key_columns"))  # the second from MySQL 9 on
            if isinstance(used, list):
                table = part.get("alias", part.get("table_name", ""))
                found[str(table), str(part.get("key", part.get("index_name", "")))] = len(used)
    return found


# ---- the hypergraph optimizer ----------------------------------------------------------------------------------------

# By `index_access_type`; other kinds are shown in the server's words.
_ACCESS = {"index_lookup": "ref", "index_range_scan": "range", "index_scan": "index"}


def steps_of_tree(document: object) -> tuple[Step, ...]:
    """Return the plan of an EXPLAIN FORMAT=JSON document of version 2, whose operations are nested."""
    operations = list(_operations(document.get("query_plan"))) if isinstance(document, dict) else []
    steps = [_read(each) for each in operations if each.get("access_type") in ("table", "index")]
    above = {flag for each in operations for flag in _flags(each)}
    known = [flag for flag in dict.fromkeys(KNOWN["plan_flags"].values()) if flag in above]
    return tuple([steps[0]._replace(flags=(*steps[0].flags, *known)), *steps[1:]] if steps else steps)


def _operations(part: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(part, list):
        for each in part:
            yield from _operations(each)
    elif isinstance(part, dict):
        if part.get("table_name") != "<temporary>":
            yield part
        for name, inside in part.items():
            if name.startswith("inputs"):
                yield from _operations(inside)


def _flags(operation: Mapping[str, Any]) -> Iterator[str]:
    if operation.get("access_type") == "sort":
        yield "filesort"
    if operation.get("temp_table"):
        yield "temporary"
    if operation.get("join_algorithm") == "hash":
        yield "hash join"


def _read(operation: Mapping[str, Any]) -> Step:
    kind = str(operation.get("index_access_type", ""))
    access = _ACCESS.get(kind, kind.replace("_", " ")) if operation.get("access_type") == "index" else "all rows"
    if str(operation.get("operation", "")).startswith("Single-row"):
        access = "const" if set(operation.get("lookup_references", ())) <= {"const"} else "eq_ref"
    return Step(
        part=None,
        table=str(operation.get("alias") or operation.get("table_name", "")),
        access=access,
        key=str(operation.get("index_name", "")),
        key_parts=len(operation.get("key_columns", ())) or None,
        flags=("index only",) if operation.get("covering") else (),
    )
