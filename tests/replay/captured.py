"""Make captures in tests, and read their lines."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bakeoff.engine import engine_path
from bakeoff.replay.captures import capture_totals, make_capture


@dataclass(frozen=True)
class Captured:
    events: list[dict]
    totals: dict

    @property
    def statements(self):
        return [event for event in self.events if "digest" in event]

    @property
    def texts(self):
        """Return the text of each digest by name."""
        return {each["digest"]: each["text"] for each in self.totals["digests"]}


def capture(*logs, output, redact=False, log_format=None):
    make_capture(map(str, logs), output, redact=redact, log_format=log_format, on_progress=lambda _done, _total: None)
    return read(output)


def read(path: Path) -> Captured:
    command = [str(engine_path()), "capture", "--events", str(path)]
    lines = subprocess.run(command, capture_output=True, check=True).stdout.splitlines()
    return Captured([json.loads(line) for line in lines], capture_totals(path))
