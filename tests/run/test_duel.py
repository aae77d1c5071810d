"""Whole duels on real servers, judged by truths that are known: equal arms, and slowdowns injected in one of them."""

import json
import math

import pytest

from bakeoff.results import open_run
from bakeoff.stats.model import Analysis, Word

pytestmark = pytest.mark.server

DATA = (
    "--tables",
    "2",
    "--table-size",
    "20000",
    "--threads",
    "4",
    "--workload",
    "oltp_point_select",
    "--warm-up",
    "2s",
)


def duel(shell, *arguments):
    """Run a duel; returns the newest run directory and analysis."""
    ran = shell.run("duel", *arguments, "--quiet", limit_s=400)
    assert ran.code == 0, ran
    run = open_run(shell.runs[-1])
    return run, run.read("analysis.json", Analysis), ran


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_equal_servers_are_not_distinguished(shell):
    """One interval in twenty misses the truth; two in a row on the same side are one pair in eight hundred."""
    sides = []
    for seed in ("1", "2"):
        _, analysis, _ = duel(
            shell, "mysql:8.0.15", "mysql:8.0.15", *DATA, "--budget", "80s", "--precision", "2%", "--seed", seed
        )
        (comparison,) = analysis.comparisons
        assert comparison.estimate.n >= 4  # six on a machine that is not overloaded
        interval = comparison.estimate.interval
        sides.append((interval.low > 0) - (interval.high < 0))
        if not sides[-1]:
            assert not {Word.FASTER, Word.SLOWER} & set(comparison.verdict.words), comparison.verdict.sentence
            return
    assert sides[0] != sides[1], comparison.verdict.sentence


def assert_claimed(analysis, percent):
    """Assert that the only comparison claims SLOWER, with an interval around the injected slowdown."""
    (comparison,) = analysis.comparisons
    truth = -math.log1p(percent / 100)
    # The 95 % interval may miss one time in twenty; half its width more makes that one in thousands.
    interval = comparison.estimate.interval
    assert interval.low - interval.half_width / 2 < truth < interval.high + interval.half_width / 2
    assert Word.SLOWER in comparison.verdict.words, comparison.verdict.sentence


def test_a_large_injected_slowdown_is_claimed_however_busy_the_machine(slowed_duel):
    assert_claimed(slowed_duel.analysis, 100)


def test_the_verdict_is_printed_and_the_report_written(slowed_duel):
    (comparison,) = slowed_duel.analysis.comparisons
    assert comparison.verdict.words
    assert all(word in slowed_duel.ran.out for word in comparison.verdict.words)
    ratio = math.exp(comparison.estimate.mean)
    assert any(f"\n{ratio:.{decimals}f}×  " in slowed_duel.ran.out for decimals in (2, 3)), slowed_duel.ran.out
    assert (slowed_duel.run.path / "report.html").stat().st_size > 20_000


def test_the_interleaved_time_is_shared_fairly(slowed_duel):
    run = slowed_duel.run
    # The pilot warmed the only workload of the first epoch, and it has run ever since.
    warmed_s = [run.outcome(epoch).phases_s["warm"] for epoch in run.finished_epochs() if epoch > 0]
    assert run.outcome(0).phases_s["warm"] < 1 < run.outcome(0).phases_s["pilot"]
    assert min(warmed_s) >= 1  # until the arms' ratio is steady, which takes a second to see
    assert max(warmed_s) < 4 * run.study().warm_s + 2  # reads may take four times as long; connecting is part of it
    assert run.study().warm_s == 1
    arms = run.slices().by("arm").frames()
    by_arm = {arm: slices["length_ns"].sum() for arm, slices in arms.items()}
    assert by_arm["A"] / by_arm["B"] == pytest.approx(1.0, abs=0.05)
    assert run.outcome(0).start_order != run.outcome(1).start_order
    assert {run.outcome(epoch).build for epoch in run.finished_epochs()} == {0, 1}


@pytest.mark.parametrize(("output", "held"), [("text", "SLOWER"), ("md", "SLOWER"), ("csv", "oltp_point_select")])
def test_the_report_can_be_rendered_again_in_any_format(slowed_duel, inside, output, held):
    ran = inside("report", str(slowed_duel.run.path), "--format", output, "--output", "-")
    assert ran.code == 0, ran
    assert held in ran.out


def test_the_report_as_json_has_the_verdict(slowed_duel, inside):
    ran = inside("report", str(slowed_duel.run.path), "--format", "json")
    assert ran.code == 0, ran
    (comparison,) = slowed_duel.analysis.comparisons
    assert comparison.verdict.sentence.split(":")[0] in ran.out
    assert json.loads(ran.out)


def test_a_run_is_listed_with_its_epochs(slowed_duel, inside):
    ran = inside("list", "runs", "--runs", str(slowed_duel.run.path.parent), "--format", "json")
    (row,) = json.loads(ran.out)
    assert row["name"] == slowed_duel.run.name
    assert row["epochs"] == len(slowed_duel.run.finished_epochs())
    assert row["state"] == "complete"
    assert row["verdict"] == "SLOWER"
    size, unit = row["size"].split()
    held_bytes = sum(file.stat().st_size for file in slowed_duel.run.path.rglob("*") if file.is_file())
    assert float(size) * {"kB": 10**3, "MB": 10**6}[unit] == pytest.approx(held_bytes, rel=0.5)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("percent", [5, 10])
def test_a_small_injected_slowdown_is_claimed(shell, percent):
    _, analysis, _ = duel(
        shell,
        "mysql:8.0.15",
        "mysql:8.0.15",
        *DATA,
        "--inject-slowdown",
        f"{percent}%",
        "--budget",
        "4m",
        "--seed",
        "2",
    )
    assert_claimed(analysis, percent)
