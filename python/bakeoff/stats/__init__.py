"""Pure functions from the epochs of a run to its verdicts (docs/method.md), without servers."""
