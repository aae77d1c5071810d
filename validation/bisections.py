"""Simulates bisections among builds and options, from recorded epochs (`validation.gates`).

Builds are also bisected in the plain way, which runs a gate at half of the regression for each middle build.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bakeoff.gate.rule import PRECISION_SHARE, Answer, Sample, answers
from bakeoff.plan.factorial import arm_names
from bakeoff.search.bisection import beliefs_of, next_arm, subset
from bakeoff.search.first_slow_build import EPOCHS_FIRST
from bakeoff.search.model import Search, Setting
from bakeoff.spec import Arm, Study, Workload, parse_server
from bakeoff.stats.model import Stop
from bakeoff.stats.stopping import stop_state
from validation.gates import read_epochs

Measure = Callable[[int], float]
"""Build -> log ratio of one more epoch."""

_EPOCHS_MAX = 400


@dataclass(frozen=True)
class Bisected:
    """Result of one bisection: numbers of builds or options, empty if there was nothing, None if undecided."""

    found: tuple[int, ...] | None
    epochs: int


def searched(study: Study, measure: Callable[[Arm], float]) -> Bisected:
    """Search as `bakeoff bisect` does, with the given values."""
    values: dict[str, list[float]] = {study.arms[1].name: [measure(study.arms[1])]}
    for epochs in range(1, _EPOCHS_MAX):
        believed = beliefs_of(study, values)
        assert believed
        if believed.named is not None:
            return Bisected(believed.named, epochs)
        arm = next_arm(study, believed, values)
        if arm not in study.arms:
            study = study.model_copy(update={"arms": (*study.arms, arm)})
        values.setdefault(arm.name, []).append(measure(arm))
    return Bisected(None, _EPOCHS_MAX)


def study_of_builds(count: int) -> Study:
    server = parse_server("mysql:8.0.15")
    builds = tuple(Arm(name=name, label=name, server=server) for name in arm_names(count))
    return _study((builds[0], builds[-1]), Search(builds=builds))


def study_of_options(count: int, seed: int) -> Study:
    settings = tuple(
        Setting(factor=f"option.option_{number}", good="0", bad="1", pairs=((f"option_{number}", "1"),))
        for number in range(count)
    )
    good, bad = (
        Arm(
            name=name,
            label=label,
            server=parse_server("mysql:8.0.15").with_options(**{each.name: value for each in settings}),
        )
        for name, label, value in (("A", "good", "0"), ("B", "bad", "1"))
    )
    return _study((good, bad), Search(settings=settings), seed)


def _study(arms: tuple[Arm, ...], search: Search, seed: int = 0) -> Study:
    return Study(title="", arms=arms, workloads=(Workload(script="oltp_read_only"),), question=search, seed=seed)


def plain(measure: Measure, builds: int, *, limit: float) -> Bisected:
    """Halve the builds by a gate with this limit; a gate that cannot tell is decided by its mean."""
    good, bad, epochs = 0, builds - 1, EPOCHS_FIRST
    while bad - good > 1:
        middle, values, stop = (good + bad) // 2, list[float](), Stop.RUNNING
        while stop is Stop.RUNNING:
            values.append(measure(middle))
            stop = stop_state(values, precision=-PRECISION_SHARE * limit, family=1, reference=limit)
        epochs += len(values)
        (answer,) = answers([Sample(values, stop)], limit=limit, family=1)
        slow = float(np.mean(values)) < limit if answer is Answer.UNCLEAR else answer is Answer.FAIL
        good, bad = (good, middle) if slow else (middle, bad)
    return Bisected((bad,), epochs)


@dataclass(frozen=True)
class BothWays:
    """Share of bisections that found the culprit, and mean number of epochs."""

    right: float
    epochs: float
    right_plain: float
    epochs_plain: float


def compare(seed: int, *, runs: int, builds: int = 64, slowdown_percent: float = 3.0) -> BothWays:
    """Bisect for culprits drawn at random, in both ways."""
    noise, rng = read_epochs().values, np.random.default_rng((seed, builds, round(10 * slowdown_percent)))
    truth = float(np.log1p(-slowdown_percent / 100))
    ends: list[list[Bisected]] = [[], []]
    study = study_of_builds(builds)
    numbers = {name: number for number, name in enumerate(arm_names(builds))}
    places = rng.integers(1, builds, runs).tolist()
    for place in places:

        def measure(build: int, place: int = place) -> float:
            return (truth if build >= place else 0.0) + float(rng.choice(noise))

        ends[0].append(searched(study, lambda arm: measure(numbers[arm.name])))
        ends[1].append(plain(measure, builds, limit=truth / 2))
    right = [np.mean([end.found == (place,) for end, place in zip(way, places, strict=True)]) for way in ends]
    epochs = [np.mean([end.epochs for end in way]) for way in ends]
    return BothWays(float(right[0]), float(epochs[0]), float(right[1]), float(epochs[1]))


@dataclass(frozen=True)
class OptionsFound:
    """Shares of searches that named exactly the guilty options or were undecided, and mean number of epochs."""

    right: float
    undecided: float
    epochs: float


def find_options(
    seed: int, *, runs: int, options: int = 40, percents: Sequence[float] = (5.0, 3.0, 3.0)
) -> OptionsFound:
    """Search for options drawn at random that slow a server down by these percentages."""
    noise, rng = read_epochs().values, np.random.default_rng((seed, options, *(round(10 * each) for each in percents)))
    ends = []
    for number in range(runs):
        culprits = rng.choice(options, len(percents), replace=False)
        effects = np.zeros(options)
        effects[culprits] = np.log1p(-np.array(percents) / 100)
        study = study_of_options(options, number)

        def measure(arm: Arm, study: Study = study, effects: NDArray[np.float64] = effects) -> float:
            return float(effects @ np.array(subset(study, arm))) + float(rng.choice(noise))

        ends.append((searched(study, measure), tuple(sorted(culprits.tolist()))))
    return OptionsFound(
        right=float(np.mean([end.found == culprits for end, culprits in ends])),
        undecided=float(np.mean([end.found is None for end, _ in ends])),
        epochs=float(np.mean([end.epochs for end, _ in ends])),
    )


def table(seed: int, *, runs: int) -> Iterator[str]:
    """Yield lines of a Markdown table: builds in both ways, builds that are all alike, and options."""
    yield "| among | truth | right | epochs | plain: right | plain: epochs |\n|---|---|---:|---:|---:|---:|"
    for percent in (2.0, 3.0, 5.0):
        each = compare(seed, runs=runs, slowdown_percent=percent)
        yield (
            f"| 64 builds | one slower by {percent:g} % | {each.right:.1%} | {each.epochs:.1f} "
            f"| {each.right_plain:.1%} | {each.epochs_plain:.1f} |"
        )
    none = find_nothing(seed, runs=runs)
    yield f"| 64 builds | all alike | {none.right:.1%} ({none.undecided:.1%} undecided) | {none.epochs:.1f} | | |"
    for options, percents in ((12, (5.0, 4.0, 3.0)), (40, (10.0,)), (40, (5.0, 3.0, 3.0))):
        found = find_options(seed, runs=runs, options=options, percents=percents)
        truth = " and ".join(f"{percent:g} %" for percent in percents)
        yield f"| {options} options | {truth} | {found.right:.1%} | {found.epochs:.1f} | | |"


def find_nothing(seed: int, *, runs: int, builds: int = 64) -> OptionsFound:
    """Search among builds that are all alike."""
    noise, rng = read_epochs().values, np.random.default_rng((seed, builds))
    ends = [searched(study_of_builds(builds), lambda _: float(rng.choice(noise))) for _ in range(runs)]
    return OptionsFound(
        right=float(np.mean([end.found == () for end in ends])),
        undecided=float(np.mean([end.found is None for end in ends])),
        epochs=float(np.mean([end.epochs for end in ends])),
    )
