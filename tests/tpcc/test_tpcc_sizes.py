"""How much data TPC-C is expected to load."""

import pytest

from bakeoff.plan.workloads import data_bytes, kind_of, row_count
from bakeoff.spec import Arm, Data, Study, Workload, parse_server

ARMS = tuple(Arm(name=name, label=name, server=parse_server("mysql:8.0")) for name in "AB")


def tpcc_bytes(options):
    return kind_of("tpcc").loaded_bytes("tpcc", options)


def test_tpcc_data_is_sized_by_warehouses():
    assert tpcc_bytes({"scale": 20, "tables": 1}) == 2 * kind_of("tpcc").loaded_bytes("tpcc", {})
    duel = Study(title="t", arms=ARMS, workloads=(Workload(script="tpcc", options=(("scale", 2),)),), tables=4)
    assert data_bytes(duel, Data()) == tpcc_bytes({"scale": 2})
    assert tpcc_bytes({"warehouses": 3, "scale": 20}) == pytest.approx(330 * 2**20)
    assert row_count(duel, Data()) is None


@pytest.mark.parametrize(("written", "rows"), [("1M", 2**20), ("100k", 102_400), (" 2 K", 2048), ("1.5K", 1536)])
def test_sizes_are_read_as_by_the_engine(written, rows):
    assert tpcc_bytes({"scale": written}) == tpcc_bytes({"scale": rows})
