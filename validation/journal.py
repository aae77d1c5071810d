"""Append-only journals with one JSON object per line; a kill loses at most the line being written."""

import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from bakeoff.errors import ResultsError

Entry = TypeVar("Entry", bound=BaseModel)


def append_entry(path: Path, entry: BaseModel) -> None:
    with path.open("ab+") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a kill cut the last line off
                file.write(b"\n")
        file.write(f"{entry.model_dump_json()}\n".encode())
        file.flush()
        os.fsync(file.fileno())


def read_entries(path: Path, kind: type[Entry]) -> list[Entry]:
    """Read all entries except a line that a kill cut off; a missing file has none."""
    found: list[Entry] = []
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (line.startswith("{") and not line.endswith("}")):
            continue
        try:
            found.append(kind.model_validate_json(line))
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise ResultsError(
                f"{path}:{number}: not an entry of this journal: {reason}.",
                hint="Remove the line, or use another journal.",
            ) from None
    return found
