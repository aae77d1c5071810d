"""The server under load: one of bakeoff's catalogue, started and removed here, reached over TCP by every client."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bakeoff.servers import Instance, ServerMemory, ServerPool, install, settings_for
from bakeoff.spec import Data, Profile, parse_server


@dataclass(frozen=True)
class Server:
    """Address and account of the server; `instance` answers questions about it."""

    instance: Instance
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    version: str = ""

    def number(self, query: str) -> int:
        """Return the single number that a query gives."""
        return int(self.instance.query(query)[0][0])

    def status(self, *names: str) -> int:
        """Sum of some counters of SHOW GLOBAL STATUS."""
        known = self.instance.status()
        return sum(int(known[name]) for name in names)


@contextmanager
def started(text: str, *, connections: int, buffer_pool_bytes: int) -> Iterator[Server]:
    """A server of the catalogue (`mysql:8.0`) with bakeoff's matched profile."""
    spec = parse_server(text)
    installation = install(spec)
    memory = ServerMemory(buffer_pool_bytes=buffer_pool_bytes, redo_bytes=1 << 30)
    settings = settings_for(installation, spec, Profile.MATCHED, Data(), memory, connections=connections)
    with ServerPool() as pool:
        instance = pool.create("tpcc", installation, settings)
        instance.start()
        account = instance.account("tcp")
        yield Server(instance, "127.0.0.1", instance.port, account.user, account.password, str(instance.version_string))
