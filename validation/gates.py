"""How often a gate passes, fails and cannot tell against known slowdowns, beside the rules of others on the same runs.

A simulated run draws the ratios of its epochs from those that duels of equal servers recorded, shifted by the truth,
and takes the seconds that these took. `decide` ends it, as it ends a real run; `answers` judges it. docs/ci.md has the
table.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from bakeoff.gate.rule import Answer, Sample, answers, as_gate
from bakeoff.plan import Plan, plan_study
from bakeoff.plan.timing import report_seconds
from bakeoff.spec import Study, Workload
from bakeoff.stats.estimate import EpochEstimates, by_comparison
from bakeoff.stats.model import Stop
from bakeoff.stats.question import Progress, rule_of
from bakeoff.stats.stopping import stop_state
from validation.journal import read_entries
from validation.procedures_measured import Series
from validation.simulation import CONTENDER, pair_of, simulated_study

ROOT = Path(__file__).parent.parent
DUELS = ROOT / "bench/results/placement/duels-2026-11-25.jsonl"
"""Duels of equal servers with fresh restores: the epochs that gates are simulated from."""

SERIES = ROOT / "bench/results/procedures/series.jsonl"
"""Serial runs of one server, each after a start: what rules that compare one run with the one before it are given."""

SLOWDOWNS = (0.0, 1.0, 2.0, 3.0, 5.0)
"""Per cent of the throughput that the contender lacks."""

MAX_SLOWDOWN = 0.02
_WORKLOADS = ("oltp_point_select", "oltp_read_only", "oltp_read_write")


@dataclass(frozen=True)
class RecordedEpochs:
    """Epochs of equal servers.

    Attributes:
        values: log ratio of each, and its opposite: of equal servers either may be called the contender.
        load_s: before the first epoch, median of the duels.
        overhead_s: of an epoch with nothing to warm and nothing to measure.
        warm_s, measure_s: of one cell in an epoch.
    """

    values: NDArray[np.float64]
    load_s: float
    overhead_s: float
    warm_s: float
    measure_s: float


def read_epochs() -> RecordedEpochs:
    """The epochs of the duels in `DUELS` of one server against itself whose restores were fresh copies."""
    duels = [json.loads(line) for line in DUELS.read_text("utf-8").splitlines()]
    kept = [
        duel
        for duel in duels
        if duel["restores"] == "fresh" and len({name.partition(" ")[0] for name in duel["servers"]}) == 1
    ]

    def of_an_epoch(*phases: str) -> float:
        seconds = [sum(duel["phases_s"].get(phase, 0.0) for phase in phases) / len(duel["points"]) for duel in kept]
        return float(median(seconds))

    points = [point + math.log1p(duel["slowdown_percent"] / 100) for duel in kept for point in duel["points"]]
    return RecordedEpochs(
        values=np.array([*points, *(-point for point in points)]),
        load_s=median(duel["phases_s"]["load"] for duel in kept),
        overhead_s=of_an_epoch("restore", "start", "readiness", "check", "stop", "other"),
        warm_s=of_an_epoch("warm"),
        measure_s=of_an_epoch("measure"),
    )


def serial_ratios() -> NDArray[np.float64]:
    """Log ratio of each recorded serial run to the one before it, of one and the same server."""
    per_s = [[run.per_s for run in series.runs] for series in read_entries(SERIES, Series)]
    return np.array([math.log(b / a) for runs in per_s for a, b in pairwise(runs)])


@dataclass(frozen=True)
class GateRun:
    """One simulated gate.

    Attributes:
        first: log ratio of each cell in its first epoch: one run of each build.
    """

    answer: Answer
    wall_s: float
    epochs: int
    first: tuple[float, ...]


def gate_study(*, cells: int, budget_s: float = 600.0) -> Study:
    """A gate of so many workloads."""
    workloads = tuple(Workload(script=script) for script in _WORKLOADS[:cells])
    return as_gate(simulated_study(budget_s=budget_s).model_copy(update={"workloads": workloads}), MAX_SLOWDOWN)


def gate_plan(study: Study, recorded: RecordedEpochs) -> Plan:
    """Its plan, with the recorded seconds."""
    cells = len(study.workloads)
    overhead_s = recorded.overhead_s + cells * recorded.warm_s
    return plan_study(
        study, overhead_s=overhead_s, load_s=recorded.load_s, seconds_per_cell=recorded.measure_s, builds=1
    )


def run_gate(
    rng: np.random.Generator, study: Study, plan: Plan, noise: NDArray[np.float64], truths: Sequence[float]
) -> GateRun:
    """Draw epochs until the stopping rule ends it; `truths`: log ratio of each cell."""
    truth = dict(zip((cell.name for cell in plan.cells), truths, strict=True))
    history: list[EpochEstimates] = []
    settled: frozenset[tuple[str, str]] = frozenset()
    elapsed_s, stop = plan.load_s, Stop.RUNNING
    while stop is Stop.RUNNING:
        open_cells = [cell.name for cell in plan.cells if (cell.name, CONTENDER) not in settled]
        pairs = [pair_of(cell, len(history), truth[cell] + float(rng.choice(noise))) for cell in open_cells]
        history.append(EpochEstimates(epoch=len(history), pairs=tuple(pairs)))
        elapsed_s += plan.overhead_s + plan.measuring_seconds(dict.fromkeys(open_cells, len(study.arms)))
        spent_s = elapsed_s + report_seconds(len(plan.cells))
        decision = rule_of(study).decide(Progress(history, study, plan, elapsed_s=spent_s))
        settled, stop = decision.settled, decision.stop
    samples = gate_samples(history, study, plan, ended=stop)
    found = answers(samples, limit=study.question.reference, family=len(plan.cells))
    whole = Answer.FAIL if Answer.FAIL in found else Answer.PASS if set(found) == {Answer.PASS} else Answer.UNCLEAR
    first = tuple(pair.value for pair in history[0].pairs)
    return GateRun(whole, elapsed_s + report_seconds(len(plan.cells)), len(history), first)


def gate_samples(history: Sequence[EpochEstimates], study: Study, plan: Plan, *, ended: Stop) -> list[Sample]:
    """The comparisons of a run that ended so, as `bakeoff.stats.verdict` makes them of its epochs."""
    samples = []
    for pairs in by_comparison(history).values():
        values = [pair.value for pair in pairs]
        stop = stop_state(values, precision=study.precision, family=len(plan.cells), reference=study.question.reference)
        if stop is Stop.RUNNING:
            stop = ended if ended.anytime_only else Stop.BUDGET
        samples.append(Sample(values, stop))
    return samples


def one_value_rule(ratios: Iterable[float], *, threshold: float) -> bool:
    """github-action-benchmark's rule: the value before over this one, of any benchmark, is above the threshold."""
    return any(math.exp(-ratio) > threshold for ratio in ratios)


