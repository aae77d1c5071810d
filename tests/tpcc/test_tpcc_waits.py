"""Keying and thinking times: refused where arms take turns, for they need minutes without a break."""

import pytest

from bakeoff.errors import SpecError
from bakeoff.run.arms import check_workloads
from bakeoff.spec import Arm, Data, Workload, parse_server


@pytest.mark.parametrize("option", ["keying_time", "think_time"])
@pytest.mark.parametrize("value", ["on", True, 1])
def test_waits_are_refused_in_duels_with_a_way_out(option, value):
    with pytest.raises(SpecError, match=f"{option} needs minutes") as refused:
        check_workloads([Workload(script="tpcc", options=((option, value),))])
    assert "bakeoff sysbench tpcc" in refused.value.hint


def test_waits_that_are_off_are_not_refused_and_those_of_an_arm_are():
    workload = Workload(script="tpcc", options=(("keying_time", "off"), ("think_time", False)))
    check_workloads([workload])
    server = parse_server("mysql:8.0.15")
    arm = Arm(name="A", label="A", server=server, data=Data(options=(("think_time", "on"),)))
    with pytest.raises(SpecError, match="think_time"):
        check_workloads([workload], [arm])
