#!/usr/bin/env python3
"""How long commands take that do nearly nothing: the help, a report, and sysbench's version in three ways.

    bench/startup/run.py                  # 20 starts of each, in turn: two minutes
    bench/startup/run.py --starts 100

The report is that of a synthetic run of six cells and eight epochs, made beforehand.
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "report"), str(ROOT / "bench")]

from rich.console import Console
from rich.table import Table
from synthetic import duel_study, make_run

import record
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the commands to start, by their names in the table."""
    programs = Path(sys.executable).parent
    run = make_run(folder, duel_study())
    run.write_json("analysis.json", analyse(run.load_epochs(), duel_study(), ended=Stop.PRECISE))
    found = {
        "python3 -c pass": [sys.executable, "-c", "pass"],
        "bakeoff --help": [str(programs / "bakeoff"), "--help"],
        "bakeoff report RUN": [str(programs / "bakeoff"), "report", str(run.path)],
        "bakeoff sysbench --version": [str(programs / "bakeoff"), "sysbench", "--version"],
        "bakeoff-engine sysbench --version": [str(programs / "bakeoff-engine"), "sysbench", "--version"],
    }
    original = shutil.which("sysbench")
    return found | ({"sysbench --version": [original, "--version"]} if original else {})


def main() -> int:
    """Start each in turn, in an order drawn anew for each round; print medians and write them to bench/results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=20)
    starts = parser.parse_args().starts
    # pip compiles what it installs; in a clone the first start of each does.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        started = commands(Path(folder))
        for command in started.values():
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        taken_ms: dict[str, list[float]] = {name: [] for name in started}
        for _ in range(starts):
            for name in random.sample(list(started), len(started)):
                begin = time.perf_counter()
                subprocess.run(started[name], env=environment, stdout=subprocess.DEVNULL, check=True)
                taken_ms[name].append(1e3 * (time.perf_counter() - begin))
    table = Table("command", "median, ms", "fastest", "slowest")
    for name, values in taken_ms.items():
        table.add_row(name, *(f"{value:.0f}" for value in (statistics.median(values), min(values), max(values))))
    Console().print(table)
    print(record.write("startup", {"starts": starts, "taken_ms": taken_ms}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
