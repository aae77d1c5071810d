"""Commands of this feature; `bakeoff.cli` imports each when it is called."""

from bakeoff.cli.commands import RESULTS, CommandSource

COMMANDS = {
    "audit": CommandSource(
        "bakeoff.audit.command", "audit", "Check from its files whether a comparison is like for like.", RESULTS
    ),
}
