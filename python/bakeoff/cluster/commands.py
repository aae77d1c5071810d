"""Commands of this feature; `bakeoff.cli` imports each when it is called."""

from bakeoff.cli.commands import MACHINE, CommandSource

COMMANDS = {"cluster": CommandSource("bakeoff.cluster.command", "app", "Check the nodes of a Ray cluster.", MACHINE)}
