"""Undeclared differences of settings are always reported; declared ones are not faults."""

import pytest

from bakeoff.spec import Arm, Data, Profile, Study, Workload, parse_server
from bakeoff.stats.differences import DifferenceOrigin, changes, differences, settings_flag, undeclared

BASE = {
    "version": "8.0.15", "version_comment": "MySQL Community Server - GPL", "log_bin": "ON", "innodb_doublewrite": "ON",
    "sync_binlog": "1", "innodb_flush_method": "O_DIRECT", "character_set_server": "utf8mb4",
    "collation_server": "utf8mb4_0900_ai_ci", "innodb_buffer_pool_size": "134217728", "max_connections": "151",
    "innodb_flush_log_at_trx_commit": "1", "datadir": "/a/", "port": "3306", "socket": "/a.sock", "hostname": "x",
    "server_uuid": "1", "pid_file": "/a.pid", "general_log_file": "/a.log", "timestamp": "1.5", "gtid_executed": "",
    "innodb_temp_data_file_path": "ibtmp1:12M:autoextend", "performance_schema": "ON",
    "innodb_adaptive_hash_index": "ON", "gtid_mode": "OFF",
}  # fmt: skip
OLD = BASE | {"version": "5.7.22", "query_cache_type": "OFF", "innodb_flush_neighbors": "1"}


def question(contender="mysql:8.0", profile=Profile.MATCHED, **arm):
    b = Arm(name="B", label="b", server=parse_server(contender), **arm)
    a = Arm(name="A", label="a", server=parse_server("mysql:8.0"))
    return Study(title="t", arms=(a, b), workloads=(Workload(script="oltp_read_only"),), profile=profile), b


def found(changed, contender="mysql:8.0", base=BASE, **options):
    study, arm = question(contender, **options)
    return undeclared(differences(base, base | changed, study, arm))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("log_bin", "OFF"),
        ("innodb_doublewrite", "OFF"),
        ("sync_binlog", "0"),
        ("innodb_flush_method", "fsync"),
        ("character_set_server", "latin1"),
        ("innodb_buffer_pool_size", "1073741824"),
        ("innodb_flush_log_at_trx_commit", "2"),
        ("innodb_temp_data_file_path", "ibtmp1:1G"),
        ("max_connections", "500"),
        ("innodb_adaptive_hash_index", "OFF"),
        ("gtid_mode", "ON"),
    ],
)
def test_undeclared_differences_are_reported(variable, value):
    assert found({variable: value}) == {variable: (BASE[variable], value)}


@pytest.mark.parametrize("variable", ["log_bin", "innodb_doublewrite", "sync_binlog", "innodb_flush_method"])
def test_durability_differences_between_versions_count_unless_stock(variable):
    assert variable in found({"version": "5.7.22", variable: "other"})
    assert found({"version": "5.7.22", variable: "other"}, profile=Profile.STOCK) == {}


def test_names_of_an_instance_are_not_settings():
    changed = {name: "other" for name in ("datadir", "port", "socket", "hostname", "server_uuid", "pid_file")}
    assert found(changed | {"general_log_file": "/b.log", "timestamp": "2", "gtid_executed": "x:1"}) == {}
    assert found({"log_error": "/b/error.log"}, base=BASE | {"log_error": "/a/error.log"}) == {}
    assert found({"log_error": "stderr"}, base=BASE | {"log_error": "/a/error.log"}) != {}


def test_changed_defaults_are_attributed_to_the_version():
    study, arm = question("mysql:5.7")
    origins = {each.variable: each.origin for each in differences(BASE, OLD, study, arm)}
    assert origins == {"query_cache_type": DifferenceOrigin.VERSION, "innodb_flush_neighbors": DifferenceOrigin.VERSION}
    assert found({"innodb_flush_neighbors": "0"}, base=OLD) == {"innodb_flush_neighbors": ("1", "0")}


