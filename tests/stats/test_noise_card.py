"""The noise card finds the components that were put in."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest
from test_stopping_rule import CELL, pair

from bakeoff.plan import plan_study
from bakeoff.report.live import PlainLive
from bakeoff.stats import interval as iv
from bakeoff.stats.estimate import EpochEstimates, epoch_estimates
from bakeoff.stats.resolution import components, noise_card, steal_share
from validation.simulation import Conditions, Noise, simulate_epoch, simulated_study


def card_of(values, *, within=1e-7, seconds=20.0, replay=False):
    study = simulated_study(precision=0.01, budget_s=600.0)
    plan = plan_study(study, overhead_s=10.0, load_s=20, seconds_per_cell=seconds)
    plan = plan.model_copy(update={"cells": tuple(c.model_copy(update={"fixed_work": replay}) for c in plan.cells)})
    entries = []
    for e, value in enumerate(values):
        one = replace(pair(CELL, "B", e, value), variance_of_mean=within, seconds=seconds)
        entries.append(EpochEstimates(e, (one,)))
    slices = simulate_epoch(np.random.default_rng(0), {"A": 0.0, "B": 0.0}).slices
    return noise_card(entries, study, plan, slices=slices)


def test_components_are_found():
    rng = np.random.default_rng(4)
    noise = Noise(restart_sd=0.01, wander_sd=0.0, slice_sd=0.02)
    entries = [
        epoch_estimates(
            simulate_epoch(rng, {"A": 0.0, "B": 0.0}, Conditions(noise, rate_per_s=1e7), epoch=e), baseline="A"
        )
        for e in range(150)
    ]
    pairs = [entry.pairs[0] for entry in entries]
    sd_restart, sd_within = components(pairs)
    slices_per_arm = pairs[0].blocks * 2
    assert sd_within == pytest.approx(math.sqrt(2 * 0.02**2 / slices_per_arm), rel=0.15)
    assert sd_restart == pytest.approx(math.sqrt(2) * 0.01, rel=0.2)


def test_components_that_cannot_be_estimated_are_none():
    def of(values, within):
        pairs = [pair(CELL, "B", epoch, value) for epoch, value in enumerate(values)]
        return components([replace(each, variance_of_mean=within) for each in pairs])

    assert of([0.1], 1e-6) == (None, 1e-3)
    assert of([0.1, 0.2], None) == (None, None)
    assert of([0.1, 0.1], 1e-6)[0] == 0.0
    assert of([0.1, math.nan], 1e-6)[0] is None


def test_longer_runs_expect_narrower_intervals():
    card = card_of([0.0, 0.01, -0.01])
    (line,) = card.lines
    assert line.expected[30] < line.expected[10]
    epochs = int((600 - 20) / 30)
    assert line.expected[10] == pytest.approx(iv.precision_half_width(0.01, epochs))
    assert line.epochs_needed == iv.epochs_needed(0.01, 0.01)


def test_a_time_too_short_for_six_epochs_promises_nothing():
    card = card_of([0.0, 0.01, -0.01], seconds=60.0)
    assert card.lines[0].expected[5] is None


def test_the_sd_between_epochs_is_at_least_the_sd_within():
    card = card_of([0.001, 0.001, 0.001], within=1e-4)
    assert card.lines[0].sd_epoch == pytest.approx(0.01)


def test_one_epoch_or_a_dead_arm_gives_no_line():
    assert card_of([0.01]).lines == ()
    assert card_of([0.01, -math.inf, 0.0]).lines == ()


def test_differences_between_replay_chunks_are_not_noise():
    card = card_of((0.0, 0.03, -0.03), within=1e-2, seconds=5.0, replay=True)
    (line,) = card.lines
    assert (line.sd_epoch, line.sd_restart, line.sd_within) == (pytest.approx(0.03), None, None)
    out = io.StringIO()
    PlainLive(simulated_study(), out).noise_card(card)
    assert "B: between epochs 3%; expect" in out.getvalue()


def test_steal_is_a_share_of_all_cpu_time():
    slices = simulate_epoch(np.random.default_rng(0), {"A": 0.0, "B": 0.0}).slices
    assert steal_share(slices) is None
    host = slices.with_columns(
        **{f"host_{name}_ns": ns for name, ns in [("user", 50), ("system", 20), ("iowait", 0), ("idle", 25)]},
        host_steal_ns=5,
    )
    assert steal_share(host) == pytest.approx(0.05)
    assert steal_share(host.rows(slice(0))) is None
