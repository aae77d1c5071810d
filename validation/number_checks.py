"""Checks the numbers behind verdicts against independent values, and that too little data give no verdict."""

import math
from collections.abc import Sequence

import numpy as np

from bakeoff.plan import plan_study
from bakeoff.results.epoch_data import EpochData
from bakeoff.spec import Study, parse_server
from bakeoff.stats import interval as iv
from bakeoff.stats.estimate import PairEstimate
from bakeoff.stats.interval import t_quantile
from bakeoff.stats.model import Comparison, Obstacle, Stop, Word
from bakeoff.stats.verdict import AnalysisContext
from validation.check import Checks, Finding, Setting, Size, seed_of
from validation.methods import SOUND, Method
from validation.simulation import (
    BASELINE,
    CONTENDER,
    Conditions,
    Floats,
    Slices,
    epoch_of_slices,
    pair_of,
    simulate_epoch,
    simulated_study,
)

NUMBER_CHECKS = Checks(Size.REPLAY)

MULTIPLIERS = {
    0.05: {4: 7.21, 5: 5.36, 6: 4.73, 8: 4.20, 10: 3.97, 15: 3.73, 20: 3.63, 40: 3.54},
    0.01: {5: 9.73, 6: 7.13, 8: 5.66, 10: 5.11, 15: 4.57, 20: 4.36, 40: 4.11},
}
"""Half-width in units of s / sqrt(n), by alpha and n: the method's table, to two digits."""

_EXACT = 1e-9


