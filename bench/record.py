"""The JSON file of a benchmark run: written once, never edited; and what a child process took."""

import json
import os
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bakeoff.results import gather_host
from bakeoff.results.manifest import checkout_commit

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
FORMAT = 2
"""Format 1 had `machine`, with fewer facts, instead of `host`."""


def write(name: str, content: dict[str, Any], folder: Path = RESULTS, *, at: datetime | None = None) -> Path:
    """Write `NAME-DATE.json` into the folder, with the machine and the commit.

    Args:
        at: when the run began, if each of its parts rewrites the file; None for now.
    """
    at = at or datetime.now(UTC)
    path = folder / f"{name}-{at:%Y%m%dT%H%M%SZ}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {
        "format": FORMAT,
        "name": name,
        "date": at.isoformat(timespec="seconds"),
        "commit": checkout_commit(),
        "host": gather_host(folder).model_dump(mode="json"),
    }
    path.write_text(json.dumps(head | content, indent=1) + "\n", encoding="utf-8")
    return path


def taken_by(child: "subprocess.Popen[Any]", begun: float) -> dict[str, Any]:
    """Wait until a child ends and return what the kernel says it took, all threads together.

    Args:
        begun: when it was started, by `time.monotonic`.

    Returns:
        `wall_s`; `cpu_s`, user and system; `peak_bytes` of resident memory, at least those that this process had when
        it started the child: the kernel's account begins before the child's program does.
    """
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return {
        "wall_s": time.monotonic() - begun,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
    }
