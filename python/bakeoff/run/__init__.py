"""Run one study from start to end: install, load, measure epochs, analyse, resume.

Events go to a `Listener`; nothing is printed.
"""

from bakeoff.run.listener import Listener
from bakeoff.run.runner import run_study

__all__ = ["Listener", "run_study"]
