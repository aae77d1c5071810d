"""The record of measured claims: its pages follow from its data files, and say what the run said."""

import json
import re
import shutil
from importlib import import_module
from itertools import product

import pytest
from study_files import study_of
from synthetic import Truth, duel_study, make_run

from bakeoff.report import build_view
from bakeoff.report.context import read_analysis
from bakeoff.results import RunDirectory
from bakeoff.results.epoch_data import arm_directory_name
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop
from tools.record import RECORD, main

STUDY = """\
title: charsets
question: What does utf8mb4 cost?
servers: ["mysql:5.7", "mysql:8.0"]
factors: {collation: [latin1_swedish_ci, utf8mb4_general_ci]}
workloads: [oltp_read_only, oltp_point_select]
threads: [4]
published:
  source: somebody, bench.example.com, 2019
  claims:
    - says: utf8mb4 costs half
      of: {collation: utf8mb4_general_ci}
      over: {collation: latin1_swedish_ci}
      ratio: "0.5"
    - says: 8.0 is ahead
      of: {server: "mysql:8.0", collation: latin1_swedish_ci}
      over: {server: "mysql:5.7", collation: latin1_swedish_ci}
      workload: oltp_read_only
      ratio: "> 1"
"""
MEASURED = {"B": -0.69, "C": -0.105, "D": -0.223}  # utf8mb4 halves 5.7, and costs 11% on 8.0, which is 10% behind


def finished(folder, study, **more):
    run = make_run(folder, study, **more)
    run.write_json("analysis.json", analyse(run.load_epochs(), study, ended=Stop.BUDGET))
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run = finished(folder, study_of(folder, STUDY), truth=Truth(effect=MEASURED))
    outcome = run.outcome(1).model_copy(update={"other_bakeoffs": (77,)})
    run.write_json("epochs/001/outcome.json", outcome)
    return run


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "record"
    assert main(["add", str(run.path), "charsets"], folder) == 0
    return folder


@pytest.fixture
def record(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "record")


def test_a_page_has_the_question_the_claims_a_picture_and_the_command(record):
    page = (record / "charsets/README.md").read_text()
    parts = [
        "# What does utf8mb4 cost?", "21 November 2026", "## Published and measured", "utf8mb4 costs half",
        "](ratios.svg)", "## Every comparison", "## Run it again", "--seed", "## Machine", "- processor: Example",
        "Servers: 5.7.22-log MySQL Community Server",
    ]  # fmt: skip
    assert [part for part in parts if part not in page] == []
    assert sorted(map(page.index, parts)) == [*map(page.index, parts)]
    judged = re.findall(r"\| (0\.50×|above 1\.00×) \| (\S+×) \(\S+ to \S+\) \| ([a-z ,]+) \|$", page, re.MULTILINE)
    assert [(said, word) for said, _, word in judged] == [
        ("0.50×", "agrees"), ("0.50×", "agrees"), ("0.50×", "same order, different size"),
        ("0.50×", "same order, different size"), ("above 1.00×", "differs"),
    ]  # fmt: skip


def test_a_page_keeps_the_warnings_that_only_the_run_directory_explains(run, record):
    said = [status.text for status in build_view(run, read_analysis(run)).statuses if status.word == "BUSY MACHINE"]
    assert len(said) == 1
    assert said[0] in (record / "charsets/README.md").read_text()
    assert "**BUSY MACHINE**" in (record / "README.md").read_text()
    without = build_view(RunDirectory(record / "charsets"), read_analysis(run)).statuses
    assert "BUSY MACHINE" not in {status.word for status in without}


def test_the_index_has_a_sentence_for_each_claim_the_newest_run_first(record, tmp_path):
    other = finished(tmp_path, duel_study(workloads=("oltp_read_only",), threads=(4,)))
    older = json.loads((other.path / "manifest.json").read_text()) | {"created_at": "2026-10-01T00:00:00Z"}
    (other.path / "manifest.json").write_text(json.dumps(older))
    assert main(["add", str(other.path), "duel"], record) == 0
    index = (record / "README.md").read_text()
    assert "5 published ratios: agrees 2 · same order, different size 2 · differs 1." in index
    assert re.search(
        r"^- \*\*agrees 2 · .*\*\*: utf8mb4 costs half: 4 ratios, measured 0\.50× to 0\.(89|90)×$", index, re.M
    )
    assert re.search(
        r"^- \*\*differs\*\*: 8\.0 is ahead: oltp_read_only · 4 threads, 8\.0 over 5\.7, latin1_swedish_ci: "
        r"published above 1\.00×, measured 0\.90\d×",
        index,
        re.M,
    )
    assert index.index("](charsets/README.md)") < index.index("](duel/README.md)")
    assert "[bench.example.com](https://bench.example.com)" in index
    assert not (record / "duel/ratios.svg").exists()
    assert main(["check"], record) == 0