def test_differences_that_were_asked_for_are_declared():
    changed = {"innodb_flush_method": "fsync"}
    assert found(changed, "mysql:8.0,innodb_flush_method=fsync") == {}
    for spelling in ("skip-log-bin", "disable_log_bin", "loose-skip-log-bin", "loose_log_bin=0"):
        assert found({"log_bin": "OFF"}, f"mysql:8.0,{spelling}") == {}
    updates = BASE | {"log_replica_updates": "ON", "log_slave_updates": "ON"}
    without = {"log_bin": "OFF", "log_replica_updates": "OFF", "log_slave_updates": "OFF"}
    assert found(without, "mysql:8.0,skip_log_bin", base=updates) == {}
    latin = {"character_set_server": "latin1", "collation_server": "latin1_swedish_ci"}
    assert found(latin, data=Data(charset="latin1")) == {}
    assert set(found(latin)) == set(latin)


def test_redo_logs_of_equal_total_size_do_not_differ():
    mysql = BASE | {"innodb_log_file_size": "134217728", "innodb_log_files_in_group": "2"}
    mariadb = {"version": "10.11.19", "innodb_log_file_size": "268435456"}
    study, arm = question("mariadb:10.11")
    theirs = {name: value for name, value in mysql.items() if name != "innodb_log_files_in_group"} | mariadb
    assert undeclared(differences(mysql, theirs, study, arm)) == {}
    smaller = theirs | {"innodb_log_file_size": "67108864"}
    assert set(undeclared(differences(mysql, smaller, study, arm))) == {"innodb_log_file_size"}
    capacity = mysql | {"version": "8.0.33", "innodb_redo_log_capacity": "268435456"}
    assert "innodb_redo_log_capacity" not in undeclared(differences(mysql, capacity, study, arm))


def test_binlog_settings_do_not_differ_while_the_binlog_is_off():
    off = BASE | {"log_bin": "OFF", "binlog_format": "ROW"}
    assert found({"binlog_format": "MIXED", "sync_binlog": "0"}, base=off) == {}
    on = BASE | {"binlog_format": "ROW"}
    assert set(found({"binlog_format": "MIXED"}, base=on)) == {"binlog_format"}


def test_cache_sizes_follow_the_declared_storage_engine():
    changed = {"innodb_buffer_pool_size": "67108864", "key_buffer_size": "134217728"}
    base = BASE | {"key_buffer_size": "8388608"}
    assert found(changed, base=base, data=Data(engine="myisam")) == {}
    assert set(found(changed, base=base)) == set(changed)
    assert found({"key_buffer_size": "134217728"}, "mysql:8.0,innodb_buffer_pool_size=128M", base=base) == {}


def test_the_file_format_follows_the_declared_row_format():
    changed, base = {"innodb_file_format": "Barracuda"}, BASE | {"innodb_file_format": "Antelope"}
    assert found(changed, base=base, data=Data(table_options="ROW_FORMAT=DYNAMIC")) == {}
    assert set(found(changed, base=base)) == set(changed)


@pytest.mark.parametrize(
    ("option", "derived"),
    [
        ("innodb_buffer_pool_size=64M", {"innodb_buffer_pool_chunk_size": "67108864"}),
        ("innodb_io_capacity=5000", {"innodb_io_capacity_max": "10000"}),
        ("max_connections=2000", {"back_log": "2000", "host_cache_size": "703", "thread_cache_size": "28"}),
        ("performance_schema=OFF", {"performance_schema_digests_size": "0", "performance_schema_users_size": "0"}),
        ("table_open_cache=500", {"innodb_open_files": "500", "table_definition_cache": "650"}),
    ],
)
def test_values_derived_from_a_declared_setting_are_declared(option, derived):
    """The derived values are those that MySQL 8.0.15 reports."""
    name, value = option.split("=")
    base = BASE | dict.fromkeys(derived, "1")
    assert found({name: value} | derived, f"mysql:8.0,{option}", base=base) == {}
    assert set(found(derived, base=base)) == set(derived)


