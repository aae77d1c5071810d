"""Peers: what a program in another language pays for the same statements through its usual driver (folder `peers`)."""

import shutil
import subprocess
import sys
from pathlib import Path

from case import Case, Server
from clients import BareLoop

from bakeoff.servers.paths import cache_root

_PEERS = Path(__file__).parent / "peers"


class Driver(BareLoop):
    """A program of `peers` with the bare loop's options and output."""

    def __init__(self, name: str, binary: Path) -> None:
        super().__init__(binary)
        self.name, self.by_default = name, False

    def command(self, case: Case, server: Server, seconds: float) -> list[str]:
        # They do not have the bare loop's ways of waiting.
        words = [word for word in super().command(case, server, seconds) if not word.startswith("--wait")]
        return words if self.pairs else [word for word in words if not word.startswith("--cpus")]


class GoDriver(Driver):
    """database/sql with go-sql-driver/mysql: a goroutine and a connection each. Built once into bakeoff's cache.

    Not paired: a goroutine is not bound to a thread.
    """

    pairs = False

    def __init__(self) -> None:
        super().__init__("go-sql-driver", cache_root() / "tools" / "client-cost-go")
        self._source = _PEERS / "go"

    def missing(self) -> str:
        if self._binary.exists() and self._binary.stat().st_mtime > (self._source / "main.go").stat().st_mtime:
            return ""
        go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
        if not go:
            return "go is not installed (Debian: apt-get install golang-go)"
        self._binary.parent.mkdir(parents=True, exist_ok=True)
        build = [go, "build", "-o", str(self._binary), "."]
        done = subprocess.run(build, cwd=self._source, capture_output=True, text=True, check=False)
        return f"the Go peer does not build: {done.stderr.strip().splitlines()[-1:]}" if done.returncode else ""

    def version(self) -> str:
        return next(line.split()[-1] for line in (self._source / "go.mod").read_text().splitlines() if "mysql " in line)


class PyMySql(Driver):
    """PyMySQL: a thread and a connection each. It prepares nothing, and has the two reads and one write only."""

    _WORKLOADS = ("oltp_point_select", "oltp_read_only", "oltp_update_index")

    def __init__(self) -> None:
        super().__init__("pymysql", _PEERS / "pymysql_peer.py")

    def version(self) -> str:
        import pymysql

        return str(pymysql.__version__)

    def unsupported(self, case: Case) -> str:
        if case.statements != "text":
            return "PyMySQL has no prepared statements"
        return "" if case.workload in self._WORKLOADS else f"{case.workload} is not written for it"

    def command(self, case: Case, server: Server, seconds: float) -> list[str]:
        return [sys.executable, *super().command(case, server, seconds)]
