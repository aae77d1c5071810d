"""`--warehouses`: the size of every TPC-C script that is named."""

from bakeoff.cli.duel import workloads_of


def test_the_size_on_the_command_line_is_that_of_every_tpcc_script():
    named = workloads_of(["tpcc,./tpcc.lua,oltp_insert"], [], warehouses=3)
    assert [each.options for each in named] == [(("scale", 3),), (("scale", 3),), ()]
    assert [dict(each.options) for each in workloads_of(["tpcc"], ["scale=5"])] == [{"scale": "5"}]
    assert [dict(each.options) for each in workloads_of(["tpcc"], ["warehouses=20"])] == [{"warehouses": "20"}]
    assert [each.options for each in workloads_of(["tpcc,./tpcc.lua"], [])] == [(("scale", 2),), ()]
