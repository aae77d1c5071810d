"""How often change points are found in simulated histories, and where, beside Otava and ruptures on the same figures.

A point is the mean of some epochs that duels of equal servers recorded, shifted by the truth, and what lies between
runs; the absolute figure beside it also has what serial runs of one server differ by. The other programs run in an
environment of their own (`validation/histories_others.py`). docs/history.md has the table.
"""

import json
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bakeoff.history.changes import Track, changes_of
from validation.gates import markdown, read_epochs, serial_ratios

POINTS = 60
BETWEEN = 0.002
"""Standard deviation of what lies between runs beyond their restarts; log ratio."""

OTHERS = ("apache-otava==0.8.0", "ruptures==1.1.10")
ENVIRONMENT = Path(__file__).parent.parent / "target" / "history-others"

OTHERS_RUNS = 100
"""Histories of each kind that the other programs are given: Otava takes a minute for a thousand."""

OURS = "bakeoff"

PUBLISHED = Path(__file__).parent.parent / "bench/results/histories/published.json"
"""Series that others published, with their sources and licence."""


@dataclass(frozen=True)
class Kind:
    """One kind of history.

    Attributes:
        steps: index -> log ratio added from there on.
        series: how many are asked together; only the first has the steps.
        between: as `BETWEEN`.
        noisy: points whose epochs scatter three times as much.
        swap: index from which another machine measures: 20 % slower, and epochs scatter half as much again.
        bad: index of a run that is 40 % slower.
        points: how many.
    """

    name: str
    steps: tuple[tuple[int, float], ...] = ()
    series: int = 1
    between: float = BETWEEN
    noisy: range = range(0)
    swap: int | None = None
    bad: int | None = None
    points: int = POINTS


DOWN = math.log(0.98)
KINDS = (
    Kind("nothing changes"),
    Kind("nothing changes, 15 points", points=15),
    Kind("nothing changes, 200 points", points=200),
    Kind("nothing changes, 6 series", series=6),
    Kind("nothing changes, runs differ by 0.6 %", between=0.006),
    Kind("a noisy week", noisy=range(30, 37)),
    Kind("another machine from the 30th on", swap=30),
    Kind("2 % slower from the 30th on", steps=((30, DOWN),)),
    Kind("2 % slower from the 30th on, 6 series", steps=((30, DOWN),), series=6),
    Kind("2 % slower, 5 runs later", steps=((55, DOWN),)),
    Kind("2 % slower, 3 runs later", steps=((57, DOWN),)),
    Kind("2 % slower for ten runs", steps=((30, DOWN), (40, -DOWN))),
    Kind("1 % slower from the 30th on", steps=((30, DOWN / 2),)),
    Kind("one run 40 % slower", bad=25),
    Kind("2 % slower from the 30th on, and the 25th run 40 %", steps=((30, DOWN),), bad=25),
)


@dataclass(frozen=True)
class Made:
    """One series of one history: log ratios with standard errors, and the logs of the absolute figures."""

    ratios: NDArray[np.float64]
    errors: NDArray[np.float64]
    absolute: NDArray[np.float64]


def make(kind: Kind, rng: np.random.Generator, epochs: NDArray[np.float64], days: NDArray[np.float64]) -> list[Made]:
    """The series of one simulated history.

    Args:
        kind: the truth.
        rng: source of what is random.
        epochs: recorded log ratios of equal servers.
        days: recorded log ratios of runs of one server, one after the other.
    """
    n = kind.points
    made = []
    for number in range(kind.series):
        scale = np.ones(n)
        scale[list(kind.noisy)] = 3.0
        level, machine = np.zeros(n), np.zeros(n)
        for at, size in kind.steps if number == 0 else ():
            level[at:] += size
        if kind.bad is not None and number == 0:
            level[kind.bad] += math.log(0.6)
        if kind.swap is not None:
            machine[kind.swap :] = math.log(0.8)
            scale[kind.swap :] *= 1.5
        drawn = [rng.choice(epochs, rng.integers(6, 13)) * factor for factor in scale]
        means = np.array([values.mean() for values in drawn])
        errors = np.array([values.std(ddof=1) / math.sqrt(len(values)) for values in drawn])
        ratios = level + means + rng.normal(0, kind.between, n)
        made.append(Made(ratios, errors, ratios + machine + rng.choice(days, n) / math.sqrt(2)))
    return made


@dataclass(frozen=True)
class Found:
    """What one program says of one kind of history: shares of the histories.

    Attributes:
        any_false: with a change that is more than a point from every true one, in any series.
        right: with every true one found within a point.
    """

    program: str
    any_false: float
    right: float


