"""Checks that bakeoff's verdicts can be trusted: the tests G1 to G19 of docs/reference/validation.md."""
