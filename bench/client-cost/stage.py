"""All clients at once on one server, connected and warm; one runs at a time, the others are stopped (SIGSTOP).

So windows can be short and follow each other at once, and a slow drift of the machine meets all clients alike. A
stopped client has no query under way but the one that it was stopped in; its connections rest, which costs the server
nothing.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pairing
from case import Case, Server
from clients import Client, ClientFailed, Latencies
from cost import Moment, Monitor, Window

from counters import UserInstructions

CONNECT_TIMEOUT_S = 60.0
LIFE_S = 3600.0  # far more than a stage lasts: its clients are killed
END_TIMEOUT_S = 60.0
_EMPTY_WINDOWS = 10  # of writes that wait for a stalled disk, at most


class Stage:
    """Use it as a context manager; leaving it kills the clients.

    Args:
        warm_s: each client runs alone for so long before it is stopped for the first time.

    Raises:
        ClientFailed: one ended, did not open its connections, or did not pair them.
    """

    def __init__(self, clients: Sequence[Client], case: Case, server: Server, monitor: Monitor, warm_s: float) -> None:
        self._clients, self._case, self._server, self._monitor = clients, case, server, monitor
        self._warm_s = warm_s
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="client-cost-")

    def __enter__(self) -> Self:
        try:
            for client in self._clients:
                out = Path(self._folder.name) / client.name
                before = self._monitor.counter("Threads_connected")
                others = self._serving(client)
                process = client.launch(self._case, self._server, LIFE_S, out)
                self._processes[client.name] = process
                self._wait_for_connections(client, before + self._case.threads)
                time.sleep(self._warm_s)
                self._require_alive(client.name)
                self._require_paired(client, others)
                os.kill(process.pid, signal.SIGSTOP)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def window(self, name: str, *, guard_s: float, window_s: float) -> Window:
        """Let one client run for guard and window, and say what the window cost.

        Raises:
            ClientFailed: it has ended, has changed its threads meanwhile, or is answered nothing at all.
        """
        for _ in range(_EMPTY_WINDOWS):
            window = self._window(name, guard_s, window_s)
            if window.queries > 0:
                return window
        raise ClientFailed(f"{name} has had no answer in {_EMPTY_WINDOWS} windows of {window_s} s.")

    def _window(self, name: str, guard_s: float, window_s: float) -> Window:
        process = self._processes[name]
        os.kill(process.pid, signal.SIGCONT)
        try:
            time.sleep(guard_s)
            first = Moment.now(process.pid, self._server, self._monitor)
            time.sleep(window_s)
            second = Moment.now(process.pid, self._server, self._monitor)
        except (FileNotFoundError, ProcessLookupError):
            raise ClientFailed(f"{name} has ended: {self._said(name)}") from None
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGSTOP)
        self._require_alive(name)
        if first.client.threads != second.client.threads:
            raise ClientFailed(f"{name} started or ended threads within a window: {self._said(name)}")
        return second.since(first)

    def user_instructions_per_query(self, name: str, *, guard_s: float, window_s: float) -> float | None:
        """Count instructions in a separate window; None if the CPU has no counters."""
        pid = self._processes[name].pid
        try:
            with UserInstructions(pid) as instructions:
                os.kill(pid, signal.SIGCONT)
                time.sleep(guard_s)
                questions, first = self._monitor.counter("Questions"), instructions.total()
                time.sleep(window_s)
                answered, second = self._monitor.counter("Questions") - questions - 1, instructions.total()
                return (second - first) / max(1, answered)
        except OSError:
            return None
        finally:
            if self._processes[name].poll() is None:
                os.kill(pid, signal.SIGSTOP)

    def _wait_for_connections(self, client: Client, wanted: int) -> None:
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while self._monitor.counter("Threads_connected") < wanted:
            self._require_alive(client.name)
            if time.monotonic() > deadline:
                raise ClientFailed(f"{client.name} had not opened its connections after {CONNECT_TIMEOUT_S:.0f} s.")
            time.sleep(0.02)

    def _serving(self, client: Client) -> dict[int, int]:
        """The server's threads by connection; none when the client's connections are not to be paired."""
        return self._monitor.threads() if client.pairs and self._server.cpus else {}

    def _require_paired(self, client: Client, others: dict[int, int]) -> None:
        """Check the client's connections, which are all but the others."""
        now = self._serving(client)
        if not now:
            return
        own = [thread for connection, thread in now.items() if connection not in others]
        found = pairing.paired(self._processes[client.name].pid, own)
        if found < self._case.threads:
            what = f"{found} of {self._case.threads} connections of {client.name} are paired"
            raise ClientFailed(f"{what}: {self._said(client.name)}")

    def _require_alive(self, name: str) -> None:
        if self._processes[name].poll() is not None:
            raise ClientFailed(f"{name} has ended: {self._said(name)}")

    def _said(self, name: str) -> str:
        out = Path(self._folder.name) / name
        text = out.with_suffix(".err").read_text(errors="replace") + out.read_text(errors="replace")
        return " | ".join(text.strip().splitlines()[-3:])[-500:] or "it said nothing."

    def _end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        pairing.release(self._server)
        self._folder.cleanup()


def latencies_of(client: Client, case: Case, server: Server, seconds: float) -> Latencies:
    """Run the client alone and unstopped, and read its own latencies.

    Raises:
        ClientFailed: it ended with an error, or not at all.
    """
    with tempfile.TemporaryDirectory(prefix="client-cost-") as folder:
        out = Path(folder) / client.name
        process = client.launch(case, server, seconds, out)
        try:
            client.finish(process, out, seconds + END_TIMEOUT_S)
            return client.latencies(out.read_text(errors="replace"))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            pairing.release(server)
