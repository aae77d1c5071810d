"""How much data is expected before anything is loaded."""

import pytest

from bakeoff.plan.workloads import data_bytes, row_count
from bakeoff.spec import Arm, Data, Study, Workload, parse_server


def study_of(*workloads, **sizes):
    arms = tuple(Arm(name=name, label=name, server=parse_server("mysql:8.0")) for name in "AB")
    return Study(title="t", arms=arms, workloads=workloads, **sizes)


def test_workloads_that_share_tables_are_counted_once():
    shared = study_of(Workload(script="oltp_read_only"), Workload(script="select_random_points"), tables=2)
    alone = study_of(Workload(script="oltp_read_only"), tables=2)
    other = study_of(Workload(script="oltp_read_only"), Workload(script="mine.lua"), tables=2)
    assert data_bytes(shared, Data()) == data_bytes(alone, Data()) < data_bytes(other, Data())


def test_an_arm_may_have_more_rows_than_the_study():
    study = study_of(Workload(script="oltp_read_only"), tables=2, table_size=1000)
    more = Data(options=(("table_size", 5000),))
    assert (row_count(study, Data()), row_count(study, more)) == (2000, 10_000)
    assert data_bytes(study, more) == 5 * data_bytes(study, Data())


def test_non_numeric_sizes_are_ignored():
    study = study_of(Workload(script="oltp_read_only", options=(("table_size", "many"),)), tables=2, table_size=1000)
    assert row_count(study, Data()) == 2000


@pytest.mark.parametrize(("written", "rows"), [("1M", 2**20), ("100k", 102_400), (" 2 K", 2048), ("1.5K", 1536)])
def test_sizes_are_read_as_by_the_engine(written, rows):
    asked, plain = (
        study_of(Workload(script="oltp_read_only", options=(("table_size", size),)), tables=2)
        for size in (written, rows)
    )
    assert row_count(asked, Data()) == 2 * rows
    assert data_bytes(asked, Data()) == data_bytes(plain, Data())
