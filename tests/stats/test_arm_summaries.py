"""Throughput and costs of an arm, and quantile ratios."""

import math
from dataclasses import replace

import pytest
from slices import epoch_of, quads, slice_row

from bakeoff.stats import interval as iv
from bakeoff.stats import summary
from bakeoff.stats.analysis import reduced, stacked
from bakeoff.stats.interval import t_quantile
from bakeoff.stats.model import Interval
from bakeoff.stats.summary import latency_ratios
from validation.simulation import simulated_study

CELL = "oltp_point_select/4"


def histogram(arm, quantiles, *, count=100_000, operation="event", clock="service"):
    return {
        "cell": CELL, "arm": arm, "operation": operation, "clock": clock, "count": count, "mean_ns": 1.0, "min_ns": 1,
        "max_ns": 1, "quantiles_ns": quantiles, "hdr": "",
    }  # fmt: skip


def costly(arm, block, position, **more):
    return slice_row(
        arm, block, position, events=1000, reads=900, writes=90, other=10, errors='{"1213": 2, "1205": 1}', retries=3,
        received_bytes=5000, client_user_ns=100, client_system_ns=300, server_cpu_ns=2000, context_switches=4000,
        host_user_ns=1000, host_system_ns=500, host_iowait_ns=0, host_steal_ns=100, host_idle_ns=400, **more,
    )  # fmt: skip


def arm_summaries(epochs):
    run = reduced(epochs, simulated_study())
    return summary.arm_summaries(stacked(run.sums, "epoch"), [row for epoch in run.epochs for row in epoch.histograms])


def summaries(*epochs):
    return {(each.cell, each.arm): each for each in arm_summaries(epochs)}


def test_costs_are_computed_per_event():
    rows = [costly(arm, 0, position) for position, arm in enumerate("ABBA")]
    a = summaries(epoch_of(rows, histograms=[histogram("A", {"0.5": 10, "0.95": 20})]))[CELL, "A"]
    assert (a.tps, a.qps, a.epochs) == (1000.0, 1000.0, 1)
    assert (a.tps_low, a.tps_high) == (1000.0, 1000.0)
    assert a.client_cpu_ns_per_event == 0.4 and a.server_cpu_ns_per_event == 2.0
    assert a.context_switches_per_event == 4.0 and a.received_bytes_per_event == 5.0
    assert a.errors_per_million == 3000.0 and a.retries_per_million == 3000.0
    assert a.client_cpu_share == 0.2 and a.steal_share == 0.05
    assert a.quantiles_ns == pytest.approx({"0.5": 10, "0.95": 20})
    assert a.server_read_bytes_per_event is None


