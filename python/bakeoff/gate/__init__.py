"""Pass, fail or cannot tell: a slowdown limit for CI (docs/reference/gate.md)."""
