"""Options of scripts: what the engine takes passes, what it would refuse is refused before anything is loaded."""

import pytest

from bakeoff.engine import ArmAddress, Engine
from bakeoff.errors import EngineError, SpecError
from bakeoff.run.arms import check_workloads
from bakeoff.run.script_options import check_value, first_unknown, remedy_for
from bakeoff.spec import Arm, Data, Study, Workload, parse_server
from validation.fake_server import FakeServer

KINDS = ("bool", "int", "size", "double", "string", "list")
TYPED = {"options": [{"name": kind, "type": kind} for kind in KINDS]}
NONE = {"options": []}


TAKEN = {
    "bool": ("", "on", "YES", "false", "0", "No", True, 1),
    "int": ("5", " 1k ", "1e3", "-1", "+4", 100.0, True, "0.5k"),
    "size": ("1 M", "4t"),
    "double": ("1.5", ".5", "5.", "1k", 2, False),
    "string": ("", "anything", 5),
    "list": ("a,b", 5),
    "rand_type": ("zipfian",),
    "rand_spec_iter": ("12", 12.0),
    "rand_zipfian_exp": ("0", "0.8", 1),
}
REFUSED = {
    "bool": ("maybe", "2", 2, 1.0),
    "int": ("1.5", "abc", "", "1e30", 1.5, "1_000"),
    "size": ("1.5", "1MB"),
    "double": ("abc", "inf", "nan", "1e999", "", "0x10"),
    "rand_type": ("Zipfian", "", 1),
    "rand_spec_iter": ("0", "1.5", "-1", "4294967296"),
    "rand_zipfian_exp": ("-1", "inf", "1k", True),
}
SCRIPT = """
local cmdline = sysbench.cmdline
cmdline.options = {
  bool = {"", nil, cmdline.ARG_BOOL}, int = {"", nil, cmdline.ARG_INT}, size = {"", nil, cmdline.ARG_SIZE},
  double = {"", nil, cmdline.ARG_DOUBLE}, string = {"", nil, cmdline.ARG_STRING}, list = {"", nil, cmdline.ARG_LIST},
}
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query("SELECT 1") end
"""


@pytest.mark.server
def test_values_are_taken_as_by_the_engine(tmp_path, monkeypatch, fakeserver_binary):
    """Each value is given to the engine, too."""
    monkeypatch.setenv("BAKEOFF_FAKESERVER", str(fakeserver_binary))
    script = tmp_path / "typed.lua"
    script.write_text(SCRIPT)
    with FakeServer(tmp_path / "s.sock") as fake, Engine() as engine:
        engine.open([ArmAddress("A", str(fake.socket), None, None, "root", "", "mysql", "utf8mb4", None)])

        def measure(option, value):
            engine.measure(
                {
                    "cell": "c", "script": str(script), "options": {option: value}, "threads": 1, "arms": ["A"],
                    "blocks": 1, "slice_ns": 1_000_000,
                }
            )  # fmt: skip

        for option, values in TAKEN.items():
            for value in values:
                check_value(option, value, TYPED)
                measure(option, value)
        for option, values in REFUSED.items():
            for value in values:
                with pytest.raises(SpecError, match=f"option {option} cannot be"):
                    check_value(option, value, TYPED)
                with pytest.raises(EngineError, match=option):
                    measure(option, value)


def test_only_scripts_that_declare_nothing_find_options_of_sysbench_as_globals():
    legacy = ("mysql_table_engine", "db_driver", "rand_pareto_h")
    assert first_unknown(legacy, NONE) is None
    assert first_unknown(legacy, TYPED) == "mysql_table_engine"
    for elsewhere in ("db_ps_mode", "mysql_storage_engine"):
        described = {"options": [{"name": elsewhere, "type": "string"}]}
        assert first_unknown((elsewhere,), NONE) == first_unknown((elsewhere,), described) == elsewhere
        assert remedy_for(elsewhere, described).startswith("Write --")
    assert remedy_for("frobnicate", NONE) == ""


def test_values_of_a_factor_are_checked_too():
    data = {"A": Data(), "B": Data(options=(("range_size", "abc"),))}
    arms = tuple(Arm(name=n, label=n, server=parse_server("mysql:8.0.15"), data=each) for n, each in data.items())
    with pytest.raises(SpecError, match="workload oltp_read_only: option range_size cannot be 'abc'"):
        check_workloads(Study(title="t", arms=arms, workloads=(Workload(script="oltp_read_only"),)))


@pytest.mark.parametrize(
    ("option", "data", "declared"),
    [
        ("create_table_options", {"table_options": "ROW_FORMAT=COMPRESSED"}, "ROW_FORMAT=COMPRESSED"),
        ("create_table_options", {"table_charset": "latin1"}, "DEFAULT CHARACTER SET latin1"),
        ("column_charset", {"column_charset": "latin1"}, "latin1"),
        ("column_collation", {"column_charset": "latin1", "column_collation": "latin1_bin"}, "latin1_bin"),
    ],
)
def test_an_option_that_would_replace_what_an_arm_declares_is_refused(option, data, declared):
    """Else all arms have the same tables, and the factor compares nothing."""

    def check(workload_options=(), **more):
        arms = tuple(
            Arm(name=name, label=name, server=parse_server("mysql:8.0.15"), data=each)
            for name, each in {"A": Data(), "B": Data(**more)}.items()
        )
        check_workloads(
            Study(title="t", arms=arms, workloads=(Workload(script="oltp_read_only", options=workload_options),))
        )

    given = ((option, "utf8mb4_bin"),)
    check(given)
    check(**data)
    says = f"its option {option} would replace what the study sets .{declared}"
    with pytest.raises(SpecError, match=says) as refused:
        check(given, **data)
    assert refused.value.field == ("workloads", 0)
    with pytest.raises(SpecError, match=says) as refused:
        check(options=given, **data)
    assert refused.value.field == ("arms", "B", "data", "options", option)
