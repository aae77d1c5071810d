#!/usr/bin/env python3
"""Many connections in one engine process: what each costs in memory and in start time, and whether all get their share.

    bench/connections/run.py                      # 100, 1,000 and 10,000 connections to the fake server: 2 minutes
    bench/connections/run.py --connections 2000 --seconds 5

The fake server answers each statement after a quarter of a second: so 10,000 connections keep the engine busy and the
machine is not full, and a connection that gets less than its share was made to wait by the engine or the kernel.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]  # `validation` is not installed

from rich.console import Console
from rich.table import Table

import record
from bakeoff.engine import engine_path
from bakeoff.errors import HostError
from validation.fake_server import FakeServer

START_LIMIT_S = 300.0
_FAIRNESS = re.compile(r"events \(avg/stddev\):\s+([\d.]+)/([\d.]+)")


class RunFailed(Exception):
    """The engine ended early, or sent something else than it should."""


@dataclass(frozen=True)
class Found:
    """What was measured of one number of connections.

    Attributes:
        start_s: from the process's start until all workers were ready.
        start_cpu_s: CPU of that.
        memory_bytes: the process's own pages while it runs, those shared with other processes left out.
        events_mean, events_sd: of each connection.
    """

    connections: int
    start_s: float
    start_cpu_s: float
    memory_bytes: int
    descriptors: int
    events_mean: float
    events_sd: float

    @property
    def unfairness(self) -> float:
        """Standard deviation of the connections' events over their mean: 0 when all get the same."""
        return self.events_sd / self.events_mean if self.events_mean else float("nan")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--connections", default="100,1000,10000", metavar="LIST")
    parser.add_argument("--latency", default="constant:250ms", help="of the server (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of load for each (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="folder of the JSON files")
    return parser.parse_args()


def measure(engine: Path, socket: Path, connections: int, seconds: float) -> Found:
    """Run this many connections for `seconds`, in the engine's sysbench mode.

    Raises:
        RunFailed: it ended early or never got ready.
    """
    command = [
        str(engine),
        "sysbench",
        "oltp_point_select",
        f"--mysql-socket={socket}",
        "--mysql-user=root",
        f"--threads={connections}",
        f"--time={max(1, round(seconds))}",
        f"--thread-init-timeout={int(START_LIMIT_S)}",
        "run",
    ]
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "Threads started" in line:
                break
        else:
            raise RunFailed(f"the engine ended early: {' | '.join(said[-3:])}")
        start_s, start_cpu_s = time.monotonic() - begun, _cpu_s(process.pid)
        # Every script's traces are compiled by then, and every buffer has grown.
        time.sleep(seconds * 0.8)
        descriptors = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        memory = _private_bytes(process.pid)
        said += process.stdout.readlines()
        if process.wait() != 0:
            raise RunFailed(f"the engine failed: {' | '.join(said[-3:])}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    fairness = _FAIRNESS.search("".join(said))
    if fairness is None:
        raise RunFailed("the engine did not tell its fairness.")
    mean, sd = (float(number) for number in fairness.groups())
    return Found(connections, start_s, start_cpu_s, memory, descriptors, mean, sd)


def _private_bytes(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * sum(int(kib) for kib in re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+)", rollup, re.MULTILINE))


def _cpu_s(pid: int) -> float:
    return sum(int((task / "schedstat").read_text().split()[0]) / 1e9 for task in Path(f"/proc/{pid}/task").iterdir())


def table(found: list[Found]) -> Table:
    """Return a line for each number of connections; the first shows the process's own cost."""
    shown = Table(title="Connections of one engine process")
    costs = ("start s", "start CPU ms each", "MB", "kB each", "files each")
    for column in ("connections", *costs, "events each", "unfairness"):
        shown.add_column(column, justify="right")
    for each in found:
        count = each.connections
        shown.add_row(
            f"{count:,}",
            f"{each.start_s:.1f}",
            f"{1e3 * each.start_cpu_s / count:.2f}",
            f"{each.memory_bytes / 1e6:,.0f}",
            f"{each.memory_bytes / 1e3 / count:,.0f}",
            f"{each.descriptors / count:.2f}",
            f"{each.events_mean:,.0f}",
            f"{each.unfairness:.2f}",
        )
    return shown


def main() -> int:
    chosen = options()
    console = Console(width=None if sys.stdout.isatty() else 140)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="connections-") as folder,
            FakeServer(Path(folder) / "fake.sock", "--latency", chosen.latency) as server,
        ):
            counts = [int(count) for count in chosen.connections.split(",")]
            found = [measure(engine_path(), server.socket, count, chosen.seconds) for count in counts]
    except (RunFailed, HostError) as problem:
        print(f"connections: {problem}", file=sys.stderr)
        return 3
    console.print(table(found))
    settings = {"seconds": chosen.seconds, "latency": chosen.latency}
    content = {"settings": settings, "runs": [asdict(each) for each in found]}
    console.print(f"written: {record.write('connections', content, chosen.results)}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
