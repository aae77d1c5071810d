"""What reading counters around cells costs: a server against itself, where only the second arm is read.

PYTHONPATH=python python bench/counters/run.py --runs DIR [--minutes 5] [--seed 1]
"""

import argparse
import math
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from bakeoff.cli.main import run
from bakeoff.results import open_run
from bakeoff.run import epoch
from bakeoff.stats.model import Analysis


def only_second(read):
    return lambda servers: read({arm: server for arm, server in servers.items() if arm == "B"})


def main():
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--server", default="mysql:8.0.15")
    asked.add_argument("--minutes", type=float, default=5.0)
    asked.add_argument("--runs", type=Path, required=True, help="folder of the run directory")
    asked.add_argument("--seed", default="1")
    given = asked.parse_args()
    duel = [
        "duel", given.server, given.server, "--workload", "oltp_point_select", "--threads", "4", "--tables", "1",
        "--table-size", "20000", "--budget", f"{given.minutes:g}m", "--precision", "0.1%", "--seed", given.seed,
        "--quiet", "--no-explain", "--runs", str(given.runs),
    ]  # fmt: skip
    with (
        mock.patch.object(epoch, "read_before", only_second(epoch.read_before)),
        mock.patch.object(epoch, "read_after", only_second(epoch.read_after)),
    ):
        code = run(duel)
    if code:
        return code
    (comparison,) = open_run("latest", given.runs).read("analysis.json", Analysis).comparisons
    interval = comparison.estimate.interval
    low, mean, high = (
        f"{math.expm1(-value):+.2%}" if value is not None else "?"
        for value in (interval.high, comparison.estimate.mean, interval.low)
    )
    print(f"time of an event with counters read: {mean} ({low} to {high}), {comparison.estimate.n} restarts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
