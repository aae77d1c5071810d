"""Commands of this feature; `bakeoff.cli` imports each when it is called."""

from bakeoff.cli.commands import RESULTS, CommandSource

COMMANDS = {
    "explain": CommandSource(
        "bakeoff.explain.command", "explain", "Find where a run's differences come from, by more epochs.", RESULTS
    )
}
