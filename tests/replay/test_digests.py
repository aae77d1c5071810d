"""Times by digest: equal arms claim no more than promised, a slower digest is found, gaps are named."""

import math

import numpy as np
import pytest

from bakeoff.replay.digests import OTHER, digest_times
from bakeoff.stats.model import Stop
from validation.histograms import encode_values

HDR = encode_values(np.array([1_000_000] * 90 + [5_000_000] * 10))
CELL = "shop/4"


def name(number):
    return f"{number:016x}"


def row(arm, operation, mean_ns, count=100, hdr=HDR):
    return {
        "cell": CELL, "arm": arm, "operation": operation, "clock": "service", "count": count, "mean_ns": mean_ns,
        "max_ns": 5_000_000, "quantiles_ns": {}, "hdr": hdr,
    }  # fmt: skip


def simulated(rng, *, digests=30, epochs=8, restart=0.01, own=0.01, slower=None):
    """Simulate equal arms except for `slower` (digest -> factor), with noise per restart and per digest."""
    found = {}
    for epoch in range(epochs):
        rows = []
        for arm in "AB":
            common = rng.normal(0, restart)
            for digest in range(digests):
                factor = (slower or {}).get(digest, 1.0) if arm == "B" else 1.0
                mean = 1e6 * (digest + 1) * factor * math.exp(common + rng.normal(0, own))
                rows.append(row(arm, name(digest), mean))
        found[epoch] = rows
    return found


def judge(epochs, ended=Stop.PRECISE, **more):
    return {each.digest: each for each in digest_times(epochs, baseline="A", ended=ended, **more)}


@pytest.mark.parametrize("ended", [Stop.PRECISE, Stop.ABORTED])
@pytest.mark.parametrize("epochs", [6, 10])
def test_equal_arms_claim_anything_in_at_most_5_percent_of_runs(of_runs, ended, epochs, monkeypatch):
    monkeypatch.setattr("bakeoff.replay.digests.quantiles_of", lambda rows, wanted: ())
    rng, runs = np.random.default_rng(epochs), of_runs(300)
    noise = dict(restart=0.02, own=0.015)
    claims = sum(
        any(each.word in ("FASTER", "SLOWER") for each in judge(simulated(rng, epochs=epochs, **noise), ended).values())
        for _ in range(runs)
    )
    # 4 % allowed by the rule; 5 % and three standard errors.
    assert claims / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs), claims


def test_a_digest_slower_by_a_fifth_is_found_among_thirty():
    rng, found, others = np.random.default_rng(5), 0, 0
    for _ in range(20):
        judged = judge(simulated(rng, slower={7: 1.2}))
        found += judged[name(7)].word == "SLOWER"
        others += any(each.word in ("FASTER", "SLOWER") for key, each in judged.items() if key != name(7))
    assert found == 20
    assert others <= 3


def test_ratio_share_and_time_lost_are_computed_per_digest():
    rows = [row("A", name(1), 1e6), row("B", name(1), 2e6), row("A", OTHER, 3e6), row("B", OTHER, 3e6)]
    epochs = dict.fromkeys(range(6), rows)
    first, second = digest_times(epochs, baseline="A", ended=Stop.BUDGET)
    assert (first.digest, second.digest) == (name(1), OTHER)
    assert math.exp(first.estimate.mean) == pytest.approx(0.5)
    assert first.share == pytest.approx(0.25)
    assert first.time_lost == pytest.approx(0.25)
    assert second.time_lost == pytest.approx(0.0)
    assert first.executions == {"A": 600, "B": 600}
    assert [round(ns / 1e6) for ns in first.quantiles_ns["A"]] == [1, 5, 5]
    assert first.means_ns == {"A": 1e6, "B": 2e6}


def test_a_digest_that_one_arm_never_completes_is_named_and_not_tested():
    nothing = encode_values(np.array([], dtype=np.int64))
    rows = [row("A", name(1), 1e6), row("B", name(2), 1e6), row("A", name(3), 1e6)]
    rows.append(row("B", name(3), 1e6, count=0, hdr=nothing))
    epochs = dict.fromkeys(range(6), rows)
    judged = judge(epochs)
    assert judged[name(1)].note == "never completed on arm B"
    assert judged[name(2)].note == "never completed on arm A"
    assert judged[name(3)].note == "never completed on arm B"
    assert judged[name(3)].quantiles_ns["B"] == ()
    assert all(each.word == "not tested" and each.estimate is None for each in judged.values())


def test_few_epochs_and_running_servers_are_not_tested():
    few = {n: [row(arm, name(1), 1e6) for arm in "AB"] for n in range(5)}
    assert judge(few)[name(1)].note == "completed on both arms in 5 epochs; 6 are needed"
    enough = {**few, 6: [row(arm, name(1), 1e6) for arm in "AB"]}
    assert judge(enough)[name(1)].word == "unclear"
    assert judge(enough, running={"B"})[name(1)].note == "running servers are not restarted"
    assert judge({}) == {}


def test_a_contender_on_a_running_server_does_not_affect_other_verdicts():
    rows = [row(arm, name(1), ns) for arm, ns in (("A", 1e6), ("B", 2e6), ("C", 2e6))]
    epochs = dict.fromkeys(range(6), rows)

    def words(running):
        judged = digest_times(epochs, baseline="A", ended=Stop.BUDGET, running=running)
        return {each.contender: each.word for each in judged}

    assert words({"B"}) == {"B": "not tested", "C": "SLOWER"}
    assert words({"A"}) == {"B": "not tested", "C": "not tested"}


def test_one_execution_per_restart_is_enough_to_find_a_slower_query():
    rng = np.random.default_rng(3)
    once = {
        epoch: [row(arm, name(at), 1e6 * math.exp(rng.normal(0, 0.02)) * (2 if (arm, at) == ("B", 4) else 1), count=1)
                for at in range(65) for arm in "AB"]
        for epoch in range(8)
    }  # fmt: skip
    judged = judge(once)
    assert judged[name(4)].word == "SLOWER"
    assert "not tested" not in {each.word for each in judged.values()}


def test_only_digests_are_judged_and_rounds_are_paired_with_their_own_baseline():
    rows = [row("A", "event", 1e6), row("B", "event", 9e6)]
    for at, factor in enumerate((1.0, 3.0)):
        rows += [row(arm, name(1), factor * 1e6) | {"round": at} for arm in ("A", "BC"[at])]
    judged = digest_times(dict.fromkeys(range(6), rows), baseline="A", ended=Stop.BUDGET)
    assert {(each.contender, each.digest) for each in judged} == {("B", name(1)), ("C", name(1))}
    assert all(each.estimate.mean == 0 for each in judged)
