"""Keying and thinking times: refused where arms take turns, for they need minutes without a break."""

import pytest

from bakeoff.errors import SpecError
from bakeoff.run.arms import check_workloads
from bakeoff.spec import Arm, Data, Study, Workload, parse_server


def study(*options, of_contender=()):
    arms = tuple(
        Arm(name=name, label=name, server=parse_server("mysql:8.0.15"), data=Data(options=more))
        for name, more in (("A", ()), ("B", of_contender))
    )
    return Study(title="t", arms=arms, workloads=(Workload(script="tpcc", options=options),))


@pytest.mark.parametrize("option", ["keying_time", "think_time"])
@pytest.mark.parametrize("value", ["on", True, 1])
def test_waits_are_refused_in_duels_with_a_way_out(option, value):
    with pytest.raises(SpecError, match=f"{option} needs minutes") as refused:
        check_workloads(study((option, value)))
    assert "bakeoff sysbench tpcc" in refused.value.hint


def test_waits_that_are_off_are_not_refused_and_those_of_an_arm_are():
    off = ("keying_time", "off"), ("think_time", False)
    check_workloads(study(*off))
    with pytest.raises(SpecError, match="think_time"):
        check_workloads(study(*off, of_contender=(("think_time", "on"),)))
