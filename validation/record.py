"""Records traces for the size `replay`: `python -m validation.record NAME`, about 20 s for each restart.

One server is started many times on the same data, and each start is measured for some seconds in slices so fine that
slices of any length can be put together from them. A second server of the same kind, started once, is measured in turn
(ABBA or BAAB, as in a duel): so how fast a start came up is told from how fast the machine was in those seconds.
"""

import argparse
import shlex
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bakeoff.engine import Engine, Message
from bakeoff.plan.model import seed_for
from bakeoff.report.live import QuietLive
from bakeoff.results import RunDirectory, gather_host
from bakeoff.results.manifest import bakeoff_version, checkout_commit
from bakeoff.run.arms import ArmSetup, address_of, prepare_arms, share_memory
from bakeoff.run.loading import Loader, database_of, script_options
from bakeoff.servers import Instance, ServerPool, Snapshot, readiness
from bakeoff.spec import Arm, Study, Workload, parse_server
from validation.traces import SHIPPED, Origin, Traces, write

_SLICE_NS = 20_000_000
_GUARD_NS = 2_000_000
_WARM_S = 2.0
_SETTLE_LIMIT_S = 30.0
_RESTARTED, _REFERENCE = "A", "B"
_CPU_NS = (
    "host_user_ns", "host_system_ns", "host_iowait_ns", "host_steal_ns", "host_idle_ns",
    "server_cpu_ns", "client_user_ns", "client_system_ns",
)  # fmt: skip


def record(server: str, *, restarts: int, seconds: float, threads: int, seed: int) -> Traces:
    """Record a set.

    Args:
        server: as on the command line.
        restarts: of the first server.
        seconds: measured after each of them.
        threads: connections of each server.
        seed: of the data, the orders and the keys.

    Raises:
        BakeoffError: a server cannot be had, started or loaded.
    """
    study = _study(server, threads=threads, seed=seed)
    setups = prepare_arms(study, share_memory(study).memory, passwords={}, on_progress=lambda *_: None)
    blocks = round(seconds / (4 * (_SLICE_NS + _GUARD_NS) / 1e9))
    begin = datetime.now(UTC)
    rows: list[list[Message]] = []
    loads = []
    with ServerPool() as pool, Engine() as engine:
        snapshot = _load(study, setups, pool, engine)
        with _Started(pool, setups[1], snapshot, padding_bytes=0) as reference:
            for number in range(restarts):
                padding = seed_for(seed, "padding", number) % 4096
                with _Started(pool, setups[0], snapshot, padding_bytes=padding) as started:
                    servers = {_RESTARTED: started, _REFERENCE: reference}
                    rows.append(_measure(study, setups, servers, engine, number, blocks=blocks))
                    loads.append(_others(rows[-1]))
                _say(f"{number + 1} of {restarts}: others use {loads[-1]:.0%} of the machine")
    arrays = {
        name: np.array([[slice_[name] for slice_ in row] for row in rows])
        for name in ("events", "busy_ns", "length_ns", "connections", "arm")
    }
    # As in an estimate: a slice in which nothing was completed is charged its length.
    taken_ns = np.where(
        arrays["events"] > 0, arrays["busy_ns"] / np.maximum(arrays["connections"], 1), arrays["length_ns"]
    )
    host = gather_host(Path.cwd())
    origin = Origin(
        server=server,
        workload=study.workloads[0].script,
        threads=threads,
        restarts=restarts,
        slice_ms=_SLICE_NS / 1e6,
        guard_ms=_GUARD_NS / 1e6,
        seconds=blocks * 4 * (_SLICE_NS + _GUARD_NS) / 1e9,
        recorded_at=begin.isoformat(timespec="minutes"),
        machine=f"{host.cpus_usable} CPUs ({host.cpu_model}), {host.memory_bytes / 2**30:.0f} GiB, {host.system}",
        load=round(float(np.mean(loads)), 3),
        bakeoff=bakeoff_version(),
        commit=checkout_commit(),
        command=shlex.join(["python", "-m", "validation.record", *sys.argv[1:]]),
    )
    return Traces(
        origin=origin,
        events=arrays["events"].astype(np.uint16),
        taken_us=(taken_ns / 1000).round().astype(np.uint32),
        reference=arrays["arm"] == _REFERENCE,
    )


