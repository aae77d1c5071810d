"""Run studies on the nodes of a Ray cluster (docs/cluster.md); Ray is imported only when it is asked for."""

from dataclasses import dataclass

RUNNING = "auto"
"""The address of `$RAY_ADDRESS`, else of the cluster that this machine is a node of, else one of this machine alone."""


@dataclass(frozen=True)
class Wanted:
    """Where a run is measured.

    Attributes:
        address: `HOST:PORT`, `ray://HOST:PORT`, `RUNNING`, or `local`: a cluster of this machine alone.
        hosts: how many nodes; None: all that fit.
        resource: only nodes that offer it, and one of it is taken; empty: nodes that offer a CPU.
    """

    address: str = RUNNING
    hosts: int | None = None
    resource: str = ""
