"""The settings that differ between two arms, and the search among them."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from bakeoff.errors import SpecError
from bakeoff.search.attribution import differing, search_study
from bakeoff.search.bisection import arm_with, subset
from bakeoff.spec import Arm, Data, Study, Workload, parse_server
from validation.bisections import searched

NOTHING = SimpleNamespace(baseline="A", comparisons=())


def study_of(mine, theirs, **data):
    arms = (
        Arm(name="A", label="a", server=parse_server(mine)),
        Arm(name="B", label="b", server=parse_server(theirs), data=Data(**data)),
    )
    return Study(title="t", arms=arms, workloads=(Workload(script="oltp_write_only"),))


def asked_of(study, variables=None):
    return differing(study, *study.arms, variables or {})


def option(arm, name):
    return dict(arm.server.options).get(name)


DURABLE = "mysql:8.0,innodb_flush_log_at_trx_commit=1,innodb_io_capacity=200,sort_buffer_size=256K"
LAX = "mysql:8.0,innodb_flush_log_at_trx_commit=2,innodb_io_capacity=400,sort_buffer_size=512K"


def searching(study, variables=None, analysis=NOTHING):
    return search_study(study, analysis, asked_of(study, variables), budget_s=60.0)


def test_a_search_starts_with_both_arms_and_adds_the_baseline_with_some_settings():
    study = searching(study_of(DURABLE, LAX))
    names = [each.name for each in study.question.settings]
    assert names == ["innodb_flush_log_at_trx_commit", "innodb_io_capacity", "sort_buffer_size"]
    assert [arm.server for arm in study.arms] == [parse_server(DURABLE), parse_server(LAX)]
    for chosen in itertools.product((False, True), repeat=3):
        arm = arm_with(study, chosen)
        assert subset(study, arm) == chosen
        assert (option(arm, "innodb_flush_log_at_trx_commit") == "2") == chosen[0]
    assert arm_with(study, (True, True, True)) is study.arms[1]


def test_the_cell_with_the_largest_claim_is_searched():
    study = study_of(DURABLE, LAX).model_copy(update={"threads": (1, 4)})
    study = study.model_copy(update={"workloads": (study.workloads[0], Workload(script="oltp_read_only"))})
    compared = [
        SimpleNamespace(
            contender="B", workload=workload, threads=threads, estimate=SimpleNamespace(mean=mean),
            verdict=SimpleNamespace(claims=claims),
        )
        for workload, threads, mean, claims in (
            ("oltp_write_only", 1, -0.1, True), ("oltp_read_only", 4, -0.2, True), ("oltp_read_only", 1, -0.9, False),
        )
    ]  # fmt: skip
    made = searching(study, analysis=SimpleNamespace(baseline="A", comparisons=compared))
    assert [each.script for each in made.workloads] == ["oltp_read_only"] and made.threads == (4,)


def test_a_gate_that_is_explained_is_searched_like_a_duel():
    gate = pytest.importorskip("bakeoff.gate.rule")
    made = searching(gate.as_gate(study_of(DURABLE, LAX), 0.02))
    assert made.question.kind == "search" and made.question.reference == 0


OLD = {
    "version": "5.7.22", "innodb_flush_neighbors": "1", "optimizer_switch": "mrr=on,mrr_cost_based=on",
    "query_cache_size": "0", "lc_messages": "en_US", "sql_mode": "NO_AUTO_CREATE_USER", "innodb_io_capacity": "200",
}  # fmt: skip
NEW = {
    "version": "8.0.15", "innodb_flush_neighbors": "0", "optimizer_switch": "mrr=on,mrr_cost_based=off,hash_join=on",
    "temptable_max_ram": "1", "lc_messages": "de_DE", "sql_mode": "", "innodb_io_capacity": "400",
}  # fmt: skip
VERSIONS = {"A": OLD, "B": NEW}


def test_changed_defaults_and_the_version_itself_are_candidates():
    study = study_of("mysql:5.7.22", "mysql:8.0.15,innodb_io_capacity=400")
    asked = asked_of(study, VERSIONS)
    assert {each.name: (each.good, each.bad, each.declared) for each in asked.settings} == {
        "innodb_io_capacity": ("200", "400", True),
        "innodb_flush_neighbors": ("1", "0", False),
        "optimizer_switch": ("mrr_cost_based=on", "mrr_cost_based=off", False),
        "the version itself": ("", "", True),
    }
    assert asked.left_out == {
        "it is not known to change the speed": ("lc_messages",),
        "only a has it": ("query_cache_size",),
        "only b has it": ("temptable_max_ram",),
        "it has values that only one of them knows": ("sql_mode",),
    }


def test_the_version_itself_is_found_although_only_the_contender_has_it():
    study = searching(study_of("mysql:5.7.22", "mysql:8.0.15,innodb_io_capacity=400"), VERSIONS)
    rng = np.random.default_rng(1)

    def log_rate(arm):
        new = arm.server.version == "8.0.15"
        neighbours = option(arm, "innodb_flush_neighbors") == "0" or new
        return math.log(0.8) * new + math.log(1.3) * neighbours + 0.005 * rng.standard_normal()

    end = searched(study, log_rate)
    assert [study.question.settings[each].name for each in end.found] == [
        "innodb_flush_neighbors",
        "the version itself",
    ]


def test_an_option_set_only_by_the_baseline_is_removed():
    study = searching(study_of("mysql:8.0,skip_log_bin,sync_binlog=1", "mysql:8.0,log_bin=x"))
    assert [each.factor for each in study.question.settings] == ["option.log_bin", "option.sync_binlog"]
    assert arm_with(study, (True, False)).server.options == (("sync_binlog", "1"), ("log_bin", "x"))
    assert arm_with(study, (False, True)).server.options == (("skip_log_bin", ""),)


@pytest.mark.parametrize(
    ("mine", "theirs", "variables"),
    [
        ("", ",innodb_log_buffer_size=16M", {"innodb_log_buffer_size": "16777216"}),
        (",innodb_adaptive_hash_index=ON", ",innodb_adaptive_hash_index=1", {"innodb_adaptive_hash_index": "ON"}),
        (",innodb_buffer_pool_size=1G", ",innodb_buffer_pool_size=1024M", {"innodb_buffer_pool_size": "1073741824"}),
    ],
)
def test_equal_values_spelled_differently_are_not_candidates(mine, theirs, variables):
    study = study_of(f"mysql:8.0,sync_binlog=1{mine}", f"mysql:8.0,sync_binlog=0{theirs}")
    known = {"A": variables | {"sync_binlog": "1"}, "B": variables | {"sync_binlog": "0"}}
    assert [each.name for each in asked_of(study, known).settings] == ["sync_binlog"]
    alone = study_of(f"mysql:8.0{mine}", f"mysql:8.0{theirs}")
    with pytest.raises(SpecError, match="no setting differs"):
        asked_of(alone, known)
    assert len(asked_of(study, {"A": known["A"]}).settings) == 2  # what the other server made of it is not known


def test_binary_logs_in_two_places_differ_though_both_are_on():
    log = {"log_bin": "ON", "log_bin_basename": "/a/x"}
    asked = asked_of(study_of("mysql:8.0,log_bin=x", "mysql:8.0,log_bin=/dev/shm/x"), {"A": log, "B": log})
    assert [each.name for each in asked.settings] == ["log_bin"]


def test_environment_and_data_are_settings_too():
    study = study_of("mysql:8.0", "mysql:8.0,env.LD_PRELOAD=libjemalloc.so.2", charset="latin1")
    study = searching(study)
    assert [each.factor for each in study.question.settings] == ["env.LD_PRELOAD", "data"]
    preloaded, latin = arm_with(study, (True, False)), arm_with(study, (False, True))
    assert (preloaded.server.env, preloaded.data.charset) == ((("LD_PRELOAD", "libjemalloc.so.2"),), None)
    assert (latin.server.env, latin.data.charset) == ((), "latin1")


def test_limits_are_settings_like_options():
    study = searching(study_of("mysql:8.0,cpus=2,sync_binlog=1", "mysql:8.0,cpus=4,sync_binlog=0"))
    assert [each.shown for each in study.question.settings] == ["sync_binlog: 1 → 0", "cpus: 2 → 4"]
    assert arm_with(study, (False, True)).server == parse_server("mysql:8.0,cpus=4,sync_binlog=1")
    assert all(
        subset(study, arm_with(study, chosen)) == chosen for chosen in itertools.product((False, True), repeat=2)
    )
    with pytest.raises(SpecError, match="differ in cpus alone"):
        searching(study_of("mysql:8.0,cpus=2", "mysql:8.0,cpus=4"))


def test_servers_of_one_version_do_not_differ_in_their_version():
    files = study_of("mysql:8.0,@/a.cnf", "mysql:8.0,@/b.cnf")
    slowed = study_of("mysql:8.0", "mysql:8.0")
    slowed = slowed.with_arms((slowed.arms[0], slowed.arms[1].model_copy(update={"slowdown_percent": 5.0})))
    names = [asked_of(study).settings[-1].name for study in (files, slowed, study_of("mysql:8.0,@/a.cnf", "mysql:8.4"))]
    assert names == ["the rest of the cnf files", "the injected slowdown", "the version itself"]


def test_one_setting_alone_needs_no_measuring():
    study = study_of("mysql:8.0", "mysql:8.0,sync_binlog=0")
    with pytest.raises(SpecError, match="sync_binlog alone"):
        searching(study)


def test_equal_arms_and_running_servers_are_refused():
    with pytest.raises(SpecError, match="no setting differs"):
        asked_of(study_of("mysql:8.0", "mysql:8.0"))
    with pytest.raises(SpecError, match="running server"):
        asked_of(study_of("mysql://root@h1/", "mysql://root@h2/"))
