"""The clients under test. A new one (a driver of another language, another tool) is a class here and a line in `every`.

A client is a process that loads the server by itself for so many seconds; what it costs is read from outside
(cost.py), the same way for all, and only latencies are taken from its own output.
"""

import abc
import json
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from case import Case, Server


@dataclass(frozen=True)
class Latencies:
    """Latency of whole events in nanoseconds; None if the client does not report it."""

    p50_ns: float | None
    p95_ns: float | None
    p99_ns: float | None


class ClientFailed(Exception):
    """A client ended with an error, or did not end."""


class Client(abc.ABC):
    """A load generator."""

    name: str
    by_default = True
    """Measured when no client is named."""
    experiment = False
    """Another way of waiting in the bare loop, measured only if it is named."""
    pairs = True
    """Pairs its connections (pairing.py) when the server's object names CPUs for it."""

    @abc.abstractmethod
    def missing(self) -> str:
        """Return one line that says what to install; empty if it can be used here."""

    @abc.abstractmethod
    def version(self) -> str:
        """Return the version that it reports."""

    def unsupported(self, case: Case) -> str:
        """Return why it cannot run the case; empty if it can."""
        del case
        return ""

    @abc.abstractmethod
    def command(self, case: Case, server: Server, seconds: float) -> list[str]:
        """Return the command line that loads the server for `seconds`."""

    def launch(self, case: Case, server: Server, seconds: float, out: Path) -> "subprocess.Popen[bytes]":
        """Start it, with its standard output and error in files."""
        return self._popen(self.command(case, server, seconds), out, stdin=subprocess.DEVNULL)

    @staticmethod
    def _popen(command: list[str], out: Path, stdin: int) -> "subprocess.Popen[bytes]":
        with out.open("wb") as stdout, out.with_suffix(".err").open("wb") as stderr:
            return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr)

    def finish(self, process: "subprocess.Popen[bytes]", out: Path, timeout_s: float) -> None:
        """Wait for its end.

        Raises:
            ClientFailed: it ended with an error, or not at all (then it is killed).
        """
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ClientFailed(f"{self.name} did not end within {timeout_s:.0f} s of its time.") from None
        if status != 0:
            said = (
                (out.with_suffix(".err").read_text(errors="replace") or out.read_text(errors="replace"))
                .strip()
                .splitlines()
            )
            raise ClientFailed(f"{self.name} ended with status {status}: {' | '.join(said[-3:])}")

    @abc.abstractmethod
    def latencies(self, output: str) -> Latencies:
        """Read from what it printed."""


EXPERIMENTS = ("poll-timed", "poll-batch", "block", "epoll", "uring", "uring-many")


class BareLoop(Client):
    """The floor: see src/main.rs beside this file.

    Args:
        wait: how it waits for a reply: `poll` is the floor that others are compared with, the rest are experiments.
    """

    def __init__(self, binary: Path, wait: str = "poll") -> None:
        self._binary, self._wait = binary, wait
        self.name = "bareloop" if wait == "poll" else f"bareloop-{wait}"
        self.by_default, self.experiment = wait == "poll", wait != "poll"

    def missing(self) -> str:
        return _must_be_built(self._binary)

    def version(self) -> str:
        return _first_line([str(self._binary), "--version"])

    def command(self, case: Case, server: Server, seconds: float) -> list[str]:
        address = [f"--socket={server.socket}"] if case.transport == "socket" else [f"--port={server.port}"]
        return [
            str(self._binary),
            *address,
            f"--user={server.user}",
            f"--database={server.database}",
            f"--workload={case.workload}",
            f"--tables={case.tables}",
            f"--table-size={case.table_size}",
            f"--threads={case.threads}",
            f"--mode={case.statements}",
            f"--wait={self._wait}",
            *([f"--cpus={_listed(server.cpus)}"] if server.cpus else []),
            f"--time={seconds}",
        ]

    def latencies(self, output: str) -> Latencies:
        quantiles = json.loads(output)["quantiles_ns"]
        return Latencies(quantiles["0.5"], quantiles["0.95"], quantiles["0.99"])


class Sysbench(Client):
    """Debian's sysbench. Percentiles from its histogram, whose buckets are 1.8 % wide and printed to a microsecond."""

    name = "sysbench"
    _PAIRED = Path(__file__).parent / "paired.lua"
    _BUCKET = re.compile(r"^\s*(\d+\.\d+) \|[* ]*\s(\d+)\s*$", re.MULTILINE)

    def missing(self) -> str:
        return "" if shutil.which("sysbench") else "sysbench is not installed (Debian: apt-get install sysbench)"

    def version(self) -> str:
        return _first_line(["sysbench", "--version"])

    def command(self, case: Case, server: Server, seconds: float) -> list[str]:
        tcp = ["--mysql-host=127.0.0.1", f"--mysql-port={server.port}"]
        return [
            *self._program(case, server),
            *([f"--mysql-socket={server.socket}"] if case.transport == "socket" else tcp),
            f"--mysql-user={server.user}",
            f"--mysql-db={server.database}",
            f"--tables={case.tables}",
            f"--table-size={case.table_size}",
            f"--threads={case.threads}",
            f"--db-ps-mode={'auto' if case.statements == 'prepared' else 'disable'}",
            # The default draws few hot rows; all clients here draw uniformly.
            "--rand-type=uniform",
            "--histogram=on",
            # It takes whole seconds only.
            f"--time={int(seconds + 0.999)}",
            "run",
        ]

    def _program(self, case: Case, server: Server) -> list[str]:
        """The client's script, wrapped in the one that pairs connections if asked."""
        if not server.cpus:
            return ["sysbench", case.workload]
        settings = [f"CLIENT_COST_SCRIPT={case.workload}", f"CLIENT_COST_CPUS={_listed(server.cpus)}"]
        return ["env", *settings, "sysbench", str(self._PAIRED)]

    def latencies(self, output: str) -> Latencies:
        buckets = [(float(value), int(count)) for value, count in self._BUCKET.findall(output)]
        total = sum(count for _, count in buckets)

        def quantile_ns(q: float) -> float | None:
            seen = 0
            for value_ms, count in buckets:
                seen += count
                if seen >= q * total:
                    return value_ms * 1e6
            return None

        return Latencies(quantile_ns(0.5), quantile_ns(0.95), quantile_ns(0.99))


