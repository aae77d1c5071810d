"""The whole analysis on simulated runs whose truth is known."""

import json
import math
import time
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slices import epoch_of, quads

from bakeoff.plan import plan_study
from bakeoff.results.epoch_data import EpochData
from bakeoff.spec import parse_server
from bakeoff.stats import interval as iv
from bakeoff.stats.analysis import analyse
from bakeoff.stats.diagnostics import leaking_cells
from bakeoff.stats.model import Analysis, FlagKind, Obstacle, Stop, Word
from bakeoff.units import percent_text
from validation.simulation import CLOUD, QUIET, Conditions, Noise, Stall, simulate_epoch, simulated_study

CELL = "oltp_point_select/4"


def simulated(effects, *, epochs=8, seed=1, noise=QUIET, cells=(4,), variables=None, **options):
    rng = np.random.default_rng(seed)
    names = [f"oltp_point_select/{threads}" for threads in cells]
    made = [
        simulate_epoch(rng, effects, Conditions(noise, **options), epoch=e, build=e % 2, cells=names)
        for e in range(epochs)
    ]
    return [with_variables(each, variables or {}) for each in made]


def with_variables(epoch, variables, **changes):
    fields = {**epoch.__dict__, "variables": variables, **changes}
    return EpochData(**fields)


def run(effects=None, *, ended=Stop.BUDGET, cells=(4,), precision=0.01, **options):
    effects = effects or {"A": 0.0, "B": -0.1}
    study = simulated_study(arms=tuple(effects), cells=cells, precision=precision)
    return analyse(simulated(effects, cells=cells, **options), study, ended=ended)


def test_a_clear_slowdown_gets_a_precise_verdict():
    analysis = run()
    (comparison,) = analysis.comparisons
    assert comparison.verdict.words == (Word.SLOWER,)
    assert comparison.stop is Stop.PRECISE and analysis.stopped is Stop.PRECISE
    assert comparison.estimate.interval.low < -0.1 < comparison.estimate.interval.high
    assert "server B is slower than server A: ratio 0." in comparison.verdict.sentence
    assert comparison.more_epochs == 0 and comparison.more_s == 0.0
    assert analysis.epochs_used == 8 and analysis.family == 1 and analysis.trusted is None
    assert not comparison.flags


def test_equal_arms_are_equivalent():
    (comparison,) = run({"A": 0.0, "B": 0.0}, noise=Noise(restart_sd=0.0005, wander_sd=0.01)).comparisons
    assert comparison.verdict.words == (Word.EQUIVALENT,)


def test_too_few_epochs_give_no_verdict_and_say_how_many_more():
    for epochs in (1, 2, 5):
        (comparison,) = run({"A": 0.0, "B": -0.01}, epochs=epochs).comparisons
        assert comparison.verdict.words == (Word.INCONCLUSIVE,)
        assert comparison.p_value is None and comparison.p_adjusted is None
        assert comparison.more_epochs == (None if epochs == 1 else 6 - epochs)


@pytest.mark.parametrize("ended", [Stop.BUDGET, Stop.ABORTED])
def test_five_epochs_are_enough_for_a_claim_by_the_anytime_valid_interval(ended):
    (comparison,) = run(epochs=5, ended=ended).comparisons
    assert comparison.stop is ended and comparison.verdict.words == (Word.SLOWER,)
    values = [point.value for point in comparison.points]
    assert comparison.estimate.interval == iv.precision_interval(*iv.moments(values))
    assert comparison.verdict.at_least == comparison.estimate.interval.high


@pytest.mark.parametrize(("epochs", "has_interval"), [(2, False), (3, True), (6, True)])
@pytest.mark.parametrize("ended", [Stop.BUDGET, Stop.ABORTED, Stop.EXTENDED, Stop.RUNNING])
def test_an_interval_is_shown_from_three_epochs_whatever_ended_the_run(ended, epochs, has_interval):
    (comparison,) = run(epochs=epochs, ended=ended).comparisons
    found = iv.moments([point.value for point in comparison.points])
    half = iv.precision_half_width(*found[1:]) if has_interval else None
    assert comparison.estimate.interval.half_width == (half and pytest.approx(half))


