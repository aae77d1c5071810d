"""Read YAML as plain data, with the line of every value for messages."""

import re
from dataclasses import dataclass
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, NodeEvent, ScalarEvent
from ruamel.yaml.scalarbool import ScalarBoolean

from bakeoff.errors import KeyPath, SpecError
from bakeoff.spec.server_name import UNWRITABLE


@dataclass(frozen=True)
class Lines:
    """Line numbers (from 1) of the values of the file `name`, by their path of keys and indexes."""

    name: str
    known: dict[KeyPath, int]

    def error(self, path: KeyPath, reason: str, *, hint: str = "") -> SpecError:
        """Make an error at the innermost known value of a path: `my.yaml:14: factors.charset: REASON HINT`."""
        around = (path[:length] for length in range(len(path), 0, -1))
        line = next((self.known[each] for each in around if each in self.known), 1)
        where = ".".join(str(part) for part in path)
        return SpecError(f"{self.name}:{line}: {where + ': ' if where else ''}{reason}", hint=hint)


def load_yaml(text: str, name: str) -> tuple[Any, Lines]:
    """Read one YAML 1.2 document as plain data with lines; `on`, `off` and `no` are text, duplicate keys are errors.

    Raises:
        SpecError: not YAML, or larger than a study can be; with file and line.
    """
    if len(text) > CHARACTERS_MAX:
        raise SpecError(f"{name}:1: it has more than {CHARACTERS_MAX:,} characters.", hint="A study is a short file.")
    try:
        _check_events(text, name)
        document = YAML(typ="rt", pure=True).load(StringIO(text))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        reason = " ".join((error.problem or "it is not YAML").split())
        raise SpecError(
            f"{name}:{line}: {reason}.", hint="Look for a missing quote, colon or space, wrong indentation, or a tab."
        ) from None
    except YAMLError as error:
        raise SpecError(f"{name}:1: {' '.join(str(error).split())}.", hint="A study is a YAML file.") from None
    lines = Lines(name, {})
    return _plain(document, (), lines), lines


CHARACTERS_MAX = 100_000
_VALUES_MAX = 5_000  # with every alias written out
_DEPTH_MAX = 20
_READ_AS_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([Tt ]|$)")
_LONG_NUMBER = re.compile(r"[-+.]?[0-9][-+_.,0-9a-fxo]{40,}", re.IGNORECASE)


def _check_events(text: str, name: str) -> None:
    """Refuse control characters, tags, dates, deep nesting, long numbers and multiplying aliases, before loading."""
    if odd := re.search(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text):
        line = text.count("\n", 0, odd.start()) + 1
        raise SpecError(f"{name}:{line}: there is a control character (U+{ord(odd[0]):04X}).", hint="Remove it.")
    values = 0
    begun: list[tuple[str | None, int]] = []  # anchor of each open value, and the values before it
    sizes: dict[str | None, int] = {}
    for event in YAML(typ="rt", pure=True).parse(StringIO(text)):
        reason, hint = "", "Write it without."
        if isinstance(event, AliasEvent):
            values += sizes.get(event.anchor, 0)
            if event.anchor in (anchor for anchor, _ in begun):
                reason = "an alias of what it is inside"
        elif isinstance(event, CollectionEndEvent):
            anchor, before = begun.pop()
            sizes[anchor] = values - before
        elif isinstance(event, NodeEvent):
            values += 1
            if isinstance(event, CollectionStartEvent):
                begun.append((event.anchor, values - 1))
            elif isinstance(event, ScalarEvent):
                sizes[event.anchor] = 1
                if not event.style and _READ_AS_DATE.match(event.value):
                    reason, hint = "YAML reads this as a date", "Write it in quotes."
                elif _LONG_NUMBER.fullmatch(event.value):
                    reason, hint = f"a number of {len(event.value)} digits", "Write a smaller one."
                elif event.style == '"' and UNWRITABLE.search(event.value):
                    reason = "a control character is escaped here"
            if tag := getattr(event, "tag", None):
                reason = f"a tag ({tag})"
        if values > _VALUES_MAX:
            reason, hint = f"more than {_VALUES_MAX:,} values, counting what aliases repeat", "A study is a short file."
        if len(begun) > _DEPTH_MAX:
            reason = f"more than {_DEPTH_MAX} lists or mappings inside each other"
            hint = "See docs/reference/studies.md."
        if reason:
            raise SpecError(f"{name}:{event.start_mark.line + 1}: {reason}.", hint=hint)


def _plain(node: Any, path: KeyPath, lines: Lines) -> Any:  # noqa: ANN401 — whatever YAML holds
    """Turn a value into plain data and note the lines of all in it. Duplicate and fractional keys are errors."""
    if isinstance(node, CommentedMap):
        made: dict[str, Any] = {}
        for key, value in node.items():
            text = str(level_text(bool(key) if isinstance(key, ScalarBoolean) else key))
            place = (*path, text)
            if key in (node.lc.data or {}):  # keys merged by `<<` have no line here
                lines.known[place] = node.lc.key(key)[0] + 1
            if isinstance(key, float):
                reason, hint = "a key cannot be a number with a point.", "Write it in quotes: YAML reads 8.10 as 8.1."
                raise lines.error(place, reason, hint=hint)
            if text in made:
                raise lines.error(place, "it comes twice.", hint="Leave one out.")
            made[text] = _plain(value, place, lines)
        return made
    if isinstance(node, CommentedSeq):
        for index in range(len(node)):
            lines.known[(*path, index)] = node.lc.item(index)[0] + 1
        return [_plain(value, (*path, index), lines) for index, value in enumerate(node)]
    if isinstance(node, bool) or node is None:
        return node
    if isinstance(node, ScalarBoolean):  # with an anchor
        return bool(node)
    for kind in (int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return str(node)


def level_text(value: object) -> object:
    """Return a level as text, but a fractional number as it is, to be refused: YAML reads 8.10 as 8.1."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return str(value) if isinstance(value, int) else value
