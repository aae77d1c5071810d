"""Measures the procedures in common use and bakeoff on real servers, each in the same wall time.

Every measurement compares a server with itself, so the true ratio is known to be 1. The series alternate in short
rounds, so that all procedures meet the same machine. Two economies make rates possible; neither changes what a
procedure would have said:

- A serial procedure is one long series of starts of one server; its judgements are of neighbouring starts, and overlap.
- An injected slowdown of k uncounted events per 100 divides the throughput by 1 + k/100 exactly. So what the same
  measurements would have said of a contender slower by that much is arithmetic: of the contender's runs for the serial
  procedures; of the epochs, judged again by the stopping rule, for bakeoff.

Started again with the same folder it continues: the journals only grow.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from statistics import median
from typing import Self

from pydantic import AliasChoices, Field

from bakeoff.results.manifest import checkout_commit
from bakeoff.servers.paths import make_open_folder
from bakeoff.spec import Arm, Data, Study, Workload, parse_server
from bakeoff.stats.interval import N_MIN_DECISIVE
from bakeoff.stats.model import Frozen
from bakeoff.units import parse_duration_s
from validation.campaign import Campaign, planned
from validation.duels import Duel, LoadClass, Outcome, ProcessorShares
from validation.journal import append_entry
from validation.procedures import INJECTED, Asked, Procedure, Said, judge_serial, serial
from validation.real_epochs import RealBench, Variant
from validation.simulation import run_to_end

# Server, settings, data, warming and client of a serial run are those of a duel between two such servers, so only the
# procedure differs.

JOURNAL = "series.jsonl"

_SLICE_NS = 100_000_000
_ALONE = "A"


class SerialRun(Frozen):
    """One server, started, warmed, measured and stopped.

    Attributes:
        per_s: mean throughput, events per second.
        seconds: measured; `wall_s` of it all, restoring and stopping included.
    """

    started_at: datetime
    per_s: float
    seconds: float
    wall_s: float
    machine: ProcessorShares | None
    commit: str | None


class SerialServer:
    """Loads the data of a server once; then `run` as often as asked.

    Args:
        duel: of two such servers: its first server, workload, connections, data and warming are taken.
    """

    def __init__(self, duel: Duel) -> None:
        self._study = Study(
            title="serial runs",
            # Two, for the memory that each of a duel's servers has; only the first is ever started.
            arms=tuple(
                Arm(name=name, label=name, server=parse_server(duel.servers[0]), data=Data(charset="utf8mb4"))
                for name in (_ALONE, "B")
            ),
            workloads=tuple(Workload(script=script) for script in duel.workloads),
            threads=duel.threads,
            tables=duel.tables,
            table_size=duel.table_size,
            builds=1,
            seed=duel.seed,
        )
        self._warm_s = parse_duration_s(duel.warm_up)
        self._exit = ExitStack()
        self._bench: RealBench

    def __enter__(self) -> Self:
        """Load.

        Raises:
            BakeoffError: the server cannot be had, started or loaded.
        """
        with tempfile.TemporaryDirectory(prefix="bakeoff-serial-") as folder:
            self._bench = self._exit.enter_context(RealBench(self._study, Path(folder)))
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def run(self, seconds: float) -> SerialRun:
        """Start a server, measure it for that long, stop it."""
        started_at, begin = datetime.now(UTC), time.monotonic()
        variant = Variant("serial", _SLICE_NS, seconds, threads=self._study.threads[0])
        slices = self._bench.epoch([variant], arms=(_ALONE,), warm_s=self._warm_s).slices
        wall_s = time.monotonic() - begin
        busy_s = float((slices["busy_ns"] / slices["connections"]).sum()) / 1e9
        return SerialRun(
            started_at=started_at,
            per_s=float(slices["events"].sum()) / busy_s,
            seconds=round(busy_s, 3),
            wall_s=round(wall_s, 3),
            machine=ProcessorShares.of(slices),
            commit=checkout_commit(),
        )


_REPORT_S = 7.0  # what the command takes beyond the budget: to start, and to write the report

_ROUND = {Procedure.ONE_LONG: 4, Procedure.MEDIAN_OF_THREE: 9}  # starts in a round: 3 and 4 judgements
_START_S = 3.5  # before the first start has shown it
_SERIES = {
    Procedure.ONE_LONG: Procedure.ONE_LONG,
    Procedure.MEDIAN_OF_THREE: Procedure.MEDIAN_OF_THREE,
    Procedure.THREE_APART: Procedure.MEDIAN_OF_THREE,
}


class Series(Frozen):
    """Starts of one server, one right after the other.

    Attributes:
        procedure: ONE_LONG or MEDIAN_OF_THREE; THREE_APART judges the runs of the second. `way` up to format 2.
        warm_up, budget: of the duels that it is to be compared with.
    """

    format: int = 3
    procedure: Procedure = Field(validation_alias=AliasChoices("procedure", "way"))
    warm_up: str
    budget: str
    runs: tuple[SerialRun, ...]


def wall_s(budget: str) -> float:
    """Wall seconds of one judgement: of a whole duel with that budget, loading and report included."""
    return parse_duration_s(budget) + _REPORT_S


def measure(
    folder: Path,
    server: str,
    *,
    warm_up: str,
    budget: str,
    until: float,
    seed: int,
    report: Callable[[str], None],
    with_duels: bool = True,
) -> None:
    """Measure rounds of all series until the time is up; a round that is begun is finished.

    Args:
        folder: of the journals `series.jsonl` and `duels.jsonl`; servers' accounts must be able to enter.
        server: as on the command line.
        warm_up: of a duel, and of every serial run.
        budget: of a duel; every other procedure gets the same wall time.
        until: by `time.monotonic`.
        seed: of the duels and of the keys.
        report: prints a line of progress.
        with_duels: a duel of equal servers in each round; without them bakeoff's part comes from other journals.

    Raises:
        BakeoffError: the server cannot be had, started or loaded.
    """
    campaign = Campaign(make_open_folder(folder), seed=seed)
    shape = Duel(kind="aa", number=0, servers=(server, server), seed=seed, warm_up=warm_up, budget=budget)
    with SerialServer(shape) as server_alone:
        while time.monotonic() < until:
            for procedure in _ROUND:
                append_entry(folder / JOURNAL, _one_series(server_alone, procedure, shape, report))
            if with_duels:
                finished = campaign.journal.finished()
                number = next(n for n in count() if shape.model_copy(update={"number": n}).key not in finished)
                known = planned({"aa": number + 1}, [server], seed=seed, warm_up=warm_up, budget=budget)
                campaign.run([duel for duel in known if duel.number == number], report=report)


def _one_series(alone: SerialServer, procedure: Procedure, duel: Duel, report: Callable[[str], None]) -> Series:
    runs: list[SerialRun] = []
    overhead_s = parse_duration_s(duel.warm_up) + _START_S
    for number in range(_ROUND[procedure]):
        seconds = serial(procedure, wall_s=wall_s(duel.budget), overhead_s=overhead_s).seconds
        runs.append(alone.run(max(seconds, 1.0)))
        overhead_s = median(run.wall_s - run.seconds for run in runs)
        rate = f"{runs[-1].per_s:,.0f} events/s in {runs[-1].wall_s:.0f} s"
        report(f"{procedure}: start {number + 1} of {_ROUND[procedure]}, {rate}")
    return Series(procedure=procedure, warm_up=duel.warm_up, budget=duel.budget, runs=tuple(runs))


def judgements(series: Iterable[Series], duels: Iterable[Outcome]) -> Iterator[Asked]:
    """What every procedure says of every truth."""
    known = tuple(series)
    for percent in INJECTED:
        for procedure, source in _SERIES.items():
            width = len(serial(procedure, wall_s=0.0, overhead_s=0.0).order)
            for each in known:
                if each.procedure is source:
                    for first in range(len(each.runs) - width + 1):
                        yield Asked(procedure, percent, _serial(procedure, each.runs[first : first + width], percent))
    for outcome in duels:
        if outcome.error or outcome.duel.truth is None or len(outcome.judgements) != 1:
            continue
        if outcome.duel.kind == "aa":
            for percent in INJECTED:
                yield Asked(Procedure.BAKEOFF, percent, _bakeoff(outcome, percent))
        elif outcome.duel.slowdown_percent in INJECTED:
            judgement = outcome.only
            yield Asked(
                Procedure.BAKEOFF,
                outcome.duel.slowdown_percent,
                Said(judgement.mean, judgement.claim, judgement.half_width),
            )


def _serial(procedure: Procedure, runs: Sequence[SerialRun], percent: float) -> Said:
    slowed = [run.per_s / (1 + percent / 100) for run in runs[1::2]]
    return judge_serial(procedure, [run.per_s for run in runs[::2]], slowed)


def _bakeoff(outcome: Outcome, percent: float) -> Said:
    """What the rule says of an A/A duel's epochs when the contender is slower by a known amount."""
    shift = -math.log1p(percent / 100)
    judgement = outcome.only
    if not percent:
        return Said(judgement.mean, judgement.claim, judgement.half_width)
    if len(judgement.points) < N_MIN_DECISIVE:  # too few for any verdict, wherever the truth lies
        return Said(judgement.mean + shift, 0, judgement.half_width)
    end = run_to_end([point + shift for point in judgement.points], precision=outcome.duel.target)
    assert end.interval.low is not None
    assert end.interval.high is not None
    middle = (end.interval.low + end.interval.high) / 2
    claim = int(math.copysign(1, middle)) if end.claimed else 0
    return Said(middle, claim, (end.interval.high - end.interval.low) / 2)


def conditions(series: Sequence[Series], duels: Sequence[Outcome], budget: str) -> str:
    """How busy the machine was, and how much was measured, in a sentence."""
    loads = [run.machine.other for each in series for run in each.runs if run.machine]
    beside = [outcome.machine.other for outcome in duels if outcome.machine]
    parts = []
    for what, shares, of_them in (
        ("serial starts", loads, sum(len(s.runs) for s in series)),
        ("duels", beside, len(duels)),
    ):
        if shares:
            parts.append(f"{of_them} {what}, other work took {median(shares):.0%} (median) of the processors")
    rates = [run.per_s for each in series for run in each.runs]
    if rates:
        parts.append(f"a start's throughput was {min(rates):,.0f} to {max(rates):,.0f} events/s")
    spent = f" (the duels {median(outcome.wall_s for outcome in duels):.0f} s)" if duels else ""
    return "; ".join(parts) + f". Each judgement took about {wall_s(budget):.0f} s{spent}."


def typical_load(series: Series) -> LoadClass | None:
    """Class of load of most of its runs."""
    loads = [run.machine.load for run in series.runs if run.machine]
    return max(loads, key=loads.count) if loads else None
