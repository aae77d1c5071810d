#!/usr/bin/env python3
"""Measures on this machine the facts behind the method's defaults (docs/evidence/method-defaults.md).

    bench/method/run.py all                     # every experiment, about half an hour
    bench/method/run.py restart switching       # some of them
    bench/method/run.py report                  # the newest result of each, into docs/evidence/method-defaults.md

Each writes bench/results/method-NAME-DATE.json. Arms are one server four times, loaded once: A, B, C slowed by 5
uncounted events per 100, and D with performance_schema on.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "python"), str(ROOT / "bench")]  # `validation` is not installed

import table
from reads import SLOWDOWN_PERCENT, attenuation, carry_over, connections, real_difference, restart, slice_length
from table import Result
from writes import freeze

from bakeoff.errors import BakeoffError
from machine import THREADS_MAX, WORKLOADS, idle_cpus, placement, switching
from validation.real_epochs import RealBench, question

EXPERIMENTS: dict[str, Callable[[RealBench], Result]] = {
    "restart": restart,
    "connections": connections,
    "slice-length": slice_length,
    "carry-over": carry_over,
    "attenuation": attenuation,
    "real-difference": real_difference,
    "switching": switching,
    "freeze": freeze,
    "placement": placement,
    "idle-cpus": idle_cpus,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=[*EXPERIMENTS, "all", "report"], metavar="EXPERIMENT")
    parser.add_argument("--server", default="mysql:8.0.15", help="as on bakeoff's command line")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--into", type=Path, default=table.PAGE, metavar="FILE", help="report: put it between the markers of this file"
    )
    options = parser.parse_args()
    if "report" in options.what:
        table.replace_between_markers(options.into, table.newest(tuple(EXPERIMENTS)))
        return 0
    names = list(EXPERIMENTS) if "all" in options.what else options.what
    study = question(
        *[options.server] * 3,
        f"{options.server},performance_schema=ON",
        workloads=("oltp_point_select", "oltp_write_only", *list(WORKLOADS.values())[1:]),
        threads=THREADS_MAX,
        table_size=200_000,
        seed=options.seed,
    )
    slowed = study.arms[2].model_copy(update={"slowdown_percent": SLOWDOWN_PERCENT})
    study = study.model_copy(update={"arms": (*study.arms[:2], slowed, *study.arms[3:])})
    with tempfile.TemporaryDirectory(prefix="bakeoff-method-") as folder:
        try:
            with RealBench(study, Path(folder), report=lambda text: print(f"  {text}", file=sys.stderr)) as bench:
                for name in names:
                    print(name, file=sys.stderr)
                    begin = time.monotonic()
                    result = replace(EXPERIMENTS[name](bench), seconds=round(time.monotonic() - begin, 1))
                    path = table.write(result, options.server)
                    print(f"{result.markdown}\n\n{path.relative_to(table.ROOT)}\n", flush=True)
        except BakeoffError as error:
            print(f"bench/method: {error}", file=sys.stderr)
            return int(error.exit_code)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
