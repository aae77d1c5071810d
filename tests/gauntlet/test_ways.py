"""What counts as a claim, and how claims are added up."""

import math

import pytest

from bakeoff.gauntlet.ways import Judgement, Way, judge_serial, rates, serial


def test_a_visible_ratio_is_a_claim():
    assert judge_serial(Way.ONE_LONG, [1000.0], [1009.0]).claim == 0
    assert judge_serial(Way.ONE_LONG, [1000.0], [1011.0]).claim == 1
    assert judge_serial(Way.ONE_LONG, [1000.0], [980.0]).claim == -1


def test_the_median_ignores_one_bad_run_and_the_careful_one_waits_for_all():
    baseline, contender = [1000.0, 1000.0, 1000.0], [970.0, 975.0, 3000.0]
    assert judge_serial(Way.MEDIAN_OF_THREE, baseline, contender).log_ratio == pytest.approx(math.log(0.975))
    assert judge_serial(Way.MEDIAN_OF_THREE, baseline, contender).claim == -1
    assert judge_serial(Way.THREE_APART, baseline, contender).claim == 0
    assert judge_serial(Way.THREE_APART, baseline, [970.0, 999.0, 998.0]).claim == -1


def test_every_serial_way_uses_all_of_the_time():
    for way, runs in ((Way.ONE_LONG, 2), (Way.MEDIAN_OF_THREE, 6)):
        spent = serial(way, wall_s=600, overhead_s=7)
        assert len(spent.order) == runs
        assert spent.order.count("A") == spent.order.count("B")
        assert runs * (spent.seconds + 7) == pytest.approx(600)


def test_rates():
    said = [Judgement(-0.02, -1, 0.01), Judgement(-0.005, 0, 0.01), Judgement(0.03, 1, 0.01)]
    found = rates(said, truth=-0.02)
    assert (found.right, found.wrong, found.missed, found.held) == (1, 1, 2, 1)
    assert found.told == 0.01
    equal = rates(said, truth=0.0)
    assert (equal.right, equal.wrong, equal.missed) == (0, 2, 0)
