"""Simulates gates with known slowdowns and counts how often they pass, fail and cannot tell.

A simulated run draws its epochs from recorded duels of equal servers, shifted by the truth, and takes as long as they
did. `decide` ends it and `answers` judges it, as in a real run.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from bakeoff.gate.rule import Answer, Sample, answers, as_gate
from bakeoff.plan import Plan, plan_study
from bakeoff.plan.timing import report_seconds
from bakeoff.spec import Study, Workload
from bakeoff.stats.estimate import EpochEstimates, by_comparison
from bakeoff.stats.model import Stop
from bakeoff.stats.stopping import Progress, rule_of, stop_state
from validation.check import Checks, Count, Finding, Setting, Size, scaled, summarised
from validation.recorded_epochs import RecordedEpochs, read_epochs
from validation.simulation import CONTENDER, pair_of, simulated_study

GATE_CHECKS = Checks(Size.REPLAY)

SLOWDOWNS = (0.0, 1.0, 2.0, 3.0, 5.0)
"""Slowdowns of the contender, in percent of the throughput."""

MAX_SLOWDOWN = 0.02
_WORKLOADS = ("oltp_point_select", "oltp_read_only", "oltp_read_write")


def gate_study(*, cells: int, budget_s: float = 600.0) -> Study:
    workloads = tuple(Workload(script=script) for script in _WORKLOADS[:cells])
    return as_gate(simulated_study(budget_s=budget_s).model_copy(update={"workloads": workloads}), MAX_SLOWDOWN)


def gate_plan(study: Study, recorded: RecordedEpochs) -> Plan:
    cells = len(study.workloads)
    overhead_s = recorded.overhead_s + cells * recorded.warm_s
    return plan_study(
        study, overhead_s=overhead_s, load_s=recorded.load_s, seconds_per_cell=recorded.measure_s, builds=1
    )


def run_gate(
    rng: np.random.Generator, study: Study, plan: Plan, noise: NDArray[np.float64], truths: Sequence[float]
) -> Answer:
    """Draw epochs until the stopping rule ends the run. `truths` holds the log ratio of each cell."""
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
    return Answer.FAIL if Answer.FAIL in found else Answer.PASS if set(found) == {Answer.PASS} else Answer.UNCLEAR


def gate_samples(history: Sequence[EpochEstimates], study: Study, plan: Plan, *, ended: Stop) -> list[Sample]:
    """Return the comparisons of a run that ended this way, as `bakeoff.stats.verdict` makes them."""
    samples = []
    for pairs in by_comparison(history).values():
        values = [pair.value for pair in pairs]
        stop = stop_state(values, precision=study.precision, family=len(plan.cells), question=study.question)
        if stop is Stop.RUNNING:
            stop = ended if ended.anytime_only else Stop.BUDGET
        samples.append(Sample(values, stop))
    return samples


@dataclass(frozen=True)
class GateRates:
    """Answers of many gates with one known slowdown in some of their cells; `shares` are shares of 1."""

    shares: Mapping[Answer, float]
    wrong: Count


def is_wrong(answer: Answer, slowdown_percent: float) -> bool:
    """Return whether a gate with this answer is wrong. A slowdown of exactly the limit may be called neither."""
    limit_percent = 100 * MAX_SLOWDOWN
    return (answer is Answer.FAIL and slowdown_percent <= limit_percent) or (
        answer is Answer.PASS and slowdown_percent >= limit_percent
    )


def rates(seed: int, *, runs: int, cells: int, slow_cells: int, slowdown_percent: float) -> GateRates:
    """Simulate gates with one known slowdown in the first cells; the others are equal."""
    recorded = read_epochs()
    study = gate_study(cells=cells)
    plan, truth = gate_plan(study, recorded), math.log1p(-slowdown_percent / 100)
    truths = np.where(np.arange(cells) < slow_cells, truth, 0.0)
    rng = np.random.default_rng((seed, cells, slow_cells, round(10 * slowdown_percent)))
    found = [run_gate(rng, study, plan, recorded.values, truths.tolist()) for _ in range(runs)]
    counts = Counter(found)
    wrong = sum(is_wrong(answer, slowdown_percent) for answer in found)
    what = f"wrong answers of {cells} cells, {slow_cells} slower by {slowdown_percent:g} %:"
    shares = {answer: counts[answer] / runs for answer in Answer}
    return GateRates(shares, Count(what, wrong, runs, at_most=0.05))


@GATE_CHECKS.add("G21", "wrong answers <= 5 %; equal builds pass, and builds slower by 5 % fail, >= 90 %")
def known_slowdowns(setting: Setting, scale: float = 1.0) -> Finding:
    """Gates with known slowdowns, 2 % allowed, on recorded epochs of equal servers."""
    runs, counts = scaled(50, scale), []
    for (cells, slow), percent in product(((1, 1), (3, 1), (3, 3)), SLOWDOWNS):
        found = rates(setting.seed, runs=runs, cells=cells, slow_cells=slow, slowdown_percent=percent)
        counts.append(found.wrong)
        if percent in (0.0, 5.0):
            right = Answer.FAIL if percent else Answer.PASS
            what = f"{right} of {cells} cells, {slow} slower by {percent:g} %:"
            counts.append(Count(what, round(found.shares[right] * runs), runs, at_least=0.9))
    return summarised(counts)
