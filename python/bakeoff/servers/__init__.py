"""Real servers: found by name, fetched, initialised, started, made ready and stopped. Nothing here prints."""

from bakeoff.servers import readiness
from bakeoff.servers.catalog import Catalog, Entry, Installation
from bakeoff.servers.client import RemoteServer, Server
from bakeoff.servers.install import (
    find_entry,
    free_cache,
    how_checked,
    install,
    installed,
    is_installed,
    known_servers,
    remove,
)
from bakeoff.servers.instance import Instance
from bakeoff.servers.pool import ServerPool, Snapshot, sandbox
from bakeoff.servers.profile import ServerMemory, Settings, settings_for, table_engine

__all__ = [
    "Catalog", "Entry", "Installation", "Instance", "RemoteServer", "Server", "ServerMemory", "ServerPool",
    "Settings", "Snapshot", "find_entry", "free_cache", "how_checked", "install", "installed", "is_installed",
    "known_servers", "readiness", "remove", "sandbox", "settings_for", "table_engine",
]  # fmt: skip
