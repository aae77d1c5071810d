"""Read the counters of our own servers before and after a cell is measured: what an event of it cost."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from os import sysconf
from pathlib import Path

from bakeoff.engine_messages import SliceMessage
from bakeoff.results import EpochWriter
from bakeoff.results.epoch_data import COUNTERS, CellCounters
from bakeoff.servers import Instance

_TICK_NS = 1_000_000_000 // sysconf("SC_CLK_TCK")
_PAGE_BYTES = sysconf("SC_PAGE_SIZE")

_KEPT = ("io.", "faults.", "storage.")  # kept even if they did not change
_GROUPS: dict[str, str] = tomllib.loads(Path(__file__).with_name("thread_groups.toml").read_text("ascii"))


@dataclass(frozen=True)
class _Thread:
    name: str
    cpu_ns: int
    voluntary: int
    involuntary: int


@dataclass(frozen=True)
class Reading:
    counters: Mapping[str, float]  # by name, as in counters.json
    own: Mapping[str, float] = field(default_factory=dict)
    threads: Mapping[int, _Thread] = field(default_factory=dict)


def read_before(servers: Mapping[str, Instance]) -> dict[str, Reading]:
    found = {}
    for arm, server in servers.items():
        first, second = (_numbers(server.status()) for _ in range(2))
        own = _grown(first, second)
        machine = server.place.counters()
        found[arm] = Reading(_process(server.pid) | second | machine, own, _threads(server.pid))
    return found


def read_after(servers: Mapping[str, Instance]) -> dict[str, Reading]:
    found = {}
    for arm, server in servers.items():
        threads, process = _threads(server.pid), _process(server.pid)
        machine = server.place.counters()
        found[arm] = Reading(process | _numbers(server.status()) | machine, threads=threads)
    return found


class CellCounts:
    def __init__(self, writer: EpochWriter) -> None:
        self._writer = writer
        self._cells: dict[str, dict[str, CellCounters]] = {}

    def add(
        self, cell: str, slices: Sequence[SliceMessage], before: Mapping[str, Reading], after: Mapping[str, Reading]
    ) -> None:
        for arm, start in before.items():
            own = [each for each in slices if each["arm"] == arm]
            load_ns = sum(each["load_ns"] for each in own)
            if not load_ns:
                continue
            spent = CellCounters(
                events=all_events(own), seconds=round(load_ns / 1e9, 6), counters=spent_between(start, after[arm])
            )
            cells = self._cells.setdefault(arm, {})
            cells[cell] = sum_of(cells[cell], spent) if cell in cells else spent
            self._writer.write_server_json(arm, COUNTERS, cells)


def all_events(slices: Sequence[SliceMessage]) -> int:
    return sum(int(each["events"]) + int(each["outside_events"]) for each in slices)


def spent_between(before: Reading, after: Reading) -> dict[str, float]:
    """Return what was spent between two readings, less the cost of reading. Leaves out counters that did not change.

    Counters of I/O and page faults stay, even at 0: without them the report says that this account may not read them.
    """
    grown = _grown(before.counters, after.counters)
    spent = {name: value - before.own.get(name, 0) for name, value in grown.items()}
    if "memory.rss_bytes" in after.counters:
        spent["memory.rss_bytes"] = after.counters["memory.rss_bytes"]
    spent |= _switches(before, after, spent.get("status.Threads_created", 0))
    spent |= _cpu_by_group(before, after, spent)
    return {name: value for name, value in spent.items() if value or name.startswith(_KEPT)}


def sum_of(one: CellCounters, other: CellCounters) -> CellCounters:
    """Add up two rounds of an epoch. Context switches are left out if a round lacks them because threads ended."""
    names = dict.fromkeys([*one["counters"], *other["counters"]])
    if not all(any(name.startswith("switches.") for name in each["counters"]) for each in (one, other)):
        names = dict.fromkeys(name for name in names if not name.startswith("switches."))
    both = {name: one["counters"].get(name, 0) + other["counters"].get(name, 0) for name in names}
    if "memory.rss_bytes" in both:
        both["memory.rss_bytes"] = other["counters"].get("memory.rss_bytes", 0)
    return CellCounters(
        events=one["events"] + other["events"], seconds=one["seconds"] + other["seconds"], counters=both
    )


def _grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {name: after[name] - value for name, value in before.items() if name in after}


def _numbers(status: Mapping[str, str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, text in status.items():
        with suppress(ValueError):
            number = int(text) if text.lstrip("-").isdecimal() else float(text)
            # InnoDB prints negative values (pages_misc of compressed tables) as unsigned.
            found[f"status.{name}"] = number - 2**64 if number >= 2**63 else number
    return found


def _process(pid: int) -> dict[str, float]:
    found: dict[str, float] = {}
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        found["faults.minor"], found["faults.major"] = int(fields[7]), int(fields[9])
        found["cpu.user_ns"], found["cpu.system_ns"] = int(fields[11]) * _TICK_NS, int(fields[12]) * _TICK_NS
        found["memory.rss_bytes"] = int(fields[21]) * _PAGE_BYTES
    with suppress(OSError, ValueError, KeyError):
        fields = Path(f"/proc/{pid}/io").read_text("ascii").split()
        io = dict(zip(fields[::2], map(int, fields[1::2]), strict=True))
        found["io.reads"], found["io.writes"] = io["syscr:"], io["syscw:"]
        found["io.read_bytes"], found["io.write_bytes"] = io["read_bytes:"], io["write_bytes:"]
    return found


def _threads(pid: int) -> dict[int, _Thread]:
    found = {}
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError, ValueError, IndexError):  # it has just ended
                switches = dict(re.findall(r"^(\w*voluntary)_ctxt_switches:\s*(\d+)$", _text(task / "status"), re.M))
                found[int(task.name)] = _Thread(
                    _text(task / "comm").strip(),
                    int(_text(task / "schedstat").split()[0]),
                    int(switches.get("voluntary", 0)),
                    int(switches.get("nonvoluntary", 0)),
                )
    return found


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace")


def _switches(before: Reading, after: Reading, created: float) -> dict[str, float]:
    """Count context switches of all threads; empty if threads ended meanwhile, since the kernel forgets theirs."""
    born = after.threads.keys() - before.threads.keys()
    if not after.threads or before.threads.keys() - after.threads.keys() or created > len(born):
        return {}
    none = _Thread("", 0, 0, 0)
    pairs = [(before.threads.get(task, none), thread) for task, thread in after.threads.items()]
    return {
        "switches.voluntary": sum(now.voluntary - then.voluntary for then, now in pairs),
        "switches.involuntary": sum(now.involuntary - then.involuntary for then, now in pairs),
    }


def _cpu_by_group(before: Reading, after: Reading, spent: Mapping[str, float]) -> dict[str, float]:
    """Split CPU time by groups of threads; what no named group used counts as connections."""
    found: dict[str, float] = {}
    for task, thread in after.threads.items():
        group = next((name for name, pattern in _GROUPS.items() if re.match(pattern, thread.name)), "")
        if group:
            then = before.threads[task].cpu_ns if task in before.threads else 0
            key = f"cpu.thread.{group}_ns"
            found[key] = found.get(key, 0) + thread.cpu_ns - then
    total = spent.get("cpu.user_ns", 0) + spent.get("cpu.system_ns", 0)
    if found and total:
        found["cpu.thread.connections_ns"] = max(0, total - sum(found.values()))
    return found
