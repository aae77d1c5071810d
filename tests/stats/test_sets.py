"""The publication's median of three sets."""

from bakeoff.stats.published import median_ratios


def test_the_median_of_each_arm_over_every_choice_of_three():
    contender = {0: 12.0, 1: 11.0, 2: 30.0, 3: 11.0}
    baseline = {0: 10.0, 1: 10.0, 2: 10.0, 3: 20.0, 4: 1.0}
    ratios = median_ratios(contender, baseline)
    assert ratios[0] == 1.2
    assert sorted(ratios) == [1.1, 1.1, 1.2, 1.2]
    assert median_ratios({0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0}) == ()
