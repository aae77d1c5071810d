"""Options by version, checked against real starts of all 19 servers: accepted, refused, or silently ignored."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bakeoff.errors import SpecError
from bakeoff.servers.catalog import family_of
from bakeoff.servers.cnf import read_cnf, write_cnf
from bakeoff.servers.options import Target, option_facts, redo_options, translate
from bakeoff.servers.profile import ignored_options, same_value
from bakeoff.servers.releases import parse_range
from bakeoff.spec.server_name import stem, with_later

MYSQL = ["5.5.9", "5.5.34", "5.6.14", "5.6.24", "5.7.19", "5.7.22", "8.0.12", "8.0.15", "8.0.31", "8.0.33", "9.7.4"]
MARIADB = ["10.1.23", "10.2.11", "10.5.23", "10.11.5", "10.11.19", "11.4.5", "11.8.6", "11.8.9"]
ALL = [*MYSQL, *(f"M{version}" for version in MARIADB)]
M_ALL = [f"M{version}" for version in MARIADB]
V55, V56, V57 = MYSQL[:2], MYSQL[2:4], MYSQL[4:6]
V8 = MYSQL[6:10]
M105_ON = M_ALL[2:]
M1011_ON = M_ALL[3:]

# option -> (servers that refused to start, servers that started and ignored it)
SEEN = {
    "innodb_log_files_in_group=3": ([*V55, "9.7.4"], M105_ON),
    "innodb_redo_log_capacity=128M": ([*V55, *V56, *V57, "8.0.12", "8.0.15", *M_ALL], []),
    "innodb_flush_method=O_DIRECT_NO_FSYNC": (V55, []),
    "tx_isolation=READ-COMMITTED": (ALL, []),
    "transaction_isolation=READ-COMMITTED": ([], []),
    "query_cache_size=16777216": ([*V8, "9.7.4"], []),
    "query_cache_type=1": ([*V8, "9.7.4"], []),
    "innodb_file_format=Barracuda": ([*V8, "9.7.4"], M105_ON),
    "innodb_large_prefix=1": (["5.5.9", *V8, "9.7.4"], M105_ON),
    "innodb_default_row_format=compact": ([*V55, *V56, "M10.1.23"], []),
    "innodb_thread_concurrency=8": ([], M105_ON),
    "innodb_io_capacity_max=4000": (V55, []),
    "innodb_flush_neighbors=0": (V55, []),
    "innodb_checksum_algorithm=crc32": (V55, []),
    "innodb_lru_scan_depth=512": (V55, []),
    "innodb_change_buffering=none": ([], M_ALL[5:]),
    "innodb_stats_persistent=0": (V55, []),
    "innodb_compression_level=1": (V55, []),
    "innodb_dedicated_server=1": ([*V55, *V56, *V57, *M_ALL], []),
    "innodb_buffer_pool_dump_at_shutdown=0": (V55, []),
    "innodb_buffer_pool_load_at_startup=0": (V55, []),
    "innodb_temp_data_file_path=ibtmp1:12M:autoextend": ([*V55, *V56, "M10.1.23"], []),
    "thread_handling=pool-of-threads": (MYSQL, []),
    "authentication_policy=mysql_native_password": ([*V55, *V56, *V57, "8.0.12", "8.0.15", "9.7.4", *M_ALL], []),
    "mysql_native_password=ON": (ALL, []),
    "skip_ssl": (["5.5.9", "9.7.4"], []),
    "explicit_defaults_for_timestamp=1": (V55, []),
    "internal_tmp_mem_storage_engine=MEMORY": ([*V55, *V56, *V57, *M_ALL], []),
    "optimizer_switch=mrr=off": (V55, []),
    "log_warnings=1": ([*V8, "9.7.4"], []),
    "log_error_verbosity=2": ([*V55, *V56, *M_ALL], []),
    "innodb_log_checksums=0": ([*V55, *V56, "M10.1.23"], M105_ON),
    "innodb_log_write_ahead_size=512": ([*V55, *V56, "M10.1.23"], M1011_ON),
    "innodb_extend_and_initialize=0": ([*V55, *V56, *V57, "8.0.12", "8.0.15", *M_ALL], []),
    "collation_server=utf8mb4_0900_ai_ci": ([*V55, *V56, *V57, *M_ALL[:5]], []),
    "table_open_cache_instances=8": (V55, ["M10.1.23", *M105_ON]),
    "default_authentication_plugin=mysql_native_password": ([*V55, "9.7.4"], [*V56, *M_ALL]),
    "innodb_undo_tablespaces=2": (V55, []),
    "innodb_page_cleaners=2": ([*V55, *V56, "M10.1.23"], M1011_ON),
    "innodb_log_file_size=64M": (["9.7.4"], []),
}
ALWAYS_UNDERSTOOD = [
    "character_set_server=utf8mb4",
    "collation_server=utf8mb4_unicode_ci",
    "default_storage_engine=MyISAM",
    "innodb_buffer_pool_size=64M",
    "innodb_log_buffer_size=16M",
    "innodb_flush_method=O_DIRECT",
    "innodb_flush_log_at_trx_commit=2",
    "sync_binlog=100",
    "skip_log_bin",
    "innodb_write_io_threads=8",
    "innodb_io_capacity=2000",
    "innodb_doublewrite=0",
    "innodb_adaptive_hash_index=0",
    "key_buffer_size=64M",
    "table_open_cache=2000",
    "performance_schema=ON",
    "sql_mode=NO_ENGINE_SUBSTITUTION",
    "sort_buffer_size=1M",
    "innodb_spin_wait_delay=6",
]


# (option, servers known only from the manual, expected outcome)
BY_THE_MANUAL = [
    ("thread_pool_size=8", ["P5.7.44", "P8.4.4", "M10.6.20", "M12.3.1", "26.7.0"], "passed"),
    ("thread_pool_size=8", ["8.4.6", "9.3.0"], "refused"),
    ("thread_pool_high_prio_mode=none", ["P5.7.44", "P8.0.36", "P8.4.4"], "passed"),
    ("thread_pool_high_prio_mode=none", ["8.4.6", "M11.8.9", "26.7.0"], "refused"),
    ("thread_handling=pool-of-threads", ["P5.7.44", "P8.4.4", "M12.3.1"], "passed"),
    ("thread_handling=pool-of-threads", ["8.4.6", "9.7.4", "26.7.0"], "refused"),
    ("innodb_empty_free_list_algorithm=legacy", ["P5.7.44", "P8.4.4", "M10.2.11"], "passed"),
    ("innodb_empty_free_list_algorithm=legacy", ["8.4.6", "M10.6.20", "M12.3.1"], "refused"),
    ("innodb_parallel_doublewrite_path=x", ["P5.7.44", "P8.0.19"], "passed"),
    ("innodb_parallel_doublewrite_path=x", ["P8.0.36", "P8.4.4", "8.0.15"], "refused"),
    ("innodb_redo_log_capacity=1G", ["8.1.0", "8.4.6", "9.3.0", "26.7.0", "P8.0.36", "P8.4.4"], "passed"),
    ("innodb_redo_log_capacity=1G", ["P5.7.44", "M10.6.20", "M12.3.1"], "said"),
    ("query_cache_type=1", ["P5.7.44", "M10.6.20", "M12.3.1"], "passed"),
    ("query_cache_type=1", ["P8.0.36", "8.1.0", "26.7.0"], "refused"),
    ("expire_logs_days=3", ["8.1.0", "P8.0.36", "M12.3.1"], "passed"),
    ("expire_logs_days=3", ["8.2.0", "8.4.6", "9.3.0", "26.7.0", "P8.4.4"], "refused"),
    ("expire_logs_days=0", ["8.4.6", "P8.4.4", "26.7.0"], "said"),
    ("binlog_transaction_dependency_tracking=WRITESET", ["8.3.0", "P8.0.36"], "passed"),
    ("binlog_transaction_dependency_tracking=WRITESET", ["8.4.6", "P8.4.4", "26.7.0"], "said"),
    ("binlog_transaction_dependency_tracking=WRITESET", ["5.6.24", "M10.6.20"], "refused"),
    ("mysql_native_password=ON", ["8.4.6", "P8.4.4"], "passed"),
    ("mysql_native_password=ON", ["8.3.0", "9.3.0", "26.7.0"], "refused"),
    ("skip_ssl", ["8.3.0", "P8.0.36", "M12.3.1"], "passed"),
    ("skip_ssl", ["8.4.6", "P8.4.4", "26.7.0"], "said"),
    ("default_authentication_plugin=mysql_native_password", ["8.4.6", "P8.4.4"], "said"),
    ("binlog_storage_engine=innodb", ["M12.3.1"], "passed"),
    ("binlog_storage_engine=innodb", ["M12.2.2", "8.4.6", "P8.4.4"], "refused"),
    ("innodb_page_cleaners=2", ["M10.6.20", "M12.3.1"], "said"),
    ("innodb_commit_concurrency=4", ["M10.6.20", "M12.3.1"], "said"),
]


def target(server):
    flavour = {"M": "mariadb", "P": "percona"}.get(server[0], "mysql")
    version = server.lstrip("MP")
    numbers = tuple(int(part) for part in version.split("."))
    return Target(f"{flavour}-{version}", family_of(flavour), numbers, flavour=flavour)


def outcome(server, asked):
    """`passed` unchanged, `said` if it was changed or left out with a note, or `refused`."""
    name, _, value = asked.partition("=")
    try:
        done = translate(target(server), {name: value})
    except SpecError as problem:
        assert "\n" not in str(problem)
        assert target(server).name in str(problem)
        return "refused"
    if done.options.get(name) == value:
        return "passed"
    assert done.notes, f"{asked} was changed for {server} and nothing says so"
    return "said"


@pytest.mark.parametrize("asked", SEEN)
def test_no_option_reaches_a_server_that_refuses_or_ignores_it(asked):
    refused, ignored = SEEN[asked]
    wrong = {server: outcome(server, asked) for server in [*refused, *ignored] if outcome(server, asked) == "passed"}
    needed_when_initialised = {"innodb_log_files_in_group=3": V55}.get(asked, [])
    assert not {server for server in wrong if server not in needed_when_initialised}


@pytest.mark.parametrize("asked", SEEN)
def test_an_option_that_works_is_passed_on(asked):
    refused, ignored = SEEN[asked]
    by_design = {
        "innodb_log_file_size=64M": ["8.0.31", "8.0.33"],  # became innodb_redo_log_capacity
        "innodb_log_files_in_group=3": [],
        "default_authentication_plugin=mysql_native_password": [],
        "innodb_undo_tablespaces=2": ["8.0.15", "8.0.31", "8.0.33", "9.7.4"],  # ignored since 8.0.14
    }.get(asked, [])
    for server in set(ALL) - set(refused) - set(ignored) - set(by_design):
        assert outcome(server, asked) == "passed", f"{asked} on {server}"


@pytest.mark.parametrize(("asked", "servers", "answer"), BY_THE_MANUAL)
def test_options_of_versions_known_only_from_the_manual(asked, servers, answer):
    assert {server: outcome(server, asked) for server in servers} == dict.fromkeys(servers, answer)


def test_facts_known_only_from_the_manual_are_marked():
    """This covers MySQL bounds between the tested versions 8.0.33 and 9.7.4, and every Percona Server range."""
    for name, row in option_facts().items():
        ranges = [parse_range(row[each]) for each in ("mysql", "mysql_ignored") if each in row]
        bounds = [bound for each in ranges for bound in (each.since, each.until) if bound]
        late = any((8, 0, 33) < bound < (9, 7) for bound in bounds)
        if late or "percona" in row:
            assert row.get("source") == "manual", name


@pytest.mark.parametrize("asked", ALWAYS_UNDERSTOOD)
def test_options_known_to_every_version_are_passed_on(asked):
    assert {outcome(server, asked) for server in ALL} == {"passed"}


def test_each_version_gets_its_own_redo_options():
    assert redo_options(target("5.7.22"), 256 << 20) == {
        "innodb_log_file_size": str(128 << 20),
        "innodb_log_files_in_group": "2",
    }
    assert redo_options(target("8.0.15"), 256 << 20) == {
        "innodb_log_file_size": str(128 << 20),
        "innodb_log_files_in_group": "2",
    }
    assert redo_options(target("8.0.31"), 256 << 20) == {"innodb_redo_log_capacity": str(256 << 20)}
    assert redo_options(target("M10.2.11"), 256 << 20)["innodb_log_files_in_group"] == "2"
    assert redo_options(target("M10.11.19"), 256 << 20) == {"innodb_log_file_size": str(256 << 20)}


def test_file_size_and_count_become_capacity_and_back():
    done = translate(target("8.0.33"), {"innodb_log_file_size": "64M", "innodb_log_files_in_group": "3"})
    assert done.options == {"innodb_redo_log_capacity": str(192 << 20)}
    assert "innodb_log_file_size=64M × 3" in done.notes[0]
    done = translate(target("5.6.24"), {"innodb_redo_log_capacity": "128M"})
    assert done.options == {"innodb_log_file_size": str(64 << 20), "innodb_log_files_in_group": "2"}
    assert "has no innodb_redo_log_capacity" in done.notes[0]


def test_of_two_redo_sizes_the_servers_own_is_kept():
    both = {"innodb_log_file_size": "1G", "innodb_log_files_in_group": "3", "innodb_redo_log_capacity": "2G"}
    done = translate(target("8.0.33"), both)
    assert done.options == {"innodb_redo_log_capacity": "2G"}
    assert done.notes[0].startswith("innodb_log_file_size=1G was left out")
    done = translate(target("5.7.22"), both)
    assert done.options == {"innodb_log_file_size": "1G", "innodb_log_files_in_group": "3"}
    assert done.notes == ["innodb_redo_log_capacity=2G was left out: mysql-5.7.22 sizes redo by innodb_log_file_size"]


def test_a_non_numeric_redo_file_count_is_an_error():
    with pytest.raises(SpecError, match="option innodb_log_files_in_group=x cannot be used: it is not a whole number"):
        translate(target("8.0.33"), {"innodb_log_file_size": "64M", "innodb_log_files_in_group": "x"})


def test_mysql_5_5_gets_its_redo_size_at_initialisation():
    done = translate(target("5.5.34"), {"innodb_log_file_size": "64M"})
    assert done.init_options == {"innodb_log_file_size": "64M"}
    assert translate(target("5.7.22"), {"innodb_log_file_size": "64M"}).init_options == {}


@pytest.mark.parametrize("name", ["lower_case_table_names", "innodb_undo_tablespaces", "innodb_data_file_path"])
def test_initialisation_options_key_the_template(name):
    assert translate(target("5.7.22"), {name: "1"}).init_options == {name: "1"}


def test_initialisation_options_may_be_loose():
    done = translate(target("8.0.33"), {"loose_innodb_page_size": "8k", "loose_lower_case_table_names": "1"})
    assert done.init_options == done.options == {"innodb_page_size": "8192", "lower_case_table_names": "1"}
    with pytest.raises(SpecError, match=r"innodb_page_size=5k cannot be used: use 4k"):
        translate(target("8.0.33"), {"loose_innodb_page_size": "5k"})
    assert translate(target("5.5.34"), {"loose_innodb_log_file_size": "64M"}).init_options == {
        "innodb_log_file_size": "64M"
    }
    unknown = translate(target("5.5.34"), {"loose_innodb_page_size": "8k"})
    assert (unknown.options, unknown.init_options) == ({"loose_innodb_page_size": "8k"}, {})


@pytest.mark.parametrize(
    ("server", "size", "answer"),
    [
        ("8.0.15", "8k", "8192"),
        ("5.6.24", "4k", "4096"),
        ("5.7.22", "64k", "65536"),
        ("M10.1.23", "32768", "32768"),
        ("5.6.24", "32k", None),
        ("5.5.34", "8k", None),
        ("8.0.15", "5k", None),
        ("5.5.34", "16k", ""),
    ],
)
def test_page_sizes(server, size, answer):
    if answer is None:
        with pytest.raises(SpecError, match="innodb_page_size"):
            translate(target(server), {"innodb_page_size": size})
        return
    done = translate(target(server), {"innodb_page_size": size})
    assert done.init_options == ({"innodb_page_size": answer} if answer else {})
    assert bool(done.notes) == (not answer)


def test_disabling_a_removed_query_cache_is_allowed():
    done = translate(target("8.0.15"), {"query_cache_size": "0", "query_cache_type": "OFF"})
    assert done.options == {}
    assert len(done.notes) == 2
    with pytest.raises(SpecError, match=r"removed in MySQL 8.0"):
        translate(target("8.0.15"), {"query_cache_size": "64M"})


@pytest.mark.parametrize(
    ("server", "asked", "answer"),
    [
        *(("8.0.15", {"innodb_large_prefix": value}, "left out") for value in ("", "1", "ON", "true", "yes")),
        ("8.0.15", {"innodb_large_prefix": "OFF"}, "refused"),
        ("8.0.15", {"skip_innodb_large_prefix": "1"}, "refused"),
        *(("5.5.9", {"innodb_large_prefix": value}, "refused") for value in ("", "1", "true")),
        ("8.0.15", {"innodb_extend_and_initialize": ""}, "left out"),
        ("5.6.24", {"innodb_log_checksums": "TRUE"}, "left out"),
        ("5.6.24", {"innodb_log_checksums": "no"}, "refused"),
        ("5.5.34", {"innodb_stats_persistent": "false"}, "left out"),
        ("5.5.34", {"innodb_undo_tablespaces": "0"}, "left out"),
        ("8.0.15", {"skip_query_cache_type": ""}, "left out"),
    ],
)
def test_boolean_options_are_recognised_in_any_spelling(server, asked, answer):
    lacking = replace(target(server), known=frozenset({"port"}))
    if answer == "refused":
        with pytest.raises(SpecError, match="cannot be used"):
            translate(lacking, asked)
    else:
        done = translate(lacking, asked)
        assert (done.options, len(done.notes)) == ({}, 1)


def test_log_bin_off_becomes_skip_log_bin():
    done = translate(target("8.0.15"), {"log_bin": "OFF"})
    assert done.options == {"skip_log_bin": ""}


def test_a_skip_option_set_to_off_is_refused():
    for value in ("OFF", "false", "0"):  # YAML's false becomes the second
        with pytest.raises(SpecError, match=rf"skip_log_bin={value} .* it negates twice\. Write log_bin, or"):
            translate(target("8.0.33"), {"skip_log_bin": value})
    assert translate(target("8.0.33"), {"skip_log_bin": "ON"}).options == {"skip_log_bin": "ON"}


def test_variables_named_skip_can_be_set_to_off():
    asked = {"skip_name_resolve": "OFF", "skip_replica_start": "OFF"}
    known = Target("mysql-8.0.33", "mysql", (8, 0, 33), frozenset(asked))
    assert translate(known, asked).options == asked
    assert ignored_options({"loose_skip_name_resolve": ""}, {"skip_name_resolve": "ON"}) == []


def test_a_binary_log_gets_the_server_id_it_needs():
    assert translate(target("5.7.22"), {"log_bin": "ON"}).options == {"log_bin": "binlog", "server_id": "1"}
    done = translate(
        target("5.6.24"), {"gtid_mode": "ON", "enforce_gtid_consistency": "ON", "log_bin": "bl", "server_id": "7"}
    )
    assert done.options["log_slave_updates"] == "1"
    with pytest.raises(SpecError, match="its own global transaction ids"):
        translate(target("M10.11.19"), {"gtid_mode": "ON"})


def test_the_default_authentication_plugin_applies_to_root_too():
    done = translate(target("8.0.33"), {"default_authentication_plugin": "mysql_native_password"})
    assert done.init_options == {"default_authentication_plugin": "mysql_native_password"}
    with pytest.raises(SpecError, match="removed the plugin"):
        translate(target("9.7.4"), {"default_authentication_plugin": "mysql_native_password"})


@pytest.mark.parametrize(
    "name",
    [
        *("datadir", "socket", "port", "skip_networking", "user", "innodb_data_home_dir", "skip_grant_tables"),
        *("loose_skip_networking", "admin_address", "admin_port", "extra_port", "loose_extra_port"),
    ],
)
def test_options_bakeoff_sets_itself_are_refused(name):
    with pytest.raises(SpecError, match=name):
        translate(target("8.0.15"), {name: "x"})


@pytest.mark.parametrize("name", ["innodb_doublewrite_dir", "loose_innodb_temp_tablespaces_dir", "innodb_tmpdir"])
def test_folders_outside_the_data_directory_are_refused(name):
    with pytest.raises(SpecError, match=rf"{name}=/fast/disk cannot be used: files outside the data directory"):
        translate(target("8.0.31"), {name: "/fast/disk"})


@pytest.mark.parametrize(
    "name",
    [
        *("slow_query_log_file", "general_log_file", "log_bin", "loose_log_bin", "log_bin_index"),
        *("relay_log", "relay_log_index", "innodb_data_file_path"),
    ],
)
def test_files_of_a_server_stay_in_its_data_directory(name):
    assert translate(target("8.0.31"), {name: "name"}).options[name] == "name"
    with pytest.raises(SpecError, match=r"files outside the data directory .* Name the file without a folder"):
        translate(target("8.0.31"), {name: "/var/log/name"})


def test_cluster_options_are_left_out():
    asked = {"wsrep_on": "ON", "wsrep_cluster_address": "gcomm://10.0.0.1", "loose_group_replication_group_name": "x"}
    done = translate(target("M10.11.19"), asked | {"back_log": "80"})
    assert done.options == {"back_log": "80"}
    (note,) = done.notes
    assert all(name in note for name in asked) and "10.0.0.1" not in note


@pytest.mark.parametrize("name", ["report_password", "wsrep_sst_auth", "loose_report_password"])
def test_passwords_for_other_servers_are_refused_and_passed_over_in_files(tmp_path, name):
    with pytest.raises(SpecError, match=f"{name} cannot be used: it is a password") as refused:
        translate(target("8.0.15"), {name: "hunter22"})
    assert "hunter22" not in str(refused.value)
    (tmp_path / "my.cnf").write_text(f"[mysqld]\n{name.replace('_', '-')} = hunter22\nback_log = 80\n")
    assert read_cnf(tmp_path / "my.cnf", target("8.0.15")).options == {"back_log": "80"}


def test_cumulative_options_on_several_lines_are_joined(tmp_path):
    lines = ["optimizer_switch = mrr=off", "plugin_load_add = a", "optimizer_switch = index_merge=off",
             "back_log = 80", "plugin-load-add = b", "back_log = 90"]  # fmt: skip
    (tmp_path / "my.cnf").write_text("\n".join(["[mysqld]", *lines]))
    assert read_cnf(tmp_path / "my.cnf", target("8.0.15")).options == {
        "optimizer_switch": "mrr=off,index_merge=off", "plugin_load_add": "a;b", "back_log": "90"
    }  # fmt: skip


LINES = {
    "sort_buffer_size=2M# note": "2M",
    "sort_buffer_size = 2M #note": "2M",
    "skip_show_database# none = 1": "",
    "init_connect='SET @a = 1 # kept' # cut": "SET @a = 1 # kept",
    r'init_connect="SET @a = \"#\"" # cut': 'SET @a = "#"',
    "init_connect=SET @a = 'it''s # kept' # cut": "SET @a = 'it''s # kept'",
    r"init_connect=ab\\cd\se\tf\x": "ab\\cd e\tf\\x",
    "init_connect='ab": "'ab",
    'init_connect="#': '"#',
    "init_connect=a\\": "a\\",
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_read_as_mysqld_reads_it(tmp_path, line):
    """As `mysqld --print-defaults` of MySQL 8.0.33 and MariaDB 10.11.19 shows it."""
    (tmp_path / "my.cnf").write_text(f"[mysqld] # ours\n{line}\n")
    assert [*read_cnf(tmp_path / "my.cnf", target("8.0.33")).options.values()] == [LINES[line]]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"], include_characters="\t\n\r")))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cnf_values_round_trip(tmp_path, value):
    (tmp_path / "my.cnf").write_text(write_cnf({"init_connect": value}, "a test"), "utf-8")
    assert read_cnf(tmp_path / "my.cnf", target("8.0.33")).options == {"init_connect": value}


def test_the_last_occurrence_of_a_repeated_option_wins(tmp_path):
    (tmp_path / "my.cnf").write_text("[mysqld]\nlog_bin=a\nskip-log-bin\nlog_bin=b\n")
    read = read_cnf(tmp_path / "my.cnf", target("8.0.33")).options
    assert [*read.items()] == [("skip_log_bin", ""), ("log_bin", "b")]
    assert [*with_later(read, {"skip_log_bin": ""})] == ["log_bin", "skip_log_bin"]


def test_the_home_of_an_unknown_user_is_an_error():
    with pytest.raises(SpecError, match=r"~nobody-here/my.cnf: no user has that name"):
        read_cnf(Path("~nobody-here/my.cnf"), target("8.0.15"))


def test_an_unknown_option_is_refused_with_suggestions():
    known = Target("mysql-8.0.15", "mysql", (8, 0, 15), frozenset({"innodb_flush_method", "innodb_buffer_pool_size"}))
    with pytest.raises(SpecError, match=r"Did you mean innodb_flush_method"):
        translate(known, {"innodb_flush_metod": "fsync"})
    assert translate(known, {"loose_innodb_flush_metod": "fsync"}).options == {"loose_innodb_flush_metod": "fsync"}


@pytest.mark.parametrize("name", ["innodb_log_file_size", "innodb_page_size"])
def test_a_bad_size_names_its_option(name):
    with pytest.raises(SpecError, match=rf"option {name}=big cannot be used: it is not a whole number"):
        translate(target("8.0.31"), {name: "big"})


def test_an_empty_tls_version_is_written_with_an_equals_sign():
    text = write_cnf({"tls_version": "", "skip_ssl": "", "port": "20001"}, "a test")
    assert text == "# a test\n[mysqld]\ntls_version = \nskip_ssl\nport = 20001\n"


def test_plugin_rocksdb_is_short_for_plugin_load_add():
    assert translate(target("M10.11.19"), {"plugin": "rocksdb"}).options == {"plugin_load_add": "ha_rocksdb.so"}
    percona = Target("percona-8.0.36", "mysql", (8, 0, 36))
    assert translate(percona, {"plugin": "rocksdb"}).options == {"plugin_load_add": "ha_rocksdb.so"}
    both = {"plugin": "rocksdb", "plugin_load_add": "ha_blackhole"}
    assert translate(target("M10.11.19"), both).options == {"plugin_load_add": "ha_blackhole;ha_rocksdb.so"}


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("skip_log_bin", "log_bin"),
        ("loose_innodb_x", "innodb_x"),
        ("skip_name_resolve", "skip_name_resolve"),
        ("loose_skip_ssl", "ssl"),
    ],
)
def test_stem_is_the_name_of_the_variable(name, variable):
    assert stem(name) == variable


@pytest.mark.parametrize(
    ("asked", "has", "equal"),
    [
        ("64M", "67108864", True),
        ("1", "ON", True),
        ("OFF", "0", True),
        ("fsync", "FSYNC", True),
        ("4", "1", False),
        ("READ-COMMITTED", "READ-COMMITTED", True),
        ("A,B", "b,a", True),
        ("mrr=off", "index_merge=on,mrr=off", True),
        ("64M", "33554432", False),
        ("100", "98", False),
        ("268435456", "268435968", True),
    ],
)
def test_values_are_compared_regardless_of_spelling(asked, has, equal):
    assert same_value(asked, has) is equal


def test_the_settings_check_reports_what_was_ignored():
    asked = {
        "innodb_buffer_pool_instances": "4",
        "skip_log_bin": "",
        "loose_nothing": "1",
        "transaction_isolation": "READ-COMMITTED",
    }
    variables = {"innodb_buffer_pool_instances": "1", "log_bin": "OFF", "tx_isolation": "READ-COMMITTED"}
    found = ignored_options(asked, variables)
    assert found == [
        "innodb_buffer_pool_instances=4: the server has 1",
        "loose_nothing=1: this server has no variable nothing",
    ]


@pytest.mark.parametrize(
    "option",
    [
        *("default_time_zone=+00:00", "skip_external_locking", "symbolic_links=0", "binlog_do_db=shop"),
        *("performance_schema_consumer_events_statements_history=ON", "plugin_load=ha_archive.so"),
    ],
)
def test_the_settings_check_is_silent_on_options_without_a_variable_of_their_own(option):
    name, _, value = option.partition("=")
    assert ignored_options({name: value}, {"time_zone": "+00:00", "skip_external_locking": "ON"}) == []
