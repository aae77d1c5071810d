"""Explain a difference: costs per event, profiles, waits and plans (docs/reference/explain.md)."""
