"""The ways in use against bakeoff on real servers, at equal wall time: measured, in a table and in a picture.

    python -m validation.procedures_measured --folder DIR --minutes 20 [--duels JOURNAL] [--picture FILE.svg]

Every measurement compares a server with itself, so that the truth is known: 1. The series alternate in short rounds,
so that all ways see the same machine. Two economies make rates possible; neither changes what a way would have said:

- A serial way is one long series of starts of one server; its judgements are of neighbouring starts, and overlap.
- A injected slowdown of k uncounted events per 100 divides the throughput by 1 + k/100 exactly. So what the same
  measurements would have said of a contender slower by that much is arithmetic: of the contender's runs for the serial
  ways; of the epochs, judged again by the stopping rule, for bakeoff.

Started again with the same folder it goes on: the journals only grow.
"""

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bakeoff.errors import BakeoffError
from bakeoff.servers.paths import make_open_folder
from bakeoff.stats.interval import N_MIN_DECISIVE
from bakeoff.units import parse_duration_s
from validation import procedures
from validation.campaign import BUDGET, WARM_UP, Campaign, first_by_key, planned, read_outcomes
from validation.duels import Duel, Frozen, LoadClass, Outcome
from validation.procedures import Procedure, SerialRun, SerialServer
from validation.simulation import run_to_end

INJECTED = (0.0, 2.0, 5.0)
"""Uncounted events per 100 of the contender, for which every way is asked."""

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
        way: ONE_LONG or MEDIAN_OF_THREE; THREE_APART judges the runs of the second.
        warm_up, budget: of the duels that it is to be compared with.
    """

    format: int = 2
    way: Procedure
    warm_up: str
    budget: str
    runs: tuple[SerialRun, ...]


@dataclass(frozen=True)
class Asked:
    """One judgement of one way."""

    way: Procedure
    plant: float
    judgement: procedures.Judgement

    @property
    def truth(self) -> float:
        """Log ratio that is known to hold."""
        return -math.log1p(self.plant / 100)


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
    tell: Callable[[str], None],
    with_duels: bool = True,
) -> None:
    """Measure rounds of all series until the time is up; a round that is begun is finished.

    Args:
        folder: of the journals `series.jsonl` and `duels.jsonl`; servers' accounts must be able to enter.
        server: as on the command line.
        warm_up: of a duel, and of every serial run.
        budget: of a duel; every other way gets the same wall time.
        until: by `time.monotonic`.
        seed: of the duels and of the keys.
        tell: progress, a line at a time.
        with_duels: a duel of equal servers in each round; without them others' journals must tell bakeoff's part.

    Raises:
        BakeoffError: the server cannot be had, started or loaded.
    """
    campaign = Campaign(make_open_folder(folder), seed=seed)
    shape = Duel(kind="aa", number=0, servers=(server, server), seed=seed, warm_up=warm_up, budget=budget)
    with SerialServer(shape) as serial:
        while time.monotonic() < until:
            for way in _ROUND:
                _append(folder / "series.jsonl", _one_series(serial, way, shape, tell))
            if with_duels:
                number = len(campaign.journal.finished()) + 1
                campaign.run(planned({"aa": number}, [server], seed=seed, warm_up=warm_up, budget=budget), tell=tell)


def _one_series(serial: SerialServer, way: Procedure, duel: Duel, tell: Callable[[str], None]) -> Series:
    runs: list[SerialRun] = []
    overhead_s = parse_duration_s(duel.warm_up) + _START_S
    for number in range(_ROUND[way]):
        seconds = procedures.serial(way, wall_s=wall_s(duel.budget), overhead_s=overhead_s).seconds
        runs.append(serial.run(max(seconds, 1.0)))
        overhead_s = median(run.wall_s - run.seconds for run in runs)
        tell(f"{way}: start {number + 1} of {_ROUND[way]}, {runs[-1].per_s:,.0f} events/s in {runs[-1].wall_s:.0f} s")
    return Series(way=way, warm_up=duel.warm_up, budget=duel.budget, runs=tuple(runs))


def _append(path: Path, series: Series) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(series.model_dump_json() + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_series(path: Path) -> list[Series]:
    """Those of a journal; a last line that was cut off is passed over."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [Series.model_validate_json(line) for line in lines if line.endswith("}")]


def judgements(series: Iterable[Series], duels: Iterable[Outcome]) -> Iterator[Asked]:
    """What every way says of every truth."""
    known = tuple(series)
    for plant in INJECTED:
        for way, source in _SERIES.items():
            width = len(procedures.serial(way, wall_s=0.0, overhead_s=0.0).order)
            for each in known:
                if each.way is source:
                    for first in range(len(each.runs) - width + 1):
                        yield Asked(way, plant, _serial(way, each.runs[first : first + width], plant))
    for outcome in duels:
        if outcome.error or outcome.duel.truth is None or len(outcome.judgements) != 1:
            continue
        if outcome.duel.kind == "aa":
            for plant in INJECTED:
                yield Asked(Procedure.BAKEOFF, plant, _bakeoff(outcome, plant))
        elif outcome.duel.plant in INJECTED:
            told = outcome.only
            yield Asked(
                Procedure.BAKEOFF, outcome.duel.plant, procedures.Judgement(told.mean, told.claim, told.half_width)
            )


def _serial(way: Procedure, runs: Sequence[SerialRun], plant: float) -> procedures.Judgement:
    slowed = [run.per_s / (1 + plant / 100) for run in runs[1::2]]
    return procedures.judge_serial(way, [run.per_s for run in runs[::2]], slowed)


