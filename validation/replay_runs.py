"""Complete runs, thousands at a time: epoch after epoch, until the stopping rule or the budget ends each of them."""

import atexit
import math
import os
import pickle
import queue
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

import numpy as np
import polars as pl

from bakeoff.errors import HostError
from bakeoff.plan import Plan, plan_study
from bakeoff.results.epoch_data import EpochData
from bakeoff.spec import Study
from bakeoff.stats.estimate import EpochEstimates, PairEstimate, epoch_estimates
from bakeoff.stats.interval import N_MIN, excludes_zero
from bakeoff.stats.model import Comparison, Interval, Stop, Word
from bakeoff.stats.stopping import progress_of, stop_state
from bakeoff.stats.summary import latency_ratios
from bakeoff.stats.verdict import Context, compare
from validation.machines import Machine
from validation.model import Finding, Setting, fewest, most
from validation.simulation import Floats, simulated_study

# The method under test, as a value: what is done with epochs, and what is said of them.
#
# The tests of the gauntlet run against any `Method`. `SOUND` is bakeoff's own, made of the functions that decide about
# real servers; `broken` holds methods that must be caught. Every part is a function of a module, so that a method can be
# sent to another process.

Pairs = Mapping[tuple[str, str], Sequence[PairEstimate]]
"""(cell, contender) -> its epochs' estimates."""

BASELINE, CONTENDER = "A", "B"


def one_value_an_epoch(epoch: EpochData) -> tuple[EpochEstimates, ...]:
    """An epoch is one observation of each of its comparisons."""
    return (epoch_estimates(epoch, baseline=BASELINE),)


def stop(values: Sequence[float], precision: float, family: int) -> Stop:
    """The stopping rule."""
    return stop_state(values, precision=precision, family=family)


def live(values: Sequence[float]) -> Interval:
    """The interval that a user sees while it runs."""
    return progress_of(values, cell="", contender=CONTENDER, is_control=False, precision=math.inf, family=1).live


def judge(pairs: Pairs, plan: Plan, context: Context) -> tuple[Comparison, ...]:
    """The verdicts over a whole family."""
    return compare(pairs, plan, context)


def quantile_interval(baseline: Floats, contender: Floats, quantile: float, context: Context) -> Interval:
    """Interval of a quantile's log ratio; the latencies have shape (epochs, requests)."""
    epochs = [
        EpochData(
            epoch=number,
            build=0,
            valid=True,
            discard_reason="",
            slices=_NO_SLICES,
            histograms=[_histogram(BASELINE, lower, quantile), _histogram(CONTENDER, upper, quantile)],
            variables={},
        )
        for number, (lower, upper) in enumerate(zip(baseline, contender, strict=True))
    ]
    (ratio,) = latency_ratios(epochs, baseline=BASELINE, interval_of=context.quick_interval, cells=[_CELL])
    return ratio.estimate.interval if ratio.estimate else Interval(low=None, high=None)


_CELL = "cell"
_NO_SLICES = pl.DataFrame()


def _histogram(arm: str, latencies: Floats, quantile: float) -> dict[str, object]:
    """What the engine says of an arm's epoch."""
    value = float(np.quantile(latencies, quantile, method="inverted_cdf"))
    row = {"cell": _CELL, "arm": arm, "operation": "event", "clock": "response"}
    return row | {"count": latencies.size, "quantiles_ns": {str(quantile): value}}


@dataclass(frozen=True)
class Method:
    """How a run is measured and judged.

    Attributes:
        restarts: servers are started anew for every epoch; else one pair of starts serves a whole run.
        reduce: what of an epoch counts as observations.
        stop: (values so far, target precision, family) -> RUNNING or why it ends.
        live: what a user sees after each epoch, and may act upon.
        judge: what is said in the end.
        quantile_interval: of the log ratio of a latency quantile.
    """

    restarts: bool = True
    reduce: Callable[[EpochData], tuple[EpochEstimates, ...]] = one_value_an_epoch
    stop: Callable[[Sequence[float], float, int], Stop] = stop
    live: Callable[[Sequence[float]], Interval] = live
    judge: Callable[[Pairs, Plan, Context], tuple[Comparison, ...]] = judge
    quantile_interval: Callable[[Floats, Floats, float, Context], Interval] = quantile_interval


