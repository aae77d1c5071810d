"""Options of scripts: what the engine takes passes, what it would refuse is refused before anything is loaded."""

import pytest

from bakeoff.errors import SpecError
from bakeoff.run.arms import check_workloads
from bakeoff.run.script_options import check_value, first_unknown, remedy_for
from bakeoff.spec import Arm, Data, Study, Workload, parse_server

KINDS = ("bool", "int", "size", "double", "string", "list")
TYPED = {"options": [{"name": kind, "type": kind} for kind in KINDS]}
NONE = {"options": []}


@pytest.mark.parametrize(
    ("kind", "taken", "refused"),
    [
        ("bool", ("", "on", "YES", "false", "0", "No", True, 1), ("maybe", "2", 2, 1.0)),
        ("int", ("5", " 1k ", "1e3", "-1", "+4", 100.0, True, "0.5k"), ("1.5", "abc", "", "1e30", 1.5, "1_000")),
        ("size", ("1 M", "4t"), ("1.5", "1MB")),
        ("double", ("1.5", ".5", "5.", "1k", 2, False), ("abc", "inf", "nan", "1e999", "", "0x10")),
        ("string", ("", "anything", 5), ()),
        ("list", ("a,b", 5), ()),
        ("rand_type", ("zipfian",), ("Zipfian", "", 1)),
        ("rand_spec_iter", ("12", 12.0), ("0", "1.5", "-1", "4294967296")),
        ("rand_zipfian_exp", ("0", "0.8", 1), ("-1", "inf", "1k", True)),
    ],
)
def test_values_are_taken_as_by_the_engine(kind, taken, refused):
    for value in taken:
        check_value(kind, value, TYPED)
    for value in refused:
        with pytest.raises(SpecError, match=f"option {kind} cannot be"):
            check_value(kind, value, TYPED)


def test_only_scripts_that_declare_nothing_find_options_of_sysbench_as_globals():
    legacy = ("mysql_table_engine", "mysql_storage_engine", "db_driver", "rand_pareto_h")
    assert first_unknown(legacy, NONE) is None
    assert first_unknown(legacy, TYPED) == "mysql_table_engine"
    assert first_unknown(("db_ps_mode",), NONE) == "db_ps_mode"
    assert remedy_for("frobnicate", NONE) == ""


def test_values_of_a_factor_are_checked_too():
    data = {"A": Data(), "B": Data(options=(("range_size", "abc"),))}
    arms = tuple(Arm(name=n, label=n, server=parse_server("mysql:8.0.15"), data=each) for n, each in data.items())
    with pytest.raises(SpecError, match="workload oltp_read_only: option range_size cannot be 'abc'"):
        check_workloads(Study(title="t", arms=arms, workloads=(Workload(script="oltp_read_only"),)))
