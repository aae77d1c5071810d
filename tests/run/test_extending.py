"""Extending a run whose answer has been seen: what is recorded, and what the end of the budget then means."""

import pytest
from messages import study

from bakeoff.results import RunDirectory
from bakeoff.run.resume import note_extension, stop_reason
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path, study())


def report(run, ended):
    run.write_json("analysis.json", analyse([], study(), ended=ended))


def longer(begun):
    return begun.model_copy(update={"budget_s": 2 * begun.budget_s})


def test_an_unchanged_run_still_ends_by_its_budget(run):
    note_extension(run, run.study(), goes_on=True)
    assert stop_reason(Stop.BUDGET, run) is Stop.BUDGET
    # Killed before it reported anything, and resumed as it was.
    note_extension(run, run.study(), goes_on=True)
    assert stop_reason(Stop.BUDGET, run) is Stop.BUDGET


@pytest.mark.parametrize("ended", [Stop.BUDGET, Stop.ABORTED])
def test_a_run_continued_after_its_report_stays_extended(run, ended):
    report(run, ended)
    note_extension(run, run.study(), goes_on=True)
    (run.path / "analysis.json").unlink()  # a further epoch begins, and it is killed
    note_extension(run, run.study(), goes_on=True)
    assert stop_reason(Stop.BUDGET, run) is Stop.EXTENDED
    assert ended.value in run.read_json("extended.json")["because"]


def test_a_budget_stop_stands_if_nothing_more_is_measured(run):
    report(run, Stop.BUDGET)
    note_extension(run, run.study(), goes_on=False)
    assert stop_reason(Stop.BUDGET, run) is Stop.BUDGET


def test_an_aborted_run_does_not_become_a_budget_stop(run):
    report(run, Stop.ABORTED)
    note_extension(run, run.study().model_copy(update={"budget_s": 1.0}), goes_on=False)
    assert stop_reason(Stop.BUDGET, run) is Stop.EXTENDED


def test_changing_the_budget_of_a_started_run_extends_it(run):
    note_extension(run, longer(run.study()), goes_on=True)
    assert stop_reason(Stop.BUDGET, run) is Stop.EXTENDED
    assert "20 min" in run.read_json("extended.json")["because"]


def test_an_extension_leaves_other_stop_reasons_alone(run):
    report(run, Stop.BUDGET)
    note_extension(run, longer(run.study()), goes_on=True)
    for stop in (Stop.PRECISE, Stop.DECISIVE, Stop.ABORTED):
        assert stop_reason(stop, run) is stop
