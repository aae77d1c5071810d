#!/usr/bin/env python3
"""What a slice costs the engine besides its load, by number of connections.

    bench/connections/slices.py                                   # 64, 1,024 and 4,096 connections: 1 minute
    BAKEOFF_ENGINE=/tmp/older/bakeoff-engine bench/connections/slices.py    # another build

The fake server answers each statement after a quarter of a second, so the machine is not full and what is left between
two slices is the engine's own: it wakes the workers, waits for them, reads counters, sums up and reports.
"""

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]  # `validation` is not installed

import psutil
from rich.console import Console
from rich.table import Table

import record
from bakeoff.engine import Engine
from bakeoff.engine_messages import SliceMessage
from bakeoff.errors import BakeoffError
from validation.fake_server import FakeServer

SLICE_NS, GUARD_NS = 500_000_000, 10_000_000


@dataclass(frozen=True)
class Found:
    """Medians over slices of one number of connections.

    Attributes:
        set_up_s: from the request to the first slice.
        between_ms: from the moment all workers rest to the start of the next slice.
        coordinator_ms: CPU per slice of all threads except the workers.
        memory_bytes: private pages of the process.
    """

    connections: int
    slices: int
    set_up_s: float
    between_ms: float
    coordinator_ms: float
    memory_bytes: int


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--connections", default="64,1024,4096", metavar="LIST")
    parser.add_argument("--latency", default="constant:250ms", help="of the server (default: %(default)s)")
    parser.add_argument("--blocks", type=int, default=6, help="of two slices each, 2 or more (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="folder of the JSON file")
    return parser.parse_args()


def measure(server: FakeServer, connections: int, blocks: int) -> Found:
    """Measure the fake server in slices and look at the engine meanwhile."""
    ended_s: list[float] = []
    cpu_s: list[float] = []
    memory = 0

    with Engine() as engine:

        def look(_: SliceMessage) -> None:
            nonlocal memory
            ended_s.append(time.monotonic())
            # Not after the last slice, when the workers leave.
            if len(ended_s) in (1, 2 * blocks - 1):
                cpu_s.append(_coordinator_cpu_s(engine.pid))
                memory = psutil.Process(engine.pid).memory_full_info().uss

        engine.open([server.address("A")])
        begun = time.monotonic()
        slices = engine.measure(
            {
                "cell": f"oltp_point_select/{connections}",
                "script": "oltp_point_select",
                "options": {"tables": 1, "table_size": 1000},
                "threads": connections,
                "arms": ["A"],
                "seconds": None,
                "blocks": blocks,
                "slice_ns": SLICE_NS,
                "guard_ns": GUARD_NS,
                "order_seed": 1,
                "key_seed": 2,
                "load": {"model": "closed"},
                "placement": "free",
                "freeze": False,
            },
            on_slice=look,
        ).slices
    pairs = itertools.pairwise(slices)
    between_ns = [later["start_ns"] - earlier["start_ns"] - earlier["load_ns"] for earlier, later in pairs]
    return Found(
        connections,
        len(slices),
        set_up_s=ended_s[0] - begun - slices[0]["load_ns"] / 1e9,
        between_ms=statistics.median(between_ns) / 1e6,
        coordinator_ms=1e3 * (cpu_s[1] - cpu_s[0]) / (2 * blocks - 2),
        memory_bytes=memory,
    )


def _coordinator_cpu_s(pid: int) -> float:
    ran_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # it has ended
            if not (task / "comm").read_text().startswith("A/"):
                ran_ns += int((task / "schedstat").read_text().split()[0])
    return ran_ns / 1e9


def table(found: list[Found]) -> Table:
    shown = Table(title="A slice's cost to the engine")
    for column in ("connections", "slices", "set-up s", "between slices ms", "coordinator CPU ms", "MB"):
        shown.add_column(column, justify="right")
    for each in found:
        shown.add_row(
            f"{each.connections:,}",
            str(each.slices),
            f"{each.set_up_s:.2f}",
            f"{each.between_ms:.2f}",
            f"{each.coordinator_ms:.2f}",
            f"{each.memory_bytes / 1e6:,.0f}",
        )
    return shown


def main() -> int:
    chosen = options()
    console = Console(width=None if sys.stdout.isatty() else 140)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="slices-") as folder,
            FakeServer(Path(folder) / "fake.sock", "--latency", chosen.latency) as server,
        ):
            found = [measure(server, int(count), chosen.blocks) for count in chosen.connections.split(",")]
    except BakeoffError as problem:
        print(f"slices: {problem}", file=sys.stderr)
        return 3
    console.print(table(found))
    settings = {"latency": chosen.latency, "blocks": chosen.blocks, "slice_ns": SLICE_NS}
    content = {"settings": settings, "runs": [asdict(each) for each in found]}
    console.print(f"written: {record.write('slices', content, chosen.results)}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
