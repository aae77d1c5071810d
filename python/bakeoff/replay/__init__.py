"""Replay captured queries and judge each of them (docs/reference/replay.md)."""
