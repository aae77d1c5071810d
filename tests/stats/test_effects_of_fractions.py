"""Effects in a fractional design are estimated correctly, and aliased ones as their sum."""

import math

import pytest
from slices import epoch_of, slice_row

from bakeoff.plan.factorial import arm_names, generators, points, words
from bakeoff.spec import Arm, Study, Workload, parse_server
from bakeoff.spec.study import Design, Factor, Fraction, Part
from bakeoff.stats.analysis import analyse
from bakeoff.stats.effects import interactions, main_effects
from bakeoff.stats.model import Stop

SINGLE = {"p": 0.9, "q": 1.1, "r": 0.8, "s": 1.0, "t": 1.2, "u": 0.95}
PAIRS = {("p", "q"): 1.3, ("r", "t"): 0.85}


def analysis_of(names, versions=("8.0",)):
    """A study whose arms are the fraction of two-level factors, crossed with versions; 8.1 makes `p` cost nothing."""
    chosen = generators(len(names))
    basic = len(names) - len(chosen)
    made = [(version, *map(str, point)) for version in versions for point in points(chosen, basic)]
    relation = tuple(tuple(names[at] for at in range(len(names)) if word >> at & 1) for word in words(chosen, basic))
    design = Design(
        factors=(
            Factor(name="server", parts=(Part.SERVER,), levels=versions),
            *(Factor(name=name, parts=(Part.SERVER,), levels=("0", "1")) for name in names),
        ),
        levels=dict(zip(arm_names(len(made)), made, strict=True)),
        fraction=Fraction(factors=names, words=relation, measured=len(made), complete=2 ** len(names) * len(versions)),
    )

    def rate(levels):
        on = {name for name, level in zip(names, levels[1:], strict=True) if level == "1"}
        value = math.prod(SINGLE[name] for name in on)
        value *= math.prod(factor for pair, factor in PAIRS.items() if set(pair) <= on)
        return value / SINGLE["p"] if levels[0] == "8.1" and "p" in on else value

    study = Study(
        title="t",
        arms=tuple(Arm(name=name, label=name, server=parse_server("mysql:8.0")) for name in design.levels),
        workloads=(Workload(script="oltp_point_select"),),
        design=design,
    )
    epochs = [
        epoch_of(
            [
                slice_row(arm, block, place, events=round(50_000 * (1 + 0.3 * epoch) * rate(levels)), start_s=place)
                for block in range(2)
                for place, (arm, levels) in enumerate([*design.levels.items(), *reversed(design.levels.items())])
            ],
            epoch=epoch,
        )
        for epoch in range(6)
    ]
    return analyse(epochs, study, ended=Stop.BUDGET), design


def test_resolution_five_estimates_every_effect_and_two_factor_interaction():
    names = ("p", "q", "r", "s", "t")
    analysis, design = analysis_of(names)
    effects = {each.factor: each for each in main_effects(analysis, design)}
    assert set(effects) == set(names)
    assert effects["p"].combinations == 8
    # Averaged over the levels of q, half of the arms have the interaction with it.
    assert math.exp(effects["p"].estimate.mean) == pytest.approx(0.9 * math.sqrt(1.3), rel=1e-3)
    assert math.exp(effects["s"].estimate.mean) == pytest.approx(1.0, rel=1e-3)
    found = {(each.other, each.factor): each for each in interactions(analysis, design)}
    assert len(found) == 10 and all(each.mixed == () for each in found.values())
    for pair, each in found.items():
        assert math.exp(each.estimate.mean) == pytest.approx(PAIRS.get(pair, 1.0), rel=1e-3), pair
    assert math.exp(found["p", "q"].at_base.mean) == pytest.approx(1.1, rel=1e-3)
    assert math.exp(found["p", "q"].at_other.mean) == pytest.approx(1.1 * 1.3, rel=1e-3)


def test_resolution_four_gives_main_effects_and_sums_of_aliased_interactions():
    names = ("p", "q", "r", "s", "t", "u")
    analysis, design = analysis_of(names)
    effects = {each.factor: math.exp(each.estimate.mean) for each in main_effects(analysis, design)}
    assert effects["u"] == pytest.approx(SINGLE["u"], rel=1e-3)
    assert effects["r"] == pytest.approx(SINGLE["r"] * math.sqrt(0.85), rel=1e-3)
    found = interactions(analysis, design)
    assert len(found) == len(design.fraction.mixed_pairs())
    for each in found:
        together = ((each.other, each.factor), *each.mixed)
        truth = math.prod(factor for pair, factor in PAIRS.items() if set(pair) in map(set, together))
        assert math.exp(each.estimate.mean) == pytest.approx(truth, rel=1e-3)
        assert (each.at_base is None) == bool(each.mixed)


def test_interactions_with_a_crossed_factor_are_not_aliased():
    names = ("p", "q", "r", "s", "t", "u")
    analysis, design = analysis_of(names, versions=("8.0", "8.1"))
    found = {(each.other, each.factor): each for each in interactions(analysis, design)}
    with_server = found["server", "p"]
    assert with_server.mixed == ()
    assert math.exp(with_server.estimate.mean) == pytest.approx(1 / 0.9, rel=1e-3)
    assert math.exp(found["server", "q"].estimate.mean) == pytest.approx(1.0, rel=1e-3)
    assert math.exp(with_server.at_base.mean) == pytest.approx(0.9 * math.sqrt(1.3), rel=1e-3)
