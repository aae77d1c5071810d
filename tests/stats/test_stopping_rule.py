"""The rule: when it stops, why, and that it never stops for a verdict too early."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.plan import epoch_draft, plan_study
from bakeoff.plan.timing import EpochTime, turn_seconds_min
from bakeoff.spec import Workload
from bakeoff.spec.study import Design, Question
from bakeoff.stats import interval as iv
from bakeoff.stats import stopping
from bakeoff.stats.estimate import EpochEstimates
from bakeoff.stats.model import Stop
from bakeoff.stats.stopping import Progress, contenders, control_name, family_size, stop_state
from validation.simulation import pair_of, simulated_study

EVEN = (0.001, -0.001)


def gate_question():
    return pytest.importorskip("bakeoff.gate.rule").GateQuestion(reference=-0.02)


def pair(cell, contender, epoch, value):
    plain = pair_of(cell, epoch, value, contender=contender)
    return replace(plain, variance_of_mean=1e-7, seconds=8.0, trend=0.0)


def history(columns, n):
    """`columns`: (cell, contender) -> function of the epoch's number."""
    return [
        EpochEstimates(epoch=e, pairs=tuple(pair(*key, e, draw(e)) for key, draw in columns.items())) for e in range(n)
    ]


def decide(epochs, study, plan, **options):
    return stopping.decide(Progress(epochs, study, plan, **options))


def alternating(size, around=0.0):
    return lambda epoch: around + size * (-1) ** epoch


CELL = "oltp_point_select/4"


def one(draw, n, **options):
    study = simulated_study(precision=0.01, budget_s=options.pop("budget_s", 600.0))
    plan = plan_study(study, overhead_s=10, load_s=20)
    options.setdefault("elapsed_s", 20 + n * plan.epoch_s)
    return decide(history({(CELL, "B"): draw}, n), study, plan, **options)


def test_precise_needs_six_epochs():
    assert one(alternating(0.001), 5).stop is Stop.RUNNING
    decision = one(alternating(0.001), 6)
    assert (decision.stop, decision.settled) == (Stop.PRECISE, {(CELL, "B")})
    assert decision.more_s == 0.0


def test_a_clear_difference_is_measured_to_within_a_tenth():
    assert one(alternating(0.001, around=-0.1), 5).stop is Stop.RUNNING
    assert one(alternating(0.2, around=-0.7), 8).stop is Stop.RUNNING
    left = iv.epochs_needed(iv.standard_deviation([alternating(0.2)(e) for e in range(8)]), 0.07) - 8
    plan = plan_study(simulated_study(budget_s=9000.0), overhead_s=10, load_s=20)
    more_s = one(alternating(0.2, around=-0.7), 8, budget_s=9000.0).more_s
    assert more_s == pytest.approx(left * (10 + plan.seconds_per_cell))
    assert one(alternating(0.05, around=-0.7), 6).stop is Stop.PRECISE
    assert one(alternating(0.05), 6).stop is Stop.RUNNING


def gate_of(study):
    return study.model_copy(update={"question": gate_question()})


def test_a_gate_needs_five_epochs_to_be_decisive():
    for n, stop in ((4, Stop.RUNNING), (5, Stop.DECISIVE)):
        study = gate_of(simulated_study(precision=0.0001))
        plan = plan_study(study, overhead_s=10, load_s=20)
        found = decide(history({(CELL, "B"): alternating(0.001, around=-0.1)}, n), study, plan, elapsed_s=100)
        assert found.stop is stop


def test_a_replay_gate_needs_six_epochs_to_be_decisive():
    study = gate_of(simulated_study(precision=0.01, budget_s=600.0))
    plan = plan_study(study, overhead_s=10, load_s=20)
    plan = plan.model_copy(update={"cells": tuple(c.model_copy(update={"fixed_work": True}) for c in plan.cells)})
    for n, stop in ((5, Stop.RUNNING), (6, Stop.DECISIVE)):
        values = history({(CELL, "B"): alternating(0.02, around=-0.5)}, n)
        assert decide(values, study, plan, elapsed_s=100).stop is stop


