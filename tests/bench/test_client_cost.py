"""The client-cost benchmark: its arithmetic, and a whole run against a fake server of known latency."""

import importlib.util
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "client-cost"))

import clients  # noqa: E402
import estimate  # noqa: E402
from cost import ProcessCost, Window  # noqa: E402

# Printed by Debian's sysbench 1.0.20 --histogram=on, shortened.
SYSBENCH_OUTPUT = """\
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.020 |*************                            100
       0.021 |**************************************** 300
       1.044 |**                                       90
      12.300 |                                         10

SQL statistics:
    queries performed:
        read:                            500
"""


def window(cpu_ns: int, queries: int, seconds: float = 1.0) -> Window:
    return Window(seconds, queries, ProcessCost(frozenset(), cpu_ns, 1, 3, 10, 0), None, 0)


def test_sysbench_percentiles_come_from_its_histogram() -> None:
    found = clients.Sysbench().latencies(SYSBENCH_OUTPUT)
    assert found == clients.Latencies(p50_ns=21_000, p95_ns=1_044_000, p99_ns=12_300_000)
    assert clients.Sysbench().latencies("") == clients.Latencies(None, None, None)


def test_a_round_is_a_permutation_and_its_reverse() -> None:
    order = estimate.order_of_round(["a", "b", "c"], random.Random(3))
    assert sorted(order[:3]) == ["a", "b", "c"]
    assert order[3:] == order[:3][::-1]
    assert len({tuple(estimate.order_of_round(["a", "b", "c"], random.Random(seed))) for seed in range(50)}) == 6


def test_a_ratio_uses_sums_within_rounds_and_a_t_interval_over_rounds() -> None:
    rounds = [
        {"a": [window(200, 100), window(400, 100)], "b": [window(100, 100), window(100, 50)]},
        {"a": [window(210, 100), window(210, 100)], "b": [window(100, 100), window(100, 100)]},
        {"a": [window(220, 100), window(220, 100)], "b": [window(100, 100), window(100, 100)]},
    ]
    found = estimate.ratio(rounds, estimate.cpu_ns_per_query, "a", "b")
    # Logs of 2.25, 2.1, 2.2: mean 0.780441, standard deviation 0.035188; t(0.975, 2) = 4.302653: half-width 0.087412.
    assert found.ratio == pytest.approx(2.182426, rel=1e-5)
    assert (found.low, found.high) == (pytest.approx(1.99976, rel=1e-5), pytest.approx(2.38180, rel=1e-5))
    assert estimate.ratio(rounds[:2], estimate.cpu_ns_per_query, "a", "b").low is None
    assert estimate.user_share([window(1, 1)]) == 0.25


@pytest.fixture(scope="module")
def binaries() -> Path:
    """The bare loop and the fake server as they are in the tree."""
    built = ["cargo", "build", "--quiet", "-p", "bakeoff-bareloop", "-p", "bakeoff-fakeserver"]
    subprocess.run(built, cwd=ROOT, check=True)
    metadata = ["cargo", "metadata", "--format-version=1", "--no-deps"]
    described = json.loads(subprocess.run(metadata, cwd=ROOT, check=True, capture_output=True).stdout)
    return Path(described["target_directory"]) / "debug"


def run_benchmark(binaries: Path, socket: Path, results: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "bench" / "client-cost" / "run.py"), f"--socket={socket}"]
    command += [f"--binaries={binaries}", f"--results={results}", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.skipif(shutil.which("sysbench") is None, reason="sysbench is not installed")
def test_a_run_finds_the_known_latency_of_the_fake_server(binaries: Path, tmp_path: Path) -> None:
    socket = tmp_path / "fake.sock"
    server = subprocess.Popen(
        [binaries / "bakeoff-fakeserver", "--socket", socket, "--latency", "constant:2ms"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        assert json.loads(server.stdout.readline())["type"] == "ready"
        quick = ["--rounds=3", "--warm=0.2", "--latency-run=1", "--threads=4", "--workloads=oltp_point_select"]
        done = run_benchmark(binaries, socket, tmp_path / "results", "--clients=bareloop,sysbench", *quick)
        assert done.returncode == 0, done.stderr
    finally:
        server.terminate()
        server.wait()
    (path,) = (tmp_path / "results").glob("client-cost-*.json")
    run = json.loads(path.read_text())
    (cell,) = run["cells"]
    assert (cell["workload"], cell["threads"]) == ("oltp_point_select", 4)
    assert run["commit"] and run["name"] == "client-cost" and run["host"]["cpus"] >= 1
    for client in ("bareloop", "sysbench"):
        found = cell["clients"][client]
        # Four connections and 2 ms: at most 2000 a second, and on a busy machine not much fewer.
        assert 1000 < found["queries_per_s"] < 2040, client
        assert 1.9e6 < found["p50_ns"] < 4e6, client
        assert found["client_cpu_ns_per_query"] > 500, client
        assert found["context_switches_per_query"] > 0.9, client
    (cpu,) = [r for r in cell["ratios"] if (r["metric"], r["of"]) == ("client_cpu_per_query", "bareloop")]
    assert cpu["low"] < cpu["ratio"] < cpu["high"]


def test_a_missing_server_is_a_one_line_error(binaries: Path, tmp_path: Path) -> None:
    done = run_benchmark(binaries, tmp_path / "none.sock", tmp_path, "--clients=bareloop")
    assert done.returncode == 3
    assert done.stderr.startswith("client-cost: the server at ") and done.stderr.count("\n") == 1


def test_cells_that_no_client_can_run_are_left_out(tmp_path: Path) -> None:
    done = run_benchmark(tmp_path, tmp_path / "none.sock", tmp_path, "--clients=pymysql", "--quick")
    assert done.returncode == 3
    assert done.stderr == "client-cost: no client to measure in these cells.\n"


def test_a_cell_that_fails_loses_none_of_the_earlier_ones(tmp_path, monkeypatch) -> None:
    spec = importlib.util.spec_from_file_location("client_cost_run", ROOT / "bench" / "client-cost" / "run.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    pymysql = program.drivers.PyMySql()
    monkeypatch.setattr(sys, "argv", ["run.py", "--socket=x", "--statements=text", f"--results={tmp_path}"])
    monkeypatch.setattr(program, "usable_clients", lambda _: ([pymysql], []))
    monkeypatch.setattr(program.place, "running", lambda *_: program.Server("x", "", 0, "root", "sbtest", 1, "8.0"))
    monkeypatch.setattr(program, "to_be_paired", lambda server: (server, "no"))
    measured = iter([program.report.Cell(program.cases(program.options())[0])])

    def measure_cell(*_):
        try:
            return next(measured)
        except StopIteration:
            raise clients.ClientFailed("it died") from None

    monkeypatch.setattr(program, "measure_cell", measure_cell)
    assert program.main() == 3
    (path,) = tmp_path.glob("client-cost-*.json")
    assert len(json.loads(path.read_text())["cells"]) == 1


def test_an_unknown_client_is_named(binaries: Path, tmp_path: Path) -> None:
    done = run_benchmark(binaries, tmp_path / "none.sock", tmp_path, "--clients=hammer")
    assert done.returncode == 3
    assert "unknown client hammer; there are bareloop, sysbench, engine, " in done.stderr