class Engine(Client):
    """bakeoff-engine, driven by its contract (docs/reference/engine.md): one arm, alone, in two long slices.

    No more, because the end of a slice is a barrier for all threads, a cost of the method and not of the client.
    """

    name = "engine"
    _GUARD_NS = 5_000_000

    def __init__(self, binary: Path) -> None:
        self._binary = binary

    def missing(self) -> str:
        return _must_be_built(self._binary)

    def version(self) -> str:
        hello = json.loads(_first_line([str(self._binary), "drive"]))
        return f"{hello['engine']} {hello['build']['profile']} {hello['build'].get('commit', '')}".strip()

    def command(self, case: Case, server: Server, seconds: float) -> list[str]:
        return [str(self._binary), "drive"]

    def launch(self, case: Case, server: Server, seconds: float, out: Path) -> "subprocess.Popen[bytes]":
        by_tcp = {"host": "127.0.0.1", "port": server.port}
        address = {"socket": server.socket} if case.transport == "socket" else by_tcp
        arm = {
            "name": "A",
            "address": address,
            "user": server.user,
            "password": "",
            "database": server.database,
            "charset": "utf8mb4",
            "collation": None,
            "tls": {"mode": "disabled", "ca": None, "cert": None, "key": None},
            "prepare_mode": "server" if case.statements == "prepared" else "text",
            "server_pid": server.pid,
            "slowdown_percent": 0,
            "ignore_errors": [1213, 1020, 1205],
        }
        measure = {
            "type": "measure",
            "id": 2,
            "cell": "client-cost",
            "script": case.workload,
            "options": {"tables": case.tables, "table_size": case.table_size},
            "arm_options": {},
            "threads": case.threads,
            "arms": ["A"],
            "seconds": float(seconds),
            "blocks": None,
            "slice_ns": int(seconds / 2 * 1e9),
            "guard_ns": self._GUARD_NS,
            "order_seed": 1,
            "key_seed": time.monotonic_ns() % 2**31,
            "load": {"model": "closed"},
            "placement": "paired" if server.cpus else "free",
            "freeze": False,
        }
        process = self._popen(self.command(case, server, seconds), out, stdin=subprocess.PIPE)
        assert process.stdin is not None
        for message in ({"type": "open", "id": 1, "arms": [arm]}, measure):
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        return process

    def finish(self, process: "subprocess.Popen[bytes]", out: Path, timeout_s: float) -> None:
        assert process.stdin is not None
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and process.poll() is None:
            last = _messages(out.read_text(errors="replace"))[-1:]
            if last and (last[0]["type"] == "error" or (last[0]["type"], last[0].get("id")) == ("done", 2)):
                break
            time.sleep(0.02)
        # Closing its input ends it.
        process.stdin.close()
        super().finish(process, out, max(1.0, deadline - time.monotonic()))
        errors = [message for message in _messages(out.read_text(errors="replace")) if message["type"] == "error"]
        if errors:
            raise ClientFailed(f"engine: {errors[0]['code']}: {errors[0]['message']}")

    def latencies(self, output: str) -> Latencies:
        found = [m for m in _messages(output) if m["type"] == "histogram" and m["operation"] == "event"]
        quantiles = found[0]["quantiles_ns"] if found else {}
        return Latencies(quantiles.get("0.5"), quantiles.get("0.95"), quantiles.get("0.99"))


def _listed(cpus: tuple[int, ...]) -> str:
    return ",".join(str(cpu) for cpu in cpus)


def _must_be_built(binary: Path) -> str:
    return "" if binary.exists() else f"{binary} is not there (cargo build --release -p {binary.name})"


def _messages(output: str) -> list[dict[str, Any]]:
    """Parse the complete JSON lines; the last one may still be incomplete."""
    return [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith("\n")]


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False)
    return (done.stdout.strip().splitlines() or ["?"])[0]


def every(binaries: Path) -> list[Client]:
    """Our own, sysbench and the experiments; `binaries` is cargo's release folder."""
    bareloop = binaries / "bakeoff-bareloop"
    experiments = [BareLoop(bareloop, wait) for wait in EXPERIMENTS]
    return [BareLoop(bareloop), Sysbench(), Engine(binaries / "bakeoff-engine"), *experiments]
