"""Pure functions from a run directory to verdicts (docs/method.md). Imports nothing that runs a server."""
