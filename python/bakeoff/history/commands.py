"""Commands of this feature; `bakeoff.cli` imports each when it is called."""

from bakeoff.cli.commands import RESULTS, CommandSource

COMMANDS = {
    "compare": CommandSource("bakeoff.history.compare", "compare", "Compare earlier runs.", RESULTS),
    "history": CommandSource(
        "bakeoff.history.command", "app", "Keep results over months: what changed, and when.", RESULTS
    ),
}
