"""G1, G2, G4, G6, G7, G11: between equal arms there is nothing to claim."""

from collections.abc import Sequence

import numpy as np

from bakeoff.gauntlet.model import Check, Finding, Setting, Size
from bakeoff.gauntlet.replay.broken import NO_RESTARTS
from bakeoff.gauntlet.replay.judged import Bias, Count, bias_of, finding, scaled, seed_of
from bakeoff.gauntlet.replay.machines import DRIFTS, Machine, Recorded, Simulated, recorded_sets
from bakeoff.gauntlet.replay.method import SOUND, Method
from bakeoff.gauntlet.replay.runs import End, Question, complete_runs, single_runs
from bakeoff.stats.calibration import peeking
from bakeoff.stats.interval import t_quantile

_FALSE_CLAIMS = 0.05
_PRECISION = 0.01
_WIDE = 0.03  # a target that a loaded machine reaches after some epochs, so that the rule's own stop is tried as well


def claims(ends: Sequence[End]) -> int:
    """How many claimed a difference."""
    return sum(end.claim != 0 for end in ends)


def false_claims(what: str, ends: Sequence[End]) -> Count:
    """Claims between equal arms."""
    return Count(f"{what}:", claims(ends), len(ends), at_most=_FALSE_CLAIMS)


def equal_arms(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """G1: complete runs on every set of traces (2000 in all), and on simulated laws."""
    sets = recorded_sets()
    counts = []
    every: list[End] = []
    for machine in sets:
        for precision in (_PRECISION, _WIDE):
            ends = single_runs(
                machine,
                Question(precision=precision),
                runs=scaled(2000 / len(sets) / 2, scale),
                seed=seed_of(setting, "G1", machine, precision),
                method=method,
            )
            every += ends
            counts.append(false_claims(f"{machine}, target {precision:.0%}", ends))
    for law in ("quiet", "cloud"):
        simulated = Simulated(law)
        ends = single_runs(
            simulated, Question(), runs=scaled(500, scale), seed=seed_of(setting, "G1", simulated), method=method
        )
        counts.append(false_claims(str(simulated), ends))
    return finding([false_claims("all traces", every), *counts])


def bursty_load(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """G2: other work takes 0 to 100 % of the cores, in bursts of 1 to 20 s."""
    machines: list[Machine] = [Recorded(each.name, "bursts") for each in recorded_sets()]
    counts = []
    for machine in (*machines, Simulated("quiet", "bursts")):
        ends = single_runs(
            machine,
            Question(precision=_WIDE),
            runs=scaled(400, scale),
            seed=seed_of(setting, "G2", machine),
            method=method,
        )
        counts.append(false_claims(str(machine), ends))
    return finding(counts)


def drift(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """G4: what the machine does to both arms is no difference between them."""
    results: list[Count | Bias] = []
    every: list[End] = []
    for name in DRIFTS:
        ends = single_runs(
            Simulated("quiet", name),
            Question(),
            runs=scaled(300, scale),
            seed=seed_of(setting, "G4", name),
            method=method,
        )
        every += ends
        results.append(false_claims(name, ends))
        values = [value for end in ends for value in end.values]
        results.append(bias_of(f"bias under {name}", values, truth=0.0, at_most=_PRECISION / 10))
    kept = finding(results)
    largest = max((r for r in results if isinstance(r, Bias)), key=lambda bias: abs(bias.bias))
    worst = max((r for r in results if isinstance(r, Count)), key=lambda count: count.hits / count.runs)
    broken = "; ".join(str(result) for result in results if not result.kept)
    text = f"{len(DRIFTS)} drifts: {false_claims('in all', every)}; most: {worst}; {largest}"
    return Finding(found=f"{text}; not kept: {broken}" if broken else text, passed=kept.passed, figures=kept.figures)


def instances(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """G6: every start has a level of its own (SD 1 %); one pair of starts must not be taken for the truth."""
    machine = Simulated("starts of 1%")
    ends = single_runs(machine, Question(), runs=scaled(800, scale), seed=seed_of(setting, "G6"), method=method)
    trapped = single_runs(
        machine,
        Question(),
        runs=scaled(150, scale),
        seed=seed_of(setting, "G6", "trap"),
        method=NO_RESTARTS,
    )
    pairs = sum(abs(end.values[0]) > t_quantile(0.975, end.within[1] - 1) * end.within[0] for end in ends)
    return finding(
        [
            false_claims("restarted for every epoch", ends),
            Count("one pair of starts, its own interval fails:", pairs, len(ends), at_most=0.9, at_least=0.4),
            Count("one pair of starts through all epochs claims:", claims(trapped), len(trapped), at_least=0.4),
        ]
    )


def adversary(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """G7: the user ends the run at the first moment at which that gives a claim."""
    counts = []
    machines: list[tuple[Machine, float, int]] = [(each, _PRECISION, 500) for each in recorded_sets()]
    machines += [(Simulated("cloud"), 0.004, 1500)]
    for machine, precision, runs in machines:
        ends = single_runs(
            machine,
            Question(precision=precision, epochs_max=14, adversary=True),
            runs=scaled(runs, scale),
            seed=seed_of(setting, "G7", machine),
            method=method,
        )
        counts.append(false_claims(str(machine), ends))
    ever = peeking(np.random.default_rng(seed_of(setting, "G7", "ever")), runs=scaled(2000, scale))
    counts.append(Count("live interval ever excludes 1 in 500 looks:", ever.hits, ever.runs, at_most=_FALSE_CLAIMS))
    return finding(counts)


def grid(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """G11: 24 equal cells, as independent of each other as can be."""
    ends = complete_runs(
        Simulated("quiet"),
        Question(precision=_PRECISION, cells=24, epochs_max=8),
        runs=scaled(240, scale),
        seed=seed_of(setting, "G11"),
        method=method,
    )
    any_claim = sum(any(end.claim for end in run) for run in ends)
    return finding([Count("grids with any claim:", any_claim, len(ends), at_most=_FALSE_CLAIMS)])


_REPLAY = frozenset({Size.REPLAY})
CHECKS = (
    Check("G1", "equal arms, complete runs, on traces and laws", "false claims <= 5%", _REPLAY, equal_arms),
    Check("G2", "equal arms under bursts of other work", "false claims <= 5%", _REPLAY, bursty_load),
    Check("G4", "drift: linear, sines, step", "false claims <= 5%, bias <= w/10", _REPLAY, drift),
    Check(
        "G6",
        "starts with levels of their own, SD 1%",
        "false claims <= 5%; an interval within one pair fails in 40 to 90%",
        _REPLAY,
        instances,
    ),
    Check("G7", "a user who ends the run at a claim", "false claims <= 5%", _REPLAY, adversary),
    Check("G11", "a grid of 24 equal cells", "any claim <= 5%", _REPLAY, grid),
)
