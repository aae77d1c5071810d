"""What a server is started with: profiles by version, user options that override them, and options the data needs."""

from pathlib import Path

import pytest

from bakeoff.errors import SpecError
from bakeoff.servers import Installation, ServerMemory
from bakeoff.servers.cnf import read_cnf
from bakeoff.servers.options import Target
from bakeoff.servers.profile import ignored_options, settings_for, table_engine
from bakeoff.spec import Data, Profile, parse_server

MEMORY = ServerMemory(buffer_pool_bytes=512 << 20, redo_bytes=256 << 20)


def installation(flavour, version, *, engines=("innodb", "myisam"), known=frozenset()):
    here = Path("/nowhere")
    return Installation(
        flavour=flavour,
        version_text=version,
        basedir=here,
        argv=("/nowhere/mysqld",),
        share=here,
        environment={},
        sha256="0" * 64,
        known_options=known,
        engines=frozenset(engines),
    )


def settings(flavour, version, options="", *, profile=Profile.MATCHED, data=None, engines=("innodb", "myisam"), **more):
    spec = parse_server(f"{flavour}:{version}{options}")
    found = installation(flavour, version, engines=engines)
    return settings_for(found, spec, profile, data or Data(), MEMORY, **({"connections": 16} | more))


@pytest.mark.parametrize("version", ["5.5.34", "5.6.24", "5.7.22", "8.0.15", "8.0.33", "9.7.4"])
@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_matched_is_durable_and_equally_sized_everywhere(flavour, version):
    if flavour == "mariadb":
        version = {
            "5.5.34": "10.1.23",
            "5.6.24": "10.2.11",
            "5.7.22": "10.5.23",
            "8.0.15": "10.11.19",
            "8.0.33": "11.4.5",
            "9.7.4": "11.8.9",
        }[version]
    options = settings(flavour, version).options
    assert options["innodb_buffer_pool_size"] == str(512 << 20)
    assert options["innodb_flush_log_at_trx_commit"] == "1"
    assert options["innodb_doublewrite"] == "1"
    assert options["innodb_flush_method"] == "O_DIRECT"
    assert options["performance_schema"] == "OFF"
    assert "skip_log_bin" in options
    redo = int(options.get("innodb_redo_log_capacity", 0)) or int(options["innodb_log_file_size"]) * int(
        options.get("innodb_log_files_in_group", 1)
    )
    assert redo == 256 << 20


