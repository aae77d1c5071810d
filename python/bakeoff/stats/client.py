"""Whether the client itself decided the throughput: then a ratio of servers is one of clients as well."""

from collections.abc import Sequence

from bakeoff.stats.model import ArmSummary

_OF_ITS_CPUS = 0.7
_OF_BOTH = 0.4
_LATE_PER_MILLION = 10_000


def dropped_flag(arms: Sequence[ArmSummary]) -> str | None:
    """A flag when events of an open loop were never begun, with the arm that left out most."""
    worst = max(arms, key=lambda arm: arm.dropped_per_million, default=None)
    if worst is None or worst.dropped_per_million == 0:
        return None
    return (
        f"DROPPED: arm {worst.arm} never began {worst.dropped_per_million:,.0f} of a million events that were due; it "
        "fell behind the rate, and its response times are without them."
    )


def client_flag(arms: Sequence[ArmSummary]) -> str | None:
    """A flag when an arm's client burnt two fifths of the CPU that it and its server did, or 70 % of the CPUs.

    The first needs no quiet machine: CPU time is spent on an event, not on waiting for it. In an open loop also when it
    began more than a hundredth of the events late.

    Args:
        arms: the arms compared, in one cell.
    """
    for arm in arms:
        if arm.late_starts_per_million > _LATE_PER_MILLION:
            return (
                f"CLIENT: client overloaded, {arm.late_starts_per_million / 1e6:.1%} of the events of arm {arm.arm} "
                "began late although a connection was free; its response times hold delays of the client."
            )
        client_ns, server_ns = arm.client_cpu_ns_per_event, arm.server_cpu_ns_per_event
        if server_ns is not None and client_ns > _OF_BOTH * (client_ns + server_ns) > 0:
            return (
                f"CLIENT: client-bound, of the CPU that an event of arm {arm.arm} took the client had "
                f"{client_ns / (client_ns + server_ns):.0%}; the servers themselves are further apart than this ratio."
            )
        if arm.client_cpu_share > _OF_ITS_CPUS:
            share = min(arm.client_cpu_share, 1.0)
            return f"CLIENT: client-bound, the client kept {share:.0%} of the CPUs busy; give it more of them."
    return None
