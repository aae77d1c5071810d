"""Commands of this feature; `bakeoff.cli` imports each when it is called."""

from bakeoff.cli.commands import CommandSource

COMMANDS = {
    "bisect": CommandSource(
        "bakeoff.search.command", "bisect", "Find the build, or the options, that made a server slower."
    )
}
