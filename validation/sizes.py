"""Simulates how comparisons end, and counts how often the interval that is shown at the end holds the truth.

The rule is applied to many runs at once, as `stop_state` applies it to one (tests/validation/test_sizes.py holds them
together). Noise is that of an epoch's log ratio: of both arms, or of one arm alone, which is not symmetric.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bakeoff.stats import interval as iv
from bakeoff.stats.hosts import moments
from validation.check import Checks, Count, Finding, Setting, Size, scaled, summarised
from validation.simulation import SHAPES, Draw, Floats, running, stopped

SIZE_CHECKS = Checks(Size.REPLAY, Size.FULL)

PRECISION = 0.01
BUDGET = 40  # epochs
SPREADS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
EFFECTS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 0.7, 1.5, math.log(10))
FAMILY = 30


@dataclass(frozen=True)
class Kind:
    """A distribution of mean 0 and variance 1, and what the method promises for it."""

    draw: Draw
    holds: float = 0.95
    false: float = 0.05


def _two_arms(one: Draw) -> Draw:
    return lambda rng, size: (one(rng, size) - one(rng, size)) / math.sqrt(2)


def _gamma(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    return (rng.gamma(4, 1, size) - 4) / 2


def _lognormal(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    spread = math.expm1(0.64) * math.exp(0.64)
    return (np.exp(rng.normal(0, 0.8, size)) - math.exp(0.32)) / math.sqrt(spread)


def _slow_starts(share: float) -> Draw:
    """Draw an arm that is slow in a share of its starts, with a little noise in both states."""
    spread = math.sqrt(share * (1 - share) + 0.15**2)
    return lambda rng, size: ((rng.random(size) < share) - share + rng.normal(0, 0.15, size)) / spread


KINDS: Mapping[str, Kind] = {
    "normal": Kind(SHAPES["normal"]),
    "t3": Kind(SHAPES["t3"]),
    "gamma-4, both arms": Kind(_two_arms(_gamma)),
    "lognormal, both arms": Kind(_two_arms(_lognormal)),
    "half of the starts slow, both arms": Kind(_two_arms(_slow_starts(0.5))),
    "a quarter slow, both arms": Kind(_two_arms(_slow_starts(0.25))),
    "gamma-4, one arm": Kind(_gamma, holds=0.925, false=0.075),
    "half of the starts slow, one arm": Kind(_slow_starts(0.5), holds=0.92, false=0.08),
    "a quarter slow, one arm": Kind(_slow_starts(0.25), holds=0.82, false=0.18),
}
"""One arm alone has no symmetric difference: its rates are known limits of the method."""


class Ends(NamedTuple):
    """How runs ended; arrays over runs."""

    n: NDArray[np.int64]
    mean: Floats
    sd: Floats
    half_width: Floats


class Rule(NamedTuple):
    """When a run ends. With `decisive` it is a gate whose limit is a ratio of 1, in a family of as many comparisons."""

    precision: float = PRECISION
    n_min: int = iv.N_MIN
    factor: float = 1.0  # on the half-width
    decisive: int = 0


_DUEL = Rule()


class Runs:
    """Runs to the end of the budget, whose running moments serve every spread and effect."""

    def __init__(self, unit: Floats) -> None:
        self.n, self._mean, self._sd = running(unit)
        self._h = np.array([iv.precision_half_width(1.0, int(n)) for n in self.n])

    def ends(self, spread: float, effect: float, rule: Rule = _DUEL) -> Ends:
        mean, sd = effect + spread * self._mean, spread * self._sd
        with np.errstate(invalid="ignore"):
            half = rule.factor * self._h * sd
            own = 0.0 if rule.decisive else iv.RELATIVE_PRECISION
            over = (half <= np.maximum(rule.precision, own * np.abs(mean))) & (self.n >= rule.n_min)
            if rule.decisive:
                alpha = iv.ALPHA_DECISIVE / rule.decisive
                apart = np.array([iv.anytime_half_width(1.0, int(n), alpha=alpha) for n in self.n])
                over |= (np.abs(mean) > apart * sd) & (self.n >= iv.N_MIN_DECISIVE)
        over[:, -1] = True
        at = over.argmax(axis=1)
        rows = np.arange(len(at))
        return Ends(at + 1, mean[rows, at], sd[rows, at], half[rows, at])


def of_kind(rng: np.random.Generator, name: str, *, runs: int, rule: Rule = _DUEL) -> tuple[list[Count], float]:
    """Count missed truths and false claims in every cell of spreads and effects; and the mean number of epochs."""
    kind, counts, epochs = KINDS[name], [], []
    drawn = Runs(kind.draw(rng, (runs, BUDGET)))
    for spread, effect in product(SPREADS, EFFECTS):
        found = drawn.ends(spread, effect, rule)
        held = int((np.abs(found.mean - effect) <= found.half_width).sum())
        label = f"{name}, sd {spread:.1%}, effect {effect:.3g}"
        note = f"{found.n.mean():.1f} epochs"
        counts.append(Count(f"the interval holds the truth ({label})", held, runs, at_least=kind.holds, note=note))
        if effect == 0:
            counts.append(Count(f"false claims ({label})", runs - held, runs, at_most=kind.false, note=note))
        epochs.append(float(found.n.mean()))
    return counts, float(np.mean(epochs))


def of_family(rng: np.random.Generator, *, runs: int, effects: int, spread: float = 0.02) -> Count:
    """Count families in which Holm claims one of the comparisons that have no effect."""
    truth = np.where(np.arange(FAMILY) < effects, 0.3, 0.0)
    each = [Runs(KINDS["normal"].draw(rng, (runs, BUDGET))).ends(spread, float(effect)) for effect in truth]
    false = 0
    for run in range(runs):
        p = [iv.p_value(float(e.mean[run]), float(e.sd[run]), int(e.n[run])) for e in each]
        claimed = [q is not None and q <= iv.ALPHA_PRECISE for q in iv.holm(p)]
        false += any(claimed[effects:])
    return Count(f"false claims in a family of {FAMILY}, {effects} of them with an effect", false, runs, at_most=0.05)


def of_hosts(rng: np.random.Generator, *, runs: int, hosts: int, effect: float) -> Count:
    """Count intervals that hold the truth over hosts that differ as much as their epochs do."""
    names = [f"h{epoch % hosts}" for epoch in range(BUDGET)]
    held = 0
    for _ in range(runs):
        own = rng.normal(0, 0.02, hosts)
        values = (effect + np.tile(own, BUDGET)[:BUDGET] + rng.normal(0, 0.02, BUDGET)).tolist()
        _, n = stopped(values, names, precision=PRECISION)
        held += iv.precision_interval(*moments(values[:n], names[:n])).holds(effect)
    return Count(f"the interval holds the truth ({hosts} hosts, effect {effect:.3g})", held, runs, at_least=0.95)


@SIZE_CHECKS.add("G26", "the interval holds the truth >= 95 %, false claims <= 5 %; one arm alone: known limits")
def sizes(setting: Setting, scale: float = 1.0) -> Finding:
    """Effects of 0 to 10×, by the rule that ends a comparison once its size is known."""
    rng = np.random.default_rng(setting.seed)
    more = scale * (50 if setting.size is Size.FULL else 1)
    counts: list[Count] = []
    for name in KINDS:
        counts += of_kind(rng, name, runs=scaled(2000, more))[0]
    counts += [of_family(rng, runs=scaled(200, more), effects=effects) for effects in (0, 10, 25)]
    for hosts, effect in product((6, 20), (0.0, 0.3, math.log(10))):
        counts.append(of_hosts(rng, runs=scaled(40, min(more, 10 * scale)), hosts=hosts, effect=effect))
    return summarised(counts)


def table(seed: int, *, runs: int, rule: Rule = _DUEL) -> str:
    """Format a table of docs/evidence/validation.md: the worst cell of each kind of noise."""
    rng, lines = np.random.default_rng(seed), ["| noise | holds | false claims | epochs |", "|---|---|---|---|"]
    for name in KINDS:
        counts, epochs = of_kind(rng, name, runs=runs, rule=rule)
        holds = min(count.share for count in counts if count.at_least is not None)
        false = max(count.share for count in counts if count.at_most is not None)
        lines.append(f"| {name} | {holds:.1%} | {false:.1%} | {epochs:.1f} |")
    return "\n".join(lines)


def slowest(seed: int, *, runs: int) -> str:
    """Compare the epochs of the slowest of five effects with those of decisive ends, at scale demo."""
    rng, rule = np.random.default_rng(seed), Rule(precision=0.05)
    lines = ["| spread | decisive ends | size |", "|---|---|---|"]
    for spread in (0.01, 0.02, 0.03, 0.05, 0.08):
        drawn = [(Runs(rng.standard_normal((runs, 12))), effect) for effect in (-0.53, -0.4, -0.3, 0.46, -0.1)]
        taken = [
            np.max([each.ends(spread, effect, by).n for each, effect in drawn], axis=0).mean()
            for by in (rule._replace(decisive=len(drawn)), rule)
        ]
        lines.append(f"| {spread:.0%} | {taken[0]:.1f} | {taken[1]:.1f} |")
    return "\n".join(lines)
