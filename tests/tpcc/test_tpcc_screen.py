"""The screen of a TPC-C run has tpmC beside the comparison."""

import pytest
import synthetic
from screens import screen_of
from synthetic import Truth, duel_study, make_run

from bakeoff.report import build_view
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop

SHARES = {"new_order": 0.45, "payment": 0.43, "order_status": 0.04, "delivery": 0.04, "stock_level": 0.04}


def with_transactions(histograms_of):
    def make(slices):
        events = [each for each in histograms_of(slices) if each["operation"] == "event"]
        made = []
        for event in events:
            for name, share in SHARES.items():
                count = round(event["count"] * share)
                hdr = synthetic.encode_lognormal(count, median_ns=event["mean_ns"], sigma=0.4)
                made.append(event | {"operation": name, "count": count, "hdr": hdr})
        return [*events, *made]

    return make


@pytest.mark.parametrize("width", [80, 120])
def test_the_screen_of_a_tpcc_run_shows_tpmc(tmp_path, monkeypatch, snapshot, width):
    study = duel_study(workloads=("tpcc",), threads=(4,), control=False)
    monkeypatch.setattr(synthetic, "histograms_of", with_transactions(synthetic.histograms_of))
    run = make_run(tmp_path, study, Truth(base_tps=300.0), epochs=6, blocks=4, slice_ns=1_000_000_000)
    screen = screen_of(build_view(run, analyse(list(run.load_epochs()), study, ended=Stop.BUDGET)), width)
    assert screen.count("tpmC") == 2 and "mysql:8.0 is" in screen
    assert screen == snapshot
