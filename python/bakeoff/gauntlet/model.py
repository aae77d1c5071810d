"""What a test of the gauntlet is, and what it found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Size(StrEnum):
    """How much is run: `replay` in minutes and without a server of its own, `quick` in 7 minutes, `full` in hours."""

    REPLAY = "replay"
    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True)
class Setting:
    """What a test may use.

    Attributes:
        size: which size is being run; tests choose their numbers of runs by it.
        seed: everything random follows from it and the test's name.
        folder: of the test's own; what it writes there (journals of duels, traces) is kept with the gauntlet's run.
        server: the server that real tests are run on, as on the command line.
        tell: a line of progress.
    """

    size: Size
    seed: int
    folder: Path
    server: str = "mysql:8.0.15"
    tell: Callable[[str], None] = field(default=lambda text: None)


@dataclass(frozen=True)
class Finding:
    """What a test found.

    Attributes:
        found: the result in the words and units of the test's target.
        passed: whether the target holds; None when the machine cannot run the test, and `found` says why.
        figures: the numbers behind it, by name with unit, as JSON has them.
    """

    found: str
    passed: bool | None
    figures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """A test of the gauntlet.

    Attributes:
        test: its number in docs/method.md: "G1".
        what: what it does, in a few words.
        target: what must hold.
        sizes: the sizes it belongs to.
        run: does it.
    """

    test: str
    what: str
    target: str
    sizes: frozenset[Size]
    run: Callable[[Setting], Finding]
