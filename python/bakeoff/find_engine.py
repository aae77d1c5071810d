"""Find the engine's binary, and become it for `bakeoff sysbench`, whose start every import here delays."""

import os
import sys


def find_engine() -> str | None:
    """Look for the engine's binary in $BAKEOFF_ENGINE, else beside this Python, else on PATH."""
    named = os.environ.get("BAKEOFF_ENGINE")
    folders = [sys.executable.rpartition("/")[0], *os.get_exec_path()]
    candidates = [named] if named else [f"{folder}/bakeoff-engine" for folder in folders]
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def require_engine() -> str:
    from bakeoff.errors import HostError  # imported late, so that `bakeoff sysbench` does not wait for it

    if not (found := find_engine()):
        raise HostError("bakeoff-engine was not found.", hint="Run `make setup`, or set BAKEOFF_ENGINE to its path.")
    return found


def become_sysbench(engine: str, arguments: list[str]) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(engine, [engine, "sysbench", *arguments])