def test_the_number_of_redo_files_does_not_change_the_redo_size():
    total = 256 << 20
    for flavour, version, expected in (
        ("mysql", "5.7.22", {"innodb_log_file_size": str(total // 4), "innodb_log_files_in_group": "4"}),
        ("mysql", "8.0.33", {"innodb_redo_log_capacity": str(total)}),
        ("mysql", "9.7.4", {"innodb_redo_log_capacity": str(total)}),
        ("mariadb", "10.11.19", {"innodb_log_file_size": str(total)}),
    ):
        found = settings(flavour, version, ",innodb_log_files_in_group=4")
        assert {
            name: value for name, value in found.options.items() if "redo" in name or "log_file" in name
        } == expected
        assert ("innodb_log_files_in_group=4 was left out" in "".join(found.notes)) == (version != "5.7.22")
    alone = settings("mysql", "8.0.33", ",innodb_log_files_in_group=4", profile=Profile.STOCK)
    assert alone.options["innodb_log_files_in_group"] == "4"  # without a capacity the server uses it
    both = settings("mysql", "9.7.4", ",innodb_log_files_in_group=4,innodb_redo_log_capacity=1G")
    assert both.options["innodb_redo_log_capacity"] == "1G"


def test_each_version_gets_only_options_it_knows():
    assert "query_cache_type" in settings("mysql", "5.7.22").options
    assert "query_cache_type" not in settings("mysql", "8.0.15").options
    assert "query_cache_type" in settings("mariadb", "11.8.9").options
    assert "innodb_stats_persistent" not in settings("mysql", "5.5.34").options
    assert settings("mysql", "8.0.15").options["mysqlx"] == "OFF"
    assert "mysqlx" not in settings("mysql", "5.7.22").options


def test_tls_is_disabled_unless_requested():
    assert settings("mysql", "8.0.15").options["skip_ssl"] == ""
    assert settings("mysql", "9.7.4").options["tls_version"] == ""
    assert "skip_ssl" not in settings("mysql", "5.5.9").options
    assert "skip_ssl" not in settings("mysql", "8.0.15", tls=True).options
    asked = settings("mysql", "8.0.15", ",ssl=1").options
    assert "skip_ssl" not in asked and asked["ssl"] == "1"


def test_stock_holds_only_what_is_needed_to_run():
    options = settings("mysql", "8.0.15", profile=Profile.STOCK).options
    assert not [name for name in options if name.startswith("innodb") or "log" in name or "schema" in name]
    assert int(options["max_prepared_stmt_count"]) >= 1_000_000


def test_max_connections_fits_the_number_of_connections():
    assert int(settings("mysql", "8.0.15", connections=1000).options["max_connections"]) > 1000
    assert settings("mysql", "5.5.34", connections=1000).options["back_log"] == "1000"
    with pytest.raises(SpecError, match="too small for 64"):
        settings("mysql", "8.0.15", ",max_connections=50", connections=64)


@pytest.mark.parametrize("option", ["max_connections=1k", "loose_max_connections=1024"])
def test_max_connections_is_checked_in_any_spelling(option):
    settings("mysql", "8.0.15", f",{option}", connections=1000)
    with pytest.raises(SpecError, match="max_connections=1024 is too small for 1023"):
        settings("mysql", "8.0.15", f",{option}", connections=1023)


def test_a_non_numeric_max_connections_is_an_error():
    with pytest.raises(SpecError, match=r"server mysql-8\.0\.15: option max_connections=many cannot be used"):
        settings("mysql", "8.0.15", ",max_connections=many")


def test_the_users_option_replaces_the_profiles():
    found = settings("mysql", "8.0.15", ",innodb_flush_method=fsync,log_bin=bl")
    assert found.options["innodb_flush_method"] == "fsync"
    assert found.options["log_bin"] == "bl"
    assert "skip_log_bin" not in found.options


def test_typed_options_override_a_cnf_file(tmp_path):
    cnf = tmp_path / "my.cnf"
    cnf.write_text(
        "[client]\nuser=x\n[mysqld]\n# tuned\ninnodb-io-capacity = 2000 # fast disk\nsql_mode='' # none\n"
        "[mysqld-8.0]\nskip-name-resolve # DNS=slow\n"
    )
    assert read_cnf(cnf, Target("mysql-8.0.15", "mysql", (8, 0, 15))).options == {
        "innodb_io_capacity": "2000",
        "sql_mode": "",
        "skip_name_resolve": "",
    }
    found = settings("mysql", "8.0.15", f",@{cnf},innodb_io_capacity=300")
    assert found.options["innodb_io_capacity"] == "300"
    assert found.from_files == ("sql_mode", "skip_name_resolve")


def test_another_flavours_cnf_group_does_not_set_the_table_engine(tmp_path):
    cnf = tmp_path / "my.cnf"
    cnf.write_text("[mariadb]\ndefault_storage_engine=MyISAM\n")
    for flavour, version, engine in (("mysql", "8.0.15", "innodb"), ("mariadb", "10.11.19", "myisam")):
        spec = parse_server(f"{flavour}:{version},@{cnf}")
        assert table_engine(spec, Data(), installation(flavour, version)) == engine


@pytest.mark.parametrize(
    "table_options", ["ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8", "ROW_FORMAT=DYNAMIC", "KEY_BLOCK_SIZE=8"]
)
def test_row_formats_that_need_barracuda_enable_it_in_old_versions(table_options):
    data = Data(table_options=table_options)
    for flavour, version in (("mysql", "5.5.34"), ("mysql", "5.6.24"), ("mariadb", "10.1.23")):
        options = settings(flavour, version, data=data, profile=Profile.STOCK).options
        assert options["innodb_file_format"] == "Barracuda"
        assert options["innodb_file_per_table"] == "1"
    assert "innodb_file_format" not in settings("mysql", "8.0.15", data=data).options
    compact = Data(table_options="ROW_FORMAT=COMPACT")
    assert "innodb_file_format" not in settings("mysql", "5.6.24", data=compact).options


def test_compressed_rows_need_pages_of_at_most_16k():
    data = Data(table_options="ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8")
    with pytest.raises(SpecError, match="at most 16k"):
        settings("mysql", "8.0.15", ",innodb_page_size=32k", data=data)


@pytest.mark.parametrize(
    ("flavour", "version", "collation"),
    [
        ("mysql", "5.7.22", "utf8mb4_0900_ai_ci"),
        ("mariadb", "10.11.19", "utf8mb4_0900_ai_ci"),
        ("mysql", "9.7.4", "utf8mb4_uca1400_ai_ci"),
        ("mysql", "8.0.15", "uca1400_ai_ci"),
        ("mysql", "5.7.22", "UTF8MB4_0900_AI_CI"),
        ("mysql", "8.0.15", "UCA1400_AI_CI"),
    ],
)
def test_a_collation_the_server_lacks_is_refused(flavour, version, collation):
    with pytest.raises(SpecError, match=f"no collation {collation}"):
        settings(flavour, version, data=Data(charset="utf8mb4", collation=collation))


@pytest.mark.parametrize(
    ("options", "data", "charset", "collation"),
    [
        ("", Data(charset="utf8mb4", collation="utf8mb4_bin"), "utf8mb4", "utf8mb4_bin"),
        (",character_set_server=latin1", Data(charset="utf8mb4", collation="utf8mb4_bin"), "latin1", None),
        (",loose_character_set_server=latin1", Data(charset="utf8mb4", collation="utf8mb4_bin"), None, None),
        (",collation_server=latin1_bin", Data(charset="utf8mb4"), "latin1", "latin1_bin"),
        (",collation_server=Latin1_bin", Data(charset="utf8mb4"), "latin1", "Latin1_bin"),
        (",character_set_server=utf8,collation_server=utf8mb3_bin", Data(charset="latin1"), "utf8", "utf8mb3_bin"),
    ],
)
def test_server_character_set_and_collation_match(options, data, charset, collation):
    found = settings("mysql", "8.0.33", options, data=data).options
    assert (found.get("character_set_server"), found.get("collation_server")) == (charset, collation)


def test_a_lone_collation_sets_its_character_set():
    found = settings("mysql", "5.7.22", ",collation_server=utf8mb4_bin", profile=Profile.STOCK)
    assert found.options["character_set_server"] == "utf8mb4"
    assert found.notes == ("character_set_server=utf8mb4 was added: collation_server=utf8mb4_bin belongs to it",)
    uca1400 = settings("mariadb", "11.4.5", ",collation_server=uca1400_ai_ci", profile=Profile.STOCK)
    assert "character_set_server" not in uca1400.options


def test_a_collation_of_a_different_character_set_is_refused():
    with pytest.raises(SpecError, match=r"collation_server=utf8mb4_bin .* not belong to character_set_server=latin1"):
        settings("mysql", "8.0.33", ",character_set_server=latin1,collation_server=utf8mb4_bin")


def test_cumulative_options_are_joined_across_files_and_typed_options(tmp_path):
    for name, switch in (("a", "mrr=off"), ("b", "index_merge=off")):
        (tmp_path / name).write_text(f"[mysqld]\noptimizer_switch = {switch}\nback_log = 90\n")
    found = settings("mysql", "8.0.15", f",@{tmp_path}/a,@{tmp_path}/b,optimizer_switch=derived_merge=off,back_log=100")
    assert found.options["optimizer_switch"] == "mrr=off,index_merge=off,derived_merge=off"
    assert found.options["back_log"] == "100"


def test_a_maximum_prefix_does_not_set_the_variable():
    limits = ",maximum_innodb_buffer_pool_size=8G,maximum_max_connections=5000"
    found = settings("mysql", "8.0.15", limits).options
    assert found["innodb_buffer_pool_size"] == str(512 << 20)
    assert found["maximum_innodb_buffer_pool_size"] == "8G"
    assert found["max_connections"] == settings("mysql", "8.0.15").options["max_connections"]
    assert ignored_options(found, {name: value for name, value in found.items() if "maximum" not in name}) == []


def test_rocksdb_is_loaded_if_the_server_includes_it():
    with_it = {"engines": ("innodb", "myisam", "rocksdb")}
    for options, data in (
        (",default_storage_engine=RocksDB", Data()),
        (",plugin=rocksdb", Data()),
        ("", Data(engine="rocksdb")),
    ):
        found = settings("mariadb", "10.11.19", options, data=data, **with_it)
        assert found.options["plugin_load_add"] == "ha_rocksdb.so"
        assert found.options["rocksdb_block_cache_size"] == str(512 << 20)
    beside = settings("mariadb", "10.11.19", ",plugin_load_add=ha_rocksdb", **with_it)  # loaded, and tables stay InnoDB
    assert beside.options["innodb_buffer_pool_size"] == str(512 << 20)
    other = ",default_storage_engine=rocksdb,plugin_load_add=ha_blackhole"
    both = settings("mariadb", "10.11.19", other, **with_it)
    assert both.options["plugin_load_add"] == "ha_rocksdb.so;ha_blackhole"
    with pytest.raises(SpecError, match=r"not include MyRocks.*mariadb:10\.11\.19"):
        settings("mysql", "8.0.15", data=Data(engine="rocksdb"))


@pytest.mark.parametrize(
    ("options", "engine", "expected"),
    [
        ("", "innodb", "innodb"),
        (",default_storage_engine=RocksDB", "innodb", "rocksdb"),
        (",plugin=rocksdb", "innodb", "rocksdb"),
        (",default_storage_engine=MyISAM", "innodb", "myisam"),
        (",default_storage_engine=RocksDB", "MyISAM", "myisam"),
    ],
)
def test_the_table_engine_follows_the_options_unless_the_study_sets_it(options, engine, expected):
    assert table_engine(parse_server(f"mariadb:10.11{options}"), Data(engine=engine)) == expected


def test_the_environment_belongs_to_the_settings():
    assert settings("mysql", "8.0.15", ",env.LD_PRELOAD=libx.so").env == {"LD_PRELOAD": "libx.so"}


def test_myisam_gets_the_memory_as_key_buffer():
    options = settings("mysql", "5.7.22", ",default_storage_engine=MyISAM").options
    assert options["key_buffer_size"] == str(512 << 20)
    assert options["innodb_buffer_pool_size"] == str(64 << 20)


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize(("engine", "cache"), [("MyISAM", "key_buffer_size"), ("rocksdb", "rocksdb_block_cache_size")])
def test_a_buffer_pool_size_sets_the_cache_of_the_table_engine(engine, cache, profile):
    def found(options):
        engines = ("innodb", "myisam", "rocksdb")
        return settings("mariadb", "10.11.19", options, data=Data(engine=engine), engines=engines, profile=profile)

    small = str(64 << 20) if profile is Profile.MATCHED else None
    for name in ("innodb_buffer_pool_size", "loose_innodb_buffer_pool_size"):
        given = found(f",{name}=32M")
        assert (given.options[cache], given.options.get("innodb_buffer_pool_size")) == ("32M", small)
        assert any(note.startswith(f"innodb_buffer_pool_size=32M became {cache}") for note in given.notes)
    both = found(f",innodb_buffer_pool_size=32M,{cache}=48M")
    assert (both.options[cache], both.options["innodb_buffer_pool_size"]) == ("48M", "32M")
    assert not both.notes or "was given as" not in " ".join(both.notes)
