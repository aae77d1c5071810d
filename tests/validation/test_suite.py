"""Runs of the suite are kept, continued, printed and turned into exit codes; the checks themselves are elsewhere."""

import json
from datetime import UTC, datetime

import pytest

from bakeoff.errors import HostError, ResultsError, SpecError
from bakeoff.results import gather_host
from validation import __main__ as program
from validation import suite
from validation.check import Check, Finding, Size
from validation.suite import Entry, Record, SuiteRun, markdown, run_checks, select

REPLAY = frozenset({Size.REPLAY})


def check(test, run, what="something", sizes=REPLAY):
    return Check(test=test, what=what, target="<= 5%", sizes=sizes, run=run)


def holds(setting):
    return Finding(found="3.1%", passed=True, figures={"claims": 31})


def fails(setting):
    return Finding(found="44%", passed=False)


def cannot(setting):
    return Finding(found="no second CPU", passed=None)


def breaks(setting):
    raise HostError("disk full: /data.", hint="Free some.")


@pytest.fixture
def suite_run(tmp_path):
    return SuiteRun.begin(tmp_path, size=Size.REPLAY, only=(), seed=7, server="mysql:8.0.15", command=("bakeoff",))


def validation(monkeypatch, tmp_path, *checks, arguments=()):
    monkeypatch.setattr(suite, "CHECKS", checks)
    return program.run(["suite", "--runs", str(tmp_path), *arguments])


@pytest.mark.parametrize(
    ("checks", "code"),
    [((holds,), 0), ((holds, fails), 1), ((holds, breaks), 1), ((holds, cannot), 0), ((cannot, cannot), 3)],
    ids=["all hold", "one fails", "one breaks off", "one cannot run", "none can run"],
)
def test_exit_codes(monkeypatch, tmp_path, capsys, checks, code):
    numbered = [check(f"G{number}", run) for number, run in enumerate(checks, start=1)]
    assert validation(monkeypatch, tmp_path, *numbered) == code
    assert "Traceback" not in capsys.readouterr().err


def test_an_interrupt_keeps_what_is_finished_and_resume_does_the_rest(monkeypatch, tmp_path, capsys):
    calls = []

    def counted(setting):
        calls.append(setting.seed)
        return holds(setting)

    def interrupted(setting):
        raise KeyboardInterrupt

    first, third = check("G1", counted), check("G3", counted)
    assert validation(monkeypatch, tmp_path, first, check("G2", interrupted), third, arguments=["--seed", "9"]) == 130
    (folder,) = tmp_path.iterdir()
    assert f"resume {folder}" in capsys.readouterr().err
    assert SuiteRun.open(folder).record.ended_at is None

    monkeypatch.setattr(suite, "CHECKS", (first, check("G2", holds), third))
    assert program.run(["resume", str(folder)]) == 0
    assert "3 of 3 hold." in capsys.readouterr().out
    kept = json.loads((folder / "results.json").read_bytes())
    assert [entry["test"] for entry in kept["entries"]] == ["G1", "G2", "G3"]
    assert calls == [9, 9]  # the first was not run again, and the third has the original seed
    assert kept["ended_at"]


def test_what_failed_stays_failed_and_what_broke_off_is_run_again(suite_run):
    run_checks(suite_run, [check("G1", fails), check("G2", breaks), check("G3", holds)])
    again = SuiteRun.open(suite_run.path)
    record = run_checks(again, [check("G1", holds), check("G2", holds), check("G3", fails)])
    assert [(entry.test, entry.passed) for entry in record.entries] == [("G1", False), ("G2", True), ("G3", True)]


def test_a_check_that_raises_fails_with_the_error_as_its_finding(suite_run):
    (entry,) = run_checks(suite_run, [check("G1", breaks)]).entries
    assert (entry.passed, entry.broke_off) == (False, True)
    assert entry.found == "HostError: disk full: /data. Free some."


def test_a_check_finds_its_folder_again(suite_run):
    found = []
    one = check("G1", lambda setting: found.append(setting.folder) or holds(setting), what="A/A, 100 duels")
    run_checks(suite_run, [one])
    assert found == [suite_run.path / "g1-a-a-100-duels"]
    assert SuiteRun.open(suite_run.path).folder_of(one) == found[0]


