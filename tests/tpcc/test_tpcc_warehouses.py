"""`--warehouses`: the size of every TPC-C script that is named."""

from bakeoff.cli.arguments import WorkloadOptions
from bakeoff.cli.duel import workloads_of


def options(*scripts, **more):
    return [each.options for each in workloads_of(WorkloadOptions(workload=scripts, **more))]


def test_warehouses_set_the_size_of_every_tpcc_script():
    assert options("tpcc,./tpcc.lua,oltp_insert", warehouses=3) == [(("scale", 3),), (("scale", 3),), ()]
    assert options("tpcc", option=["scale=5"]) == [(("scale", "5"),)]
    assert options("tpcc", option=["warehouses=20"]) == [(("warehouses", "20"),)]
    assert options("tpcc,./tpcc.lua") == [(("scale", 2),), ()]
