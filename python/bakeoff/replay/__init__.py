"""Replay captured queries and judge each of them (docs/replay.md)."""
