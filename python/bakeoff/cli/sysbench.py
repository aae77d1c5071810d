"""`bakeoff sysbench …`: the drop-in for sysbench, which is the engine's own (docs/sysbench.md).

The engine takes this process's place: every argument, `--help` too, reaches it untouched, and so do signals; its exit
codes are sysbench's (0, 1, 2).
"""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from bakeoff.engine import engine_path

# For the list of commands and for callers of the app itself; `bakeoff` hands the arguments over before they are parsed.
UNPARSED = {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False}


def sysbench(context: typer.Context) -> None:
    """Drop-in for sysbench on MySQL and MariaDB: same options, same scripts, same output."""
    become_sysbench(context.args)


def become_sysbench(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by `bakeoff-engine sysbench ARGUMENTS`.

    Raises:
        HostError: there is no engine.
    """
    engine = str(engine_path())
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(engine, [engine, "sysbench", *arguments])
