"""Whether the client itself decided the throughput: then a ratio of servers is one of clients as well."""

from collections.abc import Sequence

from bakeoff.stats.model import ArmSummary

_OF_PINNED = 0.25  # share of the CPUs that a pinned client has (`trial.arms.cpu_sets`)
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


def client_flag(arms: Sequence[ArmSummary], *, pinned: bool) -> str | None:
    """A flag when an arm's client burnt two fifths of the CPU that it and its server did, or 70 % of its own CPUs.

    The first needs no quiet machine: CPU time is spent on an event, not on waiting for it. In an open loop also when it
    began more than a hundredth of the events late.

    Args:
        arms: the arms compared, in one cell.
        pinned: client and servers have CPUs of their own.
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
        used = arm.client_cpu_share / (_OF_PINNED if pinned else 1.0)
        if used > _OF_ITS_CPUS:
            return f"CLIENT: client-bound, the client kept {min(used, 1.0):.0%} of its CPUs busy; give it more of them."
    return None
