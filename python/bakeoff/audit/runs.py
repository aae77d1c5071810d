"""Say what logged runs can support: repetitions, trends, stalls, warm-ups that had not ended, a busy client."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median

from bakeoff.audit.record import Record
from bakeoff.audit.setups import Setup
from bakeoff.report import numbers
from bakeoff.stats.interval import excludes_zero, moments, welch
from bakeoff.stats.summary import STALL
from bakeoff.tool_logs import LoggedRun
from bakeoff.units import percent_text

_BLOCKS = 8  # of a series, whose halves are compared
_MOVED, _COLD = math.log(1.01), math.log(1.02)  # smaller changes are not worth a line
_NORMAL_95 = 1.96
_BUSY_MIN = 0.9  # share of the threads' time in events, below which something else took it


def ratios(setups: Sequence[Setup], record: Record) -> Iterator[str]:
    """Yield a line for each cell that a setup shares with the first one, and what single runs can show."""
    first, single = _by_cell(setups[0]), False
    for setup in setups[1:]:
        for name, later in _by_cell(setup).items():
            earlier = first.get(name, [])
            if found := welch(moments(later), moments(earlier)):
                interval = numbers.interval(found.estimate.interval) or "too few for an interval"
                runs = f"{len(later)} and {numbers.counted(len(earlier), 'run')}, {interval}"
                yield f"{name}: {setup.name} over {setups[0].name} is {numbers.ratio_of(found.estimate)} ({runs})"
                single |= min(len(later), len(earlier)) < 2
    if single and not record.spreads:
        yield "One run a cell shows no difference: docs/record does not yet say how far restarts spread."
    elif single:
        least = percent_text(_NORMAL_95 * median(record.spreads))
        of = numbers.counted(len(record.spreads), "comparison")
        yield f"One run a cell shows no difference below {least}: restarts spread so far ({of} in docs/record)."


def _by_cell(setup: Setup) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for run in setup.runs:
        name = f"{run.workload or run.tool.partition(' ')[0]}/{run.threads or 'unknown threads'}"
        found.setdefault(name, []).append(math.log(run.rate))
    return found


def flaws(setups: Sequence[Setup]) -> list[str]:
    return [f"{setup.name}: {run.file}: {flaw}" for setup in setups for run in setup.runs for flaw in _flaws(run)]


def _flaws(run: LoggedRun) -> Iterator[str]:
    rates = [rate for _, rate in run.series]
    if run.busy_share is not None and run.busy_share < _BUSY_MIN:
        outside = f"its {run.threads} threads spent {1 - run.busy_share:.0%} of their time outside events"
        yield f"{outside}: the client was the bottleneck, or a rate limited it"
    if len(rates) < 2 * _BLOCKS:
        return
    if stalls := [second for second, rate in run.series if rate < STALL * median(rates)]:
        times = "once" if len(stalls) == 1 else f"{len(stalls)} times"
        yield f"throughput fell below half of its median {times}, first at {stalls[0]:.0f} s"
    bounds = [round(len(rates) * at / _BLOCKS) for at in range(_BLOCKS + 1)]
    logs = [math.log(max(fmean(rates[begin:end]), 1e-9)) for begin, end in pairwise(bounds)]
    before, after = moments(logs[: _BLOCKS // 2]), moments(logs[_BLOCKS // 2 :])
    halves = welch(after, before)
    if halves and abs(halves.estimate.mean) > _MOVED and excludes_zero(halves.estimate.interval):
        what = "a trend" if halves.estimate.mean < 0 else "the warm-up had not ended"
        yield f"throughput changed by {math.expm1(halves.estimate.mean):+.1%} from the first half to the second: {what}"
    elif after.mean - logs[0] > max(_COLD, 3 * moments(logs[1:]).sd):
        yield f"its first eighth was {-math.expm1(logs[0] - after.mean):.1%} slower: a warm-up is part of its mean"
