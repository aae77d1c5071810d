"""bench/method: results are kept, shown and put into a page; the experiments themselves take servers and minutes."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench" / "method"), str(ROOT / "bench")]

import numpy as np  # noqa: E402
import reads  # noqa: E402
import table  # noqa: E402
import writes  # noqa: E402
from table import Result  # noqa: E402

import machine  # noqa: E402
from bakeoff.results.epoch_data import EpochData  # noqa: E402
from bakeoff.results.frame import Frame  # noqa: E402
from bakeoff.stats.slice_length import LATENCIES_MIN  # noqa: E402
from validation.real_epochs import Variant  # noqa: E402
from validation.simulation import Conditions, Noise, simulate_epoch  # noqa: E402


@pytest.fixture
def results(monkeypatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    return tmp_path


def result(name: str, value: float) -> Result:
    return Result(name, "What?", ("a", "b"), ((value, None), (12345, "x")), "So.", {"values": [value]}, 12.0)


class SimulatedBench:
    """Replaces RealBench: A and B are equal, C has the injected slowdown, and D is 12 % slower."""

    def __init__(self, restart_sd: float) -> None:
        self.noise = Noise(restart_sd=restart_sd, wander_sd=0.0, slice_sd=0.002)
        self.rng = np.random.default_rng(1)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def epoch(self, variants: Sequence[Variant], *, arms: Sequence[str], **options: Any) -> EpochData:
        self.asked.append((variants[0].name, options))
        levels = {"A": 0.0, "B": 0.0, "C": reads.TRUTH, "D": -0.12}
        of_variants = [
            simulate_epoch(
                self.rng,
                {arm: levels[arm] for arm in arms},
                Conditions(self.noise, variant.seconds, variant.slice_ns),
                epoch=len(self.asked),
                cells=[variant.name],
            )
            for variant in variants
        ]
        return replace(of_variants[0], slices=Frame.concat([each.slices for each in of_variants]))


@pytest.mark.parametrize(
    ("experiment", "calm"),
    [
        (reads.attenuation, "Every interval holds the truth."),
        (reads.real_difference, "None differs from the longest beyond chance."),
        (writes.freeze, "The truth is held by no freeze and freeze. With freezing"),
    ],
)
def test_intervals_as_wide_as_the_effect_are_inconclusive(experiment: Any, calm: str) -> None:
    assert experiment(SimulatedBench(0.001)).says.startswith(calm)
    says = experiment(SimulatedBench(0.05)).says
    assert "Too wide to tell (" in says and "half the effect would do as well." in says


def test_a_result_is_a_question_a_table_and_its_command() -> None:
    assert result("restart", 0.12345).markdown.splitlines() == [
        "**What?**", "", "| a | b |", "|---|---|", "| 0.123 | – |", "| 12,345 | x |", "", "So.", "",
        "    bench/method/run.py restart      # 12 s",
    ]  # fmt: skip
    assert [table.cell(value) for value in (99.96, 999.4, 999.7)] == ["100", "999", "1,000"]


def test_the_newest_of_each_is_shown_with_its_machine(results: Path) -> None:
    path = table.write(result("restart", 1.0), "mysql:8.0.15")
    kept = json.loads(path.read_text())
    assert kept["server"] == "mysql:8.0.15"
    assert kept["host"]["cpus"] >= 1
    older = results / "method-restart-20200101T000000Z.json"
    older.write_text(json.dumps(kept | {"says": "Long ago."}))
    shown = table.newest(("restart", "freeze"))
    assert "So." in shown
    assert "Long ago." not in shown
    assert "mysql:8.0.15, 20" in shown


def test_text_around_the_markers_is_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    table.replace_between_markers(page, "new\n")
    table.replace_between_markers(page, "newer\n")
    assert page.read_text() == f"before\n{table.BEGIN}\n\nnewer\n\n{table.END}\nafter\n"
    page.write_text("none\n")
    with pytest.raises(SystemExit):
        table.replace_between_markers(page, "new\n")


def test_docs_have_the_markers() -> None:
    text = table.PAGE.read_text(encoding="utf-8")
    assert text.index(table.BEGIN) < text.index(table.END)


def test_the_page_has_what_report_would_write(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(table.PAGE.read_text("utf-8"), encoding="utf-8")
    asked = [sys.executable, str(ROOT / "bench" / "method" / "run.py"), "report", "--into", str(page)]
    subprocess.run(asked, timeout=60, check=True)
    assert page.read_text("utf-8") == table.PAGE.read_text("utf-8")


def test_the_minimum_slice_length_is_the_products_own() -> None:
    says = machine.switching(SimulatedBench(0.001)).says
    assert f"at least {LATENCIES_MIN} mean latencies a slice" in says


def test_separate_and_shared_client_cpus_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "usable_cpus", lambda: (0, 1, 2, 3))
    monkeypatch.setattr(machine, "WORKLOADS", {0: "oltp_point_select", 3: "oltp_read_write"})
    bench = SimulatedBench(0.001)
    result = machine.placement(bench)
    assert ["client_cpus" in options for _, options in bench.asked] == [False, True, True, False, False, True]
    assert all(value is not None for row in result.rows for value in row)
    assert result.says == "3 starts of two equal servers; apart: the client has 1 of 4 CPUs."


@pytest.fixture(scope="module")
def nonsense() -> subprocess.CompletedProcess[str]:
    """The output of run.py for an unknown experiment."""
    asked = [sys.executable, str(ROOT / "bench" / "method" / "run.py"), "nonsense"]
    return subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)


def test_an_unknown_experiment_is_named(nonsense: subprocess.CompletedProcess[str]) -> None:
    assert nonsense.returncode == 2
    assert "nonsense" in nonsense.stderr


def test_docs_name_only_existing_experiments(nonsense: subprocess.CompletedProcess[str]) -> None:
    choices = set(re.findall(r"[a-z-]+", nonsense.stderr.partition("choose from")[2]))
    pages = [ROOT / "bench" / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"bench/method/run\.py ([a-z-]+)", page.read_text("utf-8"))}
    table_of_page = table.PAGE.read_text("utf-8").partition(table.BEGIN)[0]
    lasts = re.findall(r"\| ([^|]*) \|$", table_of_page, re.MULTILINE)
    named |= {name for last in lasts for name in re.findall(r"`([a-z-]+)`", last)}
    assert {"restart", "freeze"} <= named <= choices
    rows = re.findall(r"^\| `([a-z-]+)` \|", pages[0].read_text("utf-8").partition("## method")[2], re.MULTILINE)
    assert set(rows) == choices - {"all"}


def test_the_independence_of_epochs_is_computed_from_every_journal_of_duels() -> None:
    journals = sorted((ROOT / "bench" / "results" / "placement").glob("duels-*.jsonl"))
    asked = [sys.executable, str(ROOT / "bench" / "method" / "independence.py"), *map(str, journals)]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert {line.split(",")[0].split(":")[0] for line in done.stdout.splitlines()} == {each.stem for each in journals}
