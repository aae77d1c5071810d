"""The command line: parse arguments, call the packages, print, choose the exit code."""
