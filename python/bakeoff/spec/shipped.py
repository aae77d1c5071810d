"""Studies that ship with bakeoff (`bakeoff/studies/*.yaml`), and where a study named on the command line is."""

import difflib
from importlib.resources import files
from pathlib import Path

from bakeoff.errors import SpecError


def shipped_studies() -> dict[str, Path]:
    """Their files by name, in alphabetical order."""
    folder = Path(str(files("bakeoff"))) / "studies"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_study(text: str) -> Path:
    """The file that a person means: a path, or the name of a study that ships.

    Raises:
        SpecError: neither; with the nearest name.
    """
    path = Path(text)
    if path.is_file():
        return path
    known = shipped_studies()
    if text in known:
        return known[text]
    if path.suffix in (".yaml", ".yml") or "/" in text:
        raise SpecError(f"study {text}: there is no such file.", hint="See `bakeoff list studies`.")
    near = difflib.get_close_matches(text, known, n=1)
    raise SpecError(
        f"study {text}: no study of this name ships with bakeoff, and there is no such file.",
        hint=f"Did you mean {near[0]}?" if near else "See `bakeoff list studies`.",
    )
