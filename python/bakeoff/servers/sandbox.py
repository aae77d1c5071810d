"""One server to play with: `bakeoff server start NAME`, in the `stock` profile, until Ctrl-C."""

import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bakeoff.servers.fetch import Progress, no_progress
from bakeoff.servers.house import ServerHouse
from bakeoff.servers.install import install
from bakeoff.servers.instance import Instance
from bakeoff.servers.model import Account, ServerMemory
from bakeoff.servers.profile import settings_for
from bakeoff.spec import Data, Profile, ServerSpec


@dataclass(frozen=True)
class Sandbox:
    """A running server with all that one needs to use it.

    Attributes:
        tcp_account: may do everything from 127.0.0.1.
        notes: what was translated, left out or ignored.
    """

    instance: Instance
    tcp_account: Account
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """What to print: version, socket, port, and commands to paste into a shell."""
        client = next((name for name in ("mysql", "mariadb") if shutil.which(name)), "mysql")
        at_socket = [client, "--no-defaults", "--user=root", f"--socket={self.instance.socket_path}"]
        at_port = [
            client,
            "--no-defaults",
            f"--user={self.tcp_account.user}",
            f"--password={self.tcp_account.password}",
        ]
        at_port += ["--host=127.0.0.1", f"--port={self.instance.port}"]
        return [
            f"server   {self.instance.installation.name} ({self.instance.version_string}), pid {self.instance.pid}",
            f"socket   {self.instance.socket_path}",
            f"port     127.0.0.1:{self.instance.port}",
            f"data     {self.instance.datadir}  (removed when it stops)",
            f"log      {self.instance.error_log}",
            f"connect  {shlex.join(at_socket)}",
            f"         {shlex.join(at_port)}",
            f"url      mysql://root@localhost/?socket={self.instance.socket_path}",
            *(f"note     {note}" for note in self.notes),
        ]


@contextmanager
def sandbox(
    spec: ServerSpec, *, profile: Profile = Profile.STOCK, root: Path | None = None, progress: Progress = no_progress
) -> Iterator[Sandbox]:
    """Fetch, initialise and start one server; it and its data are gone after the block.

    Raises:
        BakeoffError: as `install`, `settings_for` and `Instance.start`.
    """
    installation = install(spec, progress)
    memory = ServerMemory(buffer_pool_bytes=128 * 2**20, redo_bytes=96 * 2**20)
    settings = settings_for(installation, spec, profile, Data(), memory, connections=100)
    with ServerHouse(root, progress) as house:
        instance = house.create("sandbox", installation, settings, env=dict(spec.env))
        instance.start()
        ignored = tuple(f"{line} (ignored by the server)" for line in instance.ignored_settings())
        yield Sandbox(instance, instance.account("tcp"), (*settings.notes, *ignored))
