"""Run studies on the nodes of a Ray cluster (docs/reference/cluster.md). Ray is imported only when it is needed."""
