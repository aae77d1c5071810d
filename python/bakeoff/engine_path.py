"""Find the engine's binary, and become it for `bakeoff sysbench`, which imports no more of this package than this."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from bakeoff.errors import HostError


def engine_path() -> Path:
    """The engine's binary: $BAKEOFF_ENGINE, else beside this Python, else on PATH.

    Raises:
        HostError: it is nowhere.
    """
    named = os.environ.get("BAKEOFF_ENGINE")
    folders = [Path(sys.executable).parent, *map(Path, os.get_exec_path())]
    for candidate in [Path(named)] if named else [folder / "bakeoff-engine" for folder in folders]:
        if os.access(candidate, os.X_OK):
            return candidate
    raise HostError("bakeoff-engine was not found.", hint="Run `make setup`, or set BAKEOFF_ENGINE to its path.")


def become_sysbench(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by `bakeoff-engine sysbench ARGUMENTS` (docs/sysbench.md).

    Arguments (also `--help`) and signals reach the engine unchanged; exit codes are sysbench's (0, 1, 2).

    Raises:
        HostError: there is no engine.
    """
    engine = str(engine_path())
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(engine, [engine, "sysbench", *arguments])
