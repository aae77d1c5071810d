"""The run directory: written once, by rename into place; read as frames (docs/results.md)."""
