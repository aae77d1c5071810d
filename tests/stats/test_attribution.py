"""The settings that differ between two arms, the arms in between, and the shares, on effects whose truth is known."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from bakeoff.errors import SpecError
from bakeoff.gate.rule import as_gate
from bakeoff.plan.workloads import workload_names
from bakeoff.search.attribution import (
    SERVER,
    _claimed_workloads,
    differing,
    setting_effects,
    setting_interactions,
    study_in_between,
)
from bakeoff.spec import Arm, Data, Study, Workload, parse_server
from bakeoff.stats.model import EpochPoint, Stop

CELL = "oltp_write_only/4"
NOTHING = SimpleNamespace(baseline="A", comparisons=())


def study_of(mine, theirs, **data):
    arms = (
        Arm(name="A", label="a", server=parse_server(mine)),
        Arm(name="B", label="b", server=parse_server(theirs), data=Data(**data)),
    )
    return Study(title="t", arms=arms, workloads=(Workload(script="oltp_write_only"),))


def asked_of(study, variables=None):
    return differing(study, *study.arms, variables or {})


def in_between(study, variables=None):
    asked = asked_of(study, variables)
    made, contender = study_in_between(study, NOTHING, asked, budget_s=60.0)
    return asked.model_copy(update={"contender_arm": contender}), made


def measured(study, rate, *, epochs=6, noise=0.005, seed=1):
    """An analysis of a study whose arms have this rate (`rate(arm)`), each with its own noise in every epoch."""
    rng = np.random.default_rng(seed)
    logs = {arm.name: math.log(rate(arm)) + noise * rng.standard_normal(epochs) for arm in study.arms}
    comparisons = tuple(
        SimpleNamespace(
            cell=CELL,
            contender=name,
            points=[EpochPoint(epoch=e, build=0, value=own[e] - logs["A"][e]) for e in range(epochs)],
            estimate=SimpleNamespace(n=epochs),
        )
        for name, own in logs.items()
        if name != "A"
    )
    return SimpleNamespace(baseline="A", comparisons=comparisons, stopped=Stop.BUDGET)


def option(arm, name):
    return dict(arm.server.options).get(name)


def effects_of(study, rate, variables=None, **noise):
    asked, made = in_between(study, variables)
    found = setting_effects(measured(made, rate, **noise), made.design, asked.contender_arm)
    return {each.factor: each for each in found}


DURABLE = "mysql:8.0,innodb_flush_log_at_trx_commit=1,innodb_io_capacity=200,sort_buffer_size=256K"
LAX = "mysql:8.0,innodb_flush_log_at_trx_commit=2,innodb_io_capacity=400,sort_buffer_size=512K"


def test_the_settings_of_a_gate_are_measured_until_their_effects_are_known():
    _, made = in_between(as_gate(study_of(DURABLE, LAX), 0.02))
    assert made.question.is_verdict


def test_of_two_workloads_of_one_script_the_one_that_differs_keeps_its_name():
    study = study_of(DURABLE, LAX)
    twice = study.model_copy(update={"workloads": (study.workloads[0],) * 2})
    second = "oltp_write_only#2"
    (workload,) = _claimed_workloads(twice, {f"{second}/4": (second, 4)})
    assert workload_names((workload,)) == (second,)
    assert Study.model_validate_json(twice.model_copy(update={"workloads": (workload,)}).model_dump_json())


def test_every_combination_of_three_options_is_an_arm_and_the_last_one_is_the_contender():
    asked, made = in_between(study_of(DURABLE, LAX))
    assert [each.name for each in asked.candidates] == [
        "innodb_flush_log_at_trx_commit", "innodb_io_capacity", "sort_buffer_size",
    ]  # fmt: skip
    assert len(made.arms) == 8
    assert made.baseline.server == parse_server(DURABLE)
    (contender,) = [arm for arm in made.arms if arm.name == asked.contender_arm]
    assert contender.server == parse_server(LAX)
    assert len({arm.server for arm in made.arms}) == 8
    assert asked.server is False


def lax(arm):
    return option(arm, "innodb_flush_log_at_trx_commit") == "2"


def test_the_option_that_carries_the_difference_has_all_of_it():
    found = effects_of(study_of(DURABLE, LAX), lambda arm: 1.8 if lax(arm) else 1)
    carrying = found["innodb_flush_log_at_trx_commit"]
    assert carrying.carries
    assert carrying.share.interval.holds(1.0)
    assert carrying.share.interval.half_width < 0.03
    assert [each.factor for each in found.values() if each.carries] == ["innodb_flush_log_at_trx_commit"]
    assert next(iter(found)) == "innodb_flush_log_at_trx_commit"


def test_shares_of_two_options_add_up():
    def rate(arm):
        return (1.5 if option(arm, "innodb_flush_log_at_trx_commit") == "2" else 1) * (
            0.9 if option(arm, "sort_buffer_size") == "512K" else 1
        )

    found = effects_of(study_of(DURABLE, LAX), rate)
    whole = math.log(1.5 * 0.9)
    assert found["innodb_flush_log_at_trx_commit"].share.mean == pytest.approx(math.log(1.5) / whole, abs=0.05)
    assert found["sort_buffer_size"].share.mean == pytest.approx(math.log(0.9) / whole, abs=0.05)
    assert sum(each.share.mean for each in found.values()) == pytest.approx(1.0)


def both(arm):
    """Only together two options are worth anything."""
    return 2.0 if lax(arm) and option(arm, "sort_buffer_size") == "512K" else 1


def test_two_options_that_need_each_other_are_named():
    asked, made = in_between(study_of(DURABLE, LAX))
    (pair,) = setting_interactions(measured(made, both), made.design)
    assert set(pair.names) == {"innodb_flush_log_at_trx_commit", "sort_buffer_size"}
    assert pair.estimate.interval.holds(math.log(2.0))
    effects = setting_effects(measured(made, both, seed=3), made.design, asked.contender_arm)
    halves = {each.factor: each.share.mean for each in effects if each.carries}
    assert halves == {
        "innodb_flush_log_at_trx_commit": pytest.approx(0.5, abs=0.03),
        "sort_buffer_size": pytest.approx(0.5, abs=0.03),
    }


NAMES = ("innodb_flush_log_at_trx_commit", "o1", "o2", "o3", "o4", "o5", "o6")


@pytest.mark.parametrize("count", [5, 6, 7])
def test_from_five_options_on_a_fraction_is_measured_that_has_both_ends(count):
    names = NAMES[:count]
    mine, theirs = (",".join(["mysql:8.0", *(f"{name}={value}" for name in names)]) for value in "12")
    study = study_of(mine, theirs)
    asked, made = in_between(study)
    assert len(made.arms) == 16
    assert made.design.fraction.complete == 2**count
    (contender,) = [arm for arm in made.arms if arm.name == asked.contender_arm]
    assert dict(contender.server.options) == dict.fromkeys(names, "2")
    found = effects_of(
        study, lambda arm: (0.7 if option(arm, "o2") == "2" else 1) * (1.2 if option(arm, "o4") == "2" else 1)
    )
    assert {each.factor for each in found.values() if each.carries} == {"o2", "o4"}
    assert found["o2"].effect.interval.holds(math.log(0.7))
    assert found["o4"].effect.interval.holds(math.log(1.2))


OLD = {
    "version": "5.7.22", "innodb_flush_neighbors": "1", "optimizer_switch": "mrr=on,mrr_cost_based=on",
    "query_cache_size": "0", "lc_messages": "en_US", "sql_mode": "NO_AUTO_CREATE_USER", "innodb_io_capacity": "200",
}  # fmt: skip
NEW = {
    "version": "8.0.15", "innodb_flush_neighbors": "0", "optimizer_switch": "mrr=on,mrr_cost_based=off,hash_join=on",
    "temptable_max_ram": "1", "lc_messages": "de_DE", "sql_mode": "", "innodb_io_capacity": "400",
}  # fmt: skip
VERSIONS = {"A": OLD, "B": NEW}


def test_of_two_versions_the_defaults_that_changed_are_candidates_and_the_rest_is_the_version():
    study = study_of("mysql:5.7.22", "mysql:8.0.15,innodb_io_capacity=400")
    asked, made = in_between(study, VERSIONS)
    assert {each.name: (each.baseline, each.contender, each.declared) for each in asked.candidates} == {
        "innodb_io_capacity": ("200", "400", True),
        "innodb_flush_neighbors": ("1", "0", False),
        "optimizer_switch": ("mrr_cost_based=on", "mrr_cost_based=off", False),
    }
    assert asked.left_out == {
        "it is not known to change the speed": ("lc_messages",),
        "only a has it": ("query_cache_size",),
        "only b has it": ("temptable_max_ram",),
        "it has values that only one of them knows": ("sql_mode",),
    }
    assert [factor.name for factor in made.design.factors][-1] == SERVER
    assert len(made.arms) == 9  # eight on the old binaries
    assert sum(arm.server.version == "8.0.15" for arm in made.arms) == 1

    def rate(arm):
        new = arm.server.version == "8.0.15"
        return (1.3 if option(arm, "innodb_flush_neighbors") == "0" or new else 1) * (0.8 if new else 1)

    found = effects_of(study, rate, VERSIONS)
    assert found["innodb_flush_neighbors"].effect.interval.holds(math.log(1.3))
    assert found[SERVER].effect.interval.holds(math.log(0.8))
    assert {name for name, each in found.items() if each.carries} == {"innodb_flush_neighbors", SERVER}
    assert sum(each.share.mean for each in found.values() if each.share) == pytest.approx(1.0)


def test_an_option_that_only_the_baseline_sets_is_taken_away():
    asked, made = in_between(study_of("mysql:8.0,skip_log_bin,sync_binlog=1", "mysql:8.0,log_bin=x"))
    assert [each.factor for each in asked.candidates] == ["option.log_bin", "option.sync_binlog"]
    assert {arm.server.options for arm in made.arms} == {
        (("skip_log_bin", ""), ("sync_binlog", "1")),
        (("sync_binlog", "1"), ("log_bin", "x")),
        (("skip_log_bin", ""),),
        (("log_bin", "x"),),
    }


@pytest.mark.parametrize(
    ("mine", "theirs", "variables"),
    [
        ("", ",innodb_log_buffer_size=16M", {"innodb_log_buffer_size": "16777216"}),
        (",innodb_adaptive_hash_index=ON", ",innodb_adaptive_hash_index=1", {"innodb_adaptive_hash_index": "ON"}),
        (",innodb_buffer_pool_size=1G", ",innodb_buffer_pool_size=1024M", {"innodb_buffer_pool_size": "1073741824"}),
    ],
)
def test_one_value_in_two_spellings_is_no_setting_that_differs(mine, theirs, variables):
    study = study_of(f"mysql:8.0,sync_binlog=1{mine}", f"mysql:8.0,sync_binlog=0{theirs}")
    known = {"A": variables | {"sync_binlog": "1"}, "B": variables | {"sync_binlog": "0"}}
    assert [each.name for each in asked_of(study, known).candidates] == ["sync_binlog"]
    alone = study_of(f"mysql:8.0{mine}", f"mysql:8.0{theirs}")
    with pytest.raises(SpecError, match="no setting differs"):
        asked_of(alone, known)
    assert len(asked_of(study, {"A": known["A"]}).candidates) == 2  # what the other server made of it is not known


def test_binary_logs_in_two_places_differ_though_both_are_on():
    log = {"log_bin": "ON", "log_bin_basename": "/a/x"}
    asked = asked_of(study_of("mysql:8.0,log_bin=x", "mysql:8.0,log_bin=/dev/shm/x"), {"A": log, "B": log})
    assert [each.name for each in asked.candidates] == ["log_bin"]


def test_environment_data_and_connection_are_settings_too():
    study = study_of("mysql:8.0", "mysql:8.0,env.LD_PRELOAD=libjemalloc.so.2", charset="latin1")
    asked, made = in_between(study)
    assert [each.factor for each in asked.candidates] == ["env.LD_PRELOAD", "data"]
    assert {(arm.server.env, arm.data.charset) for arm in made.arms} == {
        ((), None), ((), "latin1"), ((("LD_PRELOAD", "libjemalloc.so.2"),), None),
        ((("LD_PRELOAD", "libjemalloc.so.2"),), "latin1"),
    }  # fmt: skip


def test_one_setting_alone_needs_no_measuring():
    study = study_of("mysql:8.0", "mysql:8.0,sync_binlog=0")
    with pytest.raises(SpecError, match="sync_binlog alone"):
        study_in_between(study, NOTHING, asked_of(study), budget_s=1.0)


def test_equal_arms_and_running_servers_are_refused():
    with pytest.raises(SpecError, match="no setting differs"):
        asked_of(study_of("mysql:8.0", "mysql:8.0"))
    with pytest.raises(SpecError, match="running server"):
        asked_of(study_of("mysql://root@h1/", "mysql://root@h2/"))


@pytest.mark.parametrize("count", [3, 6])
def test_settings_without_effect_are_seldom_named(of_runs, count):
    """Equal arms: in runs of six epochs a setting or a pair is named in at most one of twenty (fixed seeds)."""
    names = NAMES[:count]
    study = study_of(*(",".join(["mysql:8.0", *(f"{name}={value}" for name in names)]) for value in "12"))
    asked, made = in_between(study)
    named = paired = 0
    runs = of_runs(400)
    for seed in range(runs):
        analysis = measured(made, lambda _: 1.0, noise=0.01, seed=seed)
        named += any(each.carries for each in setting_effects(analysis, made.design, asked.contender_arm))
        paired += bool(setting_interactions(analysis, made.design))
    assert named <= runs / 20
    assert paired <= runs / 20


def test_the_interval_of_a_share_holds_the_truth():
    """Shares of 70 % and 30 % at a noise of 1 %: nine of ten intervals of 95 % hold them at least (fixed seeds)."""
    study = study_of("mysql:8.0,o1=1,o2=1", "mysql:8.0,o1=2,o2=2")
    asked, made = in_between(study)
    held = 0
    for seed in range(300):
        analysis = measured(
            made,
            lambda arm: math.exp(0.07 * (option(arm, "o1") == "2") + 0.03 * (option(arm, "o2") == "2")),
            noise=0.01,
            seed=seed,
        )
        share = {each.factor: each.share for each in setting_effects(analysis, made.design, asked.contender_arm)}
        held += share["o1"] is None or share["o1"].interval.holds(0.7)
    assert held >= 275


def test_a_finding_takes_six_epochs_and_fewer_have_the_anytime_valid_interval():
    study = study_of("mysql:8.0,o1=1,o2=1", "mysql:8.0,o1=2,o2=2")

    def both(arm):
        return math.prod(2.0 if option(arm, name) == "2" else 1.0 for name in ("o1", "o2"))

    for epochs, carrying in ((5, set()), (6, {"o1", "o2"})):
        found = effects_of(study, both, epochs=epochs)
        assert {name for name, each in found.items() if each.carries} == carrying
        assert (found["o1"].p_adjusted is None) is (epochs == 5)
    few, enough = (effects_of(study, both, epochs=epochs)["o1"].effect.interval for epochs in (5, 6))
    assert few.half_width > 1.5 * enough.half_width


def test_shares_of_a_run_that_was_ended_early_have_the_anytime_valid_interval():
    """Its user chose when to end it, perhaps by its shares."""
    study = study_of("mysql:8.0,o1=1,o2=1", "mysql:8.0,o1=2,o2=2")
    asked, made = in_between(study)
    analysis = measured(made, lambda arm: math.exp(0.5 * (option(arm, "o1") == "2")))
    widths = []
    for ended in (Stop.BUDGET, Stop.ABORTED):
        analysis.stopped = ended
        first = setting_effects(analysis, made.design, asked.contender_arm)[0]
        widths.append(first.share.interval.half_width)
    assert widths[1] > 1.5 * widths[0]
