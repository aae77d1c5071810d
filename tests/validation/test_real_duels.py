"""The tests on complete duels: the targets hold for the method, and do not hold for a broken one."""

import pytest
from simulated_duels import simulated_duel, too_narrow

from bakeoff.stats.model import Interval, Word
from validation import campaign, real_checks
from validation.check import Setting, Size, most
from validation.duels import Outcome
from validation.journal import read_entries


def setting(tmp_path, size=Size.FULL):
    folder = tmp_path / "g1"
    folder.mkdir(exist_ok=True)
    return Setting(size=size, seed=1, folder=folder)


@pytest.mark.parametrize("check", real_checks.DUEL_CHECKS, ids=lambda check: f"{check.test} {check.what}")
def test_the_method_passes(check, tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "run_duel", simulated_duel(spread=0.004))
    finding = check.run(setting(tmp_path))
    assert finding.passed, finding.found


@pytest.mark.parametrize(
    "check",
    [check for check in real_checks.DUEL_CHECKS if check.run is not real_checks.claimed_in_time
     and check.test not in {"G7", "G11"}],
    ids=lambda check: f"{check.test} {check.what}",
)  # fmt: skip
def test_intervals_that_know_nothing_of_restarts_fail(check, tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "run_duel", simulated_duel(too_narrow))
    finding = check.run(setting(tmp_path))
    assert finding.passed is False, finding.found


def test_stopping_at_the_first_look_that_excludes_1_fails_without_the_anytime_interval(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "run_duel", simulated_duel())
    assert real_checks.peeking(setting(tmp_path)).passed
    monkeypatch.setattr("validation.campaign.iv.anytime_half_width", lambda sd, n, *_, alpha: 2 * sd / n**0.5)
    finding = real_checks.peeking(setting(tmp_path))
    assert finding.passed is False, finding.found


def test_a_bias_too_small_for_any_single_interval_is_seen_over_all_duels(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "run_duel", simulated_duel(bias=0.004))
    finding = real_checks.equal_arms(setting(tmp_path))
    assert finding.passed is False and "beyond chance" in finding.found
    assert finding.figures["bias"] == pytest.approx(0.004, abs=0.001)
    assert finding.figures["wrong"] <= most(100, 0.05)


def test_slowdowns_that_are_not_claimed_in_time_fail_on_a_calm_machine_only(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "run_duel", simulated_duel(spread=0.1))
    assert real_checks.claimed_in_time(setting(tmp_path)).passed is False
    noisy = simulated_duel(spread=0.1)

    def beside_others(duel, folder, **options):
        outcome = noisy(duel, folder, **options)
        return outcome.model_copy(update={"other_share": 0.8})

    monkeypatch.setattr(campaign, "run_duel", beside_others)
    other = tmp_path / "other"
    other.mkdir()
    finding = real_checks.claimed_in_time(setting(other))
    assert finding.passed is None and "too busy" in finding.found


def test_checks_share_their_duels(tmp_path, monkeypatch):
    ran = []
    run = simulated_duel()

    def counting(duel, folder, **options):
        ran.append(duel.key)
        return run(duel, folder, **options)

    monkeypatch.setattr(campaign, "run_duel", counting)
    real_checks.equal_arms(setting(tmp_path))
    assert len(ran) == 100 == len(set(ran))
    real_checks.peeking(setting(tmp_path))
    assert len(ran) == 100


def without_intervals(numbers=range(1000)):
    """A `run_duel` whose duels of these numbers measured one epoch only."""
    run = simulated_duel(spread=0.004)
    none = {"low": None, "high": None, "live": Interval(low=None, high=None), "words": (Word.INCONCLUSIVE,)}

    def short(duel, folder, **options):
        outcome = run(duel, folder, **options)
        if duel.number not in numbers:
            return outcome
        cut = [each.model_copy(update=none | {"points": each.points[:1]}) for each in outcome.judgements]
        return outcome.model_copy(update={"judgements": tuple(cut)})

    return short


@pytest.mark.parametrize(
    "check",
    [check for check in real_checks.DUEL_CHECKS if check.run is not real_checks.claimed_in_time],
    ids=lambda check: f"{check.test} {check.what}",
)
def test_duels_without_intervals_prove_nothing(check, tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "run_duel", without_intervals())
    finding = check.run(setting(tmp_path))
    assert finding.passed is None, finding.found
    assert "interval" in finding.found or "enough epochs for a verdict" in finding.found


def test_a_duel_without_an_interval_is_excluded_from_pairs_and_coverage(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "run_duel", without_intervals(range(1)))
    by_test = {check.test: check.run(setting(tmp_path)) for check in real_checks.DUEL_CHECKS if check.test != "G3"}
    assert "of 171 pairs" in by_test["G16"].found and "19 runs" in by_test["G16"].found
    assert "of 19 pairs" in by_test["G5"].found
    assert "of 72 single intervals" in by_test["G11"].found
    assert "of 98 would" in by_test["G7"].found
    assert "of 39, claimed" in real_checks.injected(setting(tmp_path)).found


def failing(error, *, but=()):
    """A `run_duel` that fails every duel except the numbers in `but`."""
    run = simulated_duel(spread=0.004)

    def failed(duel, folder, **options):
        outcome = run(duel, folder, **options)
        return outcome if duel.number in but else outcome.model_copy(update={"judgements": (), "error": error})

    return failed


@pytest.mark.parametrize("error", ["exit code 5: bakeoff: a bug", "exit code 124: bakeoff: it was ended after 480 s"])
@pytest.mark.parametrize("but", [(), range(10)], ids=["all", "some"])
@pytest.mark.parametrize("check", real_checks.DUEL_CHECKS, ids=lambda check: f"{check.test} {check.what}")
def test_failed_duels_fail_the_check(check, error, but, tmp_path, monkeypatch):
    monkeypatch.setattr(real_checks, "_CLAIMS", 11)
    monkeypatch.setattr(real_checks, "_GRIDS", 11)
    monkeypatch.setattr(campaign, "run_duel", failing(error, but=but))
    finding = check.run(setting(tmp_path))
    assert finding.passed is False and error in finding.found


def test_claims_of_a_few_duels_prove_nothing_while_the_others_could_not_be_run(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "run_duel", failing("exit code 3: no such server", but=(0,)))
    finding = real_checks.claimed_in_time(setting(tmp_path))
    assert finding.passed is None and finding.found.count("9 of 10 duels failed") == 2
    assert "claimed by 1 of 1" in finding.found


def test_duels_that_cannot_be_run_prove_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "run_duel", failing("exit code 3: no such server"))
    for check in real_checks.DUEL_CHECKS:
        finding = check.run(setting(tmp_path))
        assert finding.passed is None and "no such server" in finding.found
    assert campaign.first_by_key(read_entries(tmp_path / "duels" / "duels.jsonl", Outcome)) == {}


def test_quick_takes_at_most_five_duels(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign, "run_duel", simulated_duel(spread=0.004))
    for check in real_checks.DUEL_CHECKS:
        if Size.QUICK in check.sizes:
            assert check.run(setting(tmp_path, Size.QUICK)).passed
    assert len(read_entries(tmp_path / "duels" / "duels.jsonl", Outcome)) <= 5
