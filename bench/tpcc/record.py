"""The JSON file of a benchmark run: written once, never edited."""

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
FORMAT = 1


def write(name: str, content: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Write `NAME-DATE.json` into the folder, with the machine and the commit."""
    now = datetime.now(UTC)
    path = folder / f"{name}-{now:%Y%m%dT%H%M%SZ}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    head = {
        "format": FORMAT,
        "name": name,
        "date": now.isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "machine": {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "cpu": _cpu(),
            "load_1min": os.getloadavg()[0],
        },
    }
    path.write_text(json.dumps(head | content, indent=1) + "\n", encoding="utf-8")
    return path


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
