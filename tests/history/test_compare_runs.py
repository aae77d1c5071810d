"""`bakeoff compare` on synthetic runs whose truth is known."""

import json
import math
import re
import shutil
import warnings

import numpy as np
import pytest
from synthetic import HOST, Truth, duel_study, make_run

from bakeoff.cli.main import run as command
from bakeoff.errors import ResultsError
from bakeoff.history.compare import _differences, arm_labels, compare_runs
from bakeoff.history.page import points_of
from bakeoff.plan.factorial import make_study
from bakeoff.report import build_view, render_html
from bakeoff.results.epoch_data import CHECKSUMS, SLICE_SCHEMA
from bakeoff.results.frame import read_parquet, write_parquet
from bakeoff.spec.study_file import read_study, shipped_studies
from bakeoff.stats.analysis import analyse
from bakeoff.stats.interval import moments, welch
from bakeoff.stats.model import Stop
from bakeoff.stats.summary import stability

SLOWER = math.log(0.8)


def made(root, name, *, effect=SLOWER, study=None, epochs=8, base_tps=14_000.0):
    study = study or duel_study(workloads=("oltp_point_select",), threads=(1, 4))
    return make_run(root, study, Truth(effect={"B": effect}, base_tps=base_tps), epochs=epochs, blocks=4, name=name)


