"""What a report says about limited storage, restarts with cold caches, and the scaling law over CPUs."""

import json

import pytest
from plain_analysis import plain_analysis
from synthetic import Truth, make_run

from bakeoff.report import build_view
from bakeoff.report.context import Context
from bakeoff.report.machine import storage_findings
from bakeoff.report.performance import restart_findings
from bakeoff.spec import Arm, Study, Workload, parse_server
from bakeoff.spec.fields import Cache

EPOCHS = 6


def study_of(*servers, **fields):
    arms = tuple(
        Arm(name=chr(65 + at), label=each or "as it is", server=parse_server(f"mysql:8.0.15{each and ','}{each}"))
        for at, each in enumerate(servers)
    )
    return Study(title="x", arms=arms, workloads=(Workload(script="oltp_read_only"),), threads=(4,), seed=3, **fields)


def run_of(folder, study, name, records, **more):
    """A run in which every epoch of an arm has a server's document."""
    run = make_run(folder, study, Truth(**more), epochs=EPOCHS, blocks=2)
    for epoch in range(EPOCHS):
        for arm, record in records.items():
            place = run.path / f"epochs/{epoch:03d}/servers/{arm}/{name}"
            place.write_text(json.dumps(record(epoch)))
    return run


def counted(reads, *, busy_ms=100):
    counters = {
        "storage.reads": 10 * reads, "storage.writes": 0, "storage.read_bytes": 163_840 * reads,
        "storage.write_bytes": 0, "device.reads": 20 * reads, "device.writes": 0, "device.read_ms": 40 * reads,
        "device.write_ms": 0, "device.busy_ms": busy_ms, "device.queue_ms": 3_000, "device.elapsed_ms": 1_000,
    }  # fmt: skip
    return lambda _: {"oltp_read_only/4": {"events": 1, "seconds": 10.0, "counters": counters}}


@pytest.mark.parametrize(
    ("reads", "busy_ms", "said"),
    [
        (990, 100, []),
        (500, 100, ["never reached the limit of its storage (most in oltp_read_only · 4 threads: 50% of it)"]),
        (500, 950, ["never reached", "busy 95% of the time at 50% of the limit"]),
    ],
)
def test_storage_limits_are_reported_with_the_devices_load(tmp_path, reads, busy_ms, said):
    study = study_of("", "storage.read_iops=1000")
    run = run_of(tmp_path, study, "counters.json", {"B": counted(reads, busy_ms=busy_ms)})
    view = build_view(run, plain_analysis(run, study))
    (row,) = view.tables["storage"].rows
    shown = [value.text for value in row.values]
    assert shown[:3] == ["storage.read_iops=1000", "1,000 IOPS read", str(reads)]
    assert {f"{reads // 10}%", "2 ms", "3", f"{busy_ms // 10}%"} <= set(shown)
    sentences = list(storage_findings(Context(run, plain_analysis(run, study))))
    assert len(sentences) == len(said)
    assert all(part in sentence for part, sentence in zip(said, sentences, strict=True))
    assert set(sentences) <= set(view.summary)


def test_a_run_without_limits_has_no_storage_section(view):
    assert not {"storage", "restarts", "cores"} & view.tables.keys()


def test_restarts_are_compared_epoch_by_epoch(tmp_path):
    study = study_of("", "innodb_buffer_pool_load_at_startup=ON", cache=Cache.COLD)

    def after(factor):
        return lambda epoch: {"cell": "c", "seconds": factor * (10 + epoch), "start_s": 2.0}

    run = run_of(tmp_path, study, "restart.json", {"A": after(1.0), "B": after(0.5)})
    analysis = plain_analysis(run, study)
    rows = [[value.text for value in row.values] for row in build_view(run, analysis).tables["restarts"].rows]
    assert rows[0][1:3] == ["12.4 s", "2 s"]
    assert rows[1][3] == "0.50000×"
    (said,) = restart_findings(Context(run, analysis))
    assert "takes 6.19 s to be fast again, 0.50000× (0.50000 to 0.50000) as long as as it is" in said


def test_the_cpu_scaling_law_joins_arms_that_differ_only_in_cpus(tmp_path):
    effect = dict(zip("BCD", (0.6, 1.1, 1.5), strict=True))
    study = study_of("cpus=1", "cpus=2", "cpus=4", "cpus=8")
    run = make_run(tmp_path, study, Truth(effect=effect), epochs=EPOCHS, blocks=2)
    (row,) = build_view(run, plain_analysis(run, study)).tables["cores"].rows
    assert row.values[0].text == "cpus=1"
    other = study_of("cpus=1", "cpus=2", "cpus=4", "cpus=8,memory=2G")
    run = make_run(tmp_path / "other", other, Truth(effect=effect), epochs=EPOCHS, blocks=2)
    assert "cores" not in build_view(run, plain_analysis(run, other)).tables
