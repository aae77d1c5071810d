"""Compare servers' replies to the same statement, by the rules in docs/reference/replay.md."""

import hashlib
import math
import re
import tomllib
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Literal

from pydantic import ConfigDict

from bakeoff.stats.model import Frozen

DifferenceKind = Literal["errors", "rows", "order", "affected", "warnings", "columns"]
ROWS_KINDS = ("rows", "order", "affected")  # the contender returns or changes other rows
LOCK_ERRORS = frozenset({1205, 1213})
"""Lock wait timeout and deadlock: a matter of timing, so they are only listed."""

DOUBLE_TOLERANCE, FLOAT_TOLERANCE = 1e-12, 1e-5
KEPT_BYTES = 4 * 2**20  # of rows kept per result; a larger result keeps only checksums
KNOWN = tomllib.loads(files("bakeoff.replay").joinpath("known.toml").read_text("utf-8"))
# Digest texts put names, and those of some functions, in backticks.
_VOLATILE = re.compile(
    rf"`?\b(?:{'|'.join(KNOWN['volatile_functions'])})\b`? ?\(|`?\bUNIX_TIMESTAMP\b`? ?\( ?\)"
    rf"|(?<!`)\b(?:{'|'.join(KNOWN['volatile_words'])})\b(?!`)|@@"
    r"|`(?:information_schema|performance_schema|mysql|sys)` ?\.|^(?:SHOW|EXPLAIN|DESC|DESCRIBE|ANALYZE)\b",
    re.IGNORECASE,
)
# Servers quote statements and values without escaping them, so this matches up to the last possible quote.
_VALUE = re.compile(
    r"(\bnear |\bentry |: |\bin )(?:'.*'(?= at line \d| at row | for key | for column | for function )|'.*)", re.DOTALL
)
_LITERAL = re.compile(r"(?<!\w)'.*?(?:'(?![\w'])|\Z)|\"(?:[^\"\\]|\\.|\"\")*\"?", re.DOTALL)

_Cell = bytes | None
_Row = tuple[_Cell, ...]


class Column(Frozen):
    """A column of a result. `kind` is a family of types that is the same in all versions."""

    name: str
    kind: str


_KINDS = {
    **dict.fromkeys((1, 2, 3, 8, 9), "integer"), 0: "decimal", 246: "decimal", 4: "float", 5: "double", 6: "null",
    7: "datetime", 12: "datetime", 10: "date", 14: "date", 11: "time", 13: "year", 16: "bit", 242: "vector",
    245: "text", 255: "geometry",
}  # fmt: skip
_BINARY = 63  # the character set `binary`


def kind_of(type_code: int, charset: int) -> str:
    known = _KINDS.get(type_code)
    return known or ("bytes" if charset == _BINARY else "text")


@dataclass
class Reply:
    """One server's reply to one statement.

    `affected` is None for a result set. `checksum` is of the rows as a multiset, `sequence` of the rows in order.
    `kept` is None if the rows exceed `KEPT_BYTES`, or are of several result sets.
    """

    errno: int = 0
    message: str = ""
    affected: int | None = None
    warnings: tuple[int, ...] = ()
    columns: tuple[Column, ...] = ()
    count: int = 0
    checksum: int = 0
    kept: list[_Row] | None = field(default_factory=list)
    _kept_bytes: int = 0
    _sequence: "hashlib.blake2b" = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    @property
    def sequence(self) -> bytes:
        return self._sequence.digest()

    def add(self, row: _Row, columns: Sequence[Column] = ()) -> None:
        text = _canonical(row, columns or self.columns)
        digest = hashlib.blake2b(text, digest_size=16).digest()
        self.count += 1
        self.checksum = (self.checksum + int.from_bytes(digest, "big")) % 2**128
        self._sequence.update(digest)
        if self.kept is not None:
            self._kept_bytes += len(text)
            if self._kept_bytes > KEPT_BYTES:
                self.kept = None
            else:
                self.kept.append(row)


def _canonical(row: _Row, columns: Sequence[Column]) -> bytes:
    parts = []
    for at, cell in enumerate(row):
        inexact = at < len(columns) and columns[at].kind in ("float", "double")
        value = _rounded(cell) if inexact and cell is not None else cell
        parts.append(b"-" if value is None else b"%d:%b" % (len(value), value))
    return b",".join(parts)


