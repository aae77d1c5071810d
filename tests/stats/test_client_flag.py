"""CLIENT is raised where the client decided the throughput, and nowhere else."""

import pytest

from bakeoff.stats.model import ArmSummary
from bakeoff.stats.summary import client_flag


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


def test_a_real_server_takes_most_of_the_cpu():
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
    assert str(client_flag([calm, summary])).startswith("CLIENT: client-bound")


def test_nothing_measured_is_no_limit():
    assert client_flag([arm(client_ns=0.0, server_ns=0.0, share=0.0)]) is None
    assert client_flag([]) is None
