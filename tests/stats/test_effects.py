"""Contrasts, effects, interactions and published ratios, on analyses whose truth is known."""

import math
from itertools import product

import pytest
from slices import epoch_of, slice_row

from bakeoff.plan.factorial import arm_names
from bakeoff.spec import Arm, Study, Workload, parse_server
from bakeoff.spec.study import Design, Factor, Part, Published, PublishedClaim, PublishedFigure
from bakeoff.stats.analysis import analyse
from bakeoff.stats.effects import (
    Agreement,
    contrast,
    epoch_values,
    interactions,
    judge,
    judge_claim,
    main_effects,
    one_factor_pairs,
    published_ratios,
)
from bakeoff.stats.model import Estimate, Interval, Stop

CELL = "oltp_point_select/4"
SERVERS, CHARSETS = ("5.7", "8.0"), ("latin1", "utf8mb4")
# utf8mb4 costs 40 % on 5.7 and 4 % on 8.0; 8.0 is 10 % behind in latin1.
RATES = {("5.7", "latin1"): 1.0, ("8.0", "latin1"): 0.9, ("5.7", "utf8mb4"): 0.6, ("8.0", "utf8mb4"): 0.9 * 0.96}


def design(levels=tuple(RATES), figures=(), claims=()):
    return Design(
        factors=(
            Factor(name="server", parts=(Part.SERVER,), levels=SERVERS),
            Factor(name="charset", parts=(Part.DATA,), levels=CHARSETS),
        ),
        levels=dict(zip(arm_names(len(levels)), levels, strict=True)),
        published=Published(source="s", unit="tps", figures=tuple(figures), claims=tuple(claims))
        if figures or claims
        else None,
    )


def analysis_of(used, *, epochs=8, ended=Stop.BUDGET, noise=0.005, rates=RATES, dead=()):
    """Analyse epochs in which the machine's speed varies by half and each arm's by `noise`.

    `dead`: (arm, epoch) in which the arm completes nothing.
    """
    study = Study(
        title="t",
        arms=tuple(Arm(name=name, label=name, server=parse_server("mysql:8.0")) for name in used.levels),
        workloads=(Workload(script="oltp_point_select"),),
        design=used,
    )
    history = []
    for epoch in range(epochs):
        machine = 20_000 * (1 + 0.5 * math.sin(epoch))
        rows = [
            slice_row(
                arm,
                block,
                position,
                events=round(machine * rates[levels] * (1 + noise * math.sin(7 * epoch + 3 * ord(arm))))
                * ((arm, epoch) not in dead),
                start_s=block * 16 + position,
            )
            for block in range(4)
            for position, (arm, levels) in enumerate([*used.levels.items(), *reversed(used.levels.items())])
        ]
        history.append(epoch_of(rows, epoch=epoch))
    return analyse(history, study, ended=ended)


def holds(estimate, truth):
    return estimate.interval.low - 1e-3 <= math.log(truth) <= estimate.interval.high + 1e-3


def test_two_contenders_are_compared_without_the_baseline():
    used = design()
    analysis = analysis_of(used)
    found = contrast(epoch_values(analysis), analysis, cell=CELL, numerator="D", denominator="B")
    assert found.mean == pytest.approx(math.log(0.96), abs=0.01)
    back = contrast(epoch_values(analysis), analysis, cell=CELL, numerator="B", denominator="D")
    assert back.mean == pytest.approx(-found.mean)
    assert contrast(epoch_values(analysis), analysis, cell="other/4", numerator="B", denominator="D") is None


def test_an_arm_that_did_nothing_in_one_epoch_has_no_ratio():
    analysis = analysis_of(design(), dead=[("D", 3)])
    values = epoch_values(analysis)
    assert contrast(values, analysis, cell=CELL, numerator="D", denominator="A") is None
    assert contrast(values, analysis, cell=CELL, numerator="C", denominator="A").n == 8


def test_a_contrast_has_the_same_interval_as_its_comparison():
    analysis = analysis_of(design(), epochs=3)
    (comparison,) = (each for each in analysis.comparisons if each.contender == "D")
    found = contrast(epoch_values(analysis), analysis, cell=CELL, numerator="D", denominator="A")
    assert (found.n, found.interval.low) == (3, comparison.estimate.interval.low)


