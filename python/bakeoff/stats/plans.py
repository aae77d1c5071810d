"""Bring the plans of all server versions to one form: a line a table, compared without the optimizer's estimates."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_FLAGS = (
    ("Using filesort", "filesort"),
    ("Using temporary", "temporary"),
    ("hash join", "hash join"),
    ("Block Nested Loop", "join buffer"),
    ("BNL", "join buffer"),
    ("BKA", "join buffer"),
    ("Using index condition", "index condition"),
    ("Using index for group-by", "index for groups"),
    ("Using index", "index only"),
)
_NOTHING_READ = re.compile(r"impossible|no matching|const table|const row", re.IGNORECASE)
# What is no other plan: a condition is checked by the server or by the engine, and a row is read with its index anyway.
_NOT_COMPARED = frozenset({"index condition"})

Explained = Sequence[Mapping[str, Any]]
"""Rows of EXPLAIN by column in lower case."""


class Step(NamedTuple):
    """How one table is read: its place in the list is its place in the join order."""

    part: str
    table: str
    access: str
    key: str
    key_parts: int | None
    flags: tuple[str, ...]

    def __str__(self) -> str:
        """`orders: ref idx_customer, 2 parts; filesort`."""
        parts = "" if not self.key_parts else f", {self.key_parts} part{'s' if self.key_parts > 1 else ''}"
        key = f" {self.key}{parts}" if self.key else ""
        part = f"{self.part}: " if self.part else ""
        return f"{part}{self.table or '(no table)'}: {self.access}{key}{''.join(f'; {flag}' for flag in self.flags)}"


def steps_of(explained: Explained, key_parts: Mapping[tuple[str, str], int]) -> tuple[Step, ...]:
    """The steps of a plan.

    Args:
        explained: rows of the traditional EXPLAIN.
        key_parts: by table and key, as EXPLAIN FORMAT=JSON says; empty for servers without it.
    """
    return tuple(_step(row, key_parts) for row in explained if "UNION RESULT" not in _text(row, "select_type"))


def _step(row: Mapping[str, Any], key_parts: Mapping[tuple[str, str], int]) -> Step:
    extra, key, table = (_text(row, name) for name in ("extra", "key", "table"))
    part = _text(row, "select_type").lower()
    flags: list[str] = []
    for words, flag in _FLAGS:
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
    return "" if select_type in ("simple", "primary") else select_type


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value.decode("utf8", "replace") if isinstance(value, bytes) else str(value or "")


def same_plan(base: Sequence[Step], other: Sequence[Step]) -> bool:
    """Whether tables are read in the same order, in the same way, by the same parts of the same keys."""
    if len(base) != len(other):
        return False
    for ours, theirs in zip(base, other, strict=True):
        parts = ours.key_parts == theirs.key_parts or None in (ours.key_parts, theirs.key_parts)
        flags = (set(ours.flags) ^ set(theirs.flags)) - _NOT_COMPARED
        if ours[:4] != theirs[:4] or not parts or flags:
            return False
    return True


def key_parts_of(document: object) -> dict[tuple[str, str], int]:
    """Parts of the keys used, by table and key, found anywhere in the document of EXPLAIN FORMAT=JSON."""
    found: dict[tuple[str, str], int] = {}
    waiting = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
            used = part.get("used_key_parts")
            if isinstance(used, list):
                found[str(part.get("table_name", "")), str(part.get("key", ""))] = len(used)
    return found
