"""Read YAML as plain data, with the line of every value for messages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, DocumentStartEvent, MappingStartEvent, NodeEvent, SequenceStartEvent

from bakeoff.errors import KeyPath, SpecError
from bakeoff.spec.server_name import UNWRITABLE

CHARACTERS_MAX = 100_000
_VALUES_MAX = 5_000  # with every alias written out
_DEPTH_MAX = 20
_CONTROL = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORDS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", "")),
}
_WHOLE_NUMBER = re.compile(r"[-+]?[0-9]+")
_LONG_NUMBER = re.compile(r"[-+.]?[0-9][-+_.,0-9a-fxo]{40,}", re.IGNORECASE)


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
    """Read one YAML document as plain data with lines.

    A plain `true`, `null` or whole number is read as such; everything else is text as it is written, such as 8.10.
    SpecError, with file and line, if it is not YAML or larger than a study can be.
    """
    if len(text) > CHARACTERS_MAX:
        raise SpecError(f"{name}:1: it has more than {CHARACTERS_MAX:,} characters.", hint="A study is a short file.")
    if odd := _CONTROL.search(text):
        line = text.count("\n", 0, odd.start()) + 1
        raise SpecError(f"{name}:{line}: there is a control character (U+{ord(odd[0]):04X}).", hint="Remove it.")
    lines = Lines(name, {})
    try:
        return _Reader(YAML(pure=True).parse(StringIO(text)), lines).document(), lines
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        reason = " ".join((error.problem or "it is not YAML").split())
        raise SpecError(
            f"{name}:{line}: {reason}.", hint="Look for a missing quote, colon or space, wrong indentation, or a tab."
        ) from None
    except YAMLError as error:
        raise SpecError(f"{name}:1: {' '.join(str(error).split())}.", hint="A study is a YAML file.") from None


class _Reader:
    """Builds plain data from parser events; limits depth and aliases before they can cost memory or time."""

    def __init__(self, events: Iterator[Any], lines: Lines) -> None:
        self._events, self._lines = events, lines
        self._values = 0
        self._anchored: dict[str, tuple[Any, int]] = {}  # value, and the number of values in it

    def document(self) -> Any:  # noqa: ANN401 — whatever YAML holds
        next(self._events)
        if not isinstance(next(self._events), DocumentStartEvent):
            return None
        value = self._value(next(self._events), ())
        next(self._events)
        if isinstance(after := next(self._events), DocumentStartEvent):
            raise self._error(after, "a second document begins here.", "A study is one document.")
        return value

    def _value(self, event: Any, path: KeyPath) -> Any:  # noqa: ANN401
        self._lines.known.setdefault(path, event.start_mark.line + 1)
        if isinstance(event, AliasEvent):
            if event.anchor not in self._anchored:
                raise self._error(event, f"no finished value has the anchor &{event.anchor}.", "Write it out.")
            value, size = self._anchored[event.anchor]
            self._count(event, path, size)
            return value
        before = self._values
        self._count(event, path, 1)
        if event.tag:
            raise self._error(event, f"a tag ({event.tag}).", "Write it without.")
        if isinstance(event, MappingStartEvent):
            value = self._mapping(path)
        elif isinstance(event, SequenceStartEvent):
            value = [self._value(each, (*path, index)) for index, each in enumerate(self._children())]
        else:
            value = self._scalar(event)
        if event.anchor:
            self._anchored[event.anchor] = value, self._values - before
        return value

    def _count(self, event: Any, path: KeyPath, values: int) -> None:  # noqa: ANN401
        self._values += values
        if self._values > _VALUES_MAX:
            reason = f"more than {_VALUES_MAX:,} values, counting what aliases repeat."
            raise self._error(event, reason, "A study is a short file.")
        if len(path) > _DEPTH_MAX:
            reason = f"more than {_DEPTH_MAX} lists or mappings inside each other."
            raise self._error(event, reason, "See docs/reference/studies.md.")

    def _children(self) -> Iterator[Any]:
        while isinstance(event := next(self._events), NodeEvent):
            yield event

    def _mapping(self, path: KeyPath) -> dict[str, Any]:
        made: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for event in self._children():
            key = self._value(event, (*path, "?"))
            del self._lines.known[(*path, "?")]
            if isinstance(key, list | dict):
                raise self._error(event, "a key must be a word or a number.", "Write NAME: VALUE.")
            name = str(level_text(key))
            place = (*path, name)
            self._lines.known[place] = event.start_mark.line + 1
            if name in made:
                raise self._lines.error(place, "it appears twice.", hint="Leave one out.")
            value = self._value(next(self._events), place)
            if name == "<<":
                for each in value if isinstance(value, list) else [value]:
                    merged = (each if isinstance(each, dict) else {}) | merged
            else:
                made[name] = value
        return merged | made

    def _scalar(self, event: Any) -> Any:  # noqa: ANN401
        text: str = event.value
        if event.style == '"' and UNWRITABLE.search(text):
            raise self._error(event, "a control character is escaped here.", "Write it without.")
        if _LONG_NUMBER.fullmatch(text):
            raise self._error(event, f"a number of {len(text)} digits.", "Write a smaller one.")
        if event.style:
            return text
        return int(text) if _WHOLE_NUMBER.fullmatch(text) else _WORDS.get(text, text)

    def _error(self, event: Any, reason: str, hint: str) -> SpecError:  # noqa: ANN401
        return SpecError(f"{self._lines.name}:{event.start_mark.line + 1}: {reason}", hint=hint)


def level_text(value: object) -> object:
    """Return a level as text, as mysqld writes it: ON for true."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return str(value) if isinstance(value, int) else value