def test_a_gate_with_arms_measured_together_needs_six_epochs():
    study = gate_of(simulated_study(precision=0.01, budget_s=600.0))
    study = study.model_copy(update={"design": Design(factors=(), levels={}, together=True)})
    plan = plan_study(study, overhead_s=10, load_s=20)
    for n, stop in ((5, Stop.RUNNING), (6, Stop.DECISIVE)):
        values = history({(CELL, "B"): alternating(0.02, around=-0.5)}, n)
        assert decide(values, study, plan, elapsed_s=100).stop is stop


@given(st.lists(st.floats(-1, 1), max_size=4))
def test_a_run_never_stops_before_five_epochs(values):
    assert stop_state(values, precision=1.0, family=1) is Stop.RUNNING


@given(st.lists(st.floats(-0.1, 0.1), min_size=5, max_size=30), st.integers(1, 30), st.booleans())
@settings(max_examples=200)
def test_the_stop_reason_matches_the_interval(values, family, gate):
    n, mean, sd = len(values), math.fsum(values) / len(values), iv.standard_deviation(values)
    question = gate_question() if gate else Question()
    stop = stop_state(values, precision=0.01, family=family, question=question)
    wanted = 0.01 if gate else max(0.01, 0.1 * abs(mean))
    if stop is Stop.PRECISE:
        assert n >= 6 and iv.precision_half_width(sd, n) <= wanted
    elif stop is Stop.DECISIVE:
        assert gate and abs(mean + 0.02) > iv.anytime_multiplier(n, 0.01 / family) * sd / math.sqrt(n)
    else:
        assert n < 6 or iv.precision_half_width(sd, n) > wanted


def test_decisive_is_corrected_for_the_family_size():
    values, question = [-0.04 + 0.004 * (-1) ** e for e in range(6)], gate_question()
    assert stop_state(values, precision=0.001, family=1, question=question) is Stop.DECISIVE
    assert stop_state(values, precision=0.001, family=50, question=question) is Stop.RUNNING


def test_budget_ends_before_the_epoch_that_would_not_fit():
    assert one(alternating(0.05), 10, elapsed_s=560).stop is Stop.RUNNING
    assert one(alternating(0.05), 10, elapsed_s=585).stop is Stop.BUDGET


def test_the_budget_has_5_percent_grace_to_complete_six_epochs():
    epoch_time = EpochTime(overhead_s=30, wall_per_planned=1e-9)
    assert one(alternating(0.05), 5, elapsed_s=595, epoch_time=epoch_time).stop is Stop.RUNNING
    assert one(alternating(0.05), 6, elapsed_s=595, epoch_time=epoch_time).stop is Stop.BUDGET
    assert one(alternating(0.05), 5, elapsed_s=605, epoch_time=epoch_time).stop is Stop.BUDGET


def test_an_epoch_is_never_planned_shorter_than_two_blocks_of_its_slices():
    study = simulated_study(budget_s=90.0).model_copy(update={"workloads": (Workload(script="oltp_write_only"),)})
    plan = plan_study(study, overhead_s=6, load_s=10)
    (cell,) = plan.cells
    late = decide(history({(cell.name, "B"): alternating(0.05)}, 3), study, plan, elapsed_s=80)
    assert late.share * plan.seconds_per_cell >= 2 * turn_seconds_min(cell.slices) - 1e-9


def test_epochs_are_shortened_until_six_fit_and_not_afterwards():
    whole = one(alternating(0.05), 3, elapsed_s=400)
    assert (whole.stop, whole.share) == (Stop.RUNNING, 1.0)
    short = one(alternating(0.05), 3, elapsed_s=580)  # 50 s for three epochs of 10 s overhead
    seconds = plan_study(simulated_study(), overhead_s=10, load_s=20).seconds_per_cell
    assert short.stop is Stop.RUNNING
    assert 3 * (10 + short.share * seconds) == pytest.approx(630 - 580)
    assert one(alternating(0.05), 8, elapsed_s=560).share == 1.0
    assert (
        one(alternating(0.05), 3, elapsed_s=580, epoch_time=EpochTime(overhead_s=2, wall_per_planned=1.0)).share == 1.0
    )
    # An epoch has a least length: what does not fit with it ends the run.
    assert one(alternating(0.05), 3, elapsed_s=620).stop is Stop.BUDGET


