"""Compare two ways to ask which of many settings matter: a search, and a factorial design of all arms in between.

Epochs are drawn from recorded ones, as in `validation.bisections`. A search starts two servers per epoch, a factorial
design one per arm.
"""

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from bakeoff.search.attribution import differing, setting_effects, study_in_between
from bakeoff.search.bisection import subset
from bakeoff.search.model import search_of
from bakeoff.spec import Arm, Study, Workload, parse_server
from bakeoff.stats.model import EpochPoint, Stop
from bakeoff.stats.stopping import stop_state
from validation.bisections import searched, study_of_options
from validation.gates import read_epochs

_CELL = "oltp_read_only/4"
_EPOCHS_MAX = 60
_PRECISION_SHARE = 0.15


class _Truth:
    """Effects of settings; `together`: two settings that do something only together."""

    def __init__(self, rng: np.random.Generator, settings: int, percents: tuple[float, ...], together: bool) -> None:
        self.guilty = tuple(sorted(rng.choice(settings, len(percents) or 2, replace=False).tolist()))
        self.effects = np.zeros(settings)
        self.joint = math.log1p(-0.08) if together else 0.0
        if not together:
            self.effects[list(self.guilty)] = np.log1p(-np.array(percents) / 100)

    def is_right(self, found: tuple[int, ...] | None) -> bool:
        """Exactly the guilty ones are named; of two that act only together both, perhaps with others."""
        return found == self.guilty or (bool(self.joint) and found is not None and set(self.guilty) <= set(found))

    def of(self, chosen: Any) -> float:  # noqa: ANN401
        at = np.array(chosen, dtype=float)
        both = all(at[each] for each in self.guilty)
        return float(self.effects @ at) + (self.joint if both else 0.0)


def _factorial(rng: np.random.Generator, settings: int, truth: _Truth, noise: Any) -> tuple[tuple[int, ...], int]:  # noqa: ANN401
    mine, theirs = (",".join(["mysql:8.0", *(f"o{at}={v}" for at in range(settings))]) for v in "12")
    arms = tuple(Arm(name=n, label=n, server=parse_server(s)) for n, s in zip("AB", (mine, theirs), strict=True))
    study = Study(title="", arms=arms, workloads=(Workload(script="oltp_read_only"),))
    asked = differing(study, study.arms[0], study.arms[1], {})
    empty: Any = SimpleNamespace(baseline="A", comparisons=())
    made, contender = study_in_between(study, empty, asked, budget_s=600.0)
    assert made.design
    sets = {arm.name: [dict(arm.server.options).get(f"o{at}") == "2" for at in range(settings)] for arm in made.arms}
    values: dict[str, list[float]] = {name: [] for name in sets if name != made.baseline.name}
    precision = max(math.log(1.01), _PRECISION_SHARE * abs(truth.of([True] * settings)))
    for epochs in range(1, _EPOCHS_MAX + 1):
        base = float(rng.choice(noise)) / math.sqrt(2)
        for name, own in values.items():
            own.append(truth.of(sets[name]) + float(rng.choice(noise)) / math.sqrt(2) - base)
        stops = [stop_state(own, precision=precision, family=len(values)) for own in values.values()]
        if epochs >= 6 and Stop.RUNNING not in stops:
            break
    analysis: Any = SimpleNamespace(
        baseline=made.baseline.name,
        stopped=Stop.PRECISE,
        comparisons=[
            SimpleNamespace(
                cell=_CELL,
                contender=name,
                points=[EpochPoint(epoch=e, build=0, value=value) for e, value in enumerate(own)],
                estimate=SimpleNamespace(n=len(own)),
            )
            for name, own in values.items()
        ],
    )
    found = setting_effects(analysis, made.design, contender)
    return tuple(sorted(int(each.factor[1:]) for each in found if each.carries and each.factor)), epochs * len(sets)


def table(seed: int, *, runs: int) -> Iterator[str]:
    """Lines of Markdown."""
    noise = read_epochs().values
    yield "| settings | truth | search: right | wrong | server starts | factorial: right | wrong | server starts |"
    yield "|---:|---|---:|---:|---:|---:|---:|---:|"
    for settings in (3, 5, 8, 16, 40):
        for percents, together in (((5.0,), False), ((5.0, 3.0), False), ((), True)):
            rng = np.random.default_rng((seed, settings, len(percents)))
            right, wrong, starts = [0, 0], [0, 0], [0.0, 0.0]
            for number in range(runs):
                truth = _Truth(rng, settings, percents, together)
                study = study_of_options(settings, number)
                search = search_of(study)
                end = searched(study, lambda arm: truth.of(subset(arm, search)) + float(rng.choice(noise)))  # noqa: B023
                right[0] += truth.is_right(end.found)
                wrong[0] += end.found is not None and not truth.is_right(end.found)
                starts[0] += 2 * end.epochs / runs
                if settings <= 16:
                    found, count = _factorial(rng, settings, truth, noise)
                    right[1] += truth.is_right(found)
                    wrong[1] += not truth.is_right(found)
                    starts[1] += count / runs
            what = " and ".join(f"{each:g} %" for each in percents) or "8 %, by two together"
            ways = [f"{r / runs:.0%} | {w / runs:.0%} | {s:.0f}" for r, w, s in zip(right, wrong, starts, strict=True)]
            yield f"| {settings} | {what} | {ways[0]} | {ways[1] if settings <= 16 else '– | – | –'} |"
