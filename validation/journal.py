"""Journals: a JSON object a line, only ever appended to, so that a kill costs no more than the line being written."""

import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from bakeoff.errors import ResultsError

Entry = TypeVar("Entry", bound=BaseModel)


def append_entry(path: Path, entry: BaseModel) -> None:
    """Keep one more, on a line of its own; it is on disk when this returns."""
    with path.open("ab+") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # after a line that a kill cut off
                file.write(b"\n")
        file.write(f"{entry.model_dump_json()}\n".encode())
        file.flush()
        os.fsync(file.fileno())


def read_entries(path: Path, kind: type[Entry]) -> list[Entry]:
    """All but lines that a kill cut off; none when there is no such file.

    Raises:
        ResultsError: another line is damaged.
    """
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
