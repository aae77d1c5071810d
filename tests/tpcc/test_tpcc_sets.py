"""The median of three sets, as publications give it, beside all other choices."""

from itertools import combinations
from statistics import median

import pytest

from bakeoff.tpcc.sections import CHOICES_MAX, median_ratios


def test_the_median_of_each_arm_over_every_choice_of_three():
    contender = {0: 12.0, 1: 11.0, 2: 30.0, 3: 11.0}
    baseline = {0: 10.0, 1: 10.0, 2: 10.0, 3: 20.0, 4: 1.0}
    ratios = median_ratios(contender, baseline)
    assert ratios[0] == 1.2
    assert sorted(ratios) == [1.1, 1.1, 1.2, 1.2]
    assert median_ratios({0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0}) == ()


def test_of_many_choices_of_three_those_drawn_say_what_all_say():
    contender, baseline = {epoch: 100.0 + epoch for epoch in range(100)}, dict.fromkeys(range(100), 100.0)
    ratios = median_ratios(contender, baseline)
    assert (ratios[0], len(ratios)) == (1.01, CHOICES_MAX)
    everything = median(median(contender[epoch] for epoch in chosen) for chosen in combinations(range(100), 3)) / 100
    assert median(ratios) == pytest.approx(everything, rel=0.01)
    assert ratios == median_ratios(contender, baseline)