def _bakeoff(outcome: Outcome, plant: float) -> procedures.Judgement:
    """What the rule says of an A/A duel's epochs when the contender is slower by a known amount."""
    shift = -math.log1p(plant / 100)
    told = outcome.only
    if not plant:
        return procedures.Judgement(told.mean, told.claim, told.half_width)
    if len(told.points) < N_MIN_DECISIVE:  # too few for any verdict, wherever the truth lies
        return procedures.Judgement(told.mean + shift, 0, told.half_width)
    end = run_to_end([point + shift for point in told.points], precision=outcome.duel.target)
    assert end.interval.low is not None
    assert end.interval.high is not None
    middle = (end.interval.low + end.interval.high) / 2
    claim = int(math.copysign(1, middle)) if end.claimed else 0
    return procedures.Judgement(middle, claim, (end.interval.high - end.interval.low) / 2)


def table(asked: Sequence[Asked]) -> str:
    """A row for each way and truth, as Markdown."""
    rows = [
        "| the same server twice, B slowed by | way | judgements | false or wrong claims | right claims "
        "| 95 % of ratios are off by at most | interval told | held |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for plant in INJECTED:
        for way in Procedure:
            found = [each.judgement for each in asked if each.way is way and each.plant == plant]
            if not found:
                continue
            rates = procedures.rates(found, truth=-math.log1p(plant / 100))
            right = "" if not plant else _share(rates.right, rates.runs)
            told = f"±{rates.told:.1%}" if rates.told is not None else "none"
            held = _share(rates.held, rates.runs) if rates.held is not None else ""
            rows.append(
                f"| {'nothing' if not plant else f'{plant:g} %'} | {way} | {rates.runs} "
                f"| {_share(rates.wrong, rates.runs)} | {right} | {math.expm1(rates.error_95):.1%} | {told} | {held} |"
            )
    return "\n".join(rows)


def _share(count: int, of: int) -> str:
    return f"{count / of:.0%}"


def conditions(series: Sequence[Series], duels: Sequence[Outcome], budget: str) -> str:
    """How busy the machine was, and how much was measured, in a sentence."""
    loads = [run.machine.other for each in series for run in each.runs if run.machine]
    beside = [outcome.machine.other for outcome in duels if outcome.machine]
    parts = []
    for what, shares, count in (
        ("serial starts", loads, sum(len(s.runs) for s in series)),
        ("duels", beside, len(duels)),
    ):
        if shares:
            parts.append(f"{count} {what}, other work took {median(shares):.0%} (median) of the processors")
    rates = [run.per_s for each in series for run in each.runs]
    if rates:
        parts.append(f"a start's throughput was {min(rates):,.0f} to {max(rates):,.0f} events/s")
    spent = f" (the duels {median(outcome.wall_s for outcome in duels):.0f} s)" if duels else ""
    return "; ".join(parts) + f". Each judgement took about {wall_s(budget):.0f} s{spent}."


def main() -> int:
    """Measure and tell."""
    from validation.procedures_chart import draw  # drawing takes a second to import

    parser = argparse.ArgumentParser(
        prog="python -m validation.procedures_measured", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--folder", type=Path, required=True, help="of the journals; servers' accounts may enter it")
    parser.add_argument(
        "--minutes",
        type=float,
        default=0.0,
        help="to measure, whole rounds (5 minutes each by default); 0: only tell what was measured",
    )
    parser.add_argument("--server", default="mysql:8.0.15")
    parser.add_argument("--budget", default=BUDGET, help="of a duel; the wall time of every other way follows")
    parser.add_argument("--warm-up", default=WARM_UP, help="of a duel and of every serial run")
    parser.add_argument("--duels", type=Path, action="append", default=[], help="another journal of duels to count")
    parser.add_argument("--serial-only", action="store_true", help="no duels of its own: --duels has them")
    parser.add_argument(
        "--load", type=LoadClass, action="append", help="only measurements beside such load; repeatable"
    )
    parser.add_argument("--picture", type=Path, help="SVG to write")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    def tell(text: str) -> None:
        print(time.strftime("%H:%M:%S"), text, flush=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # in order: servers are stopped
    try:
        if options.minutes:
            until = time.monotonic() + 60 * options.minutes
            measure(
                options.folder,
                options.server,
                warm_up=options.warm_up,
                budget=options.budget,
                until=until,
                seed=options.seed,
                tell=tell,
                with_duels=not options.serial_only,
            )
    except BakeoffError as error:
        parser.error(str(error))
    asked_of = (options.warm_up, options.budget)
    series = [each for each in read_series(options.folder / "series.jsonl") if (each.warm_up, each.budget) == asked_of]
    journals = [options.folder / "duels.jsonl", *options.duels]
    duels = [
        outcome
        for path in journals
        for outcome in first_by_key(read_outcomes(path)).values()
        if set(outcome.duel.servers) == {options.server} and (outcome.duel.warm_up, outcome.duel.budget) == asked_of
    ]
    if options.load:
        series = [each for each in series if _typical(each) in options.load]
        duels = [outcome for outcome in duels if outcome.machine and outcome.machine.load in options.load]
    asked = list(judgements(series, duels))
    if not asked:
        parser.error("nothing has been measured: give --minutes.")
    print(f"\n{conditions(series, duels, options.budget)}\n\n{table(asked)}")
    if options.picture:
        options.picture.write_text(draw(asked), encoding="utf-8")
        print(f"\n{options.picture}")
    return 0


def _typical(series: Series) -> LoadClass | None:
    """Class of load of most of its runs."""
    loads = [run.machine.load for run in series.runs if run.machine]
    return max(loads, key=loads.count) if loads else None


if __name__ == "__main__":
    raise SystemExit(main())
