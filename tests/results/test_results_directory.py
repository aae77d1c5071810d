import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from messages import outcome, slice_message, study

from bakeoff.errors import ResultsError, SpecError
from bakeoff.plan import plan_study
from bakeoff.results import RunDirectory, list_runs, manifest, open_run, runs_root
from bakeoff.spec import Workload, parse_server


def new_run(root: Path, **options: object) -> RunDirectory:
    return RunDirectory.create(root, study(), **options)


def write_epoch(run: RunDirectory, number: int, **fields: object) -> None:
    writer = run.epoch(number, number % 2)
    writer.slices.extend([slice_message(), slice_message(arm="B", server_cpu_ns=None)])
    counted = {"clock": "service", "count": 0, "mean_ns": 0.0, "max_ns": 0}
    writer.histograms.extend([counted | {"cell": "oltp_read_only/4", "arm": "A", "operation": "event", "hdr": ""}])
    writer.write_server_json("A'", "variables.json", {"version": "5.7.22"})
    writer.finish(outcome(number, number % 2, **fields))


def test_open_loop_slices_count_as_busy_for_their_whole_length(tmp_path):
    run = new_run(tmp_path)
    asked = study().model_copy(update={"workloads": (Workload(script="oltp_read_only", rate_per_s=100.0),)})
    writer = run.epoch(0, 0)
    times = {"busy_ns": 7_000, "length_ns": 5_000, "connections": 4}
    writer.slices.extend([slice_message(**times), slice_message(cell="other/4", **times)])
    writer.finish(outcome(0, 0))
    assert run.load_epoch(0).slices["busy_ns"].tolist() == [7_000, 7_000]
    run.write_json("plan.json", plan_study(asked, overhead_s=1.0, load_s=1.0))
    for slices in (run.load_epoch(0).slices, run.slices()):
        assert slices["busy_ns"].tolist() == [20_000, 7_000]


def test_a_new_run_has_a_name_a_manifest_and_its_study(tmp_path):
    run = new_run(tmp_path / "not" / "there", command=["bakeoff", "duel"], engine={"engine": "0.1.0"})
    assert re.fullmatch(r"mysql-5\.7-vs-mysql-8\.0-\d{8}T\d{6}Z-[0-9a-f]{4}", run.name)
    assert run.study() == study()
    manifest = run.manifest()
    assert (
        manifest.name == run.name and manifest.command == ("bakeoff", "duel") and manifest.engine == {"engine": "0.1.0"}
    )
    assert manifest.host.cpus >= 1 and manifest.host.memory_bytes > 0 and manifest.host.kernel
    assert manifest.host.run_files is not None and manifest.host.run_files.total_bytes > 0


def test_non_utf8_arguments_are_kept_as_escapes(tmp_path):
    run = new_run(tmp_path, command=["bakeoff", "--runs", os.fsdecode(b"caf\xe9")])
    assert run.manifest().command == ("bakeoff", "--runs", r"caf\udce9")


