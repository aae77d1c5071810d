"""The interval that is shown at the end holds the truth, and the simulation ends runs as the rule does."""

import math

import numpy as np
import pytest

from bakeoff.stats import interval as iv
from validation import sizes
from validation.check import Setting, Size
from validation.simulation import run_to_end


@pytest.mark.parametrize("effect", [0.0, 0.02, 0.7])
def test_runs_end_as_the_rule_ends_them(effect):
    rng = np.random.default_rng(3)
    unit = rng.standard_normal((60, 25))
    found = sizes.Runs(unit).ends(0.04, effect)
    for at, row in enumerate(unit):
        end = run_to_end((effect + 0.04 * row).tolist(), precision=sizes.PRECISION)
        assert end.n == found.n[at]
        assert end.interval.half_width == pytest.approx(found.half_width[at])


@pytest.mark.parametrize("name", sizes.KINDS)
def test_the_interval_holds_the_truth_whatever_the_noise_and_the_effect(name):
    counts, _ = sizes.of_kind(np.random.default_rng(4), name, runs=1000)
    assert len(counts) == len(sizes.SPREADS) * (len(sizes.EFFECTS) + 1)
    assert not [str(count) for count in counts if not count.kept]


def test_a_finished_comparison_knows_its_effect_to_a_tenth():
    drawn = sizes.Runs(np.random.default_rng(5).standard_normal((400, sizes.BUDGET)))
    for effect in (0.3, 1.5, math.log(10)):
        found = drawn.ends(0.05, effect)
        ended = found.n < sizes.BUDGET
        assert ended.mean() > 0.9
        assert (found.half_width <= 0.1 * np.abs(found.mean) + 1e-12)[ended].all()


def test_families_and_several_hosts_keep_their_promises():
    rng = np.random.default_rng(6)
    for count in (sizes.of_family(rng, runs=60, effects=10), sizes.of_hosts(rng, runs=20, hosts=6, effect=0.3)):
        assert count.kept, str(count)


def test_a_narrower_interval_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(iv, "INFLATION", 0.8)
    assert not sizes.sizes(Setting(Size.REPLAY, 1, tmp_path), scale=0.2).passed
