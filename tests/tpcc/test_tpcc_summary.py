"""TPC-C's results on epochs whose right answers are known."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tpcc_epochs import CELL, epoch_of

from bakeoff.results.frame import Frame
from bakeoff.tpcc.results import Judgement, tpcc_summaries
from bakeoff.tpcc.sections import _transactions_table

DECKS = {"new_order": 10_000, "payment": 10_000, "order_status": 1_000, "delivery": 1_000, "stock_level": 1_000}
MS = 1_000_000


def only(epochs):
    (summary,) = tpcc_summaries(epochs)
    return summary


def of(summary, name):
    return next(kind for kind in summary.types if kind.name == name)


def test_rates_are_counts_over_time():
    summary = only([epoch_of(DECKS | {"new_order.rollback": 100}, seconds=30.0)])
    assert (summary.cell, summary.arm, summary.epochs) == (CELL, "A", 1)
    assert summary.tpmc == pytest.approx(20_000)
    assert summary.tpm_total == pytest.approx(46_000)
    assert [kind.count for kind in summary.types] == list(DECKS.values())
    assert of(summary, "payment").share == pytest.approx(10 / 23)
    assert summary.rollback_share == pytest.approx(0.01)


def test_several_epochs_give_a_mean_and_an_interval():
    epochs = [epoch_of(DECKS, seconds=30.0, epoch=0), epoch_of(DECKS, seconds=20.0, epoch=1)]
    summary = only(epochs)
    assert summary.tpmc == pytest.approx((20_000 + 30_000) / 2)
    assert summary.tpmc_low < 20_000
    assert summary.tpmc_high > 30_000
    assert of(summary, "new_order").count == 20_000
    assert only([*epochs, epoch_of(DECKS, seconds=1.0, epoch=2, valid=False)]) == summary


def test_hosts_are_what_counts_where_several_have_measured():
    def on(*hosts):
        lengths = enumerate(zip(hosts, (29.9, 30.0, 30.1, 19.9, 20.0, 20.1), strict=True))
        return only([replace(epoch_of(DECKS, seconds=length, epoch=e), host=host) for e, (host, length) in lengths])

    alone, two = on(*"aaaaaa"), on(*"aaabbb")
    assert two.tpmc == pytest.approx(25_000, rel=1e-3)
    assert alone.tpmc == pytest.approx(two.tpmc)
    assert (two.tpmc_low, two.tpmc_high > 2 * alone.tpmc_high) == (0.0, True)


def test_all_rounds_of_an_epoch_count():
    once = epoch_of(DECKS, seconds=30.0)
    again = [row | {"round": 1} for row in once.histograms]
    twice = replace(once, slices=Frame.concat([once.slices, once.slices]), histograms=[*once.histograms, *again])
    summary = only([twice])
    assert (summary.epochs, of(summary, "new_order").count) == (1, 20_000)
    assert summary.tpmc == pytest.approx(20_000)


def test_percentiles_are_of_all_epochs_together():
    slow = epoch_of(DECKS | {"payment": [MS] * 600 + [9 * MS] * 400}, epoch=0)
    fast = epoch_of(DECKS | {"payment": [MS] * 3000}, epoch=1)
    quantiles = of(only([slow, fast]), "payment").quantiles_ns
    assert quantiles["0.5"] == pytest.approx(MS, rel=2e-3)
    assert quantiles["0.9"] == pytest.approx(MS, rel=2e-3)
    assert quantiles["0.95"] == pytest.approx(9 * MS, rel=2e-3)
    assert of(only([slow]), "payment").quantiles_ns["0.9"] == pytest.approx(9 * MS, rel=2e-3)


def test_the_ninetieth_percentile_is_judged_by_the_standards_limits():
    late = [MS] * 80 + [6_000 * MS] * 20
    summary = only([epoch_of(DECKS | {"payment": late, "stock_level": late})])
    assert of(summary, "payment").response is Judgement.NOT_OK
    assert of(summary, "stock_level").response is Judgement.OK  # 20 s, not 5


def test_a_wrong_mix_is_not_ok_and_a_short_run_is_too_few():
    wrong = only([epoch_of(DECKS | {"delivery": 100})])
    assert of(wrong, "delivery").mix is Judgement.NOT_OK
    short = only([epoch_of({"new_order": 30, "payment": 29, "order_status": 2, "delivery": 3, "stock_level": 3})])
    assert of(short, "order_status").mix is Judgement.TOO_FEW


@pytest.mark.parametrize(
    ("rollbacks", "expected"),
    [(100, Judgement.OK), (115, Judgement.TOO_FEW), (200, Judgement.NOT_OK), (20, Judgement.NOT_OK)],
)
def test_the_share_of_rollbacks_is_judged(rollbacks, expected):
    assert only([epoch_of(DECKS | {"new_order.rollback": rollbacks})]).rollback is expected


def test_skipped_deliveries_and_retries_are_reported_by_type():
    summary = only([epoch_of(DECKS | {"delivery.skipped": 500, "new_order.retried": 7, "payment.retried": 3})])
    assert summary.skipped is Judgement.NOT_OK
    assert {kind.name: kind.retried for kind in summary.types if kind.retried} == {"new_order": 7, "payment": 3}
    assert sum(kind.count for kind in summary.types) == sum(DECKS.values())


def test_other_workloads_have_no_tpcc_summary():
    assert tpcc_summaries([epoch_of({"event": 100})]) == ()
    assert tpcc_summaries([]) == ()


def test_a_transaction_type_that_never_ran_has_no_percentiles():
    summary = only([epoch_of({"new_order": 10, "payment": 9})])
    table = _transactions_table(SimpleNamespace(labels={"A": "mysql:8.0"}, slots={"A": 0}), [summary])
    assert {row.values[0].text: row.values[2].text for row in table.rows} == {
        "New-Order": "2 ms", "Payment": "2 ms", "Order-Status": "n/a", "Delivery": "n/a", "Stock-Level": "n/a",
    }  # fmt: skip
