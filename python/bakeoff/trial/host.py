"""Watches the machine once a second while an epoch runs: the rows of host.parquet (docs/results.md)."""

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

_PERIOD_S = 1.0
_SHARES = ("user", "system", "iowait", "steal", "idle")

Sample = dict[str, Any]


@dataclass(frozen=True)
class _Counters:
    """Everything that only grows; a sample is the difference of two."""

    at_ns: int
    cpu_s: tuple[float, ...]
    disk_read_bytes: int
    disk_write_bytes: int
    network_bytes: int
    context_switches: int
    interrupts: int


class HostWatch:
    """Samples in a thread of its own between `__enter__` and `__exit__`.

    Args:
        pids: server process of each arm, for its resident memory.

    Attributes:
        samples: one row a second, columns of `bakeoff.results.frames.HOST_SCHEMA` and `rss_bytes:ARM`.
    """

    def __init__(self, pids: Mapping[str, int]) -> None:
        self.samples: list[Sample] = []
        self._pids = dict(pids)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="host-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        start_ns = time.monotonic_ns()
        before = _read_counters()
        while not self._ended.wait(_PERIOD_S):
            after = _read_counters()
            self.samples.append(_difference(before, after, start_ns) | self._memory())
            before = after

    def _memory(self) -> Sample:
        memory = psutil.virtual_memory()
        running, blocked = _read_process_states()
        row: Sample = {
            "memory_used_bytes": memory.used,
            "memory_cached_bytes": memory.cached + memory.buffers,
            "running": running,
            "blocked": blocked,
        }
        for arm, pid in self._pids.items():
            row[f"rss_bytes:{arm}"] = None
            with contextlib.suppress(psutil.Error):
                row[f"rss_bytes:{arm}"] = psutil.Process(pid).memory_info().rss
        return row


def _difference(before: _Counters, after: _Counters, start_ns: int) -> Sample:
    seconds = (after.at_ns - before.at_ns) / 1e9
    spent = [b - a for a, b in zip(before.cpu_s, after.cpu_s, strict=True)]
    whole = sum(spent) or 1.0
    return {
        "time_ns": after.at_ns - start_ns,
        **{name: max(0.0, part / whole) for name, part in zip(_SHARES, spent, strict=True)},
        "disk_read_bytes_per_s": (after.disk_read_bytes - before.disk_read_bytes) / seconds,
        "disk_write_bytes_per_s": (after.disk_write_bytes - before.disk_write_bytes) / seconds,
        "network_bytes_per_s": (after.network_bytes - before.network_bytes) / seconds,
        "context_switches_per_s": (after.context_switches - before.context_switches) / seconds,
        "interrupts_per_s": (after.interrupts - before.interrupts) / seconds,
    }


def _read_counters() -> _Counters:
    cpu = psutil.cpu_times()
    disk = psutil.disk_io_counters()
    network = psutil.net_io_counters()
    stats = psutil.cpu_stats()
    return _Counters(
        at_ns=time.monotonic_ns(),
        cpu_s=(cpu.user + cpu.nice, cpu.system + cpu.irq + cpu.softirq, cpu.iowait, cpu.steal, cpu.idle),
        disk_read_bytes=disk.read_bytes if disk else 0,
        disk_write_bytes=disk.write_bytes if disk else 0,
        network_bytes=network.bytes_sent if network else 0,
        context_switches=stats.ctx_switches,
        interrupts=stats.interrupts,
    )


def _read_process_states() -> tuple[int, int]:
    """Runnable and blocked tasks, from /proc/stat."""
    running = blocked = 0
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        if line.startswith("procs_running"):
            running = int(line.split()[1])
        elif line.startswith("procs_blocked"):
            blocked = int(line.split()[1])
    return running, blocked
