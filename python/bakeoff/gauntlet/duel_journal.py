"""A journal of duels: a line each, only ever appended to: a campaign of hours can be killed and gone on with."""

import os
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from bakeoff.errors import ResultsError
from bakeoff.gauntlet.duels import Outcome

NAME = "duels.jsonl"


class DuelJournal:
    """Outcomes on disk; failed duels are kept too, so that nothing is left out in silence.

    Args:
        path: the file; made when missing. A last line that a kill cut off is passed over, and so is never counted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._outcomes = list(read_outcomes(path))
        self._failures = Counter(outcome.duel.key for outcome in self._outcomes if outcome.error)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """All that are there, failed ones too, in the order of their ends."""
        with self._lock:
            return tuple(self._outcomes)

    def append(self, outcome: Outcome) -> None:
        """Keep one; it is on disk when this returns."""
        line = (outcome.model_dump_json() + "\n").encode()
        with self._lock:
            begun = self.path.exists() and not _ends_in_newline(self.path)
            with self.path.open("ab") as file:
                file.write(b"\n" + line if begun else line)
                file.flush()
                os.fsync(file.fileno())
            self._outcomes.append(outcome)
            self._failures[outcome.duel.key] += outcome.error is not None

    def finished(self) -> dict[str, Outcome]:
        """Duels with a judgement by key; of two of one key the first."""
        return first_by_key(self.outcomes)

    def failures(self, key: str) -> int:
        """How often a duel was tried in vain."""
        with self._lock:
            return self._failures[key]


def read_outcomes(path: Path) -> Iterable[Outcome]:
    """The outcomes of a journal; none when there is no such file.

    Raises:
        ResultsError: a line that is not the last is damaged.
    """
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield Outcome.model_validate_json(line)
        except ValidationError as error:
            if _cut_off(line):
                continue
            reason = error.errors()[0]["msg"]
            raise ResultsError(
                f"{path}:{number}: not a duel's outcome: {reason}.", hint="Remove the line, or use another journal."
            ) from None


def first_by_key(outcomes: Iterable[Outcome]) -> dict[str, Outcome]:
    """Those with a judgement; of two of one key the first, so that no repetition can be chosen by its result."""
    found: dict[str, Outcome] = {}
    for outcome in outcomes:
        if outcome.error is None:
            found.setdefault(outcome.duel.key, outcome)
    return found


def _cut_off(line: str) -> bool:
    """A line that a kill cut off begins like an outcome and does not end like one."""
    return line.startswith('{"format"') and not line.endswith("}")


def _ends_in_newline(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