def _rounded(text: bytes) -> bytes:
    try:
        return b"%.12g" % (float(text) or 0.0)
    except ValueError:
        return text


def without_literals(message: str) -> str:
    return _LITERAL.sub("?", _VALUE.sub(r"\1?", message))


def volatile_words(digest_text: str) -> tuple[str, ...]:
    """Return a digest's functions of time, chance and session, which make its rows vary between runs."""
    found = (re.sub(r"[`(). ]", "", match[0]).upper() for match in _VOLATILE.finditer(digest_text))
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Shape:
    keys: tuple[str | int, ...] | None = None
    limit: int | None = None
    offset: bool = False
    longer: bytes = b""


_TOKEN = re.compile(
    rb"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`|/\*.*?\*/|--[ \t\r\n][^\n]*|#[^\n]*|\w+|\s+|.",
    re.DOTALL,
)


def shape_of(sql: bytes) -> Shape:
    """Read ORDER BY and LIMIT at the top level of a statement."""
    tokens: list[tuple[bytes, int]] = []
    depth = 0
    for match in _TOKEN.finditer(sql):
        text = match[0]
        if text.isspace() or text.startswith((b"/*", b"--", b"#")):
            continue
        depth -= text == b")"
        tokens.append((text if depth == 0 else b"(", match.start()))
        depth += text == b"("
    words = [text.upper() for text, _ in tokens]
    order = max((at for at in range(len(words) - 1) if words[at : at + 2] == [b"ORDER", b"BY"]), default=None)
    limit = max((at for at, word in enumerate(words) if word == b"LIMIT"), default=None)
    if limit is not None and order is not None and limit < order:
        limit = None
    keys = None if order is None else _keys([text for text, _ in tokens[order + 2 : limit]])
    numbers = [token for token in tokens[limit + 1 : limit + 4] if token[0].isdigit()] if limit is not None else []
    if limit is None or not numbers:
        return Shape(keys)
    with_comma = len(numbers) > 1 and b"," in words[limit:]
    text, start = numbers[1] if with_comma else numbers[0]
    longer = sql[:start] + b"%d" % (int(text) + 1) + sql[start + len(text) :]
    skipped = int(numbers[0 if with_comma else 1][0]) if len(numbers) > 1 else 0
    return Shape(keys, int(text), skipped > 0, longer)


def _keys(tokens: Sequence[bytes]) -> tuple[str | int, ...]:
    keys: list[str | int] = []
    part: list[bytes] = []
    for token in (*tokens, b","):
        word = token.upper()
        ends = word in (b"FOR", b"LOCK", b"INTO", b"PROCEDURE", b";")
        if not ends and word != b",":
            part.append(token)
            continue
        if part:
            keys.append(_key([each for each in part if each.upper() not in (b"ASC", b"DESC")]))
        part = []
        if ends:
            break
    return tuple(keys)


def _key(tokens: Sequence[bytes]) -> str | int:
    names = tokens[::2]
    if len(tokens) == 1 and tokens[0].isdigit():
        return int(tokens[0])
    if len(tokens) % 2 and all(dot == b"." for dot in tokens[1::2]) and re.fullmatch(rb"\w+|`.*`", names[-1]):
        return names[-1].strip(b"`").decode("utf8", "replace")
    return ""


@dataclass(frozen=True)
class Found:
    """Kinds of difference, each described for both sides, and what is listed but not flagged."""

    differences: dict[DifferenceKind, tuple[str, str]]
    listed: tuple[str, ...] = ()


def compare_replies(
    base: Reply,
    other: Reply,
    shape: Shape,
    *,
    volatile: bool = False,
    rerun: Callable[[], tuple[Reply, Reply] | None] = lambda: None,
) -> Found:
    """Compare two servers' replies to one statement. Rows of a volatile statement are not compared.

    `rerun` returns both servers' replies to `shape.longer`. It is called if LIMIT might explain different rows.
    """
    if base.errno or other.errno:
        if base.errno == other.errno:
            return Found({})
        if {base.errno, other.errno} & LOCK_ERRORS:
            return Found({}, ("lock wait",))
        return Found({"errors": (_error(base), _error(other))})
    found: dict[DifferenceKind, tuple[str, str]] = {}
    if base.affected != other.affected:
        found["affected"] = (f"{_rows(base.affected)} changed", f"{_rows(other.affected)} changed")
    if base.warnings != other.warnings:
        found["warnings"] = (_codes(base), _codes(other))
    if not _same_columns(base, other):
        found["columns"] = (_column_texts(base, other), _column_texts(other, base))
    if volatile:
        return Found(found, ("volatile",))
    if len(base.columns) != len(other.columns) or (base.sequence == other.sequence and base.count == other.count):
        return Found(found)
    listed: tuple[str, ...] = ()
    sides = (_rows(base.count), _rows(other.count))
    if not _same_rows(base, other):
        if shape.limit is not None and _limit_explains(base, other, shape, rerun()):
            listed = ("limit",)
        else:
            found["rows"] = sides if base.count != other.count else (f"{sides[0]}, other values",) * 2
    elif shape.keys is not None:
        match _same_order(base, other, shape):
            case False:
                found["order"] = (f"{sides[0]}, in another order",) * 2
            case None:
                listed = ("order",)
    return Found(found, listed)


