"""Checks of workloads: what the engine takes passes, what it would refuse is refused before anything is loaded."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import bakeoff
from bakeoff.engine import ArmAddress, Engine, describe_workloads
from bakeoff.errors import EngineError, SpecError
from bakeoff.run.arms import ArmSetup
from bakeoff.run.measuring import (
    Measuring,
    arm_options,
    check_value,
    check_workloads,
    is_unknown,
    remedy_for,
    script_options,
    takes,
)
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
    "rand_spec_iter": ("12", 12.0, 10_000),
    "rand_spec_pct": (0, "100"),
    "rand_pareto_h": ("0.2", 0.999),
    "rand_zipfian_exp": ("0", "0.8", 1),
}
REFUSED = {
    "bool": ("maybe", "2", 2, 1.0),
    "int": ("1.5", "abc", "", "1e30", 1.5, "1_000"),
    "size": ("1.5", "1MB"),
    "double": ("abc", "inf", "nan", "1e999", "", "0x10"),
    "rand_type": ("Zipfian", "", 1),
    "rand_spec_iter": ("0", "1.5", "-1", "10001", "4294967296"),
    "rand_spec_pct": (101, "-1"),
    "rand_pareto_h": (0, 1, 20),
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
def test_option_values_are_accepted_exactly_as_by_the_engine(tmp_path, monkeypatch, fakeserver_binary):
    """Each value is also given to the engine."""
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
    assert [is_unknown(option, NONE) for option in legacy] == [False, False, False]
    assert [is_unknown(option, TYPED) for option in legacy] == [True, True, False]
    for elsewhere in ("db_ps_mode", "mysql_storage_engine"):
        described = {"options": [{"name": elsewhere, "type": "string"}]}
        assert is_unknown(elsewhere, NONE) and is_unknown(elsewhere, described)
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
    """Otherwise all arms would have the same tables, and the factor would compare nothing."""

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


DECLARING = 'sysbench.cmdline.options = { %s = {"", "0"} }\nfunction prepare() end\nfunction event() end\n'


def own_study(folder, declared, **data):
    """Return a study of a script that declares one option, or none."""
    script = folder / "own.lua"
    script.write_text(DECLARING % declared if declared else "function prepare() end function event() end")
    arms = tuple(Arm(name=n, label=n, server=parse_server("mysql:8.0.15"), data=Data(**data)) for n in "AB")
    return Study(title="t", arms=arms, workloads=(Workload(script=str(script)),), tables=3, table_size=7)


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        ("rows", {}),
        ("tables", {}),  # in TPC-C these are sets of tables
        ("table_size", {"table_size": 7}),
        ("mysql_storage_engine", {"mysql_storage_engine": "innodb"}),
        ("", {"mysql_storage_engine": "innodb"}),
    ],
)
def test_default_options_are_given_only_to_scripts_that_take_them(tmp_path, declared, given):
    """The engine refuses an option that a script with options does not declare."""
    study = own_study(tmp_path, declared)
    check_workloads(study)
    (workload,) = study.workloads
    setup = ArmSetup(study.baseline)
    assert (
        script_options(study, workload, setup.arm.data)
        | arm_options(setup.arm, setup.table_engine, takes(workload.script))
        == given
    )


@pytest.mark.parametrize(
    ("data", "lacks"),
    [
        ({"engine": "MyISAM"}, "mysql_storage_engine"),
        ({"table_options": "ROW_FORMAT=COMPRESSED"}, "create_table_options"),
        ({"table_charset": "latin1"}, "create_table_options"),
        ({"column_charset": "latin1", "column_collation": "latin1_bin"}, "column_collation"),
    ],
)
def test_tables_that_a_script_cannot_make_are_refused(tmp_path, data, lacks):
    declared = "column_charset" if lacks == "column_collation" else "rows"
    with pytest.raises(SpecError, match=f"own.lua: it has no option {lacks}") as refused:
        check_workloads(own_study(tmp_path, declared, **data))
    assert refused.value.field == ("workloads", 0)
    check_workloads(own_study(tmp_path, declared, source="/dumps/shop.sql"))
    if not lacks.startswith("column"):
        check_workloads(own_study(tmp_path, lacks, **data))
        check_workloads(own_study(tmp_path, "", **data))


def test_a_server_whose_tables_have_the_engine_anyway_needs_no_option(tmp_path):
    study = own_study(tmp_path, "rows")
    server = parse_server("mysql:8.0.15,default_storage_engine=MyISAM")
    check_workloads(study.model_copy(update={"arms": (study.arms[0].model_copy(update={"server": server}),)}))


# The SQL of `prepare` as descriptions of options, for which a script need only be loaded.
PROBE = """
local sent = {}
sysbench.sql.driver = function()
  return {connect = function()
    return {query = function(_, sql) sent[#sent + 1] = sql end, disconnect = function() end}
  end}
end
print = function() end
dofile("%s")
for i, opt in ipairs({{}, {mysql_storage_engine = "myisam", create_table_options = "ROW_FORMAT=FIXED"}}) do
  opt.threads = 1
  sysbench.opt = opt
  prepare()
end
sysbench.cmdline.options = {plain = {sent[1], ""}, asked = {sent[2], ""}}
"""


def test_bulk_insert_uses_the_given_engine_and_table_options(tmp_path):
    lua = Path(bakeoff.__file__).parent / "workloads" / "bulk_insert.lua"
    probe = tmp_path / "probe.lua"
    probe.write_text(PROBE % lua)
    sent = {option["name"]: option["description"] for option in describe_workloads([str(probe)])[0]["options"]}
    assert sent["plain"].endswith("PRIMARY KEY (id))"), "as sysbench's"
    assert sent["asked"] == sent["plain"] + " /*! ENGINE = myisam */ ROW_FORMAT=FIXED"


def test_each_arm_is_told_how_its_tables_are_made_when_a_script_is_run(tmp_path):
    """bulk_insert makes the tables of threads that `prepare` did not have."""
    study = own_study(tmp_path, "")
    arms = [
        study.arms[0].model_copy(update={"name": name, "data": data})
        for name, data in {"A": Data(table_options="ROW_FORMAT=COMPACT"), "B": Data(engine="MyISAM")}.items()
    ]
    run = SimpleNamespace(
        study=study, workload=study.workloads[0], arms={arm.name: arm for arm in arms},
        engines={arm.name: ArmSetup(arm).table_engine for arm in arms},
    )  # fmt: skip
    fields = Measuring().request(run)
    assert fields["options"] == {}
    assert fields["arm_options"] == {
        "A": {"mysql_storage_engine": "innodb", "create_table_options": "ROW_FORMAT=COMPACT"},
        "B": {"mysql_storage_engine": "myisam"},
    }
