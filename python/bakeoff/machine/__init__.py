"""Gives servers their share of this machine: control groups, images, CPUs, huge pages; undone even after a kill."""

from bakeoff.machine.huge_pages import raise_machine
from bakeoff.machine.place import Place, evict, open_place, require
from bakeoff.machine.undo import Undo, undo

__all__ = ["Place", "Undo", "evict", "open_place", "raise_machine", "require", "undo"]
