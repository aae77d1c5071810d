"""CLIENT BOUND is raised only if the client or its network limits the throughput."""

import pytest

from bakeoff.plan.epochs import Cell, SliceLength
from bakeoff.results.manifest import Network
from bakeoff.stats.model import ArmSummary
from bakeoff.stats.summary import client_flag, network_flag


def arm(*, client_ns, server_ns, share=0.1):
    return ArmSummary(
        cell="oltp_point_select/4",
        arm="A",
        epochs=6,
        tps=1.0,
        tps_low=1.0,
        tps_high=1.0,
        qps=1.0,
        quantiles_ns={},
        clock="service",
        server_cpu_ns_per_event=server_ns,
        client_cpu_ns_per_event=client_ns,
        context_switches_per_event=0.0,
        server_read_bytes_per_event=None,
        server_write_bytes_per_event=None,
        received_bytes_per_event=0.0,
        errors_per_million=0.0,
        retries_per_million=0.0,
        client_cpu_share=share,
        steal_share=0.0,
    )


def test_a_client_cheaper_than_the_server_is_not_flagged():
    assert client_flag([arm(client_ns=6_000, server_ns=40_000)]) is None


@pytest.mark.parametrize(
    "summary",
    [
        arm(client_ns=2_500, server_ns=2_300),  # a server that does nothing
        arm(client_ns=6_000, server_ns=None, share=0.75),  # one elsewhere, all CPUs here busy with the client
    ],
)
def test_a_client_at_its_limit_is_flagged(summary):
    calm = arm(client_ns=6_000, server_ns=40_000)
    assert str(client_flag([calm, summary])).startswith("CLIENT BOUND: client-bound")


def test_nothing_measured_is_not_flagged():
    assert client_flag([arm(client_ns=0.0, server_ns=0.0, share=0.0)]) is None
    assert client_flag([]) is None


def cell(*, open_loop=False):
    slices = SliceLength(slice_ns=10**8, guard_ns=10**6)
    return Cell(
        name="oltp_point_select/4", workload="oltp_point_select", workload_index=0, script="oltp_point_select",
        threads=4, writes=False, freeze=False, placement="free", open_loop=open_loop, slices=slices,
    )  # fmt: skip


def network(*, rtt_ns, bytes_per_s=1e9):
    return Network(
        client_address="10.0.0.1", servers_address="10.0.0.2", client_machine="8 × CPU, 32 GiB", rtt_ns=rtt_ns,
        bytes_per_s=bytes_per_s,
    )  # fmt: skip


def busy(**known):
    return arm(client_ns=6_000, server_ns=None).model_copy(update={"qps": 8_000.0, "tps": 8_000.0} | known)


def test_a_round_trip_of_more_than_half_a_statement_is_flagged():
    # 4 connections, 8,000 statements a second: each takes 0.5 ms.
    assert network_flag([busy()], cell(), network(rtt_ns=240_000)) is None
    flag = network_flag([busy(qps=100.0), busy()], cell(), network(rtt_ns=300_000))
    assert flag.text.startswith("network-bound")
    assert "60% of a statement's time on arm A was the round trip of 300 µs" in flag.text
    assert network_flag([busy()], cell(open_loop=True), network(rtt_ns=300_000)) is None


def test_results_that_fill_the_network_are_flagged():
    full = busy(received_bytes_per_event=10_000.0)  # 80 MB a second
    assert network_flag([full], cell(), network(rtt_ns=1_000, bytes_per_s=110e6)) is None
    flag = network_flag([full], cell(), network(rtt_ns=1_000, bytes_per_s=90e6))
    assert "took 89% of the 90 MB a second" in flag.text
