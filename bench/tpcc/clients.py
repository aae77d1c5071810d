"""The TPC-C clients that are compared. Each loads its own schema and runs for a given time."""

import abc
import json
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from place import Server

import record
from bakeoff.engine import ArmAddress, Engine

WORKLOADS = Path(__file__).resolve().parents[2] / "python" / "bakeoff" / "workloads"


@dataclass(frozen=True)
class Load:
    """What every client runs."""

    warehouses: int
    threads: int
    seconds: float
    seed: int


@dataclass(frozen=True)
class Reported:
    """What a client reports about its run, and the CPU time it used.

    Attributes:
        new_orders_per_min: the tpmC it reports; None if it reports none.
        p95_ms: 95th percentile of New-Order; None likewise.
        cpu_s: user and system of all its threads, start and end included.
        wall_s: from its start to its end.
    """

    new_orders_per_min: float | None
    p95_ms: float | None
    cpu_s: float
    wall_s: float


class ClientFailed(Exception):
    """A client ended with an error."""


class Client(abc.ABC):
    """A load generator with a name, a database and a way to fill it."""

    def __init__(self, name: str, database: str, note: str) -> None:
        self.name = name
        self.database = database
        self.note = note

    @abc.abstractmethod
    def prepare(self, server: Server, load: Load) -> None:
        """Fill the database, which exists and is empty."""

    @abc.abstractmethod
    def run(self, server: Server, load: Load) -> Reported:
        """Load the server."""


class Bakeoff(Client):
    """bakeoff-engine with the bundled `tpcc`."""

    def __init__(self, name: str, note: str, engine: Engine, options: dict[str, Any], prepare_mode: str) -> None:
        super().__init__(name, "tpcc_bakeoff", note)
        self.engine = engine
        self.options = options
        self.prepare_mode = prepare_mode

    def _open(self, server: Server) -> None:
        address = ArmAddress(
            name="A", socket=None, host=server.host, port=server.port, user=server.user, password=server.password,
            database=self.database, charset="utf8mb4", collation=None, prepare_mode=self.prepare_mode,
        )  # fmt: skip
        self.engine.open([address])

    def prepare(self, server: Server, load: Load) -> None:
        self._open(server)
        self.engine.command(
            "A", "tpcc", "prepare", options={"scale": load.warehouses} | self.options,
            threads=load.threads, seed=load.seed,
        )  # fmt: skip

    def run(self, server: Server, load: Load) -> Reported:
        self._open(server)
        process = psutil.Process(self.engine.pid)
        before, begun = process.cpu_times(), time.monotonic()
        measured = self.engine.measure(
            {
                "cell": "tpcc", "script": "tpcc", "options": {"scale": load.warehouses} | self.options,
                "arm_options": {}, "threads": load.threads, "arms": ["A"], "seconds": load.seconds, "blocks": None,
                "slice_ns": int(load.seconds * 1e9), "guard_ns": 0, "order_seed": 1, "key_seed": load.seed,
                "load": {"model": "closed"}, "freeze": False,
            }
        )  # fmt: skip
        wall, after = time.monotonic() - begun, process.cpu_times()
        orders = next(each for each in measured.histograms if each["operation"] == "new_order")
        busy_s = sum(each["busy_ns"] / each["connections"] for each in measured.slices) / 1e9
        return Reported(
            new_orders_per_min=orders["count"] / busy_s * 60,
            p95_ms=orders["quantiles_ns"]["0.95"] / 1e6,
            cpu_s=after.user + after.system - before.user - before.system,
            wall_s=wall,
        )


class Process(Client):
    """A client that is a separate program: the kernel reports its CPU time when it ends."""

    def _run(self, command: list[str], cwd: Path | None = None) -> tuple[str, float, float]:
        """Output, CPU seconds, wall seconds."""
        begun = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd)
        assert process.stdout is not None
        said = process.stdout.read()
        taken = record.taken_by(process, begun)
        if process.returncode != 0:
            raise ClientFailed(f"{self.name} ended with {process.returncode}: {said.strip().splitlines()[-1:]}")
        return said, taken["cpu_s"], taken["wall_s"]


class GoTpc(Process):
    """pingcap's go-tpc: server-prepared statements, items and stock by IN lists, order lines in one statement."""

    def __init__(self, path: Path) -> None:
        super().__init__("go-tpc", "tpcc_gotpc", "go-tpc 1.0.12, prepared, multi-row")
        self.path = path

    def _command(self, server: Server, load: Load, verb: str, *more: str) -> list[str]:
        return [
            str(self.path), "tpcc", verb, "--warehouses", str(load.warehouses), "-T", str(load.threads),
            "-H", server.host, "-P", str(server.port), "-U", server.user, "-p", server.password,
            "-D", self.database, *more,
        ]  # fmt: skip

    def prepare(self, server: Server, load: Load) -> None:
        self._run(self._command(server, load, "prepare", "--no-check"))

    def run(self, server: Server, load: Load) -> Reported:
        # go-tpc takes weights in whole percent; these are closest to the card deck's.
        more = ("--time", f"{load.seconds:g}s", "--output", "json", "--ignore-error", "--weight", "45,43,4,4,4")
        said, cpu_s, wall_s = self._run(self._command(server, load, "run", *more))
        lists = [json.loads(line) for line in said.splitlines() if line.startswith("[{")]
        entries = [each for rows in lists for each in rows]
        orders = next(each for each in entries if each.get("Operation") == "NEW_ORDER" and "Summary" in each["Prefix"])
        tpmc = next(float(each["tpmC"]) for each in entries if "tpmC" in each)
        return Reported(tpmc, float(orders["95th(ms)"]), cpu_s, wall_s)


class Sysbench(Process):
    """Debian's sysbench with bakeoff's script, as text statements: it cannot read a prepared statement's rows."""

    def __init__(self) -> None:
        super().__init__("sysbench", "tpcc_bakeoff", "sysbench 1.0.20, bakeoff's script, text")

    def prepare(self, server: Server, load: Load) -> None:
        raise ClientFailed("sysbench runs on the tables that bakeoff has loaded.")

    def run(self, server: Server, load: Load) -> Reported:
        said, cpu_s, wall_s = self._run(
            [
                "sysbench", f"--mysql-host={server.host}", f"--mysql-port={server.port}",
                f"--mysql-user={server.user}", f"--mysql-password={server.password}", f"--mysql-db={self.database}",
                f"--threads={load.threads}", f"--time={load.seconds:g}", f"--scale={load.warehouses}", "tpcc", "run",
            ],
            cwd=WORKLOADS,
        )  # fmt: skip
        if not re.search(r"transactions:\s+\d+", said):
            raise ClientFailed(f"{self.name}: its output is not understood.")
        return Reported(None, None, cpu_s, wall_s)


def every(engine: Engine, go_tpc: Path | None) -> list[Client]:
    """Return the clients available here; the others are compared with the first."""
    found: list[Client] = [GoTpc(go_tpc)] if go_tpc else []
    found += [
        Bakeoff("bakeoff multi", "prepared, multi-row", engine, {"statements": "multi"}, "server"),
        Bakeoff("bakeoff", "prepared, a statement a row, as the standard", engine, {}, "server"),
        Bakeoff("bakeoff text", "text, a statement a row", engine, {"prepared": "off"}, "server"),
    ]
    if shutil.which("sysbench"):
        found.append(Sysbench())
    return found
