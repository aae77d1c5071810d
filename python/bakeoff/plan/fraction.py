"""Which combinations of many two-level factors to measure: a regular fraction of the best resolution there is.

Levels are counted as 0 (the baseline's) and 1. Some factors, the basic ones, take all combinations of levels; each
other factor takes the sum modulo 2 of several basic ones, its generator. Every set of factors whose levels always sum
to 0 is a word of the defining relation; two effects that differ by a word cannot be told apart.

Source: Box, Hunter & Hunter, Statistics for Experimenters (2005), ch. 6; Montgomery, Design and Analysis, ch. 8.
"""

import itertools
from collections.abc import Sequence
from math import comb

FACTORS_MIN = 5
"""Varied factors from which a study is fractioned unless it asks for all combinations."""

RESOLUTION_MIN = 4
"""Main effects are then mixed with no other main effect and no interaction of two factors."""

_SEARCH_MAX = 20_000  # choices of generators to look through; with more only those of odd length are


def generators(count: int) -> tuple[int, ...]:
    """The generators of the smallest fraction of resolution IV or better of so many factors; () when there is none.

    Returns:
        One bit mask over the basic factors for each factor after them; the number of basic factors is `count` less
        their number. Of all choices the one with the longest shortest word, then with the fewest words of that length.
    """
    basic = next(number for number in range(1, count + 1) if 2 ** (number - 1) >= count)
    extra = count - basic
    if extra <= 0:
        return ()
    masks = [mask for mask in range(1, 2**basic) if mask.bit_count() >= 2]
    if comb(len(masks), extra) > _SEARCH_MAX:
        masks = [mask for mask in masks if mask.bit_count() % 2 == 1]  # odd sums alone: no word is shorter than 4
    # Longer sums first, so that of equally good choices the usual one is found.
    masks.sort(key=lambda mask: (-mask.bit_count(), mask))
    choices = itertools.islice(itertools.combinations(masks, extra), _SEARCH_MAX)
    return min(choices, key=lambda chosen: _lengths(words(chosen, basic)))


def words(chosen: Sequence[int], basic: int) -> tuple[int, ...]:
    """All words of the defining relation as bit masks over the factors, the basic ones in the lowest bits."""
    relation = {0}
    for place, mask in enumerate(chosen):
        word = mask | 1 << (basic + place)
        relation |= {word ^ other for other in relation}
    return tuple(sorted(relation - {0}, key=lambda word: (word.bit_count(), word)))


def points(chosen: Sequence[int], basic: int) -> tuple[tuple[int, ...], ...]:
    """The combinations measured: a 0 or 1 for each factor; the first is all 0, the baseline."""
    found = []
    for number in range(2**basic):
        levels = [number >> place & 1 for place in range(basic)]
        found.append((*levels, *((number & mask).bit_count() % 2 for mask in chosen)))
    return tuple(found)


def _lengths(relation: Sequence[int]) -> tuple[int, ...]:
    """How many words there are of length 1, 2, 3 …: the smaller the tuple, the better the fraction."""
    counts = [0] * 32
    for word in relation:
        counts[word.bit_count()] += 1
    return tuple(counts)