@pytest.mark.parametrize("ended", [Stop.ABORTED, Stop.EXTENDED, Stop.RUNNING])
def test_a_run_cut_short_claims_only_what_the_anytime_interval_shows(ended):
    # Clear enough for the live interval, and far from precise.
    epochs = [epoch_of(quads([math.exp(-0.03 + 0.014 * (-1) ** e)] * 4, level=10_000), epoch=e) for e in range(7)]
    analysis = analyse(epochs, simulated_study(precision=0.001), ended=ended)
    (comparison,) = analysis.comparisons
    assert comparison.stop is ended and analysis.stopped is ended
    assert comparison.live.high < 0 and comparison.live.half_width > comparison.estimate.interval.half_width
    assert comparison.p_value is None
    assert comparison.verdict.words == (Word.SLOWER,)


def test_an_extended_run_claims_nothing_that_only_the_interval_of_a_fixed_end_would():
    # 2.9 standard errors over eight epochs: beyond h_n (2.72), within the anytime-valid interval (4.20).
    epochs = [epoch_of(quads([math.exp(0.0103 + 0.0094 * (-1) ** e)] * 4, level=10**6), epoch=e) for e in range(8)]
    verdicts = {
        ended: analyse(epochs, simulated_study(precision=0.001), ended=ended).comparisons[0].verdict
        for ended in (Stop.BUDGET, Stop.EXTENDED)
    }
    assert verdicts[Stop.BUDGET].words == (Word.FASTER,)
    assert verdicts[Stop.EXTENDED].words == (Word.INCONCLUSIVE,)


def test_what_had_finished_before_an_abort_keeps_its_interval():
    (comparison,) = run(ended=Stop.ABORTED).comparisons
    assert comparison.stop is Stop.PRECISE
    assert comparison.estimate.interval.half_width < comparison.live.half_width