def test_abort_keeps_what_had_finished():
    assert one(alternating(0.05), 7, aborted=True).stop is Stop.ABORTED
    assert one(alternating(0.001), 7, aborted=True).stop is Stop.PRECISE


def test_a_run_continues_without_epochs_or_with_nonfinite_values():
    assert one(alternating(0.1), 0).stop is Stop.RUNNING
    assert one(lambda epoch: math.nan, 8).stop is Stop.RUNNING
    assert one(lambda epoch: -math.inf, 8).stop is Stop.RUNNING


def test_cells_settle_independently_and_the_slowest_sets_the_eta():
    study = simulated_study(cells=(1, 4), precision=0.01)
    plan = plan_study(study, overhead_s=10, load_s=20)
    quick, slow = "oltp_point_select/1", "oltp_point_select/4"
    columns = {(quick, "B"): alternating(0.002), (slow, "B"): alternating(0.02)}
    decision = decide(history(columns, 7), study, plan, elapsed_s=250)
    assert decision.settled == {(quick, "B")}
    sd = iv.standard_deviation([alternating(0.02)(e) for e in range(7)])
    left = iv.epochs_needed(sd, 0.01) - 7
    assert decision.more_s == pytest.approx(min(left * (10 + plan.seconds_per_cell), 350))


def test_a_run_waits_for_all_contenders_but_not_the_control():
    study = simulated_study(arms=("A", "B", "C", "A'"), precision=0.01)
    plan = plan_study(study, overhead_s=10, load_s=0)
    assert (control_name(study), contenders(study), family_size(study, 3)) == ("A'", ("B", "C"), 6)
    noisy = {(CELL, "B"): alternating(0.001), (CELL, "C"): alternating(0.1), (CELL, "A'"): alternating(0.1)}
    assert decide(history(noisy, 8), study, plan, elapsed_s=100).stop is Stop.RUNNING
    ready = noisy | {(CELL, "C"): alternating(0.001)}
    assert decide(history(ready, 8), study, plan, elapsed_s=100).stop is Stop.PRECISE


@given(st.permutations(range(9)), st.integers(0, 100))
@settings(max_examples=30)
def test_the_order_of_epochs_does_not_matter(order, seed):
    draws = np.random.default_rng(seed).normal(0, 0.01, 9)
    study = simulated_study(precision=0.01)
    plan = plan_study(study, overhead_s=10, load_s=20)
    entries = history({(CELL, "B"): lambda e: float(draws[e])}, 9)
    straight = decide(entries, study, plan, elapsed_s=300)
    mixed = decide([entries[i] for i in order], study, plan, elapsed_s=300)
    assert straight == mixed


def test_a_settled_arm_is_left_out_while_its_cell_goes_on_and_the_control_stays():
    study = simulated_study(arms=("A", "B", "C", "A'"), precision=0.01)
    plan = plan_study(study, overhead_s=10, load_s=20)
    columns = {(CELL, "B"): alternating(0.002), (CELL, "C"): alternating(0.02), (CELL, "A'"): alternating(0.002)}
    decision = decide(history(columns, 7), study, plan, elapsed_s=250)
    assert decision.settled == {(CELL, "B")}
    draft = epoch_draft(plan, study, 7, settled=decision.settled)
    assert [cell.arms for cell in draft.cells] == [("A", "C", "A'")]
    # Each arm keeps its measuring time, so all epochs of a comparison weigh the same; the epoch gets shorter.
    assert plan.measuring_seconds({CELL: 3}) == pytest.approx(plan.measuring_seconds({CELL: 4}) * 3 / 4)
    left = iv.epochs_needed(iv.standard_deviation([alternating(0.02)(e) for e in range(7)]), 0.01) - 7
    assert decision.more_s == pytest.approx(min(left * (10 + plan.measuring_seconds({CELL: 3})), 350))
