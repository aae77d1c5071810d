"""Build the wheel with maturin: the engine without line tables, the `bakeoff` command executable."""

import os
import shutil
from pathlib import Path
from typing import Any

import maturin
from maturin import build_editable, build_sdist, get_requires_for_build_sdist, get_requires_for_build_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]


def build_wheel(folder: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """Build a wheel; pip calls this (PEP 517)."""
    # A source distribution does not keep the executable bit.
    Path("python/bakeoff.data/scripts/bakeoff").chmod(0o755)
    # `bakeoff audit` quotes sizes from the record.
    shutil.rmtree("python/bakeoff/audit/record", ignore_errors=True)
    for file in Path("docs/record").glob("*/*.json"):
        if file.name in ("analysis.json", "study.json"):
            to = Path("python/bakeoff/audit/record", *file.parts[-2:])
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to)
    # Debug information is four fifths of the engine; function names stay.
    os.environ.setdefault("CARGO_PROFILE_RELEASE_STRIP", "debuginfo")
    name: str = maturin.build_wheel(folder, settings, metadata)
    return name
