"""What a process costs and what a server has done, read from outside at two moments.

The server's own counter says how many queries it has answered, the kernel's accounts say what the client's and the
server's threads have used in between. So no client's own figures have to be trusted.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from case import Server


@dataclass(frozen=True)
class ProcessCost:
    """Sums over a process's living threads.

    CPU is exact (the scheduler's accounts); its split into user and system is by the kernel's clock ticks.

    Attributes:
        threads: ids; if they change between two moments, the difference is meaningless.
    """

    threads: frozenset[str]
    cpu_ns: int
    user_ticks: int
    system_ticks: int
    voluntary_switches: int
    involuntary_switches: int

    @classmethod
    def of(cls, pid: int) -> "ProcessCost":
        """Read /proc.

        Raises:
            FileNotFoundError, ProcessLookupError: it has ended.
        """
        cpu_ns = voluntary = involuntary = 0
        threads = set()
        for task in Path(f"/proc/{pid}/task").iterdir():
            try:
                cpu_ns += int((task / "schedstat").read_text().split()[0])
                status = (task / "status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # the thread has just ended
            threads.add(task.name)
            voluntary += int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
            involuntary += int(status.split("\nnonvoluntary_ctxt_switches:")[1].split()[0])
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


@dataclass(frozen=True)
class Window:
    """What one client cost, and what the server answered it, in one stretch of time."""

    seconds: float
    queries: int
    client: ProcessCost
    server_cpu_ns: int | None
    steal_ticks: int

    def as_record(self) -> dict[str, Any]:
        """The JSON object of a window."""
        return {
            "seconds": self.seconds,
            "queries": self.queries,
            "client_cpu_ns": self.client.cpu_ns,
            "client_user_ticks": self.client.user_ticks,
            "client_system_ticks": self.client.system_ticks,
            "client_voluntary_switches": self.client.voluntary_switches,
            "client_involuntary_switches": self.client.involuntary_switches,
            "server_cpu_ns": self.server_cpu_ns,
            "steal_ticks": self.steal_ticks,
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

    def threads(self) -> dict[int, int]:
        """Return the server thread of each connection by its id, if the server reports it."""
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT PROCESSLIST_ID, THREAD_OS_ID FROM performance_schema.threads")
            return {int(row[0]): int(row[1]) for row in cursor.fetchall() if None not in row}

    def close(self) -> None:
        """Leave the server."""
        self._connection.close()


@dataclass(frozen=True)
class Moment:
    """One end of a window."""

    time_ns: int
    questions: int
    client: ProcessCost
    server: ProcessCost | None
    steal_ticks: int

    @classmethod
    def now(cls, pid: int, server: Server, monitor: Monitor) -> "Moment":
        """Read all of it.

        Raises:
            FileNotFoundError, ProcessLookupError: the client has ended.
        """
        questions = monitor.counter("Questions")
        return cls(
            time_ns=time.monotonic_ns(),
            questions=questions,
            client=ProcessCost.of(pid),
            server=None if server.pid is None else ProcessCost.of(server.pid),
            steal_ticks=int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]),
        )

    def since(self, before: "Moment") -> Window:
        """The stretch between the two."""
        return Window(
            seconds=(self.time_ns - before.time_ns) / 1e9,
            queries=self.questions - before.questions - 1,  # less the monitor's own
            client=self.client.since(before.client),
            server_cpu_ns=self.server.since(before.server).cpu_ns if self.server and before.server else None,
            steal_ticks=self.steal_ticks - before.steal_ticks,
        )
