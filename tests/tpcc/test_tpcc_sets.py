"""The median of three sets, as publications give it, beside all other choices."""

import math

from bakeoff.tpcc.sections import median_ratios


def test_the_median_of_each_arm_over_every_choice_of_three():
    contender = {0: 12.0, 1: 11.0, 2: 30.0, 3: 11.0}
    baseline = {0: 10.0, 1: 10.0, 2: 10.0, 3: 20.0, 4: 1.0}
    ratios = median_ratios(contender, baseline)
    assert ratios[0] == 1.2
    assert sorted(ratios) == [1.1, 1.1, 1.2, 1.2]
    assert median_ratios({0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0}) == ()


def test_of_many_epochs_the_first_are_chosen_from():
    contender, baseline = {epoch: 100.0 + epoch for epoch in range(100)}, dict.fromkeys(range(100), 100.0)
    ratios = median_ratios(contender, baseline)
    assert (ratios[0], max(ratios), len(ratios)) == (1.01, 1.30, math.comb(32, 3))