def mean_rule(ratios: Sequence[float]) -> bool:
    """The rule of HammerDB's CI: the mean change over the points, one run each, is below -2.5 %."""
    return fmean(math.expm1(ratio) for ratio in ratios) < -0.025


@dataclass(frozen=True)
class GateRates:
    """What many gates of one known slowdown, in so many of their cells, said; shares of 1."""

    cells: int
    slow_cells: int
    budget_s: float
    slowdown_percent: float
    runs: int
    shares: Mapping[Answer, float]
    minutes: float
    others: Mapping[str, float]


OTHER_RULES = ("ratio to one value, 200 %", "ratio to one value, 102 %", "mean of one run each, -2.5 %")


def others(ratios: Sequence[float]) -> tuple[bool, bool, bool]:
    """Whether each of `OTHER_RULES` fails, given the log ratio of every cell in one run of each build."""
    return one_value_rule(ratios, threshold=2.0), one_value_rule(ratios, threshold=1.02), mean_rule(ratios)


def rates(
    seed: int, *, runs: int, cells: int, slow_cells: int, slowdown_percent: float, budget_s: float = 600.0
) -> GateRates:
    """Simulate gates of one known slowdown in the first cells; the others are equal."""
    recorded, serial = read_epochs(), serial_ratios()
    study = gate_study(cells=cells, budget_s=budget_s)
    plan, truth = gate_plan(study, recorded), math.log1p(-slowdown_percent / 100)
    truths = np.where(np.arange(cells) < slow_cells, truth, 0.0)
    rng = np.random.default_rng((seed, cells, slow_cells, round(10 * slowdown_percent)))
    found = [run_gate(rng, study, plan, recorded.values, truths.tolist()) for _ in range(runs)]
    counts = Counter(run.answer for run in found)
    paired = np.mean([others(run.first) for run in found], axis=0)
    unpaired = np.mean([others((truths + rng.choice(serial, cells)).tolist()) for _ in range(runs)], axis=0)
    named = {f"{rule}; first epoch": float(share) for rule, share in zip(OTHER_RULES, paired, strict=True)}
    named |= {f"{rule}; serial runs": float(share) for rule, share in zip(OTHER_RULES, unpaired, strict=True)}
    return GateRates(
        cells=cells,
        slow_cells=slow_cells,
        budget_s=budget_s,
        slowdown_percent=slowdown_percent,
        runs=runs,
        shares={answer: counts[answer] / runs for answer in Answer},
        minutes=median(run.wall_s for run in found) / 60,
        others=named,
    )


def all_rates(seed: int, *, runs: int) -> list[GateRates]:
    """Gates of one cell, and of three of which one or all are slower; what is hard with more time, too."""
    asked = [(cells, slow, 600.0, percent) for cells, slow in ((1, 1), (3, 1), (3, 3)) for percent in SLOWDOWNS]
    asked += [(3, slow, 900.0, percent) for slow in (1, 3) for percent in (1.0, 3.0)]
    return [
        rates(seed, runs=runs, cells=cells, slow_cells=slow, slowdown_percent=percent, budget_s=budget_s)
        for cells, slow, budget_s, percent in asked
        if percent or cells == slow  # without a slow cell the two ways are one
    ]


def table(found: Sequence[GateRates]) -> str:
    """A Markdown table of gates, and below it one of the other rules' failures."""
    heads = ["cells", "slower in", "by", "budget", *(answer.value for answer in Answer), "median minutes"]
    heads_of_others = ["cells", "slower in", "by", *found[0].others]
    rows, rows_of_others = [], []
    for each in found:
        truth = [str(each.cells), str(each.slow_cells), f"{each.slowdown_percent:g} %"]
        shares = [f"{each.shares[answer]:.1%}" for answer in Answer]
        rows.append([*truth, f"{each.budget_s / 60:.0f} min", *shares, f"{each.minutes:.1f}"])
        if each.budget_s == found[0].budget_s:
            rows_of_others.append([*truth, *(f"{share:.1%}" for share in each.others.values())])
    return "\n\n".join(markdown(*part) for part in ((heads, rows), (heads_of_others, rows_of_others)))


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns are all aligned to the right."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, ["---:"] * len(heads), *rows))
