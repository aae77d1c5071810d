#!/usr/bin/env python3
"""Whether equal servers differ more while the machine is slow: how epochs' log ratios scatter, by their throughput.

    bench/method/levels.py JOURNAL                                        # the table
    bench/method/levels.py JOURNAL --add RUN [RUN ...] [--called TEXT]    # first append these duels, of one cell

Throughput is that of both arms in an epoch, over that of the fastest epoch of the journal's duels of the same name.
"""

import argparse
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bakeoff.results import open_run
from bakeoff.results.frame import Frame
from bakeoff.run.machine_check import FAR_NS
from bakeoff.stats.interval import t_quantile
from bakeoff.stats.model import Analysis

_BANDS = (0.0, 0.9, 0.93, 0.96, 1.01)
_LISTS = ("points", "halves", "per_s", "server_cpu", "client_cpu", "cache_line_ns")


def duel(path: str, called: str) -> dict[str, Any]:
    """A line of the journal; lists have a value for each epoch.

    `points`, `server_cpu` and `client_cpu` are log ratios, arm B over arm A, of events per second and of CPU time per
    event; `halves` those of events per second in the first and the second half; `per_s` is events per second;
    `cache_line_ns` is 0 where the run did not record it. Lines of duels before 28 November 2026, 14:00, divide by
    the slices' length, which ends with the last connection's event, and scatter more for it.
    """
    run = open_run(path)
    (comparison,) = run.read("analysis.json", Analysis).comparisons
    found: dict[str, list[Any]] = {name: [] for name in _LISTS}
    for epoch in run.load_epochs():
        slices = epoch.slices.with_columns(
            client_cpu_ns=epoch.slices["client_user_ns"] + epoch.slices["client_system_ns"]
        )
        first = slices["start_ns"] < np.median(slices["start_ns"])
        found["points"].append(_log_ratio(slices, "events", "busy_ns"))
        found["halves"].append([_log_ratio(slices.rows(half), "events", "busy_ns") for half in (first, ~first)])
        per_ns = slices["events"].sum() * slices["connections"].max() / slices["busy_ns"].sum()
        found["per_s"].append(round(float(per_ns * 1e9)))
        found["server_cpu"].append(_log_ratio(slices, "server_cpu_ns", "events"))
        found["client_cpu"].append(_log_ratio(slices, "client_cpu_ns", "events"))
        found["cache_line_ns"].append(run.outcome(epoch.epoch).cache_line_ns.get(comparison.cell, 0))
    arms = run.study().arms
    about = {"begun": run.path.name.rsplit("-", 2)[1], "servers": [arm.label for arm in arms]}
    about |= {"cell": comparison.cell, "slowdown_percent": arms[1].slowdown_percent, "called": called}
    return about | {"stop": comparison.stop} | found


def _log_ratio(slices: Frame, above: str, below: str) -> float:
    """Log ratio of sums, arm B over arm A."""
    quotients = []
    for arm in ("B", "A"):
        own = slices["arm"] == arm
        quotients.append(slices[above][own].sum() / slices[below][own].sum())
    return round(float(np.log(quotients[0] / quotients[1])), 5)


def table(duels: list[dict[str, Any]]) -> str:
    """For each name: epochs in bands of throughput, the mean of their log ratios (± 95 %), the root mean square.

    The same for epochs whose CPUs were near each other or far apart, if that is known. Below it, how ratios correlate
    with those of CPU time per event, and an epoch's halves with each other.
    """
    lines = ["| duels | throughput | epochs | mean | root mean square |", "|---|---|---|---|---|"]
    correlations = [""]
    by_name = defaultdict(list)
    for each in duels:
        by_name[each["called"]].append(each)
    for name, own in by_name.items():
        values = {key: np.array([value for each in own for value in each.get(key, ())]) for key in _LISTS}
        ratios, level = 100 * values["points"], values["per_s"] / values["per_s"].max()
        bands = {f"{low:.0%} to {min(high, 1):.0%}": (level >= low) & (level < high) for low, high in pairwise(_BANDS)}
        if (cache_line_ns := values["cache_line_ns"]).size == level.size and cache_line_ns.all():
            far = cache_line_ns > FAR_NS
            bands |= {f"CPUs {name}, mean {level[own].mean():.0%}": own for name, own in (("near", ~far), ("far", far))}
        for shown, chosen in (bands | {"all": level > 0}).items():
            if (band := ratios[chosen]).size:
                error = (
                    f" ± {t_quantile(0.975, band.size - 1) * band.std(ddof=1) / band.size**0.5:.2f}"
                    if band.size > 1
                    else ""
                )
                rms = np.sqrt((band**2).mean())
                lines.append(f"| {name} | {shown} | {band.size} | {band.mean():+.2f}{error} % | {rms:.2f} % |")
        server, client = (np.corrcoef(ratios, values[f"{side}_cpu"])[0, 1] for side in ("server", "client"))
        halves = np.corrcoef(values["halves"].T)[0, 1]
        correlations.append(
            f"{name}: correlation with the server's CPU time an event {server:.2f}, with the client's {client:.2f}; "
            f"of an epoch's two halves {halves:.2f}"
        )
    return "\n".join(lines + correlations)


def main() -> None:
    """Add duels when asked, then print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("journal", type=Path)
    parser.add_argument("--add", nargs="+", default=[], metavar="RUN", help="run directories")
    parser.add_argument("--called", default="as they are", help="a name for these duels")
    given = parser.parse_args()
    if given.add:
        with given.journal.open("a", encoding="utf-8") as journal:
            journal.writelines(json.dumps(duel(each, given.called)) + "\n" for each in given.add)
    print(table([json.loads(line) for line in given.journal.read_text("utf-8").splitlines()]))


if __name__ == "__main__":
    main()
