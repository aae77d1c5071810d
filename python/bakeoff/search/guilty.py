"""Search which few of many differing options explain a difference.

Every value is an epoch's log ratio of an arm that has some of the options at their second value, over the baseline:
the sum of their effects + noise. An option matters with a small prior probability, and then its effect is normal about
0. Effects and variance integrate out (normal and inverse gamma). The posterior is over sets: those reached from the
likeliest ones by adding, removing or exchanging one option, until none is new.

Source: D. Madigan, A. E. Raftery, Model selection and accounting for model uncertainty in graphical models using
Occam's window, JASA 1994 (sets); M. Aldridge, O. Johnson, J. Scarlett, Group testing, 2019 (what to measure next).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.97  # probability of the named options at which measuring ends
GUILTY_EXPECTED = 2.0  # options expected to matter before anything is measured, however many differ
SMALL_SHARE = 0.1  # share of the whole difference below which effects are not looked for
GUILTY_MAX = 8  # most options of one set

_NOISE, _NOISE_EPOCHS = 0.01, 2.0  # standard deviation assumed before anything is measured, and its worth in epochs
_BEAM = 60  # sets from which others are made
_KEPT = 3000
_ROUNDS = GUILTY_MAX
_STARTS = 6

Design = Sequence[Sequence[bool]]  # one row per value: which options had their second value


@dataclass(frozen=True)
class Beliefs:
    """What is believed after some values."""

    weights: NDArray[np.float64]  # probabilities of sets of options, the likeliest first
    inside: NDArray[np.bool_]  # a row per set: whether it has each option
    means: NDArray[np.float64]  # a row per set: the effect of each option, log ratio
    within: NDArray[np.float64]  # covariance of the effects in a set, mean over the sets
    small: float  # log ratio below which an effect is ignored

    @property
    def options(self) -> int:
        return len(self.within)

    @cached_property
    def guilty(self) -> NDArray[np.float64]:
        """Probability that each option matters."""
        return self.weights @ self.inside

    @cached_property
    def effects(self) -> NDArray[np.float64]:
        return self.weights @ self.means

    @cached_property
    def covariance(self) -> NDArray[np.float64]:
        """Covariance of the effects, over sets and within them."""
        apart = self.means - self.effects
        return apart.T @ (self.weights[:, None] * apart) + self.within

    def named(self) -> tuple[int, ...] | None:
        """Return the options that matter once it is likely enough that they do and no other does, else None.

        A set speaks against that if it lacks one of them, or has another whose effect is `SMALL_SHARE` of the whole.
        """
        named = self.guilty >= CONFIDENCE
        lacks = (named & ~self.inside).any(axis=1)
        more = ((np.abs(self.means) >= self.small) & ~named).any(axis=1)
        against = self.weights[lacks | more].sum()
        return tuple(np.flatnonzero(named).tolist()) if against <= 1 - CONFIDENCE else None


def beliefs(design: Design, values: Sequence[float]) -> Beliefs:
    """Return the posterior over sets of options. In the first rows of `design` every option has its second value."""
    scores = _Scores(np.array(design, dtype=np.float64), np.array(values))
    found: dict[tuple[int, ...], float] = {}
    fresh = {(), *((option,) for option in range(scores.options))}
    extended: set[tuple[int, ...]] = set()
    for _ in range(_ROUNDS):
        found |= scores.of(sorted(fresh))
        beam = [each for each in nlargest(_BEAM, found, key=found.__getitem__) if each not in extended]
        extended.update(beam)
        fresh = {other for each in beam for other in _neighbours(each, scores.options)} - found.keys()
        if not fresh:
            break
    best = sorted(found, key=lambda each: (-found[each], each))[:_KEPT]
    log = np.array([found[each] for each in best])
    weights = np.exp(log - log[0])
    kept = weights > 1e-5
    sets, weights = best[: int(kept.sum())], weights[kept] / weights[kept].sum()
    return Beliefs(weights, *scores.effects(sets, weights), scores.small)


def next_subset(
    found: Beliefs, rng: np.random.Generator, *, only_all: Sequence[bool], started: Design = (), refused: Design = ()
) -> tuple[bool, ...]:
    """Return the options to have their second value in the next epoch: those whose sum of effects is least known.

    An option of `only_all` has its second value only if all others have it, too. Servers have started with the options
    in `started`, and have not with those in `refused`.
    """
    spread = found.covariance
    fixed = np.array(only_all, dtype=np.bool_)
    candidates = [np.ones(found.options)] if fixed.any() else []
    for _ in range(_STARTS):
        chosen = np.where(fixed, 0.0, rng.random(found.options) < 0.5)
        candidates.append(chosen.copy())
        for _ in range(4 * found.options):
            toward = spread @ chosen
            gain = np.where(chosen > 0, -2 * toward, 2 * toward) + np.diag(spread)
            flipped = int(np.where(fixed, -1.0, gain).argmax())
            if gain[flipped] <= 1e-12:
                break
            chosen[flipped] = 1 - chosen[flipped]
        candidates += [chosen, *(np.abs(chosen - one) for one in np.eye(found.options)[~fixed])]
    tried = {tuple(bool(each) for each in row) for row in refused}
    reasons = _reasons(found.options, started, refused)
    best, best_value = (True,) * found.options, -1.0
    for candidate in candidates:
        subset = tuple(candidate.astype(bool).tolist())
        starts = 1 - float(candidate @ reasons @ (1 - candidate))
        value = starts * float(candidate @ spread @ candidate)
        if value > best_value and any(subset) and subset not in tried:
            best, best_value = subset, value
    return best


def _reasons(options: int, started: Design, refused: Design) -> NDArray[np.float64]:
    """Return the probability that a server with option i and without option j is refused, for one such pair.

    Pairs that all of `refused` have and none of `started` are equally likely.
    """
    if not refused:
        return np.zeros((options, options))
    having = [np.array(rows, dtype=np.float64).reshape(-1, options) for rows in (refused, started)]
    of_refused, of_started = ((rows[:, :, None] * (1 - rows[:, None, :])) for rows in having)
    possible = np.asarray(of_refused.all(axis=0) & ~of_started.any(axis=0), dtype=np.float64)
    return np.asarray(possible / max(possible.sum(), 1.0))


def _neighbours(members: tuple[int, ...], options: int) -> Iterable[tuple[int, ...]]:
    fewer = [tuple(each for each in members if each != gone) for gone in members]
    yield from fewer
    for base in (members, *fewer):
        if len(base) < GUILTY_MAX:
            for option in range(options):
                if option not in base:
                    yield tuple(sorted((*base, option)))


class _Scores:
    def __init__(self, design: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        self.options = design.shape[1]
        whole = [value for row, value in zip(design, values, strict=True) if row.all()] or list(values)
        size = max(abs(fmean(whole)) / 2, _NOISE)
        self.small = 2 * size * SMALL_SHARE
        self._wide = (size / _NOISE) ** 2  # prior variance of an effect, in units of the noise's
        self._gram, self._sums = design.T @ design, design.T @ values
        self._squares, self._n = float(values @ values), len(values)
        share = min(GUILTY_EXPECTED / self.options, 0.5)
        self._odds = math.log(share / (1 - share))

    def of(self, sets: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
        found: dict[tuple[int, ...], float] = {}
        for rows, members in _by_size(sets):
            inner, sums = self._inner(members), self._sums[members]
            solved = np.asarray(np.linalg.solve(inner, sums[..., None])[..., 0], dtype=np.float64)
            _, log_det = np.linalg.slogdet(inner * self._wide)
            odds = members.shape[1] * self._odds
            log = odds - log_det / 2 - (_NOISE_EPOCHS + self._n) / 2 * np.log(self._rest(sums, solved))
            found |= zip((sets[row] for row in rows), log.tolist(), strict=True)
        return found

    def effects(
        self, sets: Sequence[tuple[int, ...]], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
        """Return `inside`, `means` and `within` of `Beliefs`."""
        inside = np.zeros((len(sets), self.options), dtype=np.bool_)
        means, within = np.zeros(inside.shape), np.zeros((self.options, self.options))
        for rows, members in _by_size(sets):
            at = np.array(rows)[:, None]
            inverse, sums = np.linalg.inv(self._inner(members)), self._sums[members]
            inside[at, members] = True
            means[at, members] = mean = (inverse @ sums[..., None])[..., 0]
            scale = weights[rows] * self._rest(sums, mean) / (_NOISE_EPOCHS + self._n)
            np.add.at(within, (members[:, :, None], members[:, None, :]), inverse * scale[:, None, None])
        return inside, means, within

    def _inner(self, members: NDArray[np.int64]) -> NDArray[np.float64]:
        own = self._gram[members[:, :, None], members[:, None, :]]
        return np.asarray(own + np.eye(members.shape[1]) / self._wide)

    def _rest(self, sums: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.float64]:
        squares = _NOISE_EPOCHS * _NOISE**2 + self._squares
        return np.asarray(np.maximum(squares - (sums * means).sum(axis=1), 1e-300))


def _by_size(sets: Sequence[tuple[int, ...]]) -> Iterator[tuple[list[int], NDArray[np.int64]]]:
    sizes: dict[int, list[int]] = {}
    for row, each in enumerate(sets):
        sizes.setdefault(len(each), []).append(row)
    for size, rows in sizes.items():
        yield rows, np.array([sets[row] for row in rows], dtype=np.int64).reshape(len(rows), size)
