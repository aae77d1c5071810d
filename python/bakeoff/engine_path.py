"""Find the engine's binary; a module of its own because `bakeoff sysbench` needs nothing else of this package."""

import os
import sys
from pathlib import Path

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
