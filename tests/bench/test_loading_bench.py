"""The loading benchmark: which rows its files hold, and its ratios."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def loading(monkeypatch):
    """Import the benchmark's modules, whose names other benchmarks use too."""
    before = set(sys.modules)
    for folder in ("client-cost", "tpcc", "loading"):
        monkeypatch.syspath_prepend(str(BENCH / folder))
    names = ("place", "record", "shape", "ways", "run", "estimate", "case", "cost")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    import shape

    import run

    yield SimpleNamespace(run=run, shape=shape)
    for name in names:
        if name not in before:
            sys.modules.pop(name, None)


@pytest.mark.parametrize(("tables", "threads", "files"), [(1, 4, 4), (4, 4, 4), (10, 4, 12), (3, 1, 3)])
def test_files_hold_every_row_once_in_runs_of_the_primary_key(loading, tmp_path, tables, threads, files):
    asked: list[str] = []
    server = SimpleNamespace(instance=SimpleNamespace(query=asked.append))
    ready = loading.shape.write_files(server, loading.shape.Shape(tables, 100, threads), tmp_path)
    assert len(ready) == files == len({file for _, file in ready})
    runs: dict[str, list[tuple[int, int]]] = {}
    for sql in asked:
        name, first, last = re.search(r"sbtest\.(\w+) WHERE id BETWEEN (\d+) AND (\d+)", sql).groups()
        runs.setdefault(name, []).append((int(first), int(last)))
    assert len(runs) == tables
    for found in runs.values():
        assert [number for first, last in found for number in range(first, last + 1)] == list(range(1, 101))


def test_speed_up_is_a_ratio_of_rates(loading):
    loaded = loading.shape.Loaded
    rounds = [{"sysbench": loaded(s, 1.0, 1), "bakeoff": loaded(s / 4, 1.0, 1)} for s in (8.0, 10.0, 9.0)]
    assert loading.run.speed_up(rounds, "bakeoff", "sysbench").ratio == pytest.approx(4.0)
    assert loading.run.speed_up(rounds, "sysbench", "sysbench") is None
    assert loading.run.speed_up(rounds, "bakeoff", "server") is None
