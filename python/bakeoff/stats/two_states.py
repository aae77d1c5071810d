"""Does a server run in two states, a fast and a slow one, and which of its threads make the difference?

A server whose threads spin above some load, or whose connections lie well at one time and badly at another, stays in
one state for seconds. Its mean stands for neither, and an interval over few restarts is wide. Such a cell is
recognised by its windows of half a second: two groups of them explain nearly all of the spread. Nothing here enters
a verdict.
"""

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import numpy as np
import polars as pl

from bakeoff.plan import Cell
from bakeoff.results import EpochData
from bakeoff.spec import Placement
from bakeoff.stats.estimate import with_rates
from bakeoff.stats.model import Frozen

_WINDOW_S = 0.5
_WINDOWS_MIN = 16
# Of the sum of squares: two groups explain 64 % of that of many normal values and 75 % of uniform ones.
_EXPLAINED = 0.85
_APART = math.log(1.25)
_SHARE_MIN = 0.1
_CPUS_MIN = 0.15  # more in the slow state, for a thread to be named


class TwoStates(Frozen):
    """One arm in one cell.

    Attributes:
        fast_tps, slow_tps: mean throughput of the two groups of windows, events/s.
        slow_share: of the windows.
        threads: of the server, with the CPUs that they used more in the slow state, most first.
    """

    cell: str
    arm: str
    fast_tps: float
    slow_tps: float
    slow_share: float
    threads: tuple[tuple[str, float], ...]


def two_states(epochs: Sequence[EpochData]) -> list[TwoStates]:
    """The arms that ran in two states, cell by cell; from eight seconds of an arm on."""
    if not epochs:
        return []
    windows = _windows(pl.concat([epoch.slices for epoch in epochs]))
    found = [_split(cell, arm, group) for (cell, arm), group in windows.group_by(["cell", "arm"], maintain_order=True)]
    return [each for each in found if each is not None]


def states_flag(state: TwoStates, cell: Cell, version: str) -> str:
    """The finding in a sentence, with the setting that takes the switch away where one is known."""
    text = (
        f"TWO STATES: arm {state.arm} ran at {state.fast_tps:,.0f} or at {state.slow_tps:,.0f} events/s, the slower in "
        f"{state.slow_share:.0%} of the time"
    )
    if state.threads:
        names = " and ".join(name for name, _ in state.threads)
        text += f", in which {names} used {math.fsum(cpus for _, cpus in state.threads):.1f} CPUs more"
    remedy = _remedy(state, version)
    if remedy:
        return f"{text}: {remedy}"
    if cell.placement is Placement.FREE and not cell.writes:
        return f"{text}: where the kernel puts the two threads of a connection changes; --placement paired keeps them."
    return f"{text}."


def _windows(slices: pl.DataFrame) -> pl.DataFrame:
    """Each arm's slices in windows of half a second: mean log rate, CPU seconds of threads as JSON texts."""
    key = ["epoch", "cell", "arm"]
    if "threads" not in slices.columns:  # of a simulation
        slices = slices.with_columns(threads=pl.lit("{}"))
    return (
        with_rates(slices)
        .filter(pl.col("events") > 0)
        .sort("start_ns")
        .with_columns(window=(pl.col("seconds").cum_sum().over(key) / _WINDOW_S).floor())
        .group_by([*key, "window"], maintain_order=True)
        .agg(
            pl.col("events").sum(),
            pl.col("seconds").sum(),
            (pl.col("length_ns").sum() / 1e9).alias("length_s"),
            pl.col("threads"),
        )
        .filter(pl.col("seconds") > 0)
        .with_columns(log_rate=(pl.col("events") / pl.col("seconds")).log())
    )


def _split(cell: object, arm: object, windows: pl.DataFrame) -> TwoStates | None:
    windows = windows.sort("log_rate")
    rates = windows["log_rate"].to_numpy()
    n = rates.size
    if n < _WINDOWS_MIN:
        return None
    centred = rates - rates.mean()
    low = np.arange(1, n)
    sums = np.cumsum(centred)[:-1]
    between = sums**2 / low + sums**2 / (n - low)
    count = int(low[between.argmax()])
    slow, fast = windows[:count], windows[count:]
    apart = float(rates[count:].mean() - rates[:count].mean())
    explained = float(between.max()) / max(float(centred @ centred), 1e-300)
    if explained < _EXPLAINED or apart < _APART or not _SHARE_MIN <= count / n <= 1 - _SHARE_MIN:
        return None
    more = {name: cpus - _cpus(fast).get(name, 0.0) for name, cpus in _cpus(slow).items()}
    named = sorted(((name, cpus) for name, cpus in more.items() if cpus >= _CPUS_MIN), key=lambda each: -each[1])
    return TwoStates(
        cell=str(cell),
        arm=str(arm),
        fast_tps=_tps(fast),
        slow_tps=_tps(slow),
        slow_share=count / n,
        threads=tuple(named[:3]),
    )


def _tps(windows: pl.DataFrame) -> float:
    return float(windows["events"].sum()) / float(windows["seconds"].sum())


def _cpus(windows: pl.DataFrame) -> dict[str, float]:
    """CPUs that each busy thread used, mean over the windows."""
    spent_ns: dict[str, float] = {}
    for texts in windows["threads"]:
        for text in texts:
            for name, time_ns in json.loads(text or "{}").items():
                spent_ns[name] = spent_ns.get(name, 0.0) + time_ns
    length_ns = float(windows["length_s"].sum()) * 1e9
    return {name: time_ns / length_ns for name, time_ns in spent_ns.items()}


def _remedy(state: TwoStates, version: str) -> str:
    """What the data file says of threads of such names in such a version; empty: nothing is known."""
    family = "mariadb" if "mariadb" in version.lower() else "mysql"
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    number = tuple(map(int, found.groups())) if found else ()
    for remedy in _remedies():
        named = any(re.match(str(remedy["threads"]), name) for name, _ in state.threads)
        since = remedy.get(family)
        if named and since and number >= tuple(map(int, str(since).split("."))):
            return str(remedy["text"])
    return ""


@cache
def _remedies() -> tuple[Mapping[str, object], ...]:
    text = files("bakeoff.stats").joinpath("two_states.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["remedy"])
