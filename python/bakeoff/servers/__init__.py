"""Real servers: found by name, fetched once, initialised once, cloned, started, and stopped whatever happens.

    installation = install(spec, progress)                       # SpecError, HostError, ServerError
    memory = ServerMemory(buffer_pool_bytes=512 << 20)
    settings = settings_for(installation, spec, profile, data, memory, connections=64)
    with ServerHouse(work_root) as house:                        # sweeps what dead bakeoffs left behind
        instance = house.create("A", installation, settings, env=..., cpus=..., padding_bytes=...)
        house.start_all([instance, ...])                         # in parallel; or instance.start()
        instance.stop(slow=True)
        snapshot = house.snapshot(instance, "build-0")
        again = house.restore("A", snapshot, installation, settings, env=..., cpus=..., padding_bytes=...)
    # leaving the block kills every server and removes every file

    remote = RemoteServer(spec, name, password)                  # read and measured; never started, stopped or changed
    gates.analyze(instance, database)                            # once, after loading
    warmth = gates.warm(instance, database)
    gates.settle(instance, deadline_s, warmth)                   # -> Gates, for outcome.json

The room never prints: progress goes to a callback `(what, done_bytes, total_bytes)`. It imports nothing of trials or
reports.
"""

from bakeoff.servers import gates
from bakeoff.servers.catalog import Catalog, Entry
from bakeoff.servers.fetch import Progress, no_progress
from bakeoff.servers.house import ServerHouse
from bakeoff.servers.install import install, installed, is_installed, remove
from bakeoff.servers.instance import Instance
from bakeoff.servers.model import Account, Gates, Installation, ServerMemory, Settings, Snapshot, Warmth
from bakeoff.servers.profile import memory_bytes, settings_for, table_engine
from bakeoff.servers.reading import Reading
from bakeoff.servers.remote import RemoteServer
from bakeoff.servers.sandbox import Sandbox, sandbox

__all__ = [
    "Account",
    "Catalog",
    "Entry",
    "Gates",
    "Installation",
    "Instance",
    "Progress",
    "Reading",
    "RemoteServer",
    "Sandbox",
    "ServerHouse",
    "ServerMemory",
    "Settings",
    "Snapshot",
    "Warmth",
    "gates",
    "install",
    "installed",
    "is_installed",
    "memory_bytes",
    "no_progress",
    "remove",
    "sandbox",
    "settings_for",
    "table_engine",
]
