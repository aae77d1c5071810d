"""Real servers: found by name, fetched once, initialised once, cloned, started, and stopped whatever happens.

    installation = install(spec, progress)                       # SpecError, HostError, ServerError
    memory = ServerMemory(buffer_pool_bytes=512 << 20)
    settings = settings_for(installation, spec, profile, data, memory, connections=64)
    with ServerPool(work_root) as pool:                        # sweeps what dead bakeoffs left behind
        instance = pool.create("A", installation, settings, env=..., cpus=..., padding_bytes=...)
        pool.start_all([instance, ...])                         # in parallel; or instance.start()
        instance.stop(slow=True)
        snapshot = pool.snapshot(instance, "build-0")
        again = pool.restore("A", snapshot, installation, settings, env=..., cpus=..., padding_bytes=...)
    # leaving the block kills every server and removes every file

    remote = RemoteServer(spec, name, password)                  # read and measured; never started, stopped or changed
    gates.analyze(instance, database)                            # once, after loading
    warmth = gates.warm(instance, database)
    gates.settle(instance, deadline_s, warmth)                   # -> Gates, for outcome.json

The room never prints: progress goes to a callback `(what, done_bytes, total_bytes)`. It imports nothing of trials or
reports.
"""

from bakeoff.servers import readiness
from bakeoff.servers.catalog import Catalog, Entry
from bakeoff.servers.client import Reading, RemoteServer
from bakeoff.servers.fetch import Progress, no_progress
from bakeoff.servers.install import install, installed, is_installed, remove
from bakeoff.servers.instance import Instance
from bakeoff.servers.model import Account, Gates, Installation, ServerMemory, Settings, Snapshot, Warmth
from bakeoff.servers.pool import Sandbox, ServerPool, sandbox
from bakeoff.servers.profile import memory_bytes, settings_for, table_engine

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
    "ServerMemory",
    "ServerPool",
    "Settings",
    "Snapshot",
    "Warmth",
    "install",
    "installed",
    "is_installed",
    "memory_bytes",
    "no_progress",
    "readiness",
    "remove",
    "sandbox",
    "settings_for",
    "table_engine",
]