def test_numpy_figures_become_plain_numbers(suite_run):
    import numpy as np

    figures = {"rate": np.float64(0.5), "counts": np.arange(2)}
    (entry,) = run_checks(suite_run, [check("G1", lambda s: Finding("", True, figures))]).entries
    assert entry.figures == {"rate": 0.5, "counts": [0, 1]}


def test_selection_is_by_size_and_number(monkeypatch):
    checks = (check("G10", holds), check("G2", holds), check("G3", holds, sizes=frozenset({Size.FULL})))
    monkeypatch.setattr(suite, "CHECKS", checks)
    assert [c.test for c in select(Size.REPLAY)] == ["G2", "G10"]
    assert [c.test for c in select(Size.REPLAY, ["g10"])] == ["G10"]
    with pytest.raises(SpecError, match=r"has no test G3\. It has G2, G10"):
        select(Size.REPLAY, ["G3"])


def test_invalid_arguments_exit_with_code_2(monkeypatch, tmp_path, capsys):
    assert validation(monkeypatch, tmp_path, check("G1", holds), arguments=["--only", "G99"]) == 2
    assert validation(monkeypatch, tmp_path, check("G1", holds), arguments=["--server", "mysql 5.7"]) == 2
    assert program.run(["resume", str(tmp_path), "--seed", "1"]) == 2
    assert program.run(["resume", str(tmp_path)]) == 3  # no run is there
    assert len(capsys.readouterr().err.splitlines()) == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "fault", "advice"),
    [
        (["--server", "mysql:8.0.15"], "replay", "quick"),
        (["--size", "quick", "--server", "mysql:4.1"], "4.1", "mysql:5.5.9"),
        (["--size", "quick", "--server", "mysql://root:s3cret@db/"], "running server", "mysql:8.0"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_server_that_cannot_be_tested_is_refused_at_once(tmp_path, capsys, arguments, fault, advice):
    assert program.run(["suite", "--runs", str(tmp_path), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert fault in line and advice in line and "s3cret" not in line
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_record_is_reported(suite_run):
    (suite_run.path / "results.json").write_text('{"format": 1}')
    with pytest.raises(ResultsError, match="damaged"):
        SuiteRun.open(suite_run.path)
    (suite_run.path / "results.json").write_text('{"format": 99}')
    with pytest.raises(ResultsError, match="format 99"):
        SuiteRun.open(suite_run.path)


def test_every_registered_check_has_a_name_of_its_own():
    for size in Size:
        names = [(c.test, c.what) for c in select(size)]
        assert len(names) == len(set(names))
        folders = [f"{test}-{what[:40]}" for test, what in names]
        assert len(folders) == len(set(folders))


@pytest.fixture
def record(tmp_path):
    host = gather_host(tmp_path).model_copy(
        update={"cpus_usable": 4, "cpu_model": "Some CPU", "memory_bytes": 8 * 2**30, "system": "Some Linux"}
    )
    entry = Entry(test="G1", what="equal arms", target="<= 5%", passed=True, found="3.1%", seconds=61.0, commit="abc")
    return Record(
        size=Size.REPLAY,
        only=(),
        seed=1,
        server="mysql:8.0.15",
        started_at=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        ended_at=datetime(2026, 1, 2, 3, 5, tzinfo=UTC),
        bakeoff="1.0",
        commit="abc",
        python="CPython 3.11",
        command=("python", "-m", "validation", "suite"),
        host=host,
        entries=(
            entry,
            entry.model_copy(update={"test": "G2", "what": "a|b", "passed": False, "found": "44%"}),
            entry.model_copy(update={"test": "G12", "passed": None, "found": "no second CPU"}),
        ),
    )


DATELINE = (
    "validation --size replay, seed 1, 2026-01-02 03:04 UTC, 3 min 3 s; bakeoff 1.0 (abc); "
    "4 CPUs (Some CPU), 8 GiB, Some Linux"
)


def test_results_are_printed_as_a_markdown_table(record):
    assert markdown(record).splitlines() == [
        DATELINE,
        "",
        "    python -m validation suite",
        "",
        "| G | what | target | found | result |",
        "|---|---|---|---|---|",
        "| G1 | equal arms | <= 5% | 3.1% | ok |",
        "| G2 | a\\|b | <= 5% | 44% | FAILED |",
        "| G12 | equal arms | <= 5% | no second CPU | could not run |",
        "",
        "1 of 3 hold, 1 FAILED, 1 could not run.",
    ]
