"""The servers of the catalogue in the order of their versions, as a history: each over a pinned reference of one run.

One study has all of them: in every epoch each server is started beside the same reference, so the ratios of one epoch
have the same minutes. The points are put a second apart in the order of the versions; their dates say nothing else.
"""

import subprocess
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from bakeoff.errors import RunInvalid
from bakeoff.history.history_file import History, Point
from bakeoff.history.page import points_of
from bakeoff.results import RunDirectory, open_run
from bakeoff.servers import Catalog
from validation.duels import end_in_order, start_bakeoff

WORKLOADS = "oltp_point_select,oltp_read_only"
ROWS = ("--threads", "4", "--tables", "2", "--table-size", "10000")


def versions_of(flavour: str, *, but: str) -> list[str]:
    """The catalogue's servers of one flavour, oldest first, without one."""
    entries = sorted(
        (each for each in Catalog.load().entries if each.flavour == flavour), key=lambda each: each.numbers
    )
    names = [f"{entry.flavour}:{entry.version}" for entry in entries]
    return [name for name in names if name != but]


def measure(servers: Sequence[str], *, reference: str, budget: str, seed: int, runs: Path) -> RunDirectory:
    """Measure the servers beside the reference.

    Raises:
        RunInvalid: the duel failed.
    """
    words = [
        "duel", reference, *servers, "--workload", WORKLOADS, *ROWS,
        "--budget", budget, "--no-verdict", "--no-explain", "--seed", str(seed), "--runs", str(runs),
    ]  # fmt: skip
    process = start_bakeoff(words, stdout=subprocess.DEVNULL)
    try:
        code = process.wait()
    except BaseException:  # SIGTERM or Ctrl-C
        end_in_order(process)
        raise
    if code:
        raise RunInvalid(f"the duel ended with exit code {code}.", hint="Its messages are above.")
    return open_run("latest", runs)


def in_order(points: Sequence[Point]) -> Iterator[Point]:
    """The points of one run, whose contenders are in order, as a history of versions."""
    contenders = list(dict.fromkeys(point.contender for point in points))
    for point in points:
        at = point.at + timedelta(seconds=contenders.index(point.contender))
        yield point.model_copy(update={"at": at, "commit": point.contender.partition(":")[2]})


def remember(run: RunDirectory, file: Path, *, series: str) -> int:
    """Add a run of `measure` to a history; how many points."""
    points = list(in_order(points_of(run, series=series)))
    History(file).add(points)
    return len(points)
