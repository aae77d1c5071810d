"""Runs `bakeoff gate` on real servers with a known slowdown, keeps each result in a journal, and counts answers."""

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from statistics import median

from bakeoff.errors import RunInvalid
from bakeoff.gate.rule import Answer
from bakeoff.results import open_run
from bakeoff.stats.model import Analysis, Frozen
from validation.duels import ProcessorShares, run_bakeoff
from validation.gates import is_wrong, markdown
from validation.journal import append_entry, read_entries

KINDS = (0.0, 3.0, 0.0, 1.0)
"""Slowdowns in percent, in the order in which gates are run."""

_LIMIT_S = 900.0  # a budget of ten minutes, plus downloading and loading


class GateOutcome(Frozen):
    """One gate of one server against itself.

    Attributes:
        slowdown_percent: injected into the second server.
        ratios: log ratio of each epoch, in order.
        other: share of the processors that other work took during measurement.
    """

    server: str
    slowdown_percent: float
    seed: int
    answer: Answer
    wall_s: float
    ratios: tuple[float, ...]
    other: float | None

    @property
    def wrong(self) -> bool:
        """Whether the answer contradicts the injected slowdown."""
        return is_wrong(self.answer, self.slowdown_percent)


def run(server: str, slowdown_percent: float, *, seed: int, folder: Path) -> GateOutcome:
    """Run one gate on the command line: point selects on four connections, 2 % allowed, ten minutes.

    Its run directory is made in `folder`, which server accounts must be able to enter, and deleted afterwards.

    Raises:
        RunInvalid: the gate ended without an answer.
    """
    runs = folder / f"gate-{os.getpid()}"
    injected = ("--inject-slowdown", f"{slowdown_percent:g}%") if slowdown_percent else ()
    words = [
        "gate", server, server, "-w", "oltp_point_select", "--max-slowdown", "2%", "--budget", "10m", *injected,
        "--seed", str(seed), "--runs", str(runs), "--format", "json", "--quiet",
    ]  # fmt: skip
    begin = time.monotonic()
    try:
        code, out, err = run_bakeoff(words, _LIMIT_S)
        wall_s = time.monotonic() - begin
        if code not in (0, 1, 6):
            raise RunInvalid(f"gate of {server}: exit code {code}: {err.strip()[-500:]}")
        directory = open_run("latest", runs)
        analysis = directory.read("analysis.json", Analysis)
        assert analysis
        machine = ProcessorShares.of(directory.slices())
        return GateOutcome(
            server=server,
            slowdown_percent=slowdown_percent,
            seed=seed,
            answer=Answer(json.loads(out)["gate"]["answer"]),
            wall_s=round(wall_s, 1),
            ratios=tuple(point.value for point in analysis.comparisons[0].points),
            other=machine.other if machine else None,
        )
    finally:
        shutil.rmtree(runs, ignore_errors=True)


def series(journal: Path, server: str, *, minutes: float, seed: int, report: Callable[[str], None]) -> None:
    """Run gates of KINDS in turn until the time is up and append each to the journal."""
    until = time.monotonic() + 60 * minutes
    known = len(read_entries(journal, GateOutcome))
    for number, slowdown_percent in enumerate(cycle(KINDS)):
        if time.monotonic() > until:
            break
        outcome = run(server, slowdown_percent, seed=seed + known + number, folder=journal.parent)
        append_entry(journal, outcome)
        report(f"slower by {slowdown_percent:g} %: {outcome.answer} after {outcome.wall_s:.0f} s")


def table(found: Sequence[GateOutcome]) -> str:
    """Format a Markdown table with a row for each server and slowdown."""
    heads = ["server", "slower by", "gates", *(answer.value for answer in Answer), "median minutes"]
    rows = []
    for server, percent in sorted({(each.server, each.slowdown_percent) for each in found}):
        own = [each for each in found if (each.server, each.slowdown_percent) == (server, percent)]
        answers = Counter(each.answer for each in own)
        counts = [str(answers[answer]) for answer in Answer]
        minutes = f"{median(each.wall_s for each in own) / 60:.1f}"
        rows.append([server, f"{percent:g} %", str(len(own)), *counts, minutes])
    return markdown(heads, rows)
