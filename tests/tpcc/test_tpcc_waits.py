"""What duels and studies refuse of TPC-C: keying and think times, engines without transactions."""

import pytest

from bakeoff.errors import SpecError
from bakeoff.run.arms import settings_of
from bakeoff.run.measuring import check_workloads
from bakeoff.servers import Installation, ServerMemory
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


def test_waits_that_are_off_are_accepted_and_those_of_one_arm_refused():
    off = ("keying_time", "off"), ("think_time", False)
    check_workloads(study(*off))
    with pytest.raises(SpecError, match="think_time"):
        check_workloads(study(*off, of_contender=(("think_time", "on"),)))


def stored(script="tpcc", server="mysql:8.0.15", **data):
    arms = (
        Arm(name="A", label="A", server=parse_server("mysql:8.0.15"), data=Data(source=data.get("source", ""))),
        Arm(name="B", label="B", server=parse_server(server), data=Data(**data)),
    )
    return Study(title="t", arms=arms, workloads=(Workload(script=script),), threads=(1,))


@pytest.mark.parametrize("engine", ["myisam", "MEMORY", "Archive", "csv", "Aria", "merge"])
def test_an_engine_without_transactions_is_refused(engine):
    with pytest.raises(SpecError, match=f"tables of {engine.lower()} have no transactions") as refused:
        check_workloads(stored(engine=engine))
    assert refused.value.field == ("arms", "B", "data", "engine")


def test_an_engine_without_transactions_in_the_servers_options_is_refused(tmp_path):
    with pytest.raises(SpecError, match="tables of myisam have no") as refused:
        check_workloads(stored(server="mysql:8.0.15,default_storage_engine=MyISAM"))
    assert refused.value.field == ("arms", "B", "server", "options", "default_storage_engine")
    (cnf := tmp_path / "my.cnf").write_text("[mysqld]\ndefault_storage_engine=MyISAM\n")
    named = stored(server=f"mysql:8.0.15,@{cnf}")
    check_workloads(named)
    here = Installation(
        flavour="mysql", version_text="8.0.15", basedir=tmp_path, argv=(), share=tmp_path, environment={}, sha256=""
    )
    with pytest.raises(SpecError, match="tables of myisam have no"):
        settings_of(named.arms[1], here, named, ServerMemory(buffer_pool_bytes=1, redo_bytes=1))


def test_transactional_engines_other_scripts_and_own_data_are_accepted():
    check_workloads(stored(engine="rocksdb"))
    check_workloads(stored("oltp_read_only", engine="myisam"))
    check_workloads(stored(server="mysql:8.0.15,default_storage_engine=MyISAM", source="/dumps/shop.sql"))
