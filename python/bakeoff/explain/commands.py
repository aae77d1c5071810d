"""Commands of this feature, imported when called."""

from bakeoff.cli.commands import RESULTS, CommandSource

COMMANDS = {
    "explain": CommandSource(
        "bakeoff.explain.command", "explain", "Find where a run's differences come from, by more epochs.", RESULTS
    )
}
