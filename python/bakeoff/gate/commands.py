"""Commands of this feature; `bakeoff.cli` imports each when it is called."""

from bakeoff.cli.commands import CommandSource

COMMANDS = {
    "gate": CommandSource(
        "bakeoff.gate.command", "gate", "Fail if a build is slower than allowed: for CI and git bisect."
    )
}
