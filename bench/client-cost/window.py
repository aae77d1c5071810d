"""What a client costs, seen from outside: a window of its run, cut out by two samples.

In both samples the server's own counter says how many queries it has answered and the kernel's accounts say what the
client's and the server's threads have used. So start, connecting and preparing are outside, and no client's own figures
have to be trusted.
"""

import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from case import Case, Server
from clients import Client, ClientFailed

CONNECT_TIMEOUT_S = 30.0
MARGIN_S = 1.0  # by which a client outlives its window: the monitor may have to wait for a busy server
END_TIMEOUT_S = 60.0
ATTEMPTS = 3


@dataclass(frozen=True)
class ProcessCost:
    """Sums over a process's living threads.

    CPU is exact (the scheduler's accounts); its split into user and system is by the kernel's clock ticks.

    Attributes:
        threads: ids; when they change between two samples the difference is not the process's.
    """

    threads: frozenset[str]
    cpu_ns: int
    user_ticks: int
    system_ticks: int
    voluntary_switches: int
    involuntary_switches: int

    @classmethod
    def of(cls, pid: int) -> "ProcessCost":
        """Read /proc."""
        cpu_ns = voluntary = involuntary = 0
        threads = set()
        for task in Path(f"/proc/{pid}/task").iterdir():
            try:
                cpu_ns += int((task / "schedstat").read_text().split()[0])
                status = (task / "status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # the thread has just ended
            threads.add(task.name)
            voluntary += int(status.split("voluntary_ctxt_switches:")[1].split()[0])
            involuntary += int(status.split("nonvoluntary_ctxt_switches:")[1].split()[0])
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return cls(frozenset(threads), cpu_ns, int(fields[11]), int(fields[12]), voluntary, involuntary)

    def since(self, before: "ProcessCost") -> "ProcessCost":
        """The difference."""
        return ProcessCost(
            self.threads,
            self.cpu_ns - before.cpu_ns,
            self.user_ticks - before.user_ticks,
            self.system_ticks - before.system_ticks,
            self.voluntary_switches - before.voluntary_switches,
            self.involuntary_switches - before.involuntary_switches,
        )

    @property
    def user_share(self) -> float:
        """Of CPU time, spent outside the kernel."""
        ticks = self.user_ticks + self.system_ticks
        return self.user_ticks / ticks if ticks else 0.0


@dataclass(frozen=True)
class Slice:
    """One window of one client's run."""

    client: str
    seconds: float
    queries: int
    cpu: ProcessCost
    server_cpu_ns: int | None
    steal_ticks: int
    rusage: dict[str, float]
    p50_ns: float | None
    p95_ns: float | None
    p99_ns: float | None

    def as_record(self) -> dict[str, Any]:
        """The JSON object of a slice."""
        return {
            "client": self.client,
            "seconds": self.seconds,
            "queries": self.queries,
            "client_cpu_ns": self.cpu.cpu_ns,
            "client_user_share": self.cpu.user_share,
            "client_voluntary_switches": self.cpu.voluntary_switches,
            "client_involuntary_switches": self.cpu.involuntary_switches,
            "server_cpu_ns": self.server_cpu_ns,
            "steal_ticks": self.steal_ticks,
            "whole_run_rusage": self.rusage,
            "p50_ns": self.p50_ns,
            "p95_ns": self.p95_ns,
            "p99_ns": self.p99_ns,
        }


class Monitor:
    """One connection that reads the server's counters."""

    def __init__(self, server: Server) -> None:
        self._connection: pymysql.connections.Connection = server.connect()

    def counter(self, name: str) -> int:
        """A global status variable."""
        with self._connection.cursor() as cursor:
            cursor.execute(f"SHOW GLOBAL STATUS LIKE '{name}'")
            row = cursor.fetchone()
        assert row is not None
        return int(row[1])

    def close(self) -> None:
        """Leave the server."""
        self._connection.close()


def measure(client: Client, case: Case, server: Server, monitor: Monitor, *, warm_s: float, window_s: float) -> Slice:
    """Run the client once and cut a window out of its run; again when it ended too early, as on a busy machine.

    Raises:
        ClientFailed: it failed, or never loaded the server through a whole window.
    """
    for attempt in range(ATTEMPTS):
        margin_s = MARGIN_S * 2**attempt
        found = _run_once(client, case, server, monitor, warm_s, window_s, margin_s)
        if found is not None:
            return found
    raise ClientFailed(f"{client.name} ended before its window did, {ATTEMPTS} times.")


def _run_once(
    client: Client, case: Case, server: Server, monitor: Monitor, warm_s: float, window_s: float, margin_s: float
) -> Slice | None:
    connected_before = monitor.counter("Threads_connected")
    with tempfile.TemporaryDirectory(prefix="client-cost-") as folder:
        out = Path(folder) / "out"
        children_before = os.times()
        process = client.launch(case, server, warm_s + window_s + margin_s, out)
        try:
            _wait_for_connections(client, process, monitor, connected_before + case.threads)
            time.sleep(warm_s)
            first = _Sample.take(process.pid, server, monitor)
            time.sleep(window_s)
            second = _Sample.take(process.pid, server, monitor)
            client.finish(process, out, END_TIMEOUT_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        children_after = os.times()
        latencies = client.latencies(out.read_text(errors="replace"))
    if first is None or second is None or first.client.threads != second.client.threads:
        return None
    return Slice(
        client=client.name,
        seconds=(second.time_ns - first.time_ns) / 1e9,
        queries=second.questions - first.questions - 1,  # less the monitor's own
        cpu=second.client.since(first.client),
        server_cpu_ns=None
        if first.server is None or second.server is None
        else second.server.since(first.server).cpu_ns,
        steal_ticks=second.steal_ticks - first.steal_ticks,
        rusage={
            "user_s": children_after.children_user - children_before.children_user,
            "system_s": children_after.children_system - children_before.children_system,
        },
        p50_ns=latencies.p50_ns,
        p95_ns=latencies.p95_ns,
        p99_ns=latencies.p99_ns,
    )


@dataclass(frozen=True)
class _Sample:
    time_ns: int
    questions: int
    client: ProcessCost
    server: ProcessCost | None
    steal_ticks: int

    @classmethod
    def take(cls, pid: int, server: Server, monitor: Monitor) -> "_Sample | None":
        """None when the client has ended."""
        questions = monitor.counter("Questions")
        time_ns = time.monotonic_ns()
        try:
            client = ProcessCost.of(pid)
        except (FileNotFoundError, ProcessLookupError):
            return None
        steal_ticks = int(Path("/proc/stat").read_text().splitlines()[0].split()[8])
        return cls(time_ns, questions, client, None if server.pid is None else ProcessCost.of(server.pid), steal_ticks)


def _wait_for_connections(client: Client, process: "subprocess.Popen[bytes]", monitor: Monitor, wanted: int) -> None:
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    while monitor.counter("Threads_connected") < wanted:
        if process.poll() is not None:
            return  # finish() tells why
        if time.monotonic() > deadline:
            raise ClientFailed(f"{client.name} had not opened its connections after {CONNECT_TIMEOUT_S:.0f} s.")
        time.sleep(0.02)
