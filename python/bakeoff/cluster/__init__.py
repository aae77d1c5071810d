"""Run studies on the nodes of a Ray cluster (docs/reference/cluster.md). Ray is imported only when it is needed."""

RUNNING = "auto"
"""The address of `$RAY_ADDRESS`, else of the cluster that this machine is a node of, else one of this machine alone."""