@NUMBER_CHECKS.add("G17", "exact (t and p to 1e-9); never a verdict without n_min")
def numbers(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """Numbers: multipliers, t, p; too few epochs, empty slices, NaN."""
    multipliers = max(
        abs(iv.anytime_multiplier(n, alpha) - known) for alpha, row in MULTIPLIERS.items() for n, known in row.items()
    )
    student = max(
        abs(_inside(t_quantile(p, n - 1), n - 1) - (2 * p - 1)) for n in range(2, 1001) for p in (0.9, 0.98, 0.9995)
    )
    p_values = max(
        abs(1 - _inside(math.sqrt(n) * 0.5 / iv.INFLATION, n - 1) - iv.p_value(0.5, 1.0, n)) for n in range(2, 1001)
    )
    rng = np.random.default_rng(seed_of(setting, "G17"))
    wrong = [*_too_few(rng, method), *_nothing_done(rng, method)]
    passed = multipliers <= 0.005 and student <= _EXACT and p_values <= _EXACT and not wrong
    found = f"multipliers within {multipliers:.4f}; t within {student:.0e}, p within {p_values:.0e} for n = 2 to 1000"
    return Finding(
        found=f"{found}; {', '.join(wrong)}" if wrong else f"{found}; no verdict from too little",
        passed=passed,
        figures={"multipliers": multipliers, "t": student, "p": p_values, "wrong": wrong},
    )


@NUMBER_CHECKS.add("G19", "no verdict, and labelled so")
def no_restarts(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """Data without restarts, as they are often published."""
    rng = np.random.default_rng(seed_of(setting, "G19"))
    study = simulated_study()
    running = parse_server("mysql://root@127.0.0.1:3306/")
    arms = tuple(arm.with_server(running) for arm in study.arms)
    cases = {
        "20 repetitions on running servers": (study.with_arms(arms), 20, 0.0),
        "the same, one of them running": (study.with_arms((study.arms[0], arms[1])), 20, 0.0),
        "one long run each": (study, 1, 0.0),
        "three runs each": (study, 3, 0.0),
        "three runs each, all the same": (study, 3, 1.0),
    }
    wrong = []
    for name, (asked, epochs, alike) in cases.items():
        values = (-0.1 + (1 - alike) * rng.normal(0, 0.002, epochs)).tolist()
        comparison = _judged(values, asked, method)
        labelled = epochs < iv.N_MIN or comparison.obstacle is Obstacle.NOT_RESTARTED
        if comparison.verdict.words != (Word.INCONCLUSIVE,) or not labelled:
            wrong.append(f"{name}: {comparison.verdict.sentence}")
    values = (-0.1 + rng.normal(0, 0.002, 20)).tolist()
    if not _judged(values, study, method).verdict.claims:
        wrong.append("no verdict with restarts either")
    return Finding(
        found="; ".join(wrong) or f"{len(cases)} of {len(cases)} without a verdict, and labelled so",
        passed=not wrong,
        figures={"cases": list(cases), "wrong": wrong},
    )


def _inside(t: float, degrees: int) -> float:
    """Return P(|T| <= t), by the finite series for whole degrees of freedom.

    Source: Abramowitz & Stegun 26.7.3 and 26.7.4. Independent of the incomplete beta function that `t_quantile` uses.
    """
    angle = math.atan2(t, math.sqrt(degrees))
    sine, cosine2 = math.sin(angle), math.cos(angle) ** 2
    if degrees % 2:
        term, total = math.cos(angle), 0.0
        for k in range(1, (degrees - 1) // 2 + 1):
            total += term
            term *= cosine2 * 2 * k / (2 * k + 1)
        return 2 / math.pi * (angle + sine * total)
    term, total = 1.0, 0.0
    for k in range(1, degrees // 2 + 1):
        total += term
        term *= cosine2 * (2 * k - 1) / (2 * k)
    return sine * total


def _too_few(rng: np.random.Generator, method: Method) -> list[str]:
    """Judge clear differences over fewer epochs than a verdict needs, and values that are not finite."""
    study, wrong = simulated_study(), []
    for n in range(1, iv.N_MIN):
        for spread in (0.0, 1e-6, 0.001, 0.01):
            values = (-0.2 + spread * rng.standard_normal(n)).tolist()
            found = iv.moments(values)
            clear = abs(found.mean) > iv.anytime_half_width(*found[1:], alpha=iv.ALPHA_DECISIVE)
            allowed = n >= iv.N_MIN_DECISIVE and clear
            for ended in (Stop.BUDGET, Stop.ABORTED):
                words = _judged(values, study, method, ended=ended).verdict.words
                if words != (Word.INCONCLUSIVE,) and not allowed:
                    wrong.append(f"n = {n}, spread {spread:g}: {words}")
    for bad in (math.nan, math.inf, -math.inf):
        values = [-0.2] * 9 + [bad]
        if method.stop(values, study.precision, 1) is not Stop.RUNNING:
            wrong.append(f"stops on {bad}")
        if _judged(values, study, method).verdict.words != (Word.INCONCLUSIVE,):
            wrong.append(f"a verdict from {bad}")
    return wrong


def _nothing_done(rng: np.random.Generator, method: Method) -> list[str]:
    """Judge slices without an event: a fifth of them slows the arm by a fifth; only such slices give no ratio."""
    study, wrong = simulated_study(), []
    some, none = [], []
    for number in range(8):
        equal = {BASELINE: 0.0, CONTENDER: 0.0}
        epoch = simulate_epoch(rng, equal, Conditions(seconds=4.0), epoch=number, cells=["cell"])
        some += _pairs(_stopped(epoch, share=0.2, rng=rng), method)
        none += _pairs(_stopped(epoch, share=1.0, rng=rng), method)
    mean = math.fsum(pair.value for pair in some) / len(some)
    if not abs(mean - math.log(0.8)) < 0.1:
        wrong.append(f"a fifth of the slices without an event read as {mean:+.2f}")
    if not all(math.isfinite(pair.trimmed) for pair in some):
        wrong.append("the trimmed ratio of slices without an event is not finite")
    judged = _judge(none, study, method, ended=Stop.BUDGET)
    if judged.verdict.words != (Word.INCONCLUSIVE,):
        wrong.append("a verdict of an arm that completed nothing")
    return wrong


def _stopped(epoch: EpochData, *, share: float, rng: np.random.Generator) -> EpochData:
    slices = epoch.slices
    order = (slices["arm"] == CONTENDER).astype(np.int64)[None, :]
    events: Floats = slices["events"].astype(np.float64)[None, :]
    hit = (order == 1) & (rng.permutation(order.size) < share * order.size)[None, :]
    changed = Slices(order, slices["start_ns"], slices["length_ns"][None, :] / 1e9, np.where(hit, 0.0, events))
    return epoch_of_slices(changed, epoch=epoch.epoch, arms=(BASELINE, CONTENDER), cells=["cell"])


def _pairs(epoch: EpochData, method: Method) -> list[PairEstimate]:
    return [pair for estimates in method.reduce(epoch) for pair in estimates.pairs]


def _judged(values: Sequence[float], study: Study, method: Method, *, ended: Stop = Stop.BUDGET) -> Comparison:
    pairs = [pair_of("", number, value) for number, value in enumerate(values)]
    return _judge(pairs, study, method, ended=ended)


def _judge(pairs: list[PairEstimate], study: Study, method: Method, *, ended: Stop) -> Comparison:
    plan = plan_study(study, overhead_s=0.0, load_s=0.0)
    context = AnalysisContext(study=study, family=1, control=None, ended=ended, epoch_s=20.0)
    (comparison,) = method.judge({(plan.cells[0].name, CONTENDER): pairs}, plan, context)
    return comparison
