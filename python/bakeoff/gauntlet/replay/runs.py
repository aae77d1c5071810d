"""Complete runs, thousands at a time: epoch after epoch, until the stopping rule or the budget ends each of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bakeoff.gauntlet.replay.machines import Machine
from bakeoff.gauntlet.replay.method import CONTENDER, SOUND, Method
from bakeoff.gauntlet.replay.parallel import in_parallel
from bakeoff.plan import Plan, plan_study
from bakeoff.spec import Study
from bakeoff.stats.comparison import Context
from bakeoff.stats.estimate import PairEstimate
from bakeoff.stats.interval import N_MIN, excludes_zero
from bakeoff.stats.model import Comparison, Stop, Word
from bakeoff.stats.simulate import simulated_study

_AT_ONCE = 250  # cells that are drawn as one epoch's frame


@dataclass(frozen=True)
class Question:
    """What every run asks.

    Attributes:
        precision: target half-width and equivalence margin, log.
        epochs_max: where the budget ends.
        cells: how many are judged together, each with noise and starts of its own.
        effect: the contender's true log effect.
        adversary: the user watches the live interval, and ends the run as soon as it excludes 'equal' and six epochs
            are there: before that nothing is claimed.
    """

    precision: float = 0.01
    epochs_max: int = 12
    cells: int = 1
    effect: float = 0.0
    adversary: bool = False


@dataclass(frozen=True)
class End:
    """How one comparison of one run ended; log ratios.

    Attributes:
        claim: 1: FASTER, -1: SLOWER, 0: no claim.
        values: what the mean is made of.
        within: spread of the first value as its own blocks show it (standard deviation), and how many blocks.
    """

    claim: int
    equivalent: bool
    mean: float
    low: float
    high: float
    stop: Stop
    values: tuple[float, ...]
    trimmed: float
    disagree: bool
    within: tuple[float, int]

    @property
    def half_width(self) -> float:
        """Of the interval that was told; infinite without one."""
        return (self.high - self.low) / 2

    def holds(self, truth: float) -> bool:
        """The interval that was told holds the truth."""
        return self.low <= truth <= self.high


@dataclass(frozen=True)
class Batch:
    """Runs that are done in one process."""

    machine: Machine
    question: Question
    method: Method
    runs: int
    seed: tuple[int, ...]


def complete_runs(
    machine: Machine, question: Question, *, runs: int, seed: Sequence[int], method: Method = SOUND
) -> list[tuple[End, ...]]:
    """Do many runs, in several processes; of each run the ends of its cells."""
    at_once = max(1, _AT_ONCE // question.cells)
    sizes = [min(at_once, runs - begin) for begin in range(0, runs, at_once)]
    batches = [Batch(machine, question, method, size, (*seed, number)) for number, size in enumerate(sizes)]
    return [ends for batch in in_parallel(run_batch, batches) for ends in batch]


def single_runs(
    machine: Machine, question: Question, *, runs: int, seed: Sequence[int], method: Method = SOUND
) -> list[End]:
    """The same for runs of one cell."""
    return [end for (end,) in complete_runs(machine, question, runs=runs, seed=seed, method=method)]


@dataclass
class _Unit:
    """One cell of one run while it is measured."""

    pairs: list[PairEstimate] = field(default_factory=list)
    stop: Stop = Stop.RUNNING

    @property
    def values(self) -> list[float]:
        return [pair.value for pair in self.pairs]


def run_batch(batch: Batch) -> list[tuple[End, ...]]:
    """Do a batch's runs in this process."""
    question, method, rng = batch.question, batch.method, np.random.default_rng(batch.seed)
    units = [_Unit() for _ in range(batch.runs * question.cells)]
    names = [f"run {i}" for i in range(len(units))]
    place = {name: i for i, name in enumerate(names)}
    levels = batch.machine.levels(rng, len(units))
    for number in range(question.epochs_max):
        running = [i for i, unit in enumerate(units) if unit.stop is Stop.RUNNING]
        if not running:
            break
        if number and method.restarts:
            levels = batch.machine.levels(rng, len(units))
        epoch = batch.machine.epoch(
            rng, number=number, cells=[names[i] for i in running], levels=levels[running], effect=question.effect
        )
        for estimates in method.reduce(epoch):
            for pair in estimates.pairs:
                units[place[pair.cell]].pairs.append(pair)
        for i in running:
            units[i].stop = _state(units[i], question, method)
    study = simulated_study(precision=question.precision, cells=range(1, question.cells + 1))
    plan = plan_study(study, overhead_s=0.0, load_s=0.0)
    return [
        _judge(units[begin : begin + question.cells], study, plan, question, method)
        for begin in range(0, len(units), question.cells)
    ]


def _state(unit: _Unit, question: Question, method: Method) -> Stop:
    values = unit.values
    state = method.stop(values, question.precision, question.cells)
    if state is Stop.RUNNING and question.adversary and len(values) >= N_MIN and excludes_zero(method.live(values)):
        return Stop.ABORTED
    return state


def _judge(units: Sequence[_Unit], study: Study, plan: Plan, question: Question, method: Method) -> tuple[End, ...]:
    aborted = any(unit.stop is Stop.ABORTED for unit in units)
    context = Context(
        study=study,
        family=question.cells,
        control=None,
        ended=Stop.ABORTED if aborted else Stop.BUDGET,
        epoch_s=20.0,
    )
    pairs = {(cell.name, CONTENDER): unit.pairs for cell, unit in zip(plan.cells, units, strict=True)}
    return tuple(
        _end(comparison, pairs[comparison.cell, CONTENDER]) for comparison in method.judge(pairs, plan, context)
    )


def _end(comparison: Comparison, pairs: Sequence[PairEstimate]) -> End:
    words, interval = comparison.verdict.words, comparison.estimate.interval
    first = pairs[0]
    return End(
        claim=int(Word.FASTER in words) - int(Word.SLOWER in words),
        equivalent=Word.EQUIVALENT in words,
        mean=comparison.estimate.mean,
        low=-np.inf if interval.low is None else interval.low,
        high=np.inf if interval.high is None else interval.high,
        stop=comparison.stop,
        values=tuple(point.value for point in comparison.points),
        trimmed=comparison.trimmed.mean,
        disagree=comparison.disagree,
        within=((first.variance_of_mean or 0.0) ** 0.5, first.blocks),
    )
