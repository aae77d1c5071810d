"""Pass, fail or cannot tell: a slowdown limit for CI (docs/ci.md)."""
