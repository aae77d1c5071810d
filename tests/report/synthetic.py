"""Make run directories with a known truth by arithmetic, without server, engine or clock.

The same seed gives the same files, so renderers can be compared with snapshots.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import numpy as np
from scipy import stats as scipy_stats

from bakeoff.plan import Plan, epoch_draft, plan_study
from bakeoff.results import SLICE_SCHEMA, FileSystem, Host, Manifest, Outcome, RunDirectory, decode_histogram
from bakeoff.results.frame import Frame
from bakeoff.spec import Arm, Data, Study, Workload, control_of, parse_server
from validation.histograms import encode_counts

STARTED = datetime(2026, 11, 21, 20, 15, 0, tzinfo=UTC)
NAME = "mysql-5.7-vs-mysql-8.0-20261121T201500Z-3fa9"

HOST = Host(
    system="Debian GNU/Linux 12 (bookworm)",
    kernel="6.1.0-18-amd64",
    machine="x86_64",
    cpu_model="Example CPU 9000 @ 2.40GHz",
    cpus=4,
    cpus_usable=4,
    cores=4,
    numa_nodes=1,
    memory_bytes=16 * 2**30,
    swap_bytes=0,
    virtualisation="hypervisor",
    container=None,
    governor="performance",
    transparent_huge_pages="madvise",
    microcode="0x1",
    load_average=(0.1, 0.2, 0.3),
    run_files=FileSystem(
        path="bakeoff-runs",
        device="/dev/vda",
        kind="ext4",
        options="rw,relatime",
        total_bytes=10**12,
        free_bytes=10**11,
    ),
    data_files=None,
)

VARIABLES = {
    "version": "5.7.22-log",
    "version_comment": "MySQL Community Server (GPL)",
    "version_compile_machine": "x86_64",
    "innodb_buffer_pool_size": "1073741824",
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_flush_method": "O_DIRECT",
    "sync_binlog": "0",
    "log_bin": "OFF",
    "character_set_server": "latin1",
    "performance_schema": "ON",
}


@dataclass(frozen=True)
class Truth:
    """What a run is made to show.

    Attributes:
        effect: arm name -> true log ratio over the baseline.
        base_tps: throughput of the baseline with one thread in the first workload.
        sd_restart, sd_slice: spread of an epoch's and of a slice's log throughput.
    """

    effect: dict[str, float] = field(default_factory=lambda: {"B": math.log(0.89)})
    base_tps: float = 14_000.0
    sd_restart: float = 0.004
    sd_slice: float = 0.05


def duel_study(
    *,
    workloads: tuple[str, ...] = ("oltp_point_select", "oltp_read_only"),
    threads: tuple[int, ...] = (1, 4, 16),
    control: bool = True,
    labels: tuple[str, str] = ("mysql:5.7", "mysql:8.0"),
    title: str = "mysql:5.7 vs mysql:8.0",
) -> Study:
    baseline = Arm(
        name="A",
        label=labels[0],
        server=parse_server("mysql:5.7.22"),
        data=Data(charset="utf8mb4", collation="utf8mb4_general_ci"),
    )
    contender = Arm(
        name="B",
        label=labels[1],
        server=parse_server("mysql:8.0.15,innodb_flush_method=fsync"),
        data=Data(charset="utf8mb4", collation="utf8mb4_0900_ai_ci"),
    )
    return Study(
        title=title,
        arms=(baseline, contender, control_of(baseline)) if control else (baseline, contender),
        workloads=tuple(Workload(script=name) for name in workloads),
        threads=threads,
        budget_s=1200.0,
        seed=7,
    )


def slices_of_cell(
    study: Study, truth: Truth, *, cell: str, cell_index: int, threads: int, epoch: int, blocks: int, slice_ns: int
) -> Frame:
    """Return one cell's slices in one epoch: `blocks` blocks with every arm twice."""
    rng = np.random.default_rng([study.seed, epoch, cell_index, threads])
    arms = [arm.name for arm in study.arms]
    order = np.array([arms + arms[::-1] if rng.random() < 0.5 else arms[::-1] + arms for _ in range(blocks)])
    count = order.size
    base = truth.base_tps / (1 + 9 * cell_index / 10) * threads / (1 + 0.09 * (threads - 1))
    restart = dict(zip(arms, rng.normal(0, truth.sd_restart / math.sqrt(2), len(arms)), strict=True))
    drift = 0.06 * np.sin(np.arange(count) / 40)
    level = np.array([truth.effect.get(arm, 0.0) + restart[arm] for arm in order.ravel()])
    tps = base * np.exp(level + drift + rng.normal(0, truth.sd_slice, count))
    busy = np.full(count, slice_ns * threads, dtype=np.int64)
    events = np.maximum(0, np.round(tps * slice_ns / 1e9)).astype(np.int64)
    server_cpu = (events * 42_000 / np.exp(level)).astype(np.int64)
    client_cpu = events * 9_000
    ticks = int(slice_ns * 4)
    user = np.minimum(ticks, (server_cpu * 0.7 + client_cpu * 0.4).astype(np.int64))
    system = np.minimum(ticks - user, (server_cpu * 0.3 + client_cpu * 0.6).astype(np.int64))
    steal = np.full(count, ticks // 500, dtype=np.int64)
    whole = np.full(count, 0, dtype=np.int64)
    frame = Frame(
        {
            "epoch": whole + epoch,
            "build": whole + epoch % study.builds,
            "cell": [cell] * count,
            "arm": order.ravel(),
            "block": np.repeat(np.arange(blocks), order.shape[1]),
            "position": np.tile(np.arange(order.shape[1]), blocks),
            "start_ns": np.arange(count) * int(slice_ns * 1.07),
            "length_ns": whole + slice_ns,
            "busy_ns": busy,
            "connections": whole + threads,
            "events": events,
            "reads": events,
            "writes": whole,
            "other": whole,
            "errors": ["{}"] * count,
            "threads": ["{}"] * count,
            "retries": whole,
            "reconnects": whole,
            "late_starts": whole,
            "dropped": whole,
            "latency_sum_ns": busy,
            "latency_max_ns": (busy / np.maximum(events, 1) * 20).astype(np.int64),
            "sent_bytes": events * 20,
            "received_bytes": events * 180,
            "client_user_ns": client_cpu * 4 // 10,
            "client_system_ns": client_cpu * 6 // 10,
            "server_cpu_ns": server_cpu,
            "server_read_bytes": whole,
            "server_write_bytes": events * 3,
            "server_rss_bytes": [310_000_000 if arm != "B" else 420_000_000 for arm in order.ravel()],
            "host_user_ns": user,
            "host_system_ns": system,
            "host_iowait_ns": whole,
            "host_steal_ns": steal,
            "host_idle_ns": np.maximum(0, ticks - user - system - steal),
            "context_switches": events * 2,
        }
    )
    return frame.select(*SLICE_SCHEMA)


def histograms_of(slices: Frame) -> list[dict[str, object]]:
    """Return the engine's `histogram` messages that fit the slices; latencies are log-normal."""
    messages: list[dict[str, object]] = []
    for (cell, arm), part in slices.by("cell", "arm").frames().items():
        count = int(part["events"].sum())
        mean = part["latency_sum_ns"].sum() / max(count, 1)
        hdr = encode_lognormal(count, median_ns=mean * 0.93, sigma=0.38)
        histogram = decode_histogram(hdr)
        named = (0.5, 0.95, 0.99, 0.999)
        values = histogram.quantiles(np.array(named)).tolist()
        messages.append(
            {
                "type": "histogram",
                "id": 3,
                "cell": cell,
                "arm": arm,
                "operation": "event",
                "clock": "service",
                "count": count,
                "mean_ns": mean,
                "min_ns": int(histogram.highest_ns[0]),
                "max_ns": int(histogram.highest_ns[-1]),
                "quantiles_ns": {str(quantile): value for quantile, value in zip(named, values, strict=True)},
                "hdr": hdr,
            }
        )
    return messages


def encode_lognormal(count: int, *, median_ns: float, sigma: float) -> str:
    """Return an HdrHistogram (V2 deflate, 3 digits, Base64) with `count` log-normal values."""
    half = 1024
    buckets = max(1, int(median_ns * math.exp(6 * sigma)).bit_length() - 10)
    index = np.arange((buckets + 1) * half)
    bucket = index // half - 1
    sub = np.where(bucket < 0, index, index % half + half)
    upper = (sub + 1) << np.maximum(bucket, 0)
    share = scipy_stats.norm.cdf(np.log(upper / median_ns) / sigma)
    counts = np.diff(np.round(share * count), prepend=0.0).astype(np.int64)
    return encode_counts(counts)


# Hundreds of files that need not survive a crash.
@mock.patch("os.fsync", lambda _descriptor: None)
def make_run(
    root: Path,
    study: Study,
    truth: Truth | None = None,
    *,
    epochs: int = 8,
    blocks: int = 12,
    slice_ns: int = 100_000_000,
    discarded: dict[int, str] | None = None,
    name: str = NAME,
    command: tuple[str, ...] = ("bakeoff", "duel", "mysql:5.7", "mysql:8.0,innodb_flush_method=fsync", "--control"),
    hosts: Mapping[str, tuple[Host, float]] | None = None,
) -> RunDirectory:
    """Write a whole run directory except its analysis.

    `hosts` take the epochs in turn, each with its machine and what it adds to the contender's log ratio.
    """
    truth = truth or Truth()
    made = RunDirectory.create(root, study)
    run = RunDirectory(made.path.rename(root / name))
    run.write_json("manifest.json", _manifest(study, name, command))
    plan = plan_study(study, overhead_s=6.0, load_s=30.0)
    run.write_json("plan.json", plan)
    for place, arm in enumerate(study.arms):
        for build in range(study.builds):
            run.write_json(
                f"builds/{arm.name}-{build}.json",
                {
                    "arm": arm.name,
                    "build": build,
                    "rows": 400_000,
                    "started_at": f"2026-11-20T{place % 24:02}:{build:02}:00Z",
                    "seconds": 9.5 + build,
                    "data_bytes": {"sbtest": 96_000_000 if arm.name != "B" else 72_000_000},
                    "index_bytes": {"sbtest": 12_000_000},
                },
            )
    for host, (machine, _) in (hosts or {}).items():
        run.write_json(f"hosts/{host}.json", machine)
    for epoch in range(epochs):
        host, own = "", truth
        if hosts:
            host = [*hosts][epoch % len(hosts)]
            own = replace(truth, effect={arm: value + hosts[host][1] for arm, value in truth.effect.items()})
        _write_epoch(run, study, own, plan, epoch, blocks, slice_ns, (discarded or {}).get(epoch, ""), host)
    return run


def _write_epoch(
    run: RunDirectory,
    study: Study,
    truth: Truth,
    plan: Plan,
    epoch: int,
    blocks: int,
    slice_ns: int,
    reason: str,
    host: str,
) -> None:
    draft = epoch_draft(plan, study, epoch)
    build = epoch % study.builds
    writer = run.epoch(epoch, build)
    arms = tuple(arm.name for arm in study.arms)
    for cell in plan.cells:
        slices = slices_of_cell(
            study, truth, cell=cell.name, cell_index=cell.workload_index, threads=cell.threads, epoch=epoch,
            blocks=blocks, slice_ns=slice_ns,
        )  # fmt: skip
        messages = [row | {"type": "slice", "id": 3, "errors": {}, "threads": {}} for row in slices.records()]
        writer.slices.extend(messages)
        writer.histograms.extend(histograms_of(slices))
    hottest = plan.cells[len(study.threads) - 1]
    warming = slices_of_cell(
        study, truth, cell=hottest.name, cell_index=9, threads=hottest.threads, epoch=epoch, blocks=8,
        slice_ns=50_000_000,
    )  # fmt: skip
    warmth = 1 - np.exp(-warming["start_ns"] / 5e8)
    cold = warming.with_columns(events=(warming["events"] * warmth).astype(np.int64))
    writer.warm_up.extend(row | {"type": "slice", "id": 2, "errors": {}, "threads": {}} for row in cold.records())
    measured = len(plan.cells) * blocks * 2 * len(arms) * slice_ns * 1.07e-9
    for arm in study.arms:
        changed = dict(arm.server.options)
        if arm.name == "B":
            changed |= {"version": "8.0.15", "log_bin": "ON", "character_set_server": "utf8mb4"}
        writer.write_server_json(arm.name, "variables.json", VARIABLES | changed)
        writer.write_server_text(arm.name, "my.cnf", "[mysqld]\ninnodb_buffer_pool_size = 1G\n")
        writer.write_server_text(arm.name, "error.log", "ready for connections\n")
    writer.finish(
        Outcome(
            epoch=epoch,
            build=build,
            valid=not reason,
            discard_reason=reason,
            started_at=STARTED + timedelta(seconds=40 + 90 * epoch),
            wall_s=6 + measured,
            measured_s=measured,
            phases_s={"restore": 1.0, "start": 2.5, "readiness": 0.5, "warm": 1.5, "measure": measured, "stop": 0.5},
            start_order=draft.start_order,
            cell_order=draft.cell_order,
            seeds={"order": 1, "keys": 2, "padding": 3},
            host=host,
        )
    )


def _manifest(study: Study, name: str, command: tuple[str, ...]) -> Manifest:
    return Manifest(
        name=name,
        title=study.title,
        created_at=STARTED,
        bakeoff="0.1.0",
        commit="0123456789ab",
        python="CPython 3.11.7",
        command=command,
        seed=study.seed,
        engine={
            "contract": 5,
            "engine": "0.1.0",
            "build": {"profile": "release", "commit": "0123456789ab", "rustc": "1.95.0"},
        },
        host=HOST,
    )