def test_what_a_cnf_file_sets_is_declared(tmp_path):
    cnf = tmp_path / "my.cnf"
    cnf.write_text(
        "[mysqld]\n# sync_binlog = 7\ninnodb-flush-log-at-trx-commit = 2\n  skip_log_bin\n[client]\nuser=root\n"
    )
    changed = {"innodb_flush_log_at_trx_commit": "2", "log_bin": "OFF", "sync_binlog": "7"}
    assert set(found(changed, f"mysql:8.0,@{cnf}")) == {"sync_binlog"}
    assert set(found(changed, f"mysql:8.0,@{tmp_path}/none.cnf")) == set(changed)
    cnf.write_text("[mysqld]\ninnodb_buffer_pool = 1G\n")
    assert found({"innodb_buffer_pool_size": "1073741824"}, f"mysql:8.0,@{cnf}") == {}


def test_a_charset_named_for_the_data_overrules_the_servers_own():
    same = Data(charset="utf8mb4")
    study, arm = question(data=same)
    study = study.model_copy(update={"arms": (study.arms[0].model_copy(update={"data": same}), arm)})
    changed = BASE | {"character_set_server": "latin1", "collation_server": "latin1_swedish_ci"}
    assert undeclared(differences(BASE, changed, study, arm)) == {}


def test_different_spellings_of_on_do_not_differ():
    assert found({"log_bin": "1", "innodb_doublewrite": "on"}) == {}


def test_a_variable_missing_on_one_arm_is_shown_as_absent():
    study, arm = question()
    less = {name: value for name, value in BASE.items() if name != "log_bin"}
    assert undeclared(differences(BASE, less, study, arm)) == {"log_bin": ("ON", "(absent)")}


OLDER = BASE | {"version": "10.11.19-MariaDB", "tx_isolation": "REPEATABLE-READ"}
NEWER = BASE | {"version": "8.4.6", "transaction_isolation": "READ-COMMITTED"}


def test_renamed_variables_are_compared_as_one_setting():
    assert (
        found({"tx_isolation": "READ-COMMITTED"}, "mariadb:10.11,transaction_isolation=READ-COMMITTED", base=OLDER)
        == {}
    )
    study, arm = question("mysql:8.4")
    isolation = {"transaction_isolation": ("REPEATABLE-READ", "READ-COMMITTED")}
    assert undeclared(differences(OLDER, NEWER, study, arm)) == isolation
    both = NEWER | {"tx_isolation": "READ-COMMITTED"}
    assert undeclared(differences(OLDER, both, study, arm)) == isolation
    same = NEWER | {"transaction_isolation": "REPEATABLE-READ"}
    assert "isolation" not in str(differences(OLDER, same, study, arm))


def test_undeclared_come_first_and_the_flag_names_them():
    study, arm = question("mysql:5.7")
    listed = differences(BASE, OLD | {"log_bin": "OFF"}, study, arm)
    assert listed[0].variable == "log_bin"
    assert str(settings_flag(undeclared(listed))) == "SETTINGS: 1 undeclared difference (log_bin)."
    assert settings_flag({}) is None
    assert settings_flag({name: ("1", "2") for name in "abcdef"}).text.endswith("(a, b, c, d …).")


def test_variables_that_change_by_themselves_are_not_setting_changes():
    moved = {"timestamp": "2.5", "gtid_executed": "x:1-9", "innodb_thread_sleep_delay": "9", "general_log_file": "/b"}
    after = BASE | moved | {"sync_binlog": "0", "validate_password_length": "8"}
    assert changes(BASE | {"innodb_thread_sleep_delay": "10000"}, after) == {
        "sync_binlog": ("1", "0"), "validate_password_length": ("(absent)", "8")
    }  # fmt: skip
