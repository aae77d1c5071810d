"""Damaged run directories give one line that names the file and exit code 3; other runs are still listed."""

import json
import shutil
from itertools import product

import pytest
from plain_analysis import plain_analysis
from synthetic import duel_study, make_run

from bakeoff.cli.main import run as command
from bakeoff.files import write_atomically
from bakeoff.stats.slice_length import SliceChoice
from tests.conftest import is_installed

CONTENTS = {
    "empty": b"",
    "null": b"null",
    "list": b"[1]",
    "object": b'{"x": {}}',
    "deep": b"[" * 100_000,
    "not UTF-8": b"\xff\xfe\x00",
}
NEEDED = ("manifest.json", "study.json", "slices.parquet", "outcome.json", "histograms.jsonl", "analysis.json")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with a sound run, and another one to be damaged."""
    root = tmp_path_factory.mktemp("damaged")
    study = duel_study(workloads=("oltp_point_select",), threads=(1,), control=False)
    for name in ("sound", "victim"):
        run = make_run(root, study, epochs=2, blocks=2, name=name)
        run.write_json("analysis.json", plain_analysis(run, study))
        answer = {"sql": "SELECT 1", "answer": "1", "collation": None}
        run.write_json("rows/0.json", {arm: {"sbtest1": {"count": answer}} for arm in "AB"})
        counted = {"oltp_point_select/1": {"events": 9.0, "seconds": 1.0, "counters": {"status.Questions": 9}}}
        for epoch, arm in product(range(2), "AB"):
            run.write_json(f"epochs/{epoch:03d}/servers/{arm}/counters.json", counted)
        choice = SliceChoice(cell="oltp_point_select/1", slice_ns=10, guard_ns=1, reason="short", curve=())
        run.write_json("pilot.json", {choice.cell: choice.model_dump(mode="json")})
        (run.path / "report.html").unlink(missing_ok=True)
    return root


@pytest.fixture
def damaged(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "runs")


def installed(*commands):
    return [arguments for arguments in commands if is_installed(arguments[0])]


def files_of(root):
    victim = root / "victim"
    return sorted(path for path in victim.rglob("*") if path.is_file())


def judge(root, path, capfd, *, what, noticed=False):
    """Check that every command ends with 0, or with 3 and one line that names the file."""
    codes = []
    for arguments in installed(
        ("report", "victim", "--format", "csv"), ("compare", "sound", "victim"), ("list", "runs")
    ):
        code = command([*arguments, "--runs", str(root)])
        out, err = capfd.readouterr()
        case = (what, path.name, arguments, out[-500:], err)
        assert code in (0, 3), case
        if code == 3:
            lines = err.splitlines()
            assert len(lines) == 1 and (path.name in lines[0] or "study.json" in lines[0]), case
            assert len(lines[0]) < 600 and "\x1b" not in lines[0], case
        if arguments[0] == "list":
            assert code == 0 and "sound" in out and "victim" in out, case
        codes.append(code)
    assert not noticed or 3 in codes, (what, path.name, codes)


def some(kinds, quick):
    """Mark all but the quick kinds as slow."""
    return [kind if kind in quick else pytest.param(kind, marks=pytest.mark.slow) for kind in kinds]


@pytest.mark.parametrize("what", some([*CONTENTS, "truncated", "a bit", "removed"], ("a bit",)))
def test_a_damaged_file_causes_at_most_a_one_line_error(damaged, capfd, what):
    for path in files_of(damaged):
        kept = path.read_bytes()
        if what == "truncated":
            path.write_bytes(kept[: len(kept) // 2])
        elif what == "a bit":
            path.write_bytes(kept[: len(kept) // 2] + bytes([kept[len(kept) // 2] ^ 1]) + kept[len(kept) // 2 + 1 :])
        elif what == "removed":
            path.unlink()
        else:
            path.write_bytes(CONTENTS[what])
        harmless = ("a bit", "removed") if path.suffix == ".json" else ("removed",) if path.suffix != ".parquet" else ()
        judge(damaged, path, capfd, what=what, noticed=path.name in NEEDED and what not in harmless)
        path.write_bytes(kept)


@pytest.mark.parametrize("what", ["epochs", "epochs/001"])
def test_missing_epochs_are_reported(damaged, capfd, what):
    shutil.rmtree(damaged / "victim" / what)
    for arguments in installed(("report", "victim"), ("compare", "sound", "victim"), ("history", "add", "victim")):
        assert command([*arguments, "--runs", str(damaged)]) == 3, arguments
        said = capfd.readouterr().err
        assert f"it is of 2 epochs, and {what.count('/')} are there" in said, arguments


def test_a_file_in_place_of_a_folder_is_an_error(damaged, capfd):
    """What the folder held is unknown, as if it could not be read."""
    for name in ("epochs/001/servers", "builds", "hosts"):
        folder = damaged / "victim" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.write_text("")
        assert command(["report", "victim", "--runs", str(damaged)]) == 3, name
        assert f"{name} is damaged: Not a directory" in capfd.readouterr().err
        folder.unlink()


def test_a_run_without_an_analysis_is_unfinished_rather_than_aborted(damaged, capfd):
    (damaged / "victim" / "analysis.json").unlink()
    for form in ("text", "html"):
        assert command(["report", "victim", "--runs", str(damaged), "--format", form, "--output", "-"]) == 0
        out = capfd.readouterr().out
        assert "NOT FINISHED" in out and "ended by hand" not in out.lower()


def test_an_analysis_of_another_run_counts_as_damaged(damaged, capfd, tmp_path):
    path = damaged / "victim" / "analysis.json"
    analysis = json.loads(path.read_text())
    analysis["comparisons"][0]["contender"] = "Z"
    path.write_text(json.dumps(analysis))
    history = ("history", "add", "victim", "--history", str(tmp_path / "h.db"))
    for arguments in installed(history, ("compare", "sound", "victim"), ("report", "victim")):
        assert command([*arguments, "--runs", str(damaged)]) == 3, arguments
        assert "analysis.json is damaged: " in capfd.readouterr().err


def test_a_link_in_place_of_a_part_file_is_not_followed(tmp_path):
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / ".mine.part").symlink_to(tmp_path / "theirs")
    write_atomically(tmp_path / "mine", b"mine")
    assert [(tmp_path / name).read_text() for name in ("theirs", "mine")] == ["theirs", "mine"]
