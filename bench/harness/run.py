#!/usr/bin/env python3
"""How much of a study's wall time is measuring, and where the rest goes: at least 80 % at a budget of ten minutes.

    bench/harness/run.py                   # make demo's pair on a ladder of threads, 10 minutes; exit code 1 when under
    bench/harness/run.py --budget 3m

Wall time is that of the whole command: what the run directory's wall.json does not cover (Python's start, asking the
servers, making the report) is `around`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table

import record

LIMIT_SHARE = 0.8
_DUEL = ("mysql:5.7.22", "mysql:8.0.15", "--workload", "oltp_point_select,oltp_read_only", "--threads", "1,2,4,8")
# Explaining would take a quarter of the budget.
_OPTIONS = ("--tables", "4", "--table-size", "100000", "--no-explain")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--budget", default="10m", help="default: %(default)s")
    parser.add_argument("--precision", default=None, help="target of the duel; default: bakeoff's own")
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="folder of the JSON file")
    return parser.parse_args()


def measured(budget: str, precision: str | None) -> dict[str, Any]:
    """Run the duel and return its wall time by phase."""
    command = [sys.executable, "-m", "bakeoff.cli.start", "duel", *_DUEL, *_OPTIONS, "--budget", budget]
    command += ["--precision", precision] if precision else []
    with tempfile.TemporaryDirectory(prefix="bakeoff-harness-") as folder:
        begun = time.monotonic()
        env = os.environ | {"BAKEOFF_RUNS": folder}
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        wall_s = time.monotonic() - begun
        found = list(Path(folder).glob("*/wall.json"))
        outcomes = [json.loads(file.read_text("utf-8")) for file in Path(folder).glob("*/epochs/*/outcome.json")]
        if not found or not outcomes:
            raise SystemExit(f"harness: the duel ended with status {done.returncode}: {done.stderr[-400:]}")
        wall = json.loads(found[0].read_text(encoding="utf-8"))
    phases = wall["phases_s"] | {"around": max(0.0, wall_s - wall["total_s"])}
    # A cell with a verdict is not measured any more, which ends the run sooner and leaves an epoch less to measure.
    cells = max(len(each["cell_order"]) for each in outcomes)
    whole = [each for each in outcomes if len(each["cell_order"]) == cells]
    return {
        "wall_s": wall_s,
        "epochs": len(outcomes),
        "phases_s": phases,
        "share": phases["measure"] / wall_s,
        "epochs_with_all_cells": len(whole),
        "share_with_all_cells": sum(each["measured_s"] for each in whole) / sum(each["wall_s"] for each in whole),
    }


def main() -> int:
    chosen = options()
    console = Console(width=None if sys.stdout.isatty() else 100)
    taken = measured(chosen.budget, chosen.precision)
    title = f"A duel of {taken['wall_s']:.0f} s, {taken['epochs']} epochs"
    shown = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("phase", "seconds", "share", "an epoch"):
        shown.add_column(heading, justify="left" if heading == "phase" else "right")
    for phase, seconds in taken["phases_s"].items():
        shown.add_row(phase, f"{seconds:.1f}", f"{seconds / taken['wall_s']:.1%}", f"{seconds / taken['epochs']:.1f}")
    console.print(shown)
    console.print(
        f"measuring: {taken['share']:.1%} of the wall time, {taken['share_with_all_cells']:.1%} in the "
        f"{taken['epochs_with_all_cells']} epochs that measured every cell; the goal is {LIMIT_SHARE:.0%}.",
        highlight=False,
    )
    settings = {"duel": [*_DUEL, *_OPTIONS], "budget": chosen.budget, "precision": chosen.precision}
    content = {"settings": settings, **taken, "limit_share": LIMIT_SHARE}
    console.print(f"written: {record.write('harness', content, chosen.results)}", highlight=False)
    return 0 if taken["share"] >= LIMIT_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
