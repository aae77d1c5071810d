"""Explain a difference: costs per event, profiles, waits and plans (docs/explain.md)."""
