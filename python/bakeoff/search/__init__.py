"""Which of many? The first slow build, and the options that made the difference (docs/reference/bisect.md)."""
