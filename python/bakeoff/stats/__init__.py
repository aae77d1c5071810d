"""Pure functions from the epochs of a run to its verdicts (docs/explanation/method.md), without servers."""
