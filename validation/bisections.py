"""Simulates bisections among builds and options, from recorded epochs (`validation.gates`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bakeoff.plan.factorial import arm_names
from bakeoff.search.bisection import beliefs_of, next_arm, subset
from bakeoff.search.model import Search
from bakeoff.search.model import Setting as SearchSetting
from bakeoff.spec import Arm, Study, Workload, parse_server
from validation.check import Checks, Count, Finding, Setting, Size, finding, scaled
from validation.recorded_epochs import read_epochs

BISECTION_CHECKS = Checks(Size.REPLAY)

_EPOCHS_MAX = 400
_FAILED_MAX = 5  # in a row; then a run ends (`bakeoff.run.study_run`)


@dataclass(frozen=True)
class Bisected:
    """Result of one bisection: numbers of builds or options, empty if there was nothing, None if undecided."""

    found: tuple[int, ...] | None
    epochs: int


def searched(study: Study, measure: Callable[[Arm], float | None]) -> Bisected:
    """Search as `bakeoff bisect` does, with the given values; None if the arm's server does not start."""
    values: dict[str, list[float]] = {}
    skipped: set[str] = set()
    arm, failed = study.arms[1], 0
    for epochs in range(1, _EPOCHS_MAX):
        value = measure(arm)
        failed = failed + 1 if value is None else 0
        if value is None:
            skipped.add(arm.name)
        else:
            values.setdefault(arm.name, []).append(value)
        believed = beliefs_of(study, values, skipped=skipped)
        if failed == _FAILED_MAX or not believed:
            break
        if believed.named is not None:
            return Bisected(believed.named, epochs)
        arm = next_arm(study, believed, values, skipped=skipped)
        if arm not in study.arms:
            study = study.with_arms((*study.arms, arm))
    return Bisected(None, _EPOCHS_MAX)


def study_of_builds(count: int) -> Study:
    server = parse_server("mysql:8.0.15")
    builds = tuple(Arm(name=name, label=name, server=server) for name in arm_names(count))
    return _study((builds[0], builds[-1]), Search(builds=builds))


def study_of_options(count: int, seed: int) -> Study:
    settings = tuple(
        SearchSetting(factor=f"option.option_{number}", good="0", bad="1", pairs=((f"option_{number}", "1"),))
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


@dataclass(frozen=True)
class Searches:
    right: float
    undecided: float
    epochs: float

    @classmethod
    def of(cls, ends: Sequence[tuple[Bisected, tuple[int, ...]]]) -> "Searches":
        return cls(
            right=float(np.mean([end.found == truth for end, truth in ends])),
            undecided=float(np.mean([end.found is None for end, _ in ends])),
            epochs=float(np.mean([end.epochs for end, _ in ends])),
        )


def find_build(seed: int, *, runs: int, builds: int = 64, slowdown_percent: float = 3.0) -> Searches:
    """Bisect for a slow build drawn at random; at 0 % all are alike, and the truth is none."""
    noise, rng = read_epochs().values, np.random.default_rng((seed, builds, round(10 * slowdown_percent)))
    truth = float(np.log1p(-slowdown_percent / 100))
    numbers = {name: number for number, name in enumerate(arm_names(builds))}
    ends = []
    for place in rng.integers(1, builds, runs).tolist():

        def measure(arm: Arm, place: int = place) -> float:
            return (truth if numbers[arm.name] >= place else 0.0) + float(rng.choice(noise))

        ends.append((searched(study_of_builds(builds), measure), (place,) if slowdown_percent else ()))
    return Searches.of(ends)


def find_options(seed: int, *, runs: int, options: int = 40, percents: Sequence[float] = (5.0, 3.0, 3.0)) -> Searches:
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
    return Searches.of(ends)


@BISECTION_CHECKS.add("G23", "right >= 93 %; nothing is named among equal builds >= 95 %, or undecided")
def culprits(setting: Setting, scale: float = 1.0) -> Finding:
    """Bisections for a slow build among 64, and for three slow options among 12."""
    runs = scaled(30, scale)
    build = find_build(setting.seed, runs=runs)
    options = find_options(setting.seed, runs=runs, options=12, percents=(5.0, 4.0, 3.0))
    none = find_build(setting.seed, runs=runs, builds=16, slowdown_percent=0.0)
    return finding(
        [
            Count("the build", round(build.right * runs), runs, at_least=0.93),
            Count("all three options", round(options.right * runs), runs, at_least=0.93),
            Count("nothing among equal builds", round((none.right + none.undecided) * runs), runs, at_least=0.95),
        ]
    )
