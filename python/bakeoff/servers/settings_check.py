"""Checks options that set no variable, by asking performance_schema and the list of plugins."""

import re
from collections.abc import Mapping
from pathlib import PurePath

from bakeoff.servers.client import Server
from bakeoff.servers.options import is_false, is_true
from bakeoff.spec.server_name import is_negated, stem, values_of

_INSTRUMENTS = "performance_schema_instrument"
_CONSUMER = "performance_schema_consumer_"
_PLUGINS = ("early_plugin_load", "plugin_load", "plugin_load_add")
_ALWAYS_ON = "memory/performance_schema/"


def ignored_by(server: Server, asked: Mapping[str, str]) -> list[str]:
    """Return a line for each instrument, consumer or plugin option that a running server ignored."""
    found = []
    by_stem = {stem(name): (name, value) for name, value in asked.items()}
    if _INSTRUMENTS in by_stem:
        rows = server.query("SELECT name, enabled FROM performance_schema.setup_instruments")
        patterns = values_of(*by_stem[_INSTRUMENTS])
        found += ignored_instruments(patterns, {str(name): enabled == "YES" for name, enabled in rows})
    if consumers := {plain: option for plain, option in by_stem.items() if plain.startswith(_CONSUMER)}:
        rows = server.query("SELECT name, enabled FROM performance_schema.setup_consumers")
        states = {str(name): enabled == "YES" for name, enabled in rows}
        for plain, (name, value) in consumers.items():
            wanted = not is_negated(name) and is_true(value)
            if states.get(plain.removeprefix(_CONSUMER), False) is not wanted:
                found.append(f"{name}={value or 'on'}: the consumer is {'off' if wanted else 'on'}")
    if plugins := [option for plain, option in by_stem.items() if plain in _PLUGINS]:
        rows = server.query("SELECT plugin_library FROM information_schema.plugins WHERE plugin_status='ACTIVE'")
        found += ignored_plugins(plugins, {_library(str(row[0])) for row in rows})
    return found


def ignored_instruments(patterns: list[str], enabled: Mapping[str, bool]) -> list[str]:
    """Compare performance_schema_instrument with the state of every instrument.

    mysqld applies the longest pattern that matches an instrument, and the last one of equal length.
    """
    if not enabled:
        return [f"{_INSTRUMENTS}={pattern}: performance_schema is off" for pattern in patterns]
    wanted: dict[str, str] = {}
    names = [name for name in enabled if not name.startswith(_ALWAYS_ON)]
    for pattern in sorted(patterns, key=lambda each: len(each.partition("=")[0].strip())):
        matching = _like(pattern.partition("=")[0].strip())
        wanted |= {name: pattern for name in names if matching.fullmatch(name)}
    found = []
    for pattern in dict.fromkeys(patterns):
        value = pattern.partition("=")[2].strip()
        mine = [name for name in names if wanted.get(name) == pattern]
        others = [name for name in mine if enabled[name] is is_false(value)]
        if others:
            state = "on" if enabled[others[0]] else "off"
            found.append(f"{_INSTRUMENTS}={pattern}: {len(others)} of {len(mine)} instruments are {state}")
        elif not any(_like(pattern.partition("=")[0].strip()).fullmatch(name) for name in enabled):
            found.append(f"{_INSTRUMENTS}={pattern}: this server has no such instrument")
    return found


def _like(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace("%", ".*").replace(r"\?", "."), re.IGNORECASE)


def ignored_plugins(asked: list[tuple[str, str]], loaded: set[str]) -> list[str]:
    """Report the libraries in options such as `plugin_load_add=ha_rocksdb;name=lib.so` that are not loaded."""
    return [
        f"{name}={part}: the server runs without it"
        for name, value in asked
        for part in filter(None, value.split(";"))
        if _library(part.rpartition("=")[2]) not in loaded
    ]


def _library(file: str) -> str:
    return PurePath(file.strip()).name.removesuffix(".so")
