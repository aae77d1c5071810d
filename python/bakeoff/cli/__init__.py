"""The command line: parse, call, render, exit code. No decision is made here."""
