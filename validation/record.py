"""Records traces of a real server for size `replay`, about 20 s for each restart.

One server is restarted many times on the same data and measured in short slices. A second server, started once, is
measured in turn (ABBA or BAAB), which separates the level of a start from the speed of the machine at that moment.
"""

import shlex
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bakeoff.results import gather_host
from bakeoff.results.frame import Frame
from bakeoff.results.manifest import bakeoff_version, checkout_commit
from validation.duels import other_share
from validation.machines import Origin, Traces
from validation.real_epochs import RealBench, Variant, question

_SLICE_NS = 20_000_000
_GUARD_NS = 2_000_000
_WARM_S = 2.0
_REFERENCE = "B"


def record(
    server: str, *, restarts: int, seconds: float, threads: int, seed: int, report: Callable[[str], None]
) -> Traces:
    """Record a set: `seconds` after each of `restarts` starts, with `threads` connections."""
    block_s = 4 * (_SLICE_NS + _GUARD_NS) / 1e9
    blocks = round(seconds / block_s)
    variant = Variant("trace", _SLICE_NS, seconds, threads, guard_ns=_GUARD_NS, blocks=blocks)
    study = question(server, threads=threads, table_size=50_000, seed=seed)
    begin = datetime.now(UTC)
    starts: list[Frame] = []
    loads: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="bakeoff-record-") as folder,
        RealBench(study, Path(folder), report=report) as bench,
    ):
        bench.keep(_REFERENCE)
        for number in range(restarts):
            starts.append(bench.epoch([variant], warm_s=_WARM_S).slices)
            loads.append(other_share(starts[-1]) or 0.0)
            report(f"{number + 1} of {restarts}: others use {loads[-1]:.0%} of the machine")
    host = gather_host(Path.cwd())
    origin = Origin(
        server=server,
        workload=study.workloads[0].script,
        threads=threads,
        restarts=restarts,
        slice_ms=_SLICE_NS / 1e6,
        guard_ms=_GUARD_NS / 1e6,
        seconds=blocks * block_s,
        recorded_at=begin.isoformat(timespec="minutes"),
        machine=f"{host.cpus_usable} CPUs ({host.cpu_model}), {host.memory_bytes / 2**30:.0f} GiB, {host.system}",
        load=round(float(np.mean(loads)), 3),
        bakeoff=bakeoff_version(),
        commit=checkout_commit(),
        command=shlex.join(["python", "-m", "validation", *sys.argv[1:]]),
    )
    # A slice in which nothing completed is charged its length, as in an estimate.
    taken_ns = [
        np.where(start["events"] > 0, start["busy_ns"] / start["connections"], start["length_ns"]) for start in starts
    ]
    return Traces(
        origin=origin,
        events=np.array([start["events"] for start in starts], dtype=np.uint16),
        taken_us=np.array([np.round(each / 1000) for each in taken_ns], dtype=np.uint32),
        reference=np.array([start["arm"] == _REFERENCE for start in starts]),
    )
