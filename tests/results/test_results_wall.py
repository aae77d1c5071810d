"""Wall time by phase, from outcomes whose seconds are known."""

from datetime import UTC, datetime, timedelta

import pytest

from bakeoff.results import Outcome
from bakeoff.results.epoch_data import wall_time

BEGIN = datetime(2026, 11, 22, tzinfo=UTC)


def outcome(epoch: int, begin_s: float, wall_s: float, **phases_s: float) -> Outcome:
    return Outcome(
        epoch=epoch,
        build=0,
        started_at=BEGIN + timedelta(seconds=begin_s),
        wall_s=wall_s,
        measured_s=phases_s.get("measure", 0.0),
        phases_s=phases_s,
    )


def load(begin_s: float, seconds: float) -> dict[str, object]:
    return {"started_at": BEGIN + timedelta(seconds=begin_s), "seconds": seconds}


def test_concurrent_loads_are_counted_once():
    builds = {"A-0": load(0, 7), "B-0": load(1, 3), "A-1": load(5, 4), "B-1": load(20, 5)}
    assert wall_time(builds, []).phases_s == {"load": 14}


def test_phases_add_up_to_the_wall_time():
    found = wall_time(
        {"A-0": load(0, 7), "B-0": load(7, 3)},
        [outcome(0, 10, 50, restore=2, measure=40, pilot=5), outcome(1, 61, 40, restore=1, measure=38)],
    )
    # Not in any phase: 3 s and 1 s inside the epochs, 1 s between them.
    assert found.phases_s == {"load": 10, "restore": 3, "pilot": 5, "measure": 78, "other": 5}
    assert found.total_s == 101
    assert found.measured_share == pytest.approx(78 / 101)


def test_a_pause_between_two_runs_of_a_study_is_not_counted():
    found = wall_time({}, [outcome(0, 0, 50, measure=40), outcome(1, 4000, 50, measure=40)])
    assert found.total_s == 100
    assert found.phases_s["other"] == 20


def test_a_phase_of_another_version_is_counted_as_other():
    assert wall_time({}, [outcome(0, 0, 5, measure=4, dance=1)]).phases_s == {"measure": 4, "other": 1}


def test_an_empty_run_has_measured_nothing():
    assert wall_time({}, []).measured_share == 0
