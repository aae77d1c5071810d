"""Whether the client itself decided the throughput: then a ratio of servers is one of clients as well."""

from collections.abc import Sequence

from bakeoff.stats.model import ArmSummary

_OF_PINNED = 0.25  # share of the CPUs that a pinned client has (`trial.arms.cpu_sets`)
_OF_ITS_CPUS = 0.7
_OF_BOTH = 0.4


def client_flag(arms: Sequence[ArmSummary], *, pinned: bool) -> str | None:
    """A flag when an arm's client burnt two fifths of the CPU that it and its server did, or 70 % of its own CPUs.

    The first needs no quiet machine: CPU time is spent on an event, not on waiting for it.

    Args:
        arms: the arms compared, in one cell.
        pinned: client and servers have CPUs of their own.
    """
    for arm in arms:
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