def test_main_effects_average_over_the_other_factor():
    effects = {(each.factor, each.level): each for each in main_effects(analysis_of(design()), design())}
    assert set(effects) == {("server", "8.0"), ("charset", "utf8mb4")}
    server = math.exp((math.log(0.9) + math.log(0.9 * 0.96 / 0.6)) / 2)
    assert math.exp(effects["server", "8.0"].estimate.mean) == pytest.approx(server, rel=0.01)
    assert math.exp(effects["charset", "utf8mb4"].estimate.mean) == pytest.approx(math.sqrt(0.6 * 0.96), rel=0.01)
    assert effects["server", "8.0"].combinations == 2
    assert holds(effects["server", "8.0"].estimate, server)


def test_an_interaction_is_a_ratio_of_ratios():
    (found,) = interactions(analysis_of(design()), design())
    assert (found.factor, found.level, found.other, found.other_level) == ("charset", "utf8mb4", "server", "8.0")
    assert math.exp(found.at_base.mean) == pytest.approx(0.6, rel=0.01)
    assert math.exp(found.at_other.mean) == pytest.approx(0.96, rel=0.01)
    assert math.exp(found.estimate.mean) == pytest.approx(0.96 / 0.6, rel=0.01)
    assert found.estimate.n == 8


def test_an_incomplete_factorial_uses_the_combinations_that_are_there():
    used = design(levels=(("5.7", "latin1"), ("8.0", "latin1"), ("8.0", "utf8mb4")))
    analysis = analysis_of(used)
    effects = {each.factor: each for each in main_effects(analysis, used)}
    assert effects["charset"].combinations == 1
    assert math.exp(effects["charset"].estimate.mean) == pytest.approx(0.96, rel=0.01)
    assert interactions(analysis, used) == ()


def test_an_interactions_two_ratios_are_consistent_with_its_estimate():
    # 8.0 is half as fast again with utf8mb4 over ssl, which 5.7 is not measured with.
    rates = {
        (server, charset, tls): RATES[server, charset] * ({"5.7": 0.9, "8.0": 0.8}[server] if tls == "ssl" else 1)
        for server, charset, tls in product(SERVERS, CHARSETS, ("plain", "ssl"))
    }
    rates["8.0", "utf8mb4", "ssl"] *= 1.5
    levels = tuple(each for each in rates if each != ("5.7", "utf8mb4", "ssl"))
    used = Design(
        factors=(*design().factors, Factor(name="tls", parts=(Part.CLIENT,), levels=("plain", "ssl"))),
        levels=dict(zip(arm_names(len(levels)), levels, strict=True)),
    )
    found = interactions(analysis_of(used, rates=rates), used)
    assert {(each.factor, each.other) for each in found} == {
        ("charset", "server"), ("tls", "server"), ("tls", "charset"),
    }  # fmt: skip
    for each in found:
        assert each.at_other.mean - each.at_base.mean == pytest.approx(each.estimate.mean)
        assert each.at_base.n == each.at_other.n == each.estimate.n


def test_a_single_factor_has_no_main_effects():
    used = Design(
        factors=(Factor(name="charset", parts=(Part.DATA,), levels=CHARSETS),), levels={"A": ("a",), "B": ("b",)}
    )
    assert main_effects(analysis_of(design()), used) == ()


def test_the_interval_of_an_aborted_run_follows_the_same_rule():
    whole, broken = (
        interactions(analysis_of(design(), ended=ended, noise=0.1), design())[0]
        for ended in (Stop.BUDGET, Stop.ABORTED)
    )
    assert broken.estimate == whole.estimate and whole.estimate.interval.low is not None


def test_published_pairs_differ_in_one_factor():
    assert set(one_factor_pairs(design(), "A")) == {
        ("B", "A"), ("D", "C"), ("C", "A"), ("D", "B"),
    }  # fmt: skip


def test_published_ratios_are_compared_with_measured_ones():
    tps = {"A": 100.0, "B": 88.0, "C": 65.0, "D": 120.0}
    figures = [PublishedFigure(cell=CELL, arm=arm, value=value) for arm, value in tps.items()]
    figures.append(PublishedFigure(cell="oltp_point_select/64", arm="A", value=1.0))
    figures.append(PublishedFigure(cell="oltp_point_select/64", arm="B", value=2.0))
    used = design(figures=figures)
    ratios = published_ratios(analysis_of(used), used, 0.01)
    found = {(each.cell, each.numerator, each.denominator): each for each in ratios}
    assert found[CELL, "B", "A"].agreement is Agreement.AGREES
    assert found[CELL, "C", "A"].agreement is Agreement.AGREES
    assert found[CELL, "C", "A"].published == pytest.approx(math.log(0.65))
    assert found[CELL, "D", "B"].agreement is Agreement.DIFFERS  # published ahead, measured 4 % behind
    assert found["oltp_point_select/64", "B", "A"].measured is None
    assert found["oltp_point_select/64", "B", "A"].agreement is Agreement.CANNOT_TELL
    assert len(found) == 5


