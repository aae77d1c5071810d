"""Combine the epochs of several hosts by random effects: hosts are a sample of all that might have been used.

The degrees of freedom are those of the hosts, however many epochs they have. With one host it is the plain mean.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from statistics import fmean
from typing import NamedTuple

from bakeoff.stats import interval as iv
from bakeoff.stats.model import Estimate

_TAIL = iv.ALPHA_T / 2


@dataclass(frozen=True)
class _Blocks:
    """The epochs of several hosts; `within` is the pooled variance within hosts, with `freedom` degrees of freedom."""

    means: list[float]
    counts: list[int]
    within: float
    freedom: int

    @property
    def between(self) -> float:
        """Variance between hosts that noise within them does not explain (DerSimonian and Laird), at least 0."""
        n = sum(self.counts)
        _, scatter = self.scatter(self.counts)
        spare = n - sum(count * count for count in self.counts) / n
        return max(0.0, (scatter - (len(self.counts) - 1) * self.within) / spare)

    def weights(self, between: float) -> list[float]:
        variances = [between + self.within / count for count in self.counts]
        return [1 / variance for variance in variances] if min(variances) > 0 else [1.0] * len(variances)

    def scatter(self, weights: Sequence[float]) -> tuple[float, float]:
        mean = math.fsum(w * each for w, each in zip(weights, self.means, strict=True)) / math.fsum(weights)
        return mean, math.fsum(w * (each - mean) ** 2 for w, each in zip(weights, self.means, strict=True))

    def shares(self) -> list[float]:
        """Weight of each host; the sum is 1.

        Hosts are assumed to vary at least as much as epochs: with few hosts a variance of 0 is often found by chance,
        and a host with many epochs would decide alone.
        """
        weights = self.weights(max(self.between, self.within))
        total = math.fsum(weights)
        return [weight / total for weight in weights]

    def noise(self, shares: Sequence[float]) -> float:
        return math.fsum(share * share * self.within / count for share, count in zip(shares, self.counts, strict=True))

    def error(self, shares: Sequence[float]) -> tuple[float, float]:
        """Combined mean, and its variance by Hartung and Knapp, but never below the noise within hosts."""
        mean, scatter = self.scatter(shares)
        degrees = len(shares) - 1
        wider = iv.t_quantile(1 - _TAIL, self.freedom) / iv.t_quantile(1 - _TAIL, degrees) if self.freedom else 0.0
        return mean, max(scatter / degrees, self.noise(shares) * min(wider, 1.0) ** 2)


def by_host(values: Sequence[float], hosts: Sequence[str]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for value, host in zip(values, hosts or repeat("", len(values)), strict=True):
        found.setdefault(host, []).append(value)
    return found


def _blocks(values: Sequence[float], hosts: Sequence[str]) -> _Blocks | None:
    """Return None for one host, or if a value is not finite; the plain mean is enough then."""
    if not hosts or all(host == hosts[0] for host in hosts) or not all(map(math.isfinite, values)):
        return None
    means, counts, squares = [], [], []
    for each in by_host(values, hosts).values():
        mean = fmean(each)
        means.append(mean)
        counts.append(len(each))
        squares += [(value - mean) ** 2 for value in each]
    freedom = len(values) - len(counts)
    return _Blocks(means, counts, math.fsum(squares) / freedom if freedom else 0.0, freedom)


def moments(values: Sequence[float], hosts: Sequence[str] = ()) -> iv.Moments:
    """Estimate the mean of one value per epoch, and its error; `hosts` is empty for a single machine.

    Source: Hartung & Knapp, A refined method for the meta-analysis of controlled clinical trials, Statist. Med. 20
    (2001); Roever, Knapp & Friede, BMC Med. Res. Methodol. 15 (2015) for never below the noise.
    """
    blocks = _blocks(values, hosts)
    if blocks is None:
        return iv.moments(values)
    mean, variance = blocks.error(blocks.shares())
    n = len(values)
    return iv.Moments(mean, math.sqrt(variance * n), n, len(blocks.counts) - 1)


def epoch_weights(values: Sequence[float], hosts: Sequence[str]) -> list[float]:
    blocks = _blocks(values, hosts)
    if blocks is None:
        return [1 / len(values)] * len(values)
    each = (share / count for share, count in zip(blocks.shares(), blocks.counts, strict=True))
    own = dict(zip(dict.fromkeys(hosts), each, strict=True))
    return [own[host] for host in hosts]


def estimate_of(values: Sequence[float], hosts: Sequence[str], interval_of: iv.IntervalOf) -> Estimate:
    return iv.estimate(moments(values, hosts), interval_of)


def sd_within(values: Sequence[float], hosts: Sequence[str]) -> float | None:
    """Return the standard deviation of epochs within their host; None with one epoch per host."""
    blocks = _blocks(values, hosts)
    if blocks is None:
        return iv.standard_deviation(values)
    return math.sqrt(blocks.within) if blocks.freedom else None


def without_hosts(values: Sequence[float], hosts: Sequence[str]) -> Sequence[float]:
    """Remove the differences between hosts, for tests of single epochs."""
    blocks = _blocks(values, hosts)
    if blocks is None:
        return values
    mean, _ = blocks.error(blocks.shares())
    own = dict(zip(dict.fromkeys(hosts), blocks.means, strict=True))
    return [value - own[host] + mean for value, host in zip(values, hosts, strict=True)]


def epochs_needed(values: Sequence[float], hosts: Sequence[str], precision: float) -> int | None:
    """Return the fewest epochs on the same hosts that would reach the target precision; None if no number would."""
    blocks = _blocks(values, hosts)
    if blocks is None:
        return iv.epochs_needed(iv.standard_deviation(values), precision)
    n, degrees = len(values), len(blocks.counts) - 1
    if degrees + 1 < iv.N_MIN:
        return None
    shares = blocks.shares()
    _, variance = blocks.error(shares)
    noise = min(blocks.noise(shares), variance) if blocks.freedom else variance
    half_width_of_one = iv.precision_half_width(math.sqrt(2), 2, degrees)  # with a standard error of 1
    room = (precision / half_width_of_one) ** 2 - (variance - noise)
    return max(iv.N_MIN, math.ceil(n * noise / room)) if room > 0 else None


class Spread(NamedTuple):
    """Standard deviation between hosts beyond the noise of their epochs, and p of no difference."""

    sd: float
    p_value: float


def spread(values: Sequence[float], hosts: Sequence[str]) -> Spread | None:
    """Estimate how much hosts differ; None with one host, or one epoch on each."""
    blocks = _blocks(values, hosts)
    if blocks is None or not blocks.freedom:
        return None
    if blocks.within == 0:
        sd = iv.standard_deviation(blocks.means)
        return Spread(sd, 0.0 if sd else 1.0)
    degrees = len(blocks.counts) - 1
    _, scatter = blocks.scatter(blocks.weights(0.0))
    return Spread(math.sqrt(blocks.between), iv.f_above(scatter / degrees, degrees, blocks.freedom))
