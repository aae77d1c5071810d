"""Cells in which an arm's storage is limited, or its CPUs."""

import pytest

from bakeoff.errors import SpecError
from bakeoff.plan import plan_study
from bakeoff.plan.schedule import with_longer_slices
from bakeoff.plan.timing import whole_blocks
from bakeoff.spec import Arm, Placement, Study, Workload, parse_server
from bakeoff.spec.fields import Cache


def study_of(server, **fields):
    arms = tuple(
        Arm(name=name, label=name, server=parse_server(text)) for name, text in (("A", "mysql:8.0"), ("B", server))
    )
    return Study(title="x", arms=arms, workloads=(Workload(script="oltp_read_only"),), **fields)


def cell_of(server, **fields):
    return plan_study(study_of(server, **fields), overhead_s=5.0, load_s=10.0).cells[0]


def test_throttled_slices_are_whole_tenths_of_a_second():
    cell = cell_of("mysql:8.0,storage=gp3")
    assert cell.throttled and cell.long_slices
    assert cell.slices.guard_ns == 100_000_000
    assert cell.slices.slice_ns >= 1_000_000_000
    for seconds in (9.0, 20.0, 33.3):
        slices, blocks = whole_blocks(cell.slices, seconds=seconds, turns=2)
        assert slices.slice_ns % 100_000_000 == 0 and slices.slice_ns >= 1_000_000_000
        assert blocks >= 1


def test_the_plan_has_time_for_the_long_slices_of_many_arms():
    study = study_of("mysql:8.0,storage=gp3", budget_s=600.0)
    many = study.with_arms(tuple(study.arms[1].model_copy(update={"name": name}) for name in "ABCDEFGHIJKL"))
    plan = plan_study(many, overhead_s=5.0, load_s=10.0)
    assert plan.seconds_per_cell >= 12 * 2 * 2 * 1.1
    assert plan.budget_needed_s >= 10 + 6 * (5 + 12 * 2 * 2 * 1.1)


def test_lengthened_slices_stay_whole_tenths_of_a_second():
    plan = plan_study(study_of("mysql:8.0,storage=gp3", budget_s=3600.0), overhead_s=5.0, load_s=10.0)
    longer = with_longer_slices(plan, [plan.cells[0].name]).cells[0].slices
    assert longer.slice_ns % 100_000_000 == 0 and longer.guard_ns == 100_000_000


def test_a_memory_limit_alone_does_not_change_the_cell():
    assert cell_of("mysql:8.0,memory=2G") == cell_of("mysql:8.0")


def test_arms_with_few_cpus_run_free():
    assert cell_of("mysql:8.0").placement is Placement.PAIRED
    assert cell_of("mysql:8.0,cpus=1").placement is Placement.FREE
    with pytest.raises(SpecError, match="arms with cpus"):
        study_of("mysql:8.0,cpus=1", placement=Placement.PAIRED)


def test_cold_cache_is_refused_for_a_running_server():
    with pytest.raises(SpecError, match=r"cache cold: .* is a running server"):
        study_of("mysql://root@127.0.0.1/", cache=Cache.COLD)