def test_voided_epochs_are_counted_and_not_used():
    epochs = simulated({"A": 0.0, "B": -0.1}, epochs=8)
    spoilt = [
        with_variables(epoch, {}, valid=False, discard_reason="arm B crashed") if epoch.epoch == 3 else epoch
        for epoch in epochs
    ]
    analysis = analyse(spoilt, simulated_study(precision=0.01), ended=Stop.BUDGET)
    assert analysis.discarded == {3: "arm B crashed"} and analysis.epochs_used == 7
    assert [point.epoch for point in analysis.comparisons[0].points] == [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.parametrize("epochs", [[], [epoch_of([])], [epoch_of(quads([1.0]), valid=False)]])
@pytest.mark.parametrize("ended", [Stop.BUDGET, Stop.ABORTED])
def test_an_empty_run_has_no_comparisons(epochs, ended):
    analysis = analyse(epochs, simulated_study(), ended=ended)
    assert analysis.comparisons == () and analysis.stopped is ended and analysis.geometric_mean == {}


def test_an_arm_that_did_nothing_gives_no_verdict_and_is_named():
    epochs = [epoch_of(quads([0.9 + 0.001 * e] * 4), epoch=e) for e in range(7)]
    epochs.append(epoch_of([row | ({"events": 0} if row["arm"] == "B" else {}) for row in quads([1.0] * 4)], epoch=7))
    (comparison,) = analyse(epochs, simulated_study(), ended=Stop.BUDGET).comparisons
    assert comparison.verdict.words == (Word.INCONCLUSIVE,)
    assert "server B completed nothing in epoch 7" in comparison.verdict.sentence
    assert comparison.obstacle is Obstacle.NOTHING_DONE and comparison.p_value is None
    assert len(comparison.points) == 7 and comparison.more_epochs is None
    assert comparison.estimate.n == comparison.trimmed.n == 0 and comparison.live.low is None, "it has no ratio"


def test_json_has_no_nan_and_reads_back():
    epochs = [epoch_of([row | {"events": 0} for row in quads([1.0] * 4)], epoch=e) for e in range(6)]
    for analysis in (run(), analyse(epochs, simulated_study(), ended=Stop.BUDGET)):
        text = analysis.model_dump_json()
        assert Analysis.model_validate_json(text) == analysis
        json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in analysis.json"))


def test_the_control_is_not_part_of_the_family():
    analysis = run({"A": 0.0, "B": -0.1, "A'": 0.0}, cells=(1, 4))
    assert analysis.control == "A'" and analysis.contenders == ("B",) and analysis.family == 2
    assert analysis.trusted is True
    assert {c.is_control for c in analysis.comparisons if c.contender == "A'"} == {True}
    assert set(analysis.geometric_mean) == {"B"}


def test_a_control_that_differs_makes_the_report_untrusted():
    analysis = run({"A": 0.0, "B": -0.1, "A'": -0.02})
    assert analysis.trusted is False
    assert all(comparison.flags[0].kind == "UNTRUSTED" for comparison in analysis.comparisons)


def test_the_control_is_not_corrected_for_multiple_comparisons():
    # 3.8 standard errors: beyond the live interval of ten epochs at 5 %, not at 5 % over two cells.
    study = simulated_study(arms=("A", "B", "A'"), cells=(1, 4), precision=0.001)
    epochs = []
    for e in range(10):
        rows = []
        for cell in ("oltp_point_select/1", CELL):
            ratios = [math.exp(0.0134 + 0.01 * (-1) ** e)] * 4
            rows += quads(ratios, level=1_000_000, cell=cell)
            rows += [row | {"arm": "A'"} for row in quads(ratios, level=1_000_000, cell=cell) if row["arm"] == "B"]
        epochs.append(epoch_of(rows, epoch=e))
    said = {each.contender: each.verdict.sentence for each in analyse(epochs, study, ended=Stop.ABORTED).comparisons}
    assert "not after correction for the number of comparisons" in said["B"]
    assert "correction" not in said["A'"]


def test_control_rarely_cries_wolf():
    trusted = [
        run({"A": 0.0, "B": 0.0, "A'": 0.0}, seed=seed, noise=CLOUD, epochs=6, seconds=2).trusted for seed in range(60)
    ]
    assert trusted.count(False) <= 4  # 1 % promised; P(more than 4 of 60) < 0.001


def test_stalls_raise_disagree_and_stay_in_the_estimate():
    epochs = simulated({"A": 0.0, "B": 0.0}, noise=Noise(0.0005, 0.01), stalls={"B": Stall(2.0, 0.04)})
    (comparison,) = analyse(epochs, simulated_study(), ended=Stop.BUDGET).comparisons
    assert comparison.disagree and any("stalls or bursts" in flag.text for flag in comparison.flags)
    assert comparison.estimate.mean == pytest.approx(math.log(0.98), abs=0.004)
    assert comparison.trimmed.mean == pytest.approx(0.0, abs=0.008)


@pytest.mark.parametrize(("seed", "each"), [(0, 1), (2, 2)])
def test_hosts_with_one_or_two_epochs_raise_no_bimodal_or_outlier_flag(seed, each):
    epochs = [
        with_variables(epoch, {}, host=f"h{place // each}")
        for place, epoch in enumerate(simulated({"A": 0.0, "B": -0.1}, epochs=12, seed=seed))
    ]
    (comparison,) = analyse(epochs, simulated_study(), ended=Stop.BUDGET).comparisons
    assert not {flag.kind for flag in comparison.flags} & {"BIMODAL", "OUTLIER"}


def after_the_other_arm(epoch, loss, arms):
    """Return the epoch with fewer events in slices of `arms` that follow a slice of another arm."""
    ordered = epoch.slices.sort("cell", "start_ns")
    cell, arm, events = ordered["cell"], ordered["arm"], ordered["events"]
    follows = np.append(False, (arm[1:] != arm[:-1]) & (cell[1:] == cell[:-1]))
    less = np.where(follows & np.isin(arm, arms), events * (1 - loss), events).astype(np.int64)
    return replace(epoch, slices=ordered.with_columns(events=less))


@pytest.mark.parametrize(
    ("loss", "arms", "epochs", "leaks"),
    [
        (0.10, "AB", 3, True), (0.10, "AB", 2, False), (0.02, "AB", 8, False), (0.0, "AB", 8, False),
        (0.06, "B", 4, True),
    ],
)  # fmt: skip
def test_slices_that_disturb_the_next_are_found_from_three_epochs_on(loss, arms, epochs, leaks):
    made = [after_the_other_arm(each, loss, list(arms)) for each in simulated({"A": 0.0, "B": -0.05}, epochs=epochs)]
    (comparison,) = analyse(made, simulated_study(), ended=Stop.BUDGET).comparisons
    assert leaking_cells([comparison], 0.01) == (frozenset({CELL}) if leaks else frozenset())
    assert comparison.estimate.mean == pytest.approx(-0.05 if arms == "AB" else -0.05 - loss / 2, abs=0.01)


def test_claims_are_corrected_for_the_number_of_cells():
    # Ten cells, a difference that would just do alone.
    rng = np.random.default_rng(8)
    epochs = []
    for e in range(6):
        rows = []
        for threads in range(1, 11):
            ratio = math.exp(rng.normal(0, 0.02) if threads > 1 else 0.02 + 0.013 * (-1) ** e)
            rows += quads([ratio] * 4, level=1_000_000, cell=f"oltp_point_select/{threads}")
        epochs.append(epoch_of(rows, epoch=e))
    study = simulated_study(cells=tuple(range(1, 11)), precision=0.001)
    first = analyse(epochs, study, ended=Stop.BUDGET).comparisons[0]
    assert first.p_value < iv.ALPHA_PRECISE < first.p_adjusted
    assert first.verdict.words == (Word.INCONCLUSIVE,) and "not after correction" in first.verdict.sentence


def test_cells_that_stopped_early_have_fewer_points_and_the_mean_uses_common_epochs():
    epochs = simulated({"A": 0.0, "B": -0.1}, cells=(1, 4), epochs=9)
    cut = [
        with_variables(e, {}, slices=e.slices.rows(e.slices["cell"] == CELL) if e.epoch >= 6 else e.slices)
        for e in epochs
    ]
    analysis = analyse(cut, simulated_study(cells=(1, 4)), ended=Stop.BUDGET)
    assert [comparison.estimate.n for comparison in analysis.comparisons] == [6, 9]
    assert analysis.geometric_mean["B"].n == 6


def test_undeclared_settings_are_listed_and_flagged():
    variables = {"A": {"version": "8", "log_bin": "ON"}, "B": {"version": "8", "log_bin": "OFF"}}
    epochs = simulated({"A": 0.0, "B": -0.1}, variables=variables)
    analysis = analyse(epochs, simulated_study(), ended=Stop.BUDGET)
    assert analysis.undeclared == {"B": {"log_bin": ("ON", "OFF")}}
    assert any(
        str(flag).startswith("SETTINGS: 1 undeclared difference (log_bin)") for flag in analysis.comparisons[0].flags
    )


def test_settings_changed_by_a_script_are_flagged_in_their_cell():
    epochs = simulated({"A": 0.0, "B": -0.1}, cells=(1, 4))
    changed = {"B": {CELL: {"innodb_flush_log_at_trx_commit": ("1", "0"), "sql_mode": ("", "ANSI")}}}
    epochs[3] = with_variables(epochs[3], {}, changes=changed)
    analysis = analyse(epochs, simulated_study(cells=(1, 4)), ended=Stop.BUDGET)
    flags = {comparison.cell: [str(flag) for flag in comparison.flags] for comparison in analysis.comparisons}
    assert [flag for flag in flags[CELL] if "while it was measured" in flag] == [
        "SETTINGS: on arm B, while it was measured, innodb_flush_log_at_trx_commit went from 1 to 0, "
        "sql_mode went from nothing to ANSI: the workload, or another client, set it."
    ]
    assert not any("while it was measured" in flag for flag in flags["oltp_point_select/1"])


@given(st.permutations(range(7)), st.integers(0, 50))
@settings(max_examples=8)
def test_the_order_of_epochs_does_not_matter(order, seed):
    epochs = simulated({"A": 0.0, "B": -0.02}, epochs=7, seed=seed, seconds=2)
    study = simulated_study()
    straight = analyse(epochs, study, ended=Stop.BUDGET)
    assert analyse([epochs[i] for i in order], study, ended=Stop.BUDGET) == straight


def test_slices_are_freed_as_epochs_are_read():
    read = []

    def epochs():
        for made in simulated({"A": 0.0, "B": -0.02}, epochs=1, seconds=2) * 12:
            assert sum(events() is not None for events in read) <= 1
            slices = made.slices.with_columns(events=made.slices["events"] + 0)
            read.append(weakref.ref(slices["events"]))
            yield replace(made, epoch=len(read), slices=slices)

    assert analyse(epochs(), simulated_study(), ended=Stop.BUDGET).epochs_used == len(read) == 12


@given(st.integers(0, 1000))
@settings(max_examples=8)
def test_swapping_the_arms_mirrors_the_answer(seed):
    epochs = simulated({"A": 0.0, "B": -0.03}, epochs=7, seed=seed, seconds=2)
    (there,) = analyse(epochs, simulated_study(arms=("A", "B")), ended=Stop.BUDGET).comparisons
    (back,) = analyse(epochs, simulated_study(arms=("B", "A")), ended=Stop.BUDGET).comparisons
    assert there.estimate.mean == pytest.approx(-back.estimate.mean, abs=1e-12)
    assert there.estimate.interval.low == pytest.approx(-back.estimate.interval.high, abs=1e-12)
    mirror = {Word.FASTER: Word.SLOWER, Word.SLOWER: Word.FASTER}
    assert there.verdict.words == tuple(mirror.get(word, word) for word in back.verdict.words)


def test_thirty_cells_of_ten_thousand_slices_in_seconds():
    cells = tuple(range(1, 31))
    epochs = simulated({"A": 0.0, "B": 0.0}, cells=cells, epochs=6, seconds=175)
    assert len(epochs[0].slices) * 6 > 270_000
    study = simulated_study(cells=cells)
    plan = plan_study(study, overhead_s=1, load_s=0)
    started_s = time.process_time()
    analysis = analyse(epochs, study, plan=plan, ended=Stop.BUDGET)
    assert len(analysis.comparisons) == 30
    assert time.process_time() - started_s < 3  # CPU seconds; about 1


def test_a_server_that_is_not_restarted_gets_numbers_and_no_verdict():
    study = simulated_study()
    running = study.arms[1].model_copy(update={"server": parse_server("mysql://root@127.0.0.1:3306/")})
    study = study.model_copy(update={"arms": (study.arms[0], running)})
    (comparison,) = analyse(simulated({"A": 0.0, "B": -0.2}), study, ended=Stop.BUDGET).comparisons
    assert comparison.verdict.words == (Word.INCONCLUSIVE,)
    assert comparison.verdict.sentence.startswith("No verdict")
    assert [flag.kind for flag in comparison.flags] == [FlagKind.NO_VERDICT]
    assert comparison.obstacle is Obstacle.NOT_RESTARTED
    assert comparison.estimate.interval.high < 0


@pytest.mark.parametrize("ended", [Stop.BUDGET, Stop.ABORTED])
def test_the_detectable_difference_follows_the_same_test_as_claims(ended):
    values = [0.02 * (-1) ** e for e in range(8)]
    cells = (1, 2, 4)
    epochs = []
    for e, value in enumerate(values):
        rows = [quads([math.exp(value)] * 4, level=10**6, cell=f"oltp_point_select/{threads}") for threads in cells]
        epochs.append(epoch_of([row for cell in rows for row in cell], epoch=e))
    (first, *_) = analyse(epochs, simulated_study(cells=cells, precision=0.001), ended=ended).comparisons
    detectable = iv.minimal_detectable_effect(
        iv.standard_deviation(values), 8, family=3, anytime=ended is Stop.ABORTED
    )  # fmt: skip
    assert f"A difference of {percent_text(detectable)} would probably" in first.verdict.sentence