class _Started:
    """A server started on the snapshot, its buffer pool warm; gone after the block."""

    def __init__(self, pool: ServerPool, setup: ArmSetup, snapshot: Snapshot, *, padding_bytes: int) -> None:
        assert setup.installation
        assert setup.settings
        self._instance = pool.restore(
            setup.arm.name, snapshot, setup.installation, setup.settings, padding_bytes=padding_bytes
        )

    def __enter__(self) -> Instance:
        try:
            self._instance.start()
            readiness.settle(self._instance, _SETTLE_LIMIT_S, readiness.warm(self._instance, "sbtest"))
            return self._instance
        except BaseException:
            self._instance.remove()
            raise

    def __exit__(self, *_: object) -> None:
        self._instance.remove()


def _study(server: str, *, threads: int, seed: int) -> Study:
    spec = parse_server(server)
    return Study(
        title="traces",
        arms=tuple(Arm(name=name, label=name, server=spec) for name in (_RESTARTED, _REFERENCE)),
        workloads=(Workload(script="oltp_point_select"),),
        threads=(threads,),
        tables=4,
        table_size=25_000,
        builds=1,
        seed=seed,
    )


def _load(study: Study, setups: tuple[ArmSetup, ...], pool: ServerPool, engine: Engine) -> Snapshot:
    _say("loading")
    with tempfile.TemporaryDirectory(prefix="bakeoff-record-") as folder:
        run = RunDirectory.create(Path(folder), study, command=("record",), engine=engine.hello)
        loader = Loader(study=study, pool=pool, run=run, listener=QuietLive(), engine=engine)
        (snapshot,) = loader.load_all(setups).values()
    return snapshot


def _measure(
    study: Study,
    setups: tuple[ArmSetup, ...],
    servers: dict[str, Instance],
    engine: Engine,
    number: int,
    *,
    blocks: int,
) -> list[Message]:
    workload = study.workloads[0]
    engine.open(
        address_of(setup, servers[setup.arm.name], database_of(workload), pid=servers[setup.arm.name].pid)
        for setup in setups
    )
    request = {
        "cell": "trace",
        "script": workload.script,
        "options": script_options(study, workload, study.baseline.data),
        "arm_options": {},
        "threads": study.threads[0],
        "arms": [_RESTARTED, _REFERENCE],
        "slice_ns": _SLICE_NS,
        "guard_ns": _GUARD_NS,
        "load": {"model": "closed"},
        "freeze": False,
        "settle_ns": 0,
        "order_seed": seed_for(study.seed, "order", number),
        "key_seed": seed_for(study.seed, "keys", number),
    }
    engine.measure(request | {"seconds": _WARM_S, "blocks": None})
    return engine.measure(request | {"seconds": None, "blocks": blocks}).slices


def _others(row: list[Message]) -> float:
    """Share of all CPU time, during the slices, that neither the measured server nor the client used."""
    total: dict[str, int] = {name: sum(each[name] for each in row) for name in _CPU_NS}
    spent = total["host_user_ns"] + total["host_system_ns"] + total["host_steal_ns"]
    own = total["server_cpu_ns"] + total["client_user_ns"] + total["client_system_ns"]
    return max(spent - own, 0) / max(spent + total["host_iowait_ns"] + total["host_idle_ns"], 1)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Record a set and write it; among those that ship unless --to says where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the set: NAME.npz and NAME.json")
    parser.add_argument("--server", default="mysql:8.0.15")
    parser.add_argument("--restarts", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", type=Path, default=SHIPPED, help="folder")
    options = parser.parse_args()
    traces = record(
        options.server,
        restarts=options.restarts,
        seconds=options.seconds,
        threads=options.threads,
        seed=options.seed,
    )
    path = options.to / f"{options.name}.npz"
    write(traces, path)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB, others used {traces.origin.load:.0%} of the machine")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