@pytest.mark.parametrize(
    ("published", "low", "high", "expected"),
    [
        (1.10, 1.01, 1.30, "agrees"),
        (1.10, 1.12, 1.22, "agrees"),  # by less than a tenth
        (1.10, 1.20, 1.40, "same order, different size"),
        (1.10, 0.90, 1.30, "cannot tell"),  # too wide
        (1.10, 0.96, 1.06, "cannot tell"),  # near, but neither the order nor the size was found
        (1.10, 0.95, 1.02, "differs"),
        (1.10, 0.80, 0.99, "differs"),
        (1.10, 0.985, 1.02, "differs"),  # equal, where a difference was published
        (0.65, 0.56, 0.62, "agrees"),
        (0.60, 0.70, 0.90, "same order, different size"),
        (0.60, 1.10, 1.20, "differs"),
        (1.01, 0.98, 1.02, "agrees"),
        (1.01, 0.85, 1.15, "cannot tell"),
        (1.01, 1.05, 1.10, "differs"),
        (1.01, 1.01, 1.10, "agrees"),
        (1.55, 0.99, 1.05, "differs"),
        (1.55, 0.85, 1.18, "cannot tell"),
    ],
)
def test_the_interval_decides_agreement_with_a_published_ratio(published, low, high, expected):
    interval = Interval(low=math.log(low), high=math.log(high))
    measured = Estimate(mean=sum((interval.low, interval.high)) / 2, interval=interval, n=8)
    assert judge(math.log(published), measured, 0.01) == expected
    mirrored = Interval(low=-interval.high, high=-interval.low)
    assert judge(-math.log(published), Estimate(mean=-measured.mean, interval=mirrored, n=8), 0.01) == expected


def test_without_an_interval_nothing_can_be_said():
    assert judge(0.5, None, 0.01) is Agreement.CANNOT_TELL


@pytest.mark.parametrize(
    ("claimed", "low", "high", "expected"),
    [
        ((1.0, None), 1.01, 1.30, "agrees"),
        ((1.0, None), 0.95, 1.20, "cannot tell"),
        ((1.0, None), 0.985, 1.02, "differs"),  # equal, where a difference was claimed
        ((1.0, None), 0.70, 0.90, "differs"),
        ((None, 1.0), 0.70, 0.90, "agrees"),
        ((None, 1.0), 1.10, 1.20, "differs"),
        ((1.1, None), 1.02, 1.08, "differs"),
        ((1.1, 1.2), 1.12, 1.18, "agrees"),
        ((1.1, 1.2), 1.05, 1.09, "agrees"),  # by less than a tenth
        ((1.1, 1.2), 1.60, 1.80, "same order, different size"),
        ((1.1, 1.2), 0.80, 0.90, "differs"),
        ((0.62, 0.64), 0.60, 0.66, "agrees"),
    ],
)
def test_the_interval_decides_agreement_with_a_published_claim(claimed, low, high, expected):
    interval = Interval(low=math.log(low), high=math.log(high))
    measured = Estimate(mean=sum((interval.low, interval.high)) / 2, interval=interval, n=8)
    claim = PublishedClaim(says="x", cell=CELL, numerator="B", denominator="A", low=claimed[0], high=claimed[1])
    assert judge_claim(claim, measured, 0.01)[1] == expected
    assert judge_claim(claim, None, 0.01)[1] is Agreement.CANNOT_TELL


def test_published_claims_are_compared_with_measured_ratios():
    claim = PublishedClaim(says="C is slower", cell=CELL, numerator="C", denominator="A", low=None, high=1.0)
    used = design(claims=[claim])
    (found,) = published_ratios(analysis_of(used), used, 0.01)
    assert found.claim == claim and found.agreement is Agreement.AGREES and found.measured.mean < 0
    assert judge(0.5, Estimate(mean=0.5, interval=Interval(low=None, high=None), n=1), 0.01) is Agreement.CANNOT_TELL
