#!/usr/bin/env python3
"""Time and memory that analysing and reporting a large run take: 100 cells of 10,000 slices in under 10 s and 1 GB.

    bench/analysis/run.py                              # exit code 1 when over
    bench/analysis/run.py --cells 20 --slices 2000     # smaller

The run directory is made first; reading it, the statistics and the HTML page happen in a child process, whose wall time
(start of the interpreter included) and peak resident memory are the kernel's.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from make import make
from rich.console import Console
from rich.table import Table

import record

LIMIT_S, LIMIT_BYTES, LIMIT_PAGE_BYTES = 10.0, 1_000_000_000, 4_000_000
_CHILD = """
import sys, time
from bakeoff.report import build_view, render_html
from bakeoff.results import open_run
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop

run = open_run(sys.argv[1])
begun = time.perf_counter()
analysis = analyse(run.load_epochs(), run.study(), ended=Stop.BUDGET)
run.write_json("analysis.json", analysis)
analysed = time.perf_counter()
(run.path / "report.html").write_text(render_html(build_view(run, analysis)), encoding="utf-8")
print(analysed - begun, time.perf_counter() - analysed)
"""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cells", type=int, default=100, help="multiple of 5 (default: %(default)s)")
    parser.add_argument("--slices", type=int, default=10_000, help="of each cell, multiple of 40 (%(default)s)")
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="folder of the JSON file")
    return parser.parse_args()


def measured(run: Path) -> dict[str, Any]:
    """Analyse and report in a child process, and return what it took."""
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen([sys.executable, "-c", _CHILD, str(run)], stdout=out)
        taken = record.taken_by(child, begun)
        out.seek(0)
        said = out.read().split()
    if child.returncode:
        raise SystemExit(f"analysis: the child ended with status {child.returncode}.")
    return taken | {
        "analysis_s": float(said[0]),
        "report_s": float(said[1]),
        "page_bytes": (run / "report.html").stat().st_size,
    }


def main() -> int:
    chosen = options()
    console = Console(width=None if sys.stdout.isatty() else 120)
    folder = Path(tempfile.mkdtemp(prefix="bakeoff-analysis-"))
    try:
        taken = measured(make(folder, cells=chosen.cells, slices_per_cell=chosen.slices).path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    limits = {"wall_s": LIMIT_S, "peak_bytes": LIMIT_BYTES, "page_bytes": LIMIT_PAGE_BYTES}
    title = f"{chosen.cells} cells of {chosen.slices:,} slices: analysis and report"
    shown = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("", "taken", "limit", "of the limit"):
        shown.add_column(heading, justify="right" if heading else "left")
    for name, value in taken.items():
        limit = limits.get(name)
        ratio = "" if limit is None else f"{value / limit:.2f}"
        shown.add_row(name, _text(name, value), "" if limit is None else _text(name, limit), ratio)
    console.print(shown)
    over = [name for name, limit in limits.items() if taken[name] > limit]
    content = {"settings": {"cells": chosen.cells, "slices": chosen.slices}, "taken": taken, "limits": limits}
    console.print(f"written: {record.write('analysis', content, chosen.results)}", highlight=False)
    if over:
        print(f"analysis: over the limit: {', '.join(over)}.", file=sys.stderr)
    return 1 if over else 0


def _text(name: str, value: float) -> str:
    return f"{value / 1e6:,.1f} MB" if name.endswith("_bytes") else f"{value:.2f} s"


if __name__ == "__main__":
    sys.exit(main())
