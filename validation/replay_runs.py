"""Replays thousands of complete runs at a time, each until the stopping rule or the budget ends it."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TypeVar

import numpy as np

from bakeoff.errors import HostError
from bakeoff.plan import Plan, plan_study
from bakeoff.spec import Study
from bakeoff.stats.estimate import PairEstimate
from bakeoff.stats.interval import N_MIN, excludes_zero
from bakeoff.stats.model import Comparison, Stop, Word
from bakeoff.stats.verdict import AnalysisContext
from validation.machines import EpochSource
from validation.methods import SOUND, Method
from validation.simulation import CONTENDER, misled_by_blocks, simulated_study

Task = TypeVar("Task")
Result = TypeVar("Result")

_WORKERS_MAX = 4


def in_parallel(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """Apply a function to tasks in worker processes, in order; a single task is done here."""
    if len(tasks) < 2:
        return [function(task) for task in tasks]
    pool = _pool()
    try:
        return list(pool.map(function, tasks))
    except BaseException as error:
        _pool.cache_clear()
        pool.shutdown(cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise HostError("a worker process of the validation suite was killed.", hint="Is memory short?") from None
        raise


@cache
def _pool() -> ProcessPoolExecutor:
    # Spawned, because a fork can deadlock with threads of a library. Ctrl-C must reach the caller alone.
    return ProcessPoolExecutor(
        min(_WORKERS_MAX, len(os.sched_getaffinity(0))),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )


_AT_ONCE = 250  # cells drawn as one epoch's frame


@dataclass(frozen=True)
class Question:
    """The question of every run.

    Attributes:
        precision: target half-width and equivalence margin, log.
        epochs_max: where the budget ends.
        cells: number of independent cells judged together.
        adversary: whether the user ends the run as soon as the live interval excludes 'equal' after six epochs.
    """

    precision: float = 0.01
    epochs_max: int = 12
    cells: int = 1
    effect: float = 0.0
    adversary: bool = False


@dataclass(frozen=True)
class End:
    """Result of one comparison of one run; log ratios.

    Attributes:
        claim: 1 for FASTER, -1 for SLOWER, 0 for no claim.
        misled: whether an interval over the blocks of the first epoch alone excludes 0.
    """

    claim: int
    mean: float
    low: float
    high: float
    stop: Stop
    values: tuple[float, ...]
    trimmed: float
    disagree: bool
    misled: bool

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def holds(self, truth: float) -> bool:
        return self.low <= truth <= self.high


def complete_runs(
    machine: EpochSource, question: Question, *, runs: int, seed: Sequence[int], method: Method = SOUND
) -> list[tuple[End, ...]]:
    """Do many runs in several processes and return the ends of each run's cells."""
    at_once = max(1, _AT_ONCE // question.cells)
    sizes = [min(at_once, runs - begin) for begin in range(0, runs, at_once)]
    batches = [(size, (*seed, number)) for number, size in enumerate(sizes)]
    return [ends for batch in in_parallel(partial(run_batch, machine, question, method), batches) for ends in batch]


def single_runs(
    machine: EpochSource, question: Question, *, runs: int, seed: Sequence[int], method: Method = SOUND
) -> list[End]:
    return [end for (end,) in complete_runs(machine, question, runs=runs, seed=seed, method=method)]


@dataclass
class _Unit:
    pairs: list[PairEstimate] = field(default_factory=list)
    stop: Stop = Stop.RUNNING

    @property
    def values(self) -> list[float]:
        return [pair.value for pair in self.pairs]


def run_batch(
    machine: EpochSource, question: Question, method: Method, batch: tuple[int, tuple[int, ...]]
) -> list[tuple[End, ...]]:
    """Do a batch of runs, given their number and their seed."""
    runs, seed = batch
    rng = np.random.default_rng(seed)
    units = [_Unit() for _ in range(runs * question.cells)]
    names = [f"run {i}" for i in range(len(units))]
    place = {name: i for i, name in enumerate(names)}
    levels = machine.levels(rng, len(units))
    for number in range(question.epochs_max):
        running = [i for i, unit in enumerate(units) if unit.stop is Stop.RUNNING]
        if not running:
            break
        if number and method.restarts:
            levels = machine.levels(rng, len(units))
        epoch = machine.epoch(
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
    context = AnalysisContext(
        study=study, family=question.cells, control=None, ended=Stop.ABORTED if aborted else Stop.BUDGET, epoch_s=20.0
    )
    pairs = {(cell.name, CONTENDER): unit.pairs for cell, unit in zip(plan.cells, units, strict=True)}
    return tuple(
        _end(comparison, pairs[comparison.cell, CONTENDER]) for comparison in method.judge(pairs, plan, context)
    )


def _end(comparison: Comparison, pairs: Sequence[PairEstimate]) -> End:
    words, interval = comparison.verdict.words, comparison.estimate.interval
    return End(
        claim=int(Word.FASTER in words) - int(Word.SLOWER in words),
        mean=comparison.estimate.mean,
        low=-np.inf if interval.low is None else interval.low,
        high=np.inf if interval.high is None else interval.high,
        stop=comparison.stop,
        values=tuple(point.value for point in comparison.points),
        trimmed=comparison.trimmed.mean,
        disagree=comparison.disagree,
        misled=misled_by_blocks(pairs[0]),
    )
