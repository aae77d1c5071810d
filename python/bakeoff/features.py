"""Find features by name. A feature is a package beside the core; the core never imports one.

The core asks for one part of a feature (`part("gate", "question")`) or for the same part of all of them
(`parts("sections")`). Both import lazily, and a feature whose folder was deleted has no parts.
"""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

NAMES = ("replay", "explain", "gate", "search", "history", "cluster", "tpcc")


def part(feature: str, name: str) -> ModuleType | None:
    """Import `bakeoff.FEATURE.NAME`; None if the feature is not installed or has no such module."""
    if find_spec(f"bakeoff.{feature}") is None or find_spec(f"bakeoff.{feature}.{name}") is None:
        return None
    return import_module(f"bakeoff.{feature}.{name}")


def parts(name: str) -> tuple[ModuleType, ...]:
    """Import the module of this name from every feature that has one, in the order of `NAMES`."""
    return tuple(found for feature in NAMES if (found := part(feature, name)))
