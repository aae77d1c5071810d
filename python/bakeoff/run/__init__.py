"""Runs a study: servers up, gates passed, engine driven, host watched, evidence written.

It emits events (`listener`) and prints nothing.
"""

from bakeoff.run.listener import Listener
from bakeoff.run.runner import run_study

__all__ = ["Listener", "run_study"]
