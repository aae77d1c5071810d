"""Replays complete runs, thousands at a time: epoch after epoch, until the stopping rule or the budget ends each."""

import atexit
import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
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

# A pool of worker processes, started at the first use and ended with the program.
#
# A worker reads pickles from standard input and writes pickles to standard output. Python's own pools either fork,
# which can deadlock with threads of a library, or run the caller's main program once more.

Task = TypeVar("Task")
Result = TypeVar("Result")

_WORKERS_MAX = 4


def in_parallel(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """Results in the order of the tasks; a single task is done here.

    Args:
        function: of a module, so that it can be sent by name.
        tasks: values that can be pickled.

    Raises:
        Exception: whatever the function raises.
        HostError: a worker was killed.
    """
    if len(tasks) < 2:
        return [function(task) for task in tasks]
    pool = _pool()
    try:
        with ThreadPoolExecutor(pool.size) as threads:
            try:
                return list(threads.map(lambda task: pool.do(function, task), tasks))
            except BaseException:
                # Also on Ctrl-C: queued tasks must not go on.
                threads.shutdown(wait=False, cancel_futures=True)
                pool.end()
                raise
    except BaseException:
        _pool.cache_clear()
        raise


class _WorkerPool:
    """Workers, and which of them are idle."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._all = [self._start() for _ in range(size)]
        for worker in self._all:
            self._idle.put(worker)

    def do(self, function: Callable[[Task], Result], task: Task) -> Result:
        """Have the next idle worker do one task."""
        worker = self._idle.get()
        assert worker.stdin
        assert worker.stdout
        try:
            pickle.dump((function, task), worker.stdin)
            worker.stdin.flush()
            done, value = pickle.load(worker.stdout)
        except (OSError, EOFError):
            raise HostError(
                f"a worker process of the validation suite ended (status {worker.poll()}).", hint="Is memory short?"
            ) from None
        finally:
            self._idle.put(worker)
        if not done:
            raise value
        result: Result = value
        return result

    def end(self) -> None:
        """End all of them, whatever they do."""
        for worker in self._all:
            worker.kill()
            worker.communicate()

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C at the terminal must reach the caller alone.
        return subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )


@cache
def _pool() -> _WorkerPool:
    pool = _WorkerPool(min(_WORKERS_MAX, len(os.sched_getaffinity(0))))
    atexit.register(pool.end)
    return pool


def serve() -> None:
    """Work in a worker process until standard input ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what is printed must not get into the results
    while True:
        try:
            function, task = pickle.load(source)
        except EOFError:
            return
        try:
            result = True, function(task)
        except Exception as error:
            result = False, error
        pickle.dump(result, sink)
        sink.flush()


_AT_ONCE = 250  # cells that are drawn as one epoch's frame


@dataclass(frozen=True)
class Question:
    """What every run asks.

    Attributes:
        precision: target half-width and equivalence margin, log.
        epochs_max: where the budget ends.
        cells: how many are judged together, each with noise and starts of its own.
        effect: the contender's true log effect.
        adversary: the user watches the live interval and ends the run as soon as it excludes 'equal' and there are
            six epochs; before that nothing is claimed.
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
        misled: an interval over the blocks of the first value alone excludes 0.
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
        """Of the reported interval; infinite without one."""
        return (self.high - self.low) / 2

    def holds(self, truth: float) -> bool:
        """The reported interval holds the truth."""
        return self.low <= truth <= self.high


@dataclass(frozen=True)
class Batch:
    """Runs that are done in one process."""

    machine: EpochSource
    question: Question
    method: Method
    runs: int
    seed: tuple[int, ...]


def complete_runs(
    machine: EpochSource, question: Question, *, runs: int, seed: Sequence[int], method: Method = SOUND
) -> list[tuple[End, ...]]:
    """Do many runs in several processes; returns the ends of each run's cells."""
    at_once = max(1, _AT_ONCE // question.cells)
    sizes = [min(at_once, runs - begin) for begin in range(0, runs, at_once)]
    batches = [Batch(machine, question, method, size, (*seed, number)) for number, size in enumerate(sizes)]
    return [ends for batch in in_parallel(run_batch, batches) for ends in batch]


def single_runs(
    machine: EpochSource, question: Question, *, runs: int, seed: Sequence[int], method: Method = SOUND
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
    context = AnalysisContext(
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
