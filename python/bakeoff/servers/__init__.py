"""Real servers: found by name, fetched, initialised, started, made ready and stopped.

    installation = install(spec, progress)                      # binaries; SpecError, HostError, ServerError
    memory = ServerMemory(buffer_pool_bytes=512 << 20, redo_bytes=256 << 20)
    settings = settings_for(installation, spec, profile, data, memory, connections=64)
    with ServerPool(work_root) as pool:                         # first removes what killed bakeoffs left behind
        instance = pool.create("A", installation, settings, cpus=..., padding_bytes=...)
        pool.start_all([instance, ...])                         # in parallel; or instance.start()
        readiness.analyze(instance, database)                   # once, after loading
        instance.stop(slow=True)
        snapshot = pool.snapshot(instance, "build-0")
        again = pool.create("A", installation, settings, snapshot=snapshot, padding_bytes=...)
        again.start()
        warmth = readiness.warm(again, database)
        readiness.finish_pending_work(again, deadline_s, warmth)   # -> Readiness, for outcome.json
    # leaving the block kills every server and removes every file

    remote = RemoteServer(spec, name, password)                 # queried and measured; never started or changed

The package prints nothing: progress goes to a callback `(what, done_bytes, total_bytes)`.
"""

from bakeoff.servers import readiness
from bakeoff.servers.catalog import Catalog, Entry, Installation
from bakeoff.servers.client import RemoteServer, Server
from bakeoff.servers.install import find_entry, free_cache, install, installed, is_installed, remove
from bakeoff.servers.instance import Instance
from bakeoff.servers.pool import ServerPool, Snapshot, sandbox
from bakeoff.servers.profile import ServerMemory, Settings, settings_for, table_engine
from bakeoff.servers.readiness import Readiness

__all__ = [
    "Catalog", "Entry", "Installation", "Instance", "Readiness", "RemoteServer", "Server", "ServerMemory", "ServerPool",
    "Settings", "Snapshot", "find_entry", "free_cache", "install", "installed", "is_installed", "readiness", "remove",
    "sandbox", "settings_for", "table_engine",
]  # fmt: skip
