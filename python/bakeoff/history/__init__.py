"""Results of many runs over months, and what changed when (docs/reference/history.md)."""
