#!/usr/bin/env python3
"""How fast a slow log becomes a capture, in how much memory; beside it pt-query-digest, in the same run.

    bench/capture/run.py         # 1 GB; exit code 1 if plain capture is below 100 MB/s or above 64 MB of memory
    bench/capture/run.py --megabytes 50 --rounds 1
    bench/capture/run.py --peer-megabytes 0      # without pt-query-digest (Debian: apt-get install percona-toolkit)

The log is made first (`make.py`). In every round each program reads it in a separate process, in a random order; wall
time, CPU and peak resident memory are the kernel's. Medians over the rounds count. pt-query-digest reads the log's
beginning, since the whole would take it many minutes; its speed does not depend on the size.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from make import write_slow_log
from rich.console import Console
from rich.table import Table

import record
from bakeoff.engine import engine_path

LIMIT_MB_PER_S, LIMIT_BYTES = 100.0, 64_000_000


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=1000, help="of the log (default: %(default)s)")
    parser.add_argument(
        "--peer-megabytes", type=int, default=100, help="that pt-query-digest reads; 0: none (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each; the median counts (%(default)s)")
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="folder of the JSON file")
    return parser.parse_args()


def measured(command: list[str], size_bytes: int) -> dict[str, Any]:
    """Run a command to its end and return what it took."""
    begun = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    taken = record.taken_by(child, begun)
    if child.returncode:
        raise SystemExit(f"capture: {command[0]} ended with status {child.returncode}.")
    return taken | {"bytes": size_bytes, "megabytes_per_s": size_bytes / 1e6 / taken["wall_s"]}


def commands(folder: Path, log: Path, beginning: Path | None) -> dict[str, tuple[list[str], int]]:
    """Name -> command, and the bytes that it reads."""
    engine, size = str(engine_path()), log.stat().st_size
    made = {
        "capture": ([engine, "capture", str(log), "-o", str(folder / "a.capture")], size),
        "capture --redact": ([engine, "capture", "--redact", str(log), "-o", str(folder / "b.capture")], size),
    }
    if beginning:
        made["pt-query-digest"] = (["pt-query-digest", "--no-version-check", str(beginning)], beginning.stat().st_size)
    return made


def main() -> int:
    chosen = options()
    folder = Path(tempfile.mkdtemp(prefix="bakeoff-capture-", dir="/var/tmp"))
    try:
        log = folder / "slow.log"
        events = write_slow_log(log, chosen.megabytes * 1_000_000)
        beginning = None
        if chosen.peer_megabytes and shutil.which("pt-query-digest"):
            beginning = folder / "beginning.log"
            write_slow_log(beginning, min(chosen.peer_megabytes, chosen.megabytes) * 1_000_000)
        elif chosen.peer_megabytes:
            print("capture: no pt-query-digest here (apt-get install percona-toolkit).", file=sys.stderr)
        named = commands(folder, log, beginning)
        tries: dict[str, list[dict[str, Any]]] = {name: [] for name in named}
        for _ in range(chosen.rounds):
            for name in random.sample(list(named), len(named)):
                tries[name].append(measured(*named[name]))
        sizes = {"log": log.stat().st_size, "capture": (folder / "a.capture").stat().st_size}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report(chosen, tries, sizes, events)


def report(
    chosen: argparse.Namespace, tries: dict[str, list[dict[str, Any]]], sizes: dict[str, int], events: int
) -> int:
    """Print the table (medians, peak memory) and write the record; return 1 if plain capture exceeds a limit."""
    medians = {name: {key: median(one[key] for one in each) for key in each[0]} for name, each in tries.items()}
    for name, each in tries.items():
        medians[name]["peak_bytes"] = max(one["peak_bytes"] for one in each)
    shown = Table(title=f"A slow log of {sizes['log'] / 1e6:,.0f} MB, {events:,} events", title_justify="left")
    for heading in ("", "MB/s", "wall", "CPU", "memory"):
        shown.add_column(heading, justify="right" if heading else "left")
    for name, each in medians.items():
        figures = (f"{each['megabytes_per_s']:.1f}", f"{each['wall_s']:.1f} s", f"{each['cpu_s']:.1f} s")
        shown.add_row(name, *figures, f"{each['peak_bytes'] / 1e6:.1f} MB")
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(shown)
    console.print(f"The capture has {sizes['capture'] / 1e6:,.1f} MB.", highlight=False)
    content = {
        "settings": {"megabytes": chosen.megabytes},
        "events": events,
        "sizes": sizes,
        "medians": medians,
        "tries": tries,
    }
    console.print(f"written: {record.write('capture', content, chosen.results)}", highlight=False)
    ours = medians["capture"]
    slow, large = ours["megabytes_per_s"] < LIMIT_MB_PER_S, ours["peak_bytes"] > LIMIT_BYTES
    for is_over, what in (
        (slow, f"below {LIMIT_MB_PER_S:.0f} MB/s"),
        (large, f"above {LIMIT_BYTES / 1e6:.0f} MB of memory"),
    ):
        if is_over:
            print(f"capture: {what}.", file=sys.stderr)
    return int(slow or large)


if __name__ == "__main__":
    sys.exit(main())