def test_an_interrupted_creation_leaves_nothing_behind(tmp_path, monkeypatch):
    def broken_off(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bakeoff.results.directory.write_atomically", broken_off)
    with pytest.raises(KeyboardInterrupt):
        new_run(tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("place", "known"), [("python/bakeoff/results", True), (".venv/lib/site-packages/bakeoff/results", False)]
)
def test_the_commit_is_that_of_bakeoffs_own_checkout(tmp_path, monkeypatch, place, known):
    (tmp_path / place).mkdir(parents=True)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@localhost"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    monkeypatch.setattr(manifest, "__file__", str(tmp_path / place / "manifest.py"))
    assert (manifest.checkout_commit() is not None) is known


def test_what_was_written_is_read_back(tmp_path):
    run = new_run(tmp_path)
    write_epoch(run, 0)
    epoch = open_run(run.path).load_epoch(0)
    assert epoch.valid and epoch.build == 0
    assert epoch.slices["arm"].tolist() == ["A", "B"]
    assert epoch.slices["server_cpu_ns"].tolist() == pytest.approx([1, math.nan], nan_ok=True)
    assert json.loads(epoch.slices["errors"][0]) == {"1213": 2}
    assert epoch.histograms[0]["operation"] == "event"
    assert epoch.variables == {"A'": {"version": "5.7.22"}}


def test_missing_and_damaged_files_are_found_by_checksum(tmp_path):
    run = new_run(tmp_path)
    writer = run.epoch(0, 0)
    writer.slices.extend([slice_message()])
    writer.warm_up.extend([slice_message()])
    failed = {"operation": "event", "sql_errno": 1064, "count": 1, "message": "syntax"}
    writer.failures.extend([{"cell": "oltp_read_only/4", "arm": "A", "failures": [failed]}])
    writer.finish(outcome())
    sums = run.path / "epochs/000/SHA256SUMS"
    for read, name in ((run.failures, "failures.json"), (lambda _: run.slices(), "slices.parquet")):
        path, whole = sums.with_name(name), sums.with_name(name).read_bytes()
        assert len(read(0)) == 1
        path.unlink()
        with pytest.raises(ResultsError, match=rf"{name} is missing"):
            read(0)
        path.write_bytes(b"[]")
        with pytest.raises(ResultsError, match=rf"{name} is damaged: its checksum"):
            read(0)
        path.write_bytes(whole)
    kept = sums.read_bytes()
    sums.write_text("")
    for read in (run.failures, lambda _: run.slices(), run.histograms):
        with pytest.raises(ResultsError, match="its checksum is not the one in SHA256SUMS"):
            read(0)
    sums.write_text("\n".join(line for line in kept.decode().splitlines() if "failures" not in line) + "\n")
    sums.with_name("failures.json").unlink()
    assert run.failures(0) == [], "it was never written"


def test_an_epoch_counts_only_with_its_outcome(tmp_path):
    run = new_run(tmp_path)
    write_epoch(run, 0)
    run.epoch(1, 1).write_server_text("A", "error.log", "started\n")
    assert run.finished_epochs() == (0,)
    assert [epoch.epoch for epoch in run.load_epochs()] == [0]
    assert run.abandoned_epochs() == 1


def test_an_interrupted_epoch_is_set_aside_and_measured_again(tmp_path):
    run = new_run(tmp_path)
    for _ in range(2):
        run.epoch(0, 0).write_server_text("A", "error.log", "killed here\n")
    write_epoch(run, 0)
    assert run.finished_epochs() == (0,)
    assert run.abandoned_epochs() == 2
    assert (run.path / "epochs/000.abandoned-1/servers/A/error.log").read_text() == "killed here\n"


def test_a_finished_epoch_is_never_written_again(tmp_path):
    run = new_run(tmp_path)
    write_epoch(run, 0)
    with pytest.raises(ResultsError, match="finished"):
        run.epoch(0, 0)


def test_a_new_epoch_deletes_the_old_analysis_and_reports(tmp_path):
    run = new_run(tmp_path)
    write_epoch(run, 0)
    concluded = ("analysis.json", "wall.json", "report.html", "gate.md")
    for name in concluded:
        run.write_text(name, "{}")
    assert [summary.analysed for summary in list_runs(tmp_path)] == [True]
    run.epoch(1, 1)
    assert not any((run.path / name).exists() for name in concluded)
    assert [summary.analysed for summary in list_runs(tmp_path)] == [False]


def test_voided_epochs_are_read_but_their_slices_are_not_summed(tmp_path):
    run = new_run(tmp_path)
    write_epoch(run, 0)
    write_epoch(run, 1, valid=False, discard_reason="arm B: server crashed")
    assert [(epoch.valid, epoch.discard_reason) for epoch in run.load_epochs()] == [
        (True, ""),
        (False, "arm B: server crashed"),
    ]
    assert set(run.slices("epoch")["epoch"]) == {0}


def test_a_slice_of_another_format_stops_the_epoch_from_counting(tmp_path):
    run = new_run(tmp_path)
    writer = run.epoch(0, 0)
    writer.slices.extend([slice_message(surprise=1)])
    with pytest.raises(ResultsError, match="surprise"):
        writer.finish(outcome())
    assert run.finished_epochs() == ()


def test_an_empty_run_has_an_empty_slice_table(tmp_path):
    frame = new_run(tmp_path).slices()
    assert len(frame) == 0 and "busy_ns" in frame.columns


_WRITES_FOR_EVER = """
import sys
sys.path[:0] = [{tests!r}]
from pathlib import Path
from test_results_directory import new_run, write_epoch
run = new_run(Path({root!r}))
print(run.path, flush=True)
for number in range(1000):
    write_epoch(run, number)
"""


@pytest.mark.parametrize("delay_s", [0.02, 0.05, 0.11])
def test_kill_9_loses_at_most_the_epoch_in_flight(tmp_path, delay_s):
    code = _WRITES_FOR_EVER.format(tests=str(Path(__file__).parent), root=str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    path = Path(child.stdout.readline().strip())
    while not (path / "epochs/001/outcome.json").exists() and child.poll() is None:
        time.sleep(0.002)
    time.sleep(delay_s)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    run = open_run(path)
    finished = run.finished_epochs()
    assert len(finished) >= 2 and finished == tuple(range(len(finished)))
    assert all(len(epoch.slices) == 2 for epoch in run.load_epochs())
    assert run.abandoned_epochs() <= 1
    write_epoch(run, len(finished))
    assert run.finished_epochs()[-1] == len(finished)


def test_no_secret_reaches_the_disk(tmp_path):
    secret = "tr0ub4dor&3"
    run = new_run(tmp_path, command=["bakeoff", "duel", f"mysql://root:{secret}@db/", secret], secrets=[secret])
    writer = run.epoch(0, 0)
    writer.slices.extend([slice_message()])
    writer.write_server_text("A", "error.log", f"[Note] root password is {secret}\n")
    writer.write_server_text("A", "my.cnf", f"[client]\npassword = {secret}\n")
    writer.write_server_json("A", "variables.json", {"init_connect": f"SET PASSWORD = '{secret}'", "password": secret})
    run.write_json("builds/A-0.json", {"address": f"mysql://root:{secret}@db/"})
    writer.finish(outcome(valid=False, discard_reason=f"access denied (using {secret})"))
    for path in run.path.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def test_a_password_equal_to_its_user_name_leaves_the_study_intact(tmp_path):
    arms = study().arms
    own = parse_server("mysql://sysbench:sysbench@db/sbtest")
    asked = study().model_copy(update={"arms": (arms[0].model_copy(update={"server": own}), *arms[1:])})
    command = ["bakeoff", "duel", "mysql://sysbench:sysbench@db/sbtest", "--mysql-password=sysbench"]
    run = RunDirectory.create(tmp_path, asked, command=command, secrets=["sysbench"])
    assert run.study() == asked
    assert "sysbench" not in (run.path / "manifest.json").read_text()
    run.epoch(0, 0).write_server_text("A", "error.log", "denied (sysbench)\n")
    assert (run.path / "epochs/000/servers/A/error.log").read_text() == "denied (***)\n"


def test_the_file_names_of_arms_stay_inside_the_run(tmp_path):
    run = new_run(tmp_path)
    writer = run.epoch(0, 0)
    for name in ("../../evil", "..", "a/b", "A'"):
        writer.write_server_json(name, "variables.json", {"arm": name})
    writer.finish(outcome())
    assert not list(tmp_path.glob("evil*")) and len(list((run.path / "epochs/000/servers").iterdir())) == 4
    assert {arm: values["arm"] for arm, values in run.variables(0).items()} == {
        name: name for name in ("../../evil", "..", "a/b", "A'")
    }


def test_only_one_process_may_write(tmp_path):
    run = new_run(tmp_path)
    with run.hold(), pytest.raises(ResultsError, match="another bakeoff"), RunDirectory(run.path).hold():
        pass
    with RunDirectory(run.path).hold():
        pass


@pytest.mark.parametrize("version", [1, 2, 99])
def test_an_unsupported_format_version_is_a_one_line_error(tmp_path, version):
    run = new_run(tmp_path)
    document = run.read_json("manifest.json") | {"format": version, "bakeoff": "7.0"}
    (run.path / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(ResultsError) as caught:
        open_run(run.path)
    assert f"format {version}" in str(caught.value) and "7.0" in str(caught.value) and "\n" not in str(caught.value)
    assert [summary.problem for summary in list_runs(tmp_path)] == [caught.value.message]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("manifest.json", b"{"),
        ("manifest.json", b"[]"),
        ("manifest.json", b'{"format": 4}'),
        ("study.json", b'{"title": 1}'),
        ("epochs/000/outcome.json", b"{}"),
        ("epochs/000/slices.parquet", b"PAR1 no"),
        ("epochs/000/histograms.jsonl", b"{\n"),
        ("epochs/000/histograms.jsonl", None),
    ],
)
def test_a_damaged_file_is_named_in_one_line(tmp_path, name, content):
    run = new_run(tmp_path)
    write_epoch(run, 0)
    if content is None:
        (run.path / name).unlink()
    else:
        (run.path / name).write_bytes(content)
    with pytest.raises(ResultsError) as caught:
        opened = open_run(run.path)
        opened.manifest(), opened.study(), list(opened.load_epochs())
    assert Path(name).name in str(caught.value) and "\n" not in str(caught.value)


def test_runs_are_found_by_path_name_or_prefix(tmp_path, monkeypatch):
    run = new_run(tmp_path)
    monkeypatch.setenv("BAKEOFF_RUNS", str(tmp_path))
    assert runs_root() == tmp_path
    for text in (str(run.path), run.name, run.name[:-2]):
        assert open_run(text).path == run.path
    with pytest.raises(SpecError, match="not found"):
        open_run("mysql-9")
    other = new_run(tmp_path)
    with pytest.raises(SpecError, match="could be"):
        open_run("mysql")
    assert {summary.name for summary in list_runs()} == {run.name, other.name}


def test_a_root_that_cannot_be_created_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError) as caught:
        new_run(tmp_path / "file")
    assert "cannot be created" in str(caught.value) and os.sep in str(caught.value)