SOUND = Method()
"""bakeoff's."""


# The same function over many tasks in a few processes, begun when first needed and ended with the program.
#
# Workers are programs of their own that take pickles on standard input and give pickles on standard output. Python's own
# pools either fork, which can lock up with polars' threads in the process, or run the caller's main program once more.

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
    crew = _crew()
    try:
        with ThreadPoolExecutor(crew.size) as threads:
            try:
                return list(threads.map(lambda task: crew.do(function, task), tasks))
            except BaseException:
                # Also on Ctrl-C: what is queued must not go on behind the user's back.
                threads.shutdown(wait=False, cancel_futures=True)
                crew.end()
                raise
    except BaseException:
        _crew.cache_clear()
        raise


class _Crew:
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
                f"a worker process of the gauntlet ended (status {worker.poll()}).", hint="Is memory short?"
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
            env=os.environ | {"POLARS_MAX_THREADS": "1"},
            start_new_session=True,
        )


@cache
def _crew() -> _Crew:
    crew = _Crew(min(_WORKERS_MAX, len(os.sched_getaffinity(0))))
    atexit.register(crew.end)
    return crew


def serve() -> None:
    """Be a worker until standard input ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what is printed must not get between the answers
    while True:
        try:
            function, task = pickle.load(source)
        except EOFError:
            return
        try:
            answer = True, function(task)
        except Exception as error:
            answer = False, error
        pickle.dump(answer, sink)
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


# From counts to a finding: what was counted, the promise, and whether it can still be believed.

_TAIL = 0.001
"""Chance that a count refutes a promise just kept: a replay has some sixty counts, many of them near their limits."""


@dataclass(frozen=True)
class Count:
    """How often something happened in so many runs, and how often it may.

    Attributes:
        at_most, at_least: the promised rate; of the one that does not apply, None.
    """

    what: str
    hits: int
    runs: int
    at_most: float | None = None
    at_least: float | None = None

    @property
    def kept(self) -> bool:
        """The promise is not refuted by so many runs."""
        if self.at_most is not None and self.hits > most(self.runs, self.at_most, tail=_TAIL):
            return False
        return self.at_least is None or self.hits >= fewest(self.runs, self.at_least, tail=_TAIL)

    def __str__(self) -> str:
        mark = "" if self.kept else " (!)"
        return f"{self.what} {self.hits / max(self.runs, 1):.1%} of {self.runs}{mark}"


@dataclass(frozen=True)
class Bias:
    """A mean that should be near its truth; log ratios."""

    what: str
    bias: float
    error: float
    at_most: float

    @property
    def kept(self) -> bool:
        """Within the promise, give or take two standard errors."""
        return abs(self.bias) <= self.at_most + 2 * self.error

    def __str__(self) -> str:
        mark = "" if self.kept else " (!)"
        return f"{self.what} {self.bias * 100:+.3f} %{mark}"


def bias_of(what: str, values: Sequence[float], *, truth: float, at_most: float) -> Bias:
    """The mean of values less the truth."""
    deviations = np.asarray(values) - truth
    return Bias(what, float(deviations.mean()), float(deviations.std() / np.sqrt(deviations.size)), at_most)


def finding(results: Iterable[Count | Bias]) -> Finding:
    """All promises must be kept; those that are not carry (!)."""
    listed = list(results)
    figures: dict[str, object] = {}
    for result in listed:
        if isinstance(result, Count):
            figures[result.what] = {"hits": result.hits, "runs": result.runs}
        else:
            figures[result.what] = {"bias_log": result.bias, "standard_error_log": result.error}
    return Finding(
        found="; ".join(str(result) for result in listed),
        passed=all(result.kept for result in listed),
        figures=figures,
    )


def seed_of(setting: Setting, *names: object) -> tuple[int, ...]:
    """Numbers that belong to a test's part and to nothing else."""
    return (setting.seed, zlib.crc32("/".join(map(str, names)).encode()))


def scaled(runs: float, scale: float) -> int:
    """A share of the runs, at least 20."""
    return max(20, round(runs * scale))
