"""Read YAML as plain data, with the line of every value for messages."""

import re
from dataclasses import dataclass
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import Node, ScalarNode, SequenceNode

from bakeoff.errors import KeyPath, SpecError
from bakeoff.spec.server_name import UNWRITABLE

CHARACTERS_MAX = 100_000
_VALUES_MAX = 5_000  # with every alias written out
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
        document = YAML(typ="safe", pure=True).compose(StringIO(text))
        return document and _plain(document, (), lines), lines
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        reason = " ".join((error.problem or "it is not YAML").split())
        raise SpecError(
            f"{name}:{line}: {reason}.", hint="Look for a missing quote, colon or space, wrong indentation, or a tab."
        ) from None
    except YAMLError as error:
        raise SpecError(f"{name}:1: {' '.join(str(error).split())}.", hint="A study is a YAML file.") from None
    except RecursionError:
        hint = "See docs/reference/studies.md."
        raise SpecError(f"{name}:1: too many lists or mappings inside each other.", hint=hint) from None


def _plain(node: Node, path: KeyPath, lines: Lines) -> Any:  # noqa: ANN401 — whatever YAML holds
    lines.known.setdefault(path, node.start_mark.line + 1)
    if len(lines.known) > _VALUES_MAX:
        reason = f"more than {_VALUES_MAX:,} values, counting what aliases repeat."
        raise lines.error(path[:1], reason, hint="A study is a short file.")
    if isinstance(node, SequenceNode):
        return [_plain(each, (*path, index), lines) for index, each in enumerate(node.value)]
    if isinstance(node, ScalarNode):
        return _scalar(node, path, lines)
    made: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    for key, content in node.value:
        if not isinstance(key, ScalarNode):
            raise lines.error(path, "a key must be a word or a number.", hint="Write NAME: VALUE.")
        name = str(level_text(_scalar(key, path, lines)))
        place = (*path, name)
        lines.known[place] = key.start_mark.line + 1
        if name in made:
            raise lines.error(place, "it appears twice.", hint="Leave one out.")
        value = _plain(content, place, lines)
        if name == "<<":
            for each in value if isinstance(value, list) else [value]:
                merged = (each if isinstance(each, dict) else {}) | merged
        else:
            made[name] = value
    return merged | made


def _scalar(node: ScalarNode, path: KeyPath, lines: Lines) -> Any:  # noqa: ANN401
    text: str = node.value
    if node.style == '"' and UNWRITABLE.search(text):
        raise lines.error(path, "a control character is escaped here.", hint="Write it without.")
    if _LONG_NUMBER.fullmatch(text):
        raise lines.error(path, f"a number of {len(text)} digits.", hint="Write a smaller one.")
    if node.style:
        return text
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else _WORDS.get(text, text)


def level_text(value: object) -> object:
    """Return a level as text, as mysqld writes it: ON for true."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return str(value) if isinstance(value, int) else value