def test_hosts_are_what_counts_where_several_have_measured():
    levels = (900, 901, 899, 1100, 1101, 1099)
    epochs = [epoch_of(quads([1.0], level=level), epoch=e) for e, level in enumerate(levels)]
    alone = summaries(*epochs)[CELL, "A"]
    two = summaries(*(replace(each, host="ab"[each.epoch // 3]) for each in epochs))[CELL, "A"]
    assert two.tps == alone.tps == pytest.approx(1000.0)
    # The standard error is 100, with one degree of freedom.
    assert two.tps_high == pytest.approx(1000 + 100 * t_quantile(0.975, 1), rel=1e-3)
    assert alone.tps_high < 1200


def test_throughput_is_the_mean_of_epochs_with_an_interval():
    a = summaries(*(epoch_of(quads([1.0], level=level), epoch=e) for e, level in enumerate((900, 1000, 1100))))[
        CELL, "A"
    ]
    assert a.tps == pytest.approx(1000.0)
    assert a.tps_high - a.tps == pytest.approx(t_quantile(0.975, 2) * 100 / math.sqrt(3))


def test_the_cpu_cost_of_a_remote_server_is_unknown():
    rows = quads([1.0] * 2)
    assert summaries(epoch_of(rows))[CELL, "B"].server_cpu_ns_per_event is None


def test_quantiles_are_geometric_means_if_every_epoch_has_them():
    epochs = [
        epoch_of(quads([1.0]), epoch=e, histograms=[histogram("A", {"0.5": ns} | ({"0.99": 9} if e else {}))])
        for e, ns in enumerate((100, 400))
    ]
    assert summaries(*epochs)[CELL, "A"].quantiles_ns == pytest.approx({"0.5": 200})


def test_an_idle_arm_costs_zero_without_dividing_by_zero():
    rows = [row | {"events": 0} for row in quads([1.0] * 2)]
    a = summaries(epoch_of(rows))[CELL, "A"]
    assert (a.tps, a.client_cpu_ns_per_event, a.errors_per_million) == (0.0, 0.0, 0.0)
    assert arm_summaries([epoch_of([])]) == () == arm_summaries([epoch_of(quads([1.0]), valid=False)])


def ratios(pairs, *, interval_of=iv.precision_interval, **options):
    epochs = [
        epoch_of([], epoch=e, histograms=[histogram("A", a, **options), histogram("B", b, **options)])
        for e, (a, b) in enumerate(pairs)
    ]
    return latency_ratios(
        epochs,
        baseline="A",
        interval_of=interval_of,
        cells=[CELL],
    )


def test_quantile_ratio_over_epochs():
    (ratio,) = ratios([({"0.99": 100}, {"0.99": 110 + e}) for e in range(6)])
    values = [math.log((110 + e) / 100) for e in range(6)]
    assert ratio.estimate.mean == pytest.approx(sum(values) / 6) and ratio.estimate.n == 6
    assert ratio.estimate.interval.half_width == pytest.approx(
        iv.precision_half_width(iv.standard_deviation(values), 6)
    )
    assert (ratio.quantile, ratio.contender, ratio.operation) == (0.99, "B", "event")
    assert not ratio.differs, "of service times none is marked"


@pytest.mark.parametrize(
    ("count", "quantile", "given"),
    [(5000, "0.99", True), (4999, "0.99", False), (100, "0.5", True), (99, "0.5", False)],
)
def test_a_quantile_needs_fifty_observations_beyond_it(count, quantile, given):
    (ratio,) = ratios([({quantile: 100}, {quantile: 110})] * 6, count=count)
    assert (ratio.estimate is not None) == given


def test_a_zero_quantile_has_no_ratio():
    (ratio,) = ratios([({"0.5": 100}, {"0.5": 0})] * 6)
    assert ratio.estimate is None


def test_open_loop_differences_are_marked_after_correction():
    clear = ratios([({"0.5": 100 + e}, {"0.5": 200 + 3 * e}) for e in range(8)], clock="response")
    assert clear[0].differs
    same = ratios([({"0.5": 100 + e}, {"0.5": 100 + (e * 3) % 8}) for e in range(8)], clock="response")
    assert not same[0].differs


def test_service_times_do_not_affect_the_correction_of_response_times():
    """If 20 clear service-time differences joined the correction, the unclear response time would be marked."""
    near = [0, 5, 8, -1, 9, 4, 0, 6]  # per cent
    same = [-3, 3, -3, 3, -3, 3, -3, 3]

    def both(*, services):
        epochs = []
        for e in range(8):
            clear = [{"0.5": 100}, {"0.5": 200 + e}]
            response = [{"0.5": 100, "0.9": 100}, {"0.5": 100 + near[e], "0.9": 100 + same[e]}]
            rows = [histogram(arm, own, clock="response") for arm, own in zip("AB", response, strict=True)]
            for name in range(services):
                rows += [histogram(arm, own, operation=f"s{name}") for arm, own in zip("AB", clear, strict=True)]
            epochs.append(epoch_of([], epoch=e, histograms=rows))
        found = latency_ratios(epochs, baseline="A", interval_of=iv.precision_interval, cells=[CELL])
        return [each for each in found if each.clock == "response"]

    for services in (0, 20):
        first, second = both(services=services)
        assert iv.excludes_zero(first.estimate.interval) and not first.differs and not second.differs


def test_a_quantile_ratio_without_an_interval_is_not_marked():
    pairs = [({"0.5": 100 + e}, {"0.5": 200 + 3 * e}) for e in range(8)]
    (found,) = ratios(pairs, clock="response", interval_of=lambda *_: Interval(low=None, high=None))
    assert found.estimate.n == 8 and not found.differs


def test_an_arm_without_a_partner_is_left_out():
    epochs = [epoch_of([], histograms=[histogram("A", {"0.5": 1})])]
    assert latency_ratios(epochs, baseline="A", interval_of=lambda *_: iv.around(0, 1), cells=[CELL]) == ()
