"""Workloads that share a database: it is filled once, so none may want other tables than the first one makes."""

import pytest

from bakeoff.engine import describe_workloads
from bakeoff.errors import SpecError
from bakeoff.run import measuring
from bakeoff.run.measuring import check_workloads
from bakeoff.spec import Arm, Data, Study, Workload, parse_server

OWN = """
sysbench.cmdline.options = { table_size = { "Rows", 10 } }
function prepare() end
function event() end
"""


def study(*workloads, server="mysql:8.0.15", **data):
    arms = tuple(Arm(name=name, label=name, server=parse_server(server), data=Data(**data)) for name in "AB")
    return Study(title="t", arms=arms, workloads=workloads)


@pytest.fixture
def own(tmp_path):
    def of(name):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(OWN, encoding="utf-8")
        return str(path)

    return of


@pytest.mark.parametrize("names", [("old/shop.lua", "new/shop.lua"), ("my-shop.lua", "my_shop.lua")])
def test_scripts_whose_names_collide_are_refused(own, names):
    first, second = (Workload(script=own(name)) for name in names)
    with pytest.raises(SpecError, match=f"it would find the tables of {first.script}") as refused:
        check_workloads(study(first, second))
    assert refused.value.field == ("workloads", 1)


def test_repeated_scripts_other_names_and_existing_tables_are_accepted(own):
    shop = Workload(script=own("old/shop.lua"))
    check_workloads(study(shop, Workload(script=own("other.lua")), shop))
    alike = shop, Workload(script=own("new/shop.lua"))
    check_workloads(study(*alike, server="mysql://me@127.0.0.1:3306/shop"))
    check_workloads(study(*alike, source="/dumps/shop.sql"))


@pytest.mark.parametrize(
    ("script", "option", "few", "many", "named"),
    [
        ("oltp_read_only", "table_size", 1000, "5000", "table_size=5000"),
        ("oltp_read_only", "table_size", 2048, "1M", "table_size=1048576"),
        ("oltp_insert", "tables", 2, 3, "tables=3"),
        pytest.param("tpcc", "scale", 1, 2, "warehouses=2", marks=pytest.mark.needs("tpcc")),
    ],
)
def test_a_workload_that_needs_more_than_was_loaded_is_refused(script, option, few, many, named):
    small, large = (Workload(script=script, options=((option, size),)) for size in (few, many))
    check_workloads(study(large, small))
    with pytest.raises(SpecError, match=f"asks for {named}, but would find {few}: {script} comes first"):
        check_workloads(study(small, large))


def test_scripts_that_share_sysbenchs_tables_are_compared_too(own):
    points, mine = Workload(script="oltp_point_select"), Workload(script=own("oltp_mine.lua"))
    check_workloads(study(points, mine))
    more = mine.model_copy(update={"options": (("table_size", 100_001),)})
    with pytest.raises(SpecError, match="asks for table_size=100001, but would find 100000: oltp_point_select"):
        check_workloads(study(points, more))


@pytest.mark.parametrize(
    ("script", "option", "one", "other", "asked", "found"),
    [
        ("oltp_read_only", "create_secondary", "on", False, "off", "on"),
        ("oltp_insert", "content", "ascii", "uuid", "uuid", "ascii"),
        ("tpcc", "use_fk", 0, "true", "on", "off"),
    ],
)
def test_a_workload_that_needs_different_tables_is_refused(script, option, one, other, asked, found):
    first, second = (Workload(script=script, options=((option, value),)) for value in (one, other))
    check_workloads(study(first, first))
    says = f"asks for {option}={asked}, but would find {found}: {script} comes first"
    with pytest.raises(SpecError, match=says) as refused:
        check_workloads(study(first, second))
    assert refused.value.field == ("workloads", 1)
    check_workloads(study(first, second, source="/dumps/shop.sql"))


def test_a_factor_overrides_the_options_of_workloads():
    first, second = (Workload(script="oltp_read_only", options=(("secondary", off),)) for off in ("off", "on"))
    check_workloads(study(first, second, options=(("secondary", "on"),)))


def test_every_table_option_belongs_to_a_bundled_script():
    described = describe_workloads(["oltp_read_only", "tpcc"])
    assert {option["name"] for each in described for option in each["options"]} >= measuring._OF_TABLES


def test_different_spellings_of_a_value_are_equal():
    first, second = (
        Workload(script="oltp_read_only", options=(("secondary", off), ("text_length", length)))
        for off, length in (("off", 100), (False, "100.0"))
    )
    check_workloads(study(first, second, Workload(script="oltp_insert", options=(("text_length", 100),))))


def test_inserts_that_choose_their_ids_share_no_tables(own):
    """With auto_inc off, prepare leaves the tables empty."""
    off = {"options": (("auto_inc", "off"),)}
    insert, reads, points = (
        Workload(script=name, **off) for name in ("oltp_insert", "oltp_read_only", "oltp_point_select")
    )
    plain = Workload(script="oltp_insert"), Workload(script="oltp_read_only")
    says = "workload oltp_insert: with auto_inc off it needs empty tables, but oltp_read_only shares them"
    for first, second, third in ((insert, reads, points), (reads, points, insert)):
        with pytest.raises(SpecError, match=says) as refused:
            check_workloads(study(first, second, third))
        assert refused.value.field == ("workloads", (first, second, third).index(insert))
    with pytest.raises(SpecError, match=says):
        check_workloads(study(*plain, **off))
    check_workloads(study(*plain))
    check_workloads(study(insert, Workload(script="tpcc"), Workload(script=own("shop.lua"))))
    check_workloads(study(insert, insert))
    check_workloads(study(reads, points))