def _rows(count: int | None) -> str:
    return "no count of rows" if count is None else f"{count:,} row{'' if count == 1 else 's'}"


def _error(reply: Reply) -> str:
    return f"{reply.errno} {reply.message}" if reply.errno else "no error"


def _codes(reply: Reply) -> str:
    return f"warnings {', '.join(map(str, reply.warnings[:10]))}" if reply.warnings else "no warning"


def _same_columns(base: Reply, other: Reply) -> bool:
    """Compare names and kinds. A column that is always NULL matches any kind."""
    return len(base.columns) == len(other.columns) and all(
        a.name == b.name and (a.kind == b.kind or "null" in (a.kind, b.kind))
        for a, b in zip(base.columns, other.columns, strict=True)
    )


def _column_texts(of: Reply, against: Reply) -> str:
    """Describe the differing columns by position, because a name can be an expression with literals."""
    parts = []
    for at, column in enumerate(of.columns):
        theirs = against.columns[at] if at < len(against.columns) else None
        if theirs != column:
            renamed = theirs is not None and theirs.name != column.name
            parts.append(f"column {at + 1} {column.kind}{' of another name' if renamed else ''}")
    return f"{len(of.columns)} columns{': ' if parts else ''}{', '.join(parts[:5])}"


def _same_rows(base: Reply, other: Reply) -> bool:
    if base.count != other.count:
        return False
    if base.checksum == other.checksum:
        return True
    if base.kept is None or other.kept is None:
        return False
    return _same_multiset(base.kept, other.kept, base.columns)


def _same_multiset(base: Sequence[_Row], other: Sequence[_Row], columns: Sequence[Column]) -> bool:
    allowed = {
        at: FLOAT_TOLERANCE if column.kind == "float" else DOUBLE_TOLERANCE
        for at, column in enumerate(columns)
        if column.kind in ("float", "double")
    }

    def sort_key(row: _Row) -> tuple[tuple[bool, bytes | float], ...]:
        exact = ((cell is not None, cell or b"") for at, cell in enumerate(row) if at not in allowed)
        return (*exact, *((row[at] is not None, _number(row[at])) for at in allowed))

    def same(a: _Row, b: _Row) -> bool:
        return all(
            x == y
            or (at in allowed and None not in (x, y) and math.isclose(_number(x), _number(y), rel_tol=allowed[at]))
            for at, (x, y) in enumerate(zip(a, b, strict=True))
        )

    if len(base) != len(other):
        return False
    return all(same(a, b) for a, b in zip(sorted(base, key=sort_key), sorted(other, key=sort_key), strict=True))


def _number(cell: _Cell) -> float:
    try:
        return float(cell or b"0")
    except ValueError:
        return 0.0


def _places(shape: Shape, columns: Sequence[Column]) -> list[int]:
    """Return the columns that rows are ordered by, up to the first key that is not a column."""
    names = [column.name.lower() for column in columns]
    places = []
    for key in shape.keys or ():
        if isinstance(key, int) and 1 <= key <= len(columns):
            places.append(key - 1)
        elif isinstance(key, str) and names.count(key.lower()) == 1:
            places.append(names.index(key.lower()))
        else:
            break
    return places


def _folded(cell: _Cell, kind: str) -> str | bytes | None:
    """Fold a key the way most collations compare it."""
    if kind in ("float", "double") and cell is not None:
        return _rounded(cell)
    if kind != "text" or cell is None:
        return cell
    plain = unicodedata.normalize("NFKD", cell.decode("utf8", "replace")).casefold()
    return "".join(each for each in plain if not unicodedata.combining(each)).rstrip(" ")


