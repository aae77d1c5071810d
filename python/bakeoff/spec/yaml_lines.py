"""YAML 1.2 with the line of every value: plain data for pydantic, lines for people.

YAML 1.2 keeps `on`, `off`, `no` as text; duplicate keys are errors.
"""

from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarfloat import ScalarFloat

from bakeoff.errors import SpecError

Path = tuple[str | int, ...]


class Lines:
    """Line numbers (from 1) by the path of keys and indexes that leads to a value.

    Args:
        name: of the file, for messages.
        known: path -> line.
    """

    def __init__(self, name: str, known: dict[Path, int]) -> None:
        self.name = name
        self._known = known

    def line(self, *path: str | int) -> int:
        """The line of a value, or of the nearest one around it that is in the file."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._known:
                return self._known[path[:length]]
        return 1

    def error(self, path: Path, reason: str, *, hint: str = "") -> SpecError:
        """A mistake at a place of the file: `my.yaml:14: factors.charset: REASON HINT`."""
        where = ".".join(str(part) for part in path)
        return SpecError(f"{self.name}:{self.line(*path)}: {where + ': ' if where else ''}{reason}", hint=hint)


def load_yaml(text: str, name: str) -> tuple[Any, Lines]:
    """Read one document.

    Raises:
        SpecError: no YAML, with file and line.
    """
    try:
        document = YAML(typ="rt", pure=True).load(StringIO(text))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        reason = " ".join((error.problem or "it is not YAML").split())
        raise SpecError(f"{name}:{line}: {reason}.", hint="Look for a missing quote, colon or space.") from None
    except YAMLError as error:
        raise SpecError(f"{name}:1: {' '.join(str(error).split())}.", hint="A study is a YAML file.") from None
    known: dict[Path, int] = {}
    return _plain(document, (), known), Lines(name, known)


def _plain(node: Any, path: Path, known: dict[Path, int]) -> Any:  # noqa: ANN401 — whatever YAML holds
    if isinstance(node, CommentedMap):
        for key in node:
            if key in (node.lc.data or {}):  # what `<<` merges stands elsewhere
                known[(*path, str(key))] = node.lc.key(key)[0] + 1
        return {str(key): _plain(value, (*path, str(key)), known) for key, value in node.items()}
    if isinstance(node, CommentedSeq):
        for index in range(len(node)):
            known[(*path, index)] = node.lc.item(index)[0] + 1
        return [_plain(value, (*path, index), known) for index, value in enumerate(node)]
    if isinstance(node, bool) or node is None:
        return node
    for kind in (int, float, str):
        if isinstance(node, kind) or (kind is float and isinstance(node, ScalarFloat)):
            return kind(node)
    return str(node)
