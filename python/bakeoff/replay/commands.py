"""Commands of this feature, imported when called."""

from bakeoff.cli.commands import CommandSource

COMMANDS = {
    "replay": CommandSource(
        "bakeoff.replay.command", "replay", "Compare servers by your own SQL, and judge every query."
    ),
    "capture": CommandSource(
        "bakeoff.replay.capture_command", "app", "Make a capture of query logs: events, digests, totals."
    ),
}
