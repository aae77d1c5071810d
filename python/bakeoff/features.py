"""Find features, packages beside the core, by name. Their modules are imported lazily and may be missing."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

NAMES = ("replay", "explain", "gate", "search", "history", "cluster", "tpcc", "audit")


def part(feature: str, name: str) -> ModuleType | None:
    if find_spec(f"bakeoff.{feature}") is None or find_spec(f"bakeoff.{feature}.{name}") is None:
        return None
    return import_module(f"bakeoff.{feature}.{name}")


def parts(name: str) -> tuple[ModuleType, ...]:
    """Import the module of this name from every feature that has one, in the order of `NAMES`."""
    return tuple(found for feature in NAMES if (found := part(feature, name)))
