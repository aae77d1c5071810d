"""Change points in simulated and published histories."""

import json
from pathlib import Path

import numpy as np

from bakeoff.history.changes import Track
from validation.histories import KINDS, Kind, judge, places_found, simulate

PUBLISHED = Path(__file__).parents[2] / "bench/results/histories/published.json"


def test_found_change_points_are_judged_against_the_truth():
    kind = Kind("a step", steps=((10, -0.02),), series=2)
    judged = judge(kind, [[[10], []], [[11], []], [[12], []], [[10], [3]], [[], []]])
    assert judged == (2 / 5, 3 / 5)
    wrong, _ = judge(KINDS[0], [[[]], [[4]]])
    assert wrong == 0.5


def test_a_single_bad_run_is_not_a_change_and_hides_none():
    for kind in KINDS[-2:]:
        wrong, right = judge(kind, places_found(simulate(kind, seed=2, runs=20)))
        assert wrong <= 0.15 and right >= 0.9


def test_published_series_change_where_their_authors_say():
    series = json.loads(PUBLISHED.read_text("utf-8"))["series"]
    assert [len(each["values"]) for each in series] == [365, 173, 132]
    tracks = [[Track(np.log(each["values"]).tolist(), [0.0] * len(each["values"]))] for each in series]
    found = [places for (places,) in places_found(tracks)]
    assert all(min(abs(at - place) for at in found[0]) <= 1 for place in series[0]["said"])
    assert found[2] == []