def test_a_changed_byte_fails_the_check(record, capsys):
    assert main(["check"], record) == 0
    for path in [*record.glob("*.md"), *record.glob("*/README.md"), *record.glob("*/*.svg")]:
        kept = path.read_bytes()
        path.write_bytes(kept.replace(b"0.50", b"0.51", 1))
        assert path.read_bytes() != kept, path
        assert main(["check"], record) == 1
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [str(path)]
        path.write_bytes(kept)
    data = record / "charsets/analysis.json"
    changed = re.sub(r'("contender":"C".*?"mean":)-0\.\d+', r"\1-0.2", data.read_text(), count=1)
    data.write_text(changed)
    assert main(["check"], record) == 1
    data.write_text(changed[: len(changed) // 2])
    assert main(["check"], record) == 3
    assert "analysis.json is damaged" in capsys.readouterr().err


def test_a_page_without_its_data_files_fails_the_check(record):
    (record / "charsets/study.json").unlink()
    (record / "charsets/manifest.json").unlink()
    assert main(["check"], record) == 1


def test_a_handwritten_note_is_included_and_kept(record, run):
    (record / "charsets/note.md").write_text("A narrower *row*.\n")
    assert main(["check"], record) == 1
    assert main(["write"], record) == 0
    assert "## What explains it\n\nA narrower *row*.\n\n## Every" in (record / "charsets/README.md").read_text()
    assert main(["add", str(run.path), "charsets"], record) == 0
    assert (record / "charsets/note.md").read_text() == "A narrower *row*.\n"


@pytest.mark.needs("explain")
def test_the_causes_that_a_run_found_are_the_first_note(record, tmp_path):
    run = finished(tmp_path, duel_study(workloads=("oltp_read_only",), threads=(4,)))
    for epoch, (arm, rows) in product(run.finished_epochs(), {"A": 0, "B": 2000, "A'": 0}.items()):
        counted = {"status.Handler_read_rnd_next": 1000.0 * rows, "cpu.user_ns": 3e7, "cpu.system_ns": 1e7}
        cells = {"oltp_read_only/4": {"events": 1000, "seconds": 2.0, "counters": counted}}
        run.write_json(f"epochs/{epoch:03d}/servers/{arm_directory_name(arm)}/counters.json", cells)
    assert main(["add", str(run.path), "duel"], record) == 0
    assert "Row access can explain all of it" in (record / "duel/note.md").read_text()
    page = (record / "duel/README.md").read_text()
    assert "## What explains it\n\n- " in page and "Row access can explain all of it" in page


def test_the_data_files_are_small_and_enough_for_a_report(record, run, inside):
    files = [file for file in (record / "charsets").iterdir() if file.suffix == ".json"]
    assert sum(file.stat().st_size for file in files) < 60_000
    own, whole = (inside("report", str(at), "--format", "csv").out for at in (record / "charsets", run.path))
    assert own == whole.replace(run.name, "charsets")
    text = inside("report", str(record / "charsets"), "--format", "md").out
    assert "| utf8mb4 costs half | 0.50× |" in text
    assert "holds every slice" not in text


@pytest.mark.needs("audit")
def test_audits_quote_the_sizes_of_the_record(record, monkeypatch):
    reader = import_module("bakeoff.audit.record")
    monkeypatch.setattr(reader, "FOLDERS", (record,))
    found = reader.read_record()
    assert {(each.factor, each.where) for each in found.sizes} == {("server", "charsets"), ("collation", "charsets")}
    assert found.spreads


def test_an_empty_record_says_so(tmp_path):
    assert main(["write"], tmp_path) == 0
    assert "It is empty" in (tmp_path / "README.md").read_text()
    assert main(["check"], tmp_path) == 0


@pytest.mark.needs("tpcc")
def test_the_record_in_docs_is_current():
    assert main(["check"], RECORD) == 0