def test_workloads_of_one_script_are_told_apart_when_comparing_options():
    study = duel_study(workloads=("oltp_read_only",) * 2, threads=(4,))
    first, second = study.workloads
    first = first.model_copy(update={"options": (("skip_trx", True),)})
    study = study.model_copy(update={"workloads": (first, second)})
    assert _differences(study, study) == []
    faster = study.model_copy(update={"workloads": (first, second.model_copy(update={"speed": 10.0}))})
    assert _differences(study, faster) == ["other options of oltp_read_only#2"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two runs of one study, the machine 10 % slower in the second; in a third the contender is faster."""
    root = tmp_path_factory.mktemp("runs")
    made(root, "first")
    made(root, "second", base_tps=12_600.0, study=duel_study(workloads=("oltp_point_select",), threads=(4, 16)))
    made(root, "third", effect=0.0)
    return root


def runs(root, *names):
    from bakeoff.results import open_run

    return [open_run(name, root) for name in names]


def test_a_contender_is_compared_with_the_baseline_of_its_own_round(root):
    (run,) = runs(root, "first")
    analysis = analyse(run.load_epochs(), run.study(), ended=Stop.BUDGET)
    found = {each.cell: math.exp(each.estimate.mean + 0.5) for each in analysis.comparisons if not each.is_control}
    shifted = [
        each.model_copy(update={"points": tuple(p.model_copy(update={"value": p.value + 0.5}) for p in each.points)})
        for each in analysis.comparisons
    ]
    try:
        run.write_json("analysis.json", analysis.model_copy(update={"comparisons": tuple(shifted)}))
        ratios = [line for line in compare_runs(runs(root, "first", "third")).lines if line.kind == "ratio"]
    finally:
        run.path.joinpath("analysis.json").unlink()
    assert {line.cell: line.earlier for line in ratios} == {cell: pytest.approx(ratio) for cell, ratio in found.items()}


def test_latest_names_the_newest_runs(root, capfd):
    """All three began at the same time, so their names decide."""
    assert [run.name for run in runs(root, "latest", "latest-1", "latest-2")] == ["third", "second", "first"]
    assert command(["report", "latest-1", "--format", "csv", "--runs", str(root)]) == 0
    assert capfd.readouterr().out.splitlines()[1].startswith("second,")
    assert command(["report", "latest-3", "--runs", str(root)]) == 2
    assert "has 3 runs" in capfd.readouterr().err


def test_drift_affects_throughput_but_not_ratios(root):
    found = compare_runs(runs(root, "first", "second"))
    assert {line.cell for line in found.lines} == {"oltp_point_select/4"}
    by_kind = {(line.kind, line.label.partition(" ")[0]): line for line in found.lines}
    assert len(by_kind) == 3  # two throughputs and one ratio; the control is another baseline
    for label in ("mysql:5.7.22", "mysql:8.0.15,innodb_flush_method=fsync"):
        line = by_kind["throughput", label]
        assert math.exp(line.found.estimate.mean) == pytest.approx(0.9, abs=0.02)
        assert line.differs is True
    ratio = by_kind["ratio", "mysql:8.0.15,innodb_flush_method=fsync"]
    assert ratio.earlier == pytest.approx(0.8, abs=0.02)
    assert ratio.differs is False and ratio.found.estimate.interval.low < 0 < ratio.found.estimate.interval.high


@pytest.mark.parametrize("name", shipped_studies())
def test_arm_labels_are_unique(name):
    study = make_study(read_study(shipped_studies()[name]), seed=1)
    labels = arm_labels(study)
    assert len(set(labels.values())) == len(study.arms)
    assert not any(label.endswith(f"({arm})") for arm, label in labels.items()), "two arms are set up alike"


def test_arms_of_the_same_server_get_distinct_labels():
    study = duel_study()
    twins = study.model_copy(update={"arms": (study.arms[0], study.arms[0].model_copy(update={"name": "B"}))})
    first, second = arm_labels(twins).values()
    assert first.endswith(" (A)") and second.endswith(" (B)")


def test_a_contender_that_became_faster_is_seen_in_its_ratio(root):
    found = compare_runs(runs(root, "first", "third"))
    ratios = [line for line in found.lines if line.kind == "ratio"]
    assert len(ratios) == 2
    for line in ratios:
        assert line.differs is True
        assert line.found.estimate.mean == pytest.approx(-SLOWER, abs=0.03)


def test_other_machines_are_refused_unless_allowed(root, tmp_path):
    (elsewhere,) = runs(root, "third")
    manifest = elsewhere.manifest()
    copy = made(tmp_path, "elsewhere")
    other = HOST.model_copy(update={"cpus": 64, "memory_bytes": 4 * HOST.memory_bytes})
    copy.write_json("manifest.json", manifest.model_copy(update={"name": "elsewhere", "host": other}))
    with pytest.raises(ResultsError, match="on different machines: CPUs 4 and 64, memory"):
        compare_runs([elsewhere, copy])
    allowed = compare_runs([elsewhere, copy], across_machines=True)
    assert "another machine" in allowed.notes[0] and allowed.lines


def test_the_machine_of_a_cluster_run_is_the_host_that_measured(tmp_path, capfd):
    study = duel_study(workloads=("oltp_point_select",), threads=(4,))
    for name, cpus in (("large", 96), ("small", 2)):
        machine = HOST.model_copy(update={"cpus": cpus})
        run = make_run(tmp_path, study, epochs=4, blocks=2, name=name, hosts={"n1": (machine, 0.0)})
        run.write_json("analysis.json", analyse(run.load_epochs(), study, ended=Stop.BUDGET))
        assert (run.manifest().host, run.outcome(0).host) == (HOST, "n1")
        assert f"{cpus} × " in points_of(run, series="s")[0].machine
    arguments = ["compare", "large", "small", "--runs", str(tmp_path)]
    assert command(arguments) == 3
    assert "on different machines: CPUs 96 and 2" in capfd.readouterr().err
    assert command([*arguments, "--across-machines"]) == 0
    assert "small was measured on another machine: CPUs 96 and 2." in capfd.readouterr().out


def test_runs_of_one_name_in_several_folders_are_told_apart(tmp_path, capfd):
    folders = [tmp_path / folder / name for folder, name in (("a", "x"), ("b", "x"), ("c", "y"))]
    for folder in folders:
        made(folder.parent, folder.name)
    assert command(["compare", *map(str, folders)]) == 0
    out = capfd.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("run ")] == [
        f"run {number}: {folder}" for number, folder in enumerate(folders, start=1)
    ]
    assert len(re.findall(r" 2: \d", out)) == len(re.findall(r" 3: \d", out)) > 0
    assert not re.search(r" 1: \d", out)


def test_runs_that_share_nothing_are_refused_and_study_differences_noted(root, tmp_path):
    writes = made(tmp_path, "writes", study=duel_study(workloads=("oltp_write_only",), threads=(4,)))
    with pytest.raises(ResultsError, match="shares no cell and arm with writes"):
        compare_runs([*runs(root, "first"), writes])
    study = duel_study(workloads=("oltp_point_select",), threads=(4,)).model_copy(update={"table_size": 7})
    larger = made(tmp_path, "larger", study=study)
    assert compare_runs([*runs(root, "first"), larger]).notes == ("larger: rows a table 7 instead of 100000.",)


def test_another_version_behind_the_same_name_is_reported(root, tmp_path):
    newer = made(tmp_path, "newer")
    variables = newer.variables(7)["B"]
    newer.write_json("epochs/007/servers/B/variables.json", variables | {"version": "8.0.36"})
    (note,) = compare_runs([*runs(root, "first"), newer]).notes
    assert (
        note
        == "newer: mysql:8.0.15,innodb_flush_method=fsync · utf8mb4_0900_ai_ci was version 8.0.36, in first 8.0.15."
    )


def test_an_arm_has_the_version_and_the_options_of_the_last_epoch_that_measured_it(root, tmp_path):
    """A gate settles arms and a bisection adds them, so neither the first nor the last epoch has all of them."""
    run = made(tmp_path, "settled")
    for epoch in (0, 5, 6, 7):
        shutil.rmtree(run.path / f"epochs/{epoch:03d}/servers/B")
    run.write_json("epochs/004/servers/B/variables.json", run.variables(4)["B"] | {"version": "8.0.36"})
    left_out = run.outcome(4).model_copy(update={"valid": False, "discard_reason": "it does not count"})
    run.write_json("epochs/004/outcome.json", left_out)
    analysis = analyse(list(run.load_epochs()), run.study(), ended=Stop.ANSWERED)
    run.write_json("analysis.json", analysis)
    view = build_view(run, analysis)
    assert {arm.name: arm.version.split()[0] for arm in view.arms} == {
        "A": "5.7.22-log",
        "B": "8.0.15",
        "A'": "5.7.22-log",
    }
    assert sum("my.cnf of" in fold for fold in re.findall(r"<summary>.*?</summary>", render_html(view))) == 3
    assert {point.versions for point in points_of(run, series="nightly")} == {("5.7.22-log", "8.0.15")}
    assert compare_runs([*runs(root, "first"), run]).notes == ()
    run.write_json("epochs/003/servers/B/variables.json", run.variables(3)["B"] | {"version": "8.0.36"})
    (note,) = compare_runs([*runs(root, "first"), run]).notes
    assert "was version 8.0.36, in first 8.0.15" in note


@pytest.mark.parametrize("analysed", [False, True])
def test_an_arm_that_completed_nothing_is_reported_and_has_no_mean(root, tmp_path, analysed):
    run = made(tmp_path, "idle", study=duel_study(workloads=("oltp_point_select",), threads=(4,)))
    for epoch in (0, 3):
        folder = run.path / f"epochs/{epoch:03d}"
        slices, _ = read_parquet((folder / "slices.parquet").read_bytes())
        idle = slices.with_columns(events=np.where(slices["arm"] == "B", 0, slices["events"]))
        (folder / "slices.parquet").write_bytes(write_parquet(idle, SLICE_SCHEMA))
        (folder / CHECKSUMS).unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(stability(run.slices())) == 3
        if analysed:
            run.write_json("analysis.json", analyse(run.load_epochs(), run.study(), ended=Stop.BUDGET))
    found = compare_runs([*runs(root, "first"), run])
    label = arm_labels(run.study())["B"]
    assert f"idle: {label} completed nothing in 2 epochs of oltp_point_select/4." in found.notes
    assert [(line.kind, line.label.partition(" ")[0]) for line in found.lines] == [("throughput", "mysql:5.7.22")]


def test_two_epochs_give_no_interval_and_no_claim(root, tmp_path):
    short = made(tmp_path, "short", epochs=2)
    for line in compare_runs([*runs(root, "first"), short]).lines:
        assert (line.found.estimate.interval.low, line.differs) == (None, None)


def test_a_report_is_written_to_the_given_file(root, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("BAKEOFF_RUNS", str(root))
    assert command(["report", "first", "--format", "text", "-O", str(tmp_path / "r.txt")]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/r.txt\n"
    assert "SLOWER" in (tmp_path / "r.txt").read_text()
    assert command(["report", "first", "--format", "md", "--open"]) == 2
    assert "--open" in capsys.readouterr().err


def test_the_compare_command_prints_text_and_json(root, capsys, monkeypatch):
    monkeypatch.setenv("BAKEOFF_RUNS", str(root))
    assert command(["compare", "first", "third"]) == 0
    out = capsys.readouterr().out
    assert "Unpaired: these runs were measured at different times" in out
    assert "differs" in out and "mysql:8.0.15" in out
    assert command(["compare", "first", "second", "third", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["paired"] is False and {line["run"] for line in document["lines"]} == {"second", "third"}
    assert command(["compare", "first"]) == 2
    assert command(["compare", "first", "first"]) == 2
    assert "named twice" in capsys.readouterr().err


def test_welch_matches_scipy():
    # Unequal variances and sizes; values from scipy.stats.ttest_ind(equal_var=False).
    stats = pytest.importorskip("scipy.stats")
    later, earlier = [0.1, 0.13, 0.09, 0.12, 0.3], [0.02, 0.05, 0.01]
    expected = stats.ttest_ind(later, earlier, equal_var=False)
    found = welch(moments(later), moments(earlier))
    assert found.p_value == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval(0.95)
    assert (found.estimate.interval.low, found.estimate.interval.high) == (pytest.approx(low), pytest.approx(high))
    assert welch(moments([]), moments(earlier)) is None
    assert welch(moments([0.1] * 4), moments([0.1] * 4)).p_value == 1.0


def test_degrees_of_freedom_count_hosts_not_epochs(tmp_path):
    """Eight epochs on each of two hosts with different ratios count as two values, not sixteen."""
    study = duel_study(workloads=("oltp_point_select",), threads=(4,), control=False)
    compared = []
    for name, (first, second) in {"before": (0.0, 0.06), "after": (0.05, 0.11)}.items():
        hosts = {"n1": (HOST, first), "n2": (HOST, second)}
        compared.append(make_run(tmp_path, study, Truth(), epochs=16, blocks=2, name=name, hosts=hosts))
    (ratio,) = [line for line in compare_runs(compared).lines if line.kind == "ratio"]
    assert ratio.found.estimate.mean == pytest.approx(0.05, abs=0.015)
    assert ratio.found.estimate.interval.half_width > 0.06 and ratio.differs is False


def test_a_different_client_host_is_reported(tmp_path):
    study = duel_study(workloads=("oltp_point_select",), threads=(1, 4))
    made(tmp_path, "first")
    made(tmp_path, "apart", study=study.loaded_from("a"))
    notes = compare_runs(runs(tmp_path, "first", "apart")).notes
    assert notes == ("apart: client on a instead of client and servers on one machine.",)