def judge(kind: Kind, program: str, places: Sequence[Sequence[Sequence[int]]]) -> Found:
    """The shares; `places`: of each history, of each series."""
    true = [at for at, _ in kind.steps]
    wrong = right = 0
    for history in places:
        first, *others = history
        wrong += any(others) or any(min((abs(at - each) for each in true), default=math.inf) > 1 for at in first)
        right += all(any(abs(at - each) <= 1 for at in first) for each in true)
    n = len(places)
    return Found(program, wrong / n, right / n)


def simulate(kind: Kind, *, seed: int, runs: int) -> list[list[Made]]:
    """So many histories of one kind."""
    epochs, days = read_epochs().values, serial_ratios()
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    return [make(kind, rng, epochs, days) for _ in range(runs)]


def by_bakeoff(histories: Sequence[Sequence[Made]]) -> list[list[list[int]]]:
    """The places that bakeoff finds."""
    found = []
    for number, history in enumerate(histories):
        tracks = [Track(made.ratios.tolist(), made.errors.tolist()) for made in history]
        found.append([[change.at for change in changes] for changes in changes_of(tracks, seed=number)])
    return found


def watched(*, seed: int, runs: int) -> float:
    """Share of stationary histories in which a change was ever found, when one looks after every run."""
    histories = simulate(KINDS[0], seed=seed, runs=runs)
    alarms = 0
    for number, (made,) in enumerate(histories):
        alarms += any(changes_of([Track(made.ratios[:end].tolist(), made.errors[:end].tolist())], seed=number)[0]
                      for end in range(8, POINTS + 1))  # fmt: skip
    return alarms / runs


def by_others(histories: Sequence[Sequence[Made]]) -> dict[str, list[list[list[int]]]]:
    """The places that the other programs find, by program and figure; each with its defaults."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *OTHERS], check=True)
    given = [[{"ratio": np.exp(made.ratios).tolist(), "absolute": np.exp(made.absolute).tolist()} for made in history]
             for history in histories]  # fmt: skip
    script = Path(__file__).with_name("histories_others.py")
    ran = subprocess.run([python, script], input=json.dumps(given), stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, list[list[list[int]]]] = json.loads(ran.stdout)
    return found


@dataclass(frozen=True)
class Published:
    """A series that others published.

    Attributes:
        said: where its authors say that it changes; None: they do not say.
        values: absolute figures in the order of time, without an uncertainty.
    """

    name: str
    said: tuple[int, ...] | None
    values: tuple[float, ...]


def read_published() -> list[Published]:
    """The series of `PUBLISHED`."""
    series = json.loads(PUBLISHED.read_text("utf-8"))["series"]
    return [
        Published(each["name"], each["said"] and tuple(each["said"]), tuple(each["values"])) for each in series
    ]  # fmt: skip


def published_table(*, others: bool) -> Iterator[str]:
    """The lines of a Markdown table: where each program finds changes in published series.

    Args:
        others: also the other programs.
    """
    series = read_published()
    logs = [np.log(each.values) for each in series]
    histories = [[Made(each, np.zeros(len(each)), each)] for each in logs]
    found = {OURS: by_bakeoff(histories)}
    for name, places in (by_others(histories) if others else {}).items():
        program, _, figure = name.rpartition(", ")
        if figure == "absolute":  # which is all that there is
            found[program] = places
    rows = []
    for at, each in enumerate(series):
        said = "" if each.said is None else _listed(each.said)
        rows.append([each.name, str(len(each.values)), said, *(_listed(places[at][0]) for places in found.values())])
    yield from markdown(["series", "points", "its authors", *found], rows).splitlines()


def _listed(places: Sequence[int]) -> str:
    return ", ".join(map(str, places)) or "none"


def table(*, seed: int, runs: int, others: bool) -> Iterator[str]:
    """The lines of a Markdown table: of each kind and program, histories with a false change, and with all true ones.

    Args:
        seed: everything random follows from it.
        runs: histories of each kind.
        others: also the other programs, on the first `OTHERS_RUNS` of each.
    """
    for kind in KINDS:
        histories = simulate(kind, seed=seed, runs=runs)
        found = {OURS: by_bakeoff(histories)} | (by_others(histories[:OTHERS_RUNS]) if others else {})
        if kind is KINDS[0]:
            yield markdown(["history", *found], [])
        judged = [judge(kind, name, places) for name, places in found.items()]
        cells = [f"{each.any_false:.1%}" + (f" / {each.right:.1%}" if kind.steps else "") for each in judged]
        yield f"| {' | '.join([kind.name, *cells])} |"