def _key_rows(rows: Sequence[_Row], places: Sequence[int], columns: Sequence[Column]) -> list[tuple[object, ...]]:
    return [tuple(_folded(row[at], columns[at].kind) for at in places) for row in rows]


def _same_order(base: Reply, other: Reply, shape: Shape) -> bool | None:
    places = _places(shape, base.columns)
    if base.kept is None or other.kept is None:
        return None
    if _key_rows(base.kept, places, base.columns) != _key_rows(other.kept, places, base.columns):
        return False
    return True if len(places) == len(shape.keys or ()) else None


def _limit_explains(base: Reply, other: Reply, shape: Shape, longer: tuple[Reply, Reply] | None) -> bool:
    """Whether LIMIT was free to choose these rows: it cut some off, and they share the key at the cut."""
    if longer is None or any(reply.errno for reply in longer):
        return False
    cut = all(reply.count > (shape.limit or 0) for reply in longer)
    if base.count != other.count or not (cut or shape.offset):
        return False
    places = _places(shape, base.columns)
    if len(places) < len(shape.keys or ()) or not places:
        return True
    replies = (base, other, *longer)
    if any(reply.kept is None for reply in replies) or not base.count:
        return True
    rows = [reply.kept or [] for reply in replies]
    keys = [_key_rows(each, places, base.columns) for each in rows]
    free = set()
    for short, more in ((keys[0], keys[2]), (keys[1], keys[3])):
        free |= {short[-1]} if cut and more[-1] == short[-1] else set()
        free |= {short[0]} if shape.offset else set()
    inner = [[row for row, key in zip(rows[at], keys[at], strict=True) if key not in free] for at in (0, 1)]
    return bool(free) and _same_multiset(inner[0], inner[1], base.columns)


DOCUMENT = "answers.json"  # file of a run directory: {path of the capture: Answers}


class Compared(Frozen):
    """One digest on a contender, compared with the baseline.

    Attributes:
        differences: how many statements differ, by kind; `examples` has the first of each kind.
        listed: how many are not flagged, by reason: `volatile`, `limit`, `order`, `lock wait`, `too long`.
        failed: by arm, statements that ended in an error.
    """

    executed: int = 0
    differences: dict[str, int] = {}
    listed: dict[str, int] = {}
    examples: dict[str, tuple[str, str]] = {}
    plan: bool = False
    failed: dict[str, int] = {}


class DigestAnswers(Frozen):
    """What the pass found for one digest. `plans` are of an execution whose plans differ, if there is one."""

    model_config = ConfigDict(extra="ignore")  # older files also have `handlers`

    text: str
    volatile: tuple[str, ...] = ()
    compared: dict[str, Compared] = {}
    plans: dict[str, tuple[str, ...]] = {}
    rows_examined: dict[str, int] = {}


class Answers(Frozen):
    """What the untimed pass found for one capture.

    Attributes:
        not_reached: statements left when time ran out, or after `ended_by`.
        ended_by: text of a digest that took too long on some arms only, so that their data may differ after it.
        tables: tables compared after writes; `other_tables` has those that differ: {contender: {table: how}}.
    """

    format: Literal[1] = 1
    capture: str
    seconds: float
    limit_s: float
    executed: int
    skipped: dict[str, int]
    not_reached: int
    digests: dict[str, DigestAnswers]
    tables: int = 0
    other_tables: dict[str, dict[str, str]] = {}
    ended_by: str = ""


def merged(first: Answers, second: Answers) -> Answers:
    digests = dict(first.digests)
    for name, theirs in second.digests.items():
        ours = digests.get(name)
        if ours:
            both = {
                part: {**getattr(theirs, part), **getattr(ours, part)}
                for part in ("compared", "plans", "rows_examined")
            }
            digests[name] = ours.model_copy(update=both)
        else:
            digests[name] = theirs
    return first.model_copy(
        update={
            "seconds": first.seconds + second.seconds,
            "executed": max(first.executed, second.executed),
            "not_reached": max(first.not_reached, second.not_reached),
            "digests": digests,
            "tables": max(first.tables, second.tables),
            "other_tables": {**first.other_tables, **second.other_tables},
            "ended_by": first.ended_by or second.ended_by,
        }
    )
