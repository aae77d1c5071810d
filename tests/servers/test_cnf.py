"""Common my.cnf files, read the way each version's mysqld reads them."""

import os

import pytest

from bakeoff.errors import SpecError
from bakeoff.servers import ServerMemory, install, settings_for
from bakeoff.servers.cnf import read_client_group, read_cnf, write_cnf
from bakeoff.servers.options import Target, option_arguments, translate
from bakeoff.servers.releases import parse_version
from bakeoff.spec import Data, Profile, parse_server

MEMORY = ServerMemory(buffer_pool_bytes=128 << 20, redo_bytes=64 << 20)


def target(family, version, *known):
    return Target(f"{family}-{version}", family, parse_version(version), frozenset(known))


NEW = target("mysql", "8.0.33")


def options_in(folder, text, server=NEW):
    (folder / "my.cnf").write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_cnf(folder / "my.cnf", server)


def refusal(asked, server=NEW):
    with pytest.raises(SpecError) as refused:
        translate(server, asked.options, asked.places, asked.problems)
    assert "\n" not in str(refused.value)
    return str(refused.value)


DEBIAN_MYSQL = """
[mysqld]
user            = mysql
pid-file        = /var/run/mysqld/mysqld.pid
socket          = /var/run/mysqld/mysqld.sock
port            = 3306
datadir         = /var/lib/mysql
bind-address            = 127.0.0.1
mysqlx-bind-address     = 127.0.0.1
key_buffer_size         = 16M
myisam-recover-options  = BACKUP
log_error = /var/log/mysql/error.log
server-id               = 1
log_bin                 = /var/log/mysql/mysql-bin.log
max_binlog_size   = 100M
secure-file-priv = /var/lib/mysql-files
"""


def test_options_bakeoff_sets_itself_are_left_out_with_one_note(tmp_path):
    asked = options_in(tmp_path, DEBIAN_MYSQL)
    assert asked.options == {
        "key_buffer_size": "16M", "myisam_recover_options": "BACKUP", "server_id": "1",
        "log_bin": "mysql-bin.log", "max_binlog_size": "100M",
    }  # fmt: skip
    (line,) = asked.all_notes()
    assert line == (
        "left out, because bakeoff sets them itself: user, pid_file, socket, port, datadir, bind_address, "
        "mysqlx_bind_address, log_error, the folder of log_bin, secure_file_priv"
    )


def test_all_problems_are_reported_at_once_with_file_and_line(tmp_path):
    text = "\n".join(
        ["[mysqld]", "user = mysql", "query_cache_size = 64M", "innodb_flush_metod = fsync", "back_log = 80",
         "[mysqld", "=3", "innodb_page_size = 5k", "skip_log_bin = OFF"]
    )  # fmt: skip
    (tmp_path / "my.cnf").write_text(text)
    known = target("mysql", "8.0.33", "back_log", "innodb_flush_method", "innodb_page_size", "log_bin", "server_id")
    said = refusal(read_cnf(tmp_path / "my.cnf", known), known)
    assert said.startswith("server mysql-8.0.33: 6 options cannot be used. ")
    for line, what in (
        (3, "option query_cache_size=64M cannot be used: the query cache was removed in MySQL 8.0"),
        (4, "it has no option innodb_flush_metod (Did you mean innodb_flush_method?)"),
        (6, "a group is written [name]"),
        (7, "'' is not the name of an option"),
        (8, "option innodb_page_size=5k cannot be used"),
        (9, "option skip_log_bin=OFF cannot be used"),
    ):
        assert f"my.cnf:{line}: {what}" in said


def test_a_single_mistake_is_named_with_its_line(tmp_path):
    asked = options_in(tmp_path, "[mysqld]\nquery_cache_size = 64M\n")
    assert refusal(asked).startswith(f"{tmp_path}/my.cnf:2: server mysql-8.0.33: option query_cache_size=64M cannot")


@pytest.mark.parametrize(
    ("text", "line"), [("key=1", 1), ("[mysqld]\n!includedir /nowhere", 2), ("[mysqld", 1), ("[mysqld]\n=3", 2)]
)
def test_a_bad_cnf_file_is_named_with_its_line(tmp_path, text, line):
    assert f"my.cnf:{line}:" in refusal(options_in(tmp_path, text))


def test_a_missing_cnf_file_is_a_spec_error(tmp_path):
    with pytest.raises(SpecError, match="cannot be read"):
        read_cnf(tmp_path / "none.cnf", NEW)


GROUPS = [
    *("mysqld", "server", "mysqld-8.0", "mysqld-8.0.15", "mysqld-5.7", "mysqld-10.1", "mysqld-10.11", "galera"),
    *("mariadb", "mariadb-10.11", "mariadb-10.1", "mariadbd", "mariadbd-10.11", "mysqld_safe", "client", "mariadb-11"),
    *("client-server", " mysqld", "MYSQLD", "mariadbd-11"),
]


@pytest.mark.parametrize(
    ("flavour", "version", "read"),
    [
        ("mysql", "8.0.15", "mysqld server mysqld-8.0"),
        ("percona", "8.0.36", "mysqld server mysqld-8.0"),
        ("mysql", "5.7.22", "mysqld server mysqld-5.7"),
        ("mysql", "9.7.4", "mysqld server"),
        ("mariadb", "10.1.23", "mysqld server mysqld-10.1 mariadb mariadb-10.1 mariadbd client-server galera"),
        ("mariadb", "11.8.9", "mysqld server mariadb mariadb-11 mariadbd mariadbd-11 client-server galera"),
    ],
)
def test_a_server_reads_only_its_own_groups(tmp_path, flavour, version, read):
    """Expected groups are from the line "The following groups are read" of `mysqld --verbose --help`."""
    text = "".join(f"[{group}]\nloose_x{at}=1\n" for at, group in enumerate(GROUPS))
    family = "mariadb" if flavour == "mariadb" else "mysql"
    found = options_in(tmp_path, text, target(family, version)).options
    assert {GROUPS[int(name.removeprefix("loose_x"))] for name in found} == set(read.split())


@pytest.fixture
def including(tmp_path):
    """A my.cnf laid out like Debian's for MariaDB, moved elsewhere with its folders."""
    folder = tmp_path / "conf.d"
    (folder / "folder.cnf").mkdir(parents=True)
    for name, value in {"b.cnf": 2, "a.cnf": 1, "B.cnf": 0, "c.ini": 9, "a.cnf~": 9, "d.CNF": 9}.items():
        (folder / name).write_text(f"[mysqld]\nback_log = 8{value}\nloose_{name[0]} = {value}\n")
    (tmp_path / "one.cnf").write_text("[mysqld]\nback_log = 70\n!include conf.d/c.ini\n")
    (tmp_path / "my.cnf").write_text("[mysqld]\n!includedir conf.d/\nloose_after = 1\n! include one.cnf # ours\n")
    return tmp_path


def test_included_files_are_found_beside_the_file_and_read_in_mysqlds_order(including, monkeypatch):
    monkeypatch.chdir("/")
    asked = read_cnf(including / "my.cnf", NEW)
    assert [*asked.options] == ["loose_B", "loose_a", "loose_b", "loose_after", "back_log", "loose_c"]
    assert asked.options["back_log"] == "89" and asked.places["loose_b"] == f"{including}/conf.d/b.cnf:3".lstrip("/")


def test_cnf_options_contain_those_of_included_files(including):
    spec = parse_server(f"mysql:8.0,@{including}/my.cnf")
    assert {"back_log", "loose_a", "loose_after"} <= set(spec.cnf_options)


def test_a_missing_included_file_is_ignored_with_a_note(tmp_path):
    asked = options_in(tmp_path, "[mysqld]\n!include none.cnf\n!other\nback_log = 80\n")
    assert asked.options == {"back_log": "80"} and not asked.problems
    assert any("my.cnf:2: !include none.cnf is ignored: there is no such file" in note for note in asked.notes)


def test_a_folder_that_includes_itself_is_an_error(tmp_path):
    for name in ("a", "b", "my"):
        (tmp_path / f"{name}.cnf").write_text("[mysqld]\n!includedir .\n")
    with pytest.raises(SpecError, match=r"\.cnf:2: more than 10 files include one another"):
        read_cnf(tmp_path / "my.cnf", NEW)


def test_a_missing_included_folder_is_refused(tmp_path):
    asked = options_in(tmp_path, "[mysqld]\n!includedir none.d\n!includedir\n!include ~nobody-here/x\n")
    said = refusal(asked)
    assert "my.cnf:2: !includedir none.d cannot be followed: No such file or directory" in said
    assert "my.cnf:3: !includedir names no file" in said
    assert "my.cnf:4: ~nobody-here/x: no user has that name" in said


COMMENT = "# für größere Maschinen – 大内存"


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "gbk", "shift_jis"])
def test_comments_may_be_in_any_character_set(tmp_path, encoding):
    comment = COMMENT.encode(encoding, "ignore")
    text = b"[mysqld]\n" + comment + b"\nback_log = 80 " + comment + b"\n# a\xe2\x80\xa8back_log = 1\n"
    (tmp_path / "my.cnf").write_bytes(text)
    assert read_cnf(tmp_path / "my.cnf", NEW).options == {"back_log": "80"}
    assert parse_server(f"mysql:8.0,@{tmp_path}/my.cnf").cnf_options == ("back_log",)


def test_a_value_that_is_not_utf_8_is_named_with_its_line(tmp_path):
    asked = options_in(tmp_path, "[mysqld]\nback_log = 80\ninit_connect = 'SET @a = \"ü\"'\n".encode("latin-1"))
    assert "my.cnf:3: the value of init_connect is not UTF-8 text" in refusal(asked)


def test_files_with_a_byte_order_mark_are_refused(tmp_path):
    for text in (b"\xef\xbb\xbf[mysqld]\r\nback_log = 80\r\n", "[mysqld]\nback_log = 80\n".encode("utf-16")):
        assert "my.cnf:1: an option before the first [group]" in refusal(options_in(tmp_path, text))


def test_the_client_password_is_read_despite_latin_1_comments(tmp_path):
    (tmp_path / "more.cnf").write_text("[client]\nuser = bench\n")
    (tmp_path / "my.cnf").write_bytes(b"# f\xfcr uns\n[client]\npassword = x\n!include more.cnf\n")
    assert read_client_group(tmp_path / "my.cnf") == {"password": "x", "user": "bench"}


REPEATED = """
[mysqld]
performance_schema_instrument = 'memory/%=off'
performance-schema-instrument = 'wait/synch/mutex/sql/%=on'
replicate-do-db = shop
replicate_do_db = web
binlog-ignore-db = logs
loose-replicate-wild-do-table = a.%
loose-replicate-wild-do-table = b.%
optimizer_trace = enabled=on
optimizer_trace = one_line=on
early-plugin-load = a.so
early-plugin-load = b.so
plugin-load-add = a
plugin-load = b
plugin-load-add = c
plugin-load-add = d
sql_mode = ANSI
sql_mode = NO_ZERO_DATE
"""


def test_cumulative_options_are_passed_to_mysqld_one_by_one(tmp_path):
    """Which options accumulate was observed on MySQL 5.7, 8.0, 9.7 and MariaDB 10.11, 11.8."""
    options = options_in(tmp_path, REPEATED).options
    arguments = option_arguments(options)
    assert set(arguments) == {
        "--performance-schema-instrument=memory/%=off", "--performance-schema-instrument=wait/synch/mutex/sql/%=on",
        "--replicate-do-db=shop", "--replicate-do-db=web", "--binlog-ignore-db=logs",
        "--loose-replicate-wild-do-table=a.%", "--loose-replicate-wild-do-table=b.%",
        "--optimizer-trace=enabled=on,one_line=on", "--early-plugin-load=b.so", "--plugin-load=b",
        "--plugin-load-add=c;d", "--sql-mode=NO_ZERO_DATE",
    }  # fmt: skip
    assert arguments.index("--plugin-load=b") < arguments.index("--plugin-load-add=c;d")
    assert options_in(tmp_path, write_cnf(options, "read back")).options == options


def test_a_cumulative_option_may_be_typed_twice_and_round_trips():
    text = "mysql:8.0,performance_schema_instrument=memory/%=off,performance_schema_instrument=wait/io/file/%=on"
    spec = parse_server(text)
    assert str(spec) == text and parse_server(str(spec)) == spec
    assert option_arguments(dict(spec.options)) == [
        "--performance-schema-instrument=memory/%=off", "--performance-schema-instrument=wait/io/file/%=on"
    ]  # fmt: skip
    with pytest.raises(SpecError, match="early_plugin_load appears twice"):
        parse_server("mysql:8.0,early_plugin_load=a,early_plugin_load=b")


KNOWN = ("key_buffer_size", "back_log", "innodb_log_file_size", "innodb_log_files_in_group", "bind_address", "log_bin")


def test_a_unique_prefix_selects_the_option(tmp_path):
    server = target("mysql", "5.6.24", *KNOWN)
    asked = options_in(tmp_path, "[mysqld]\nkey_buffer = 16M\nkey_buffer_size = 32M\nback = 80\nbind = ::1\n", server)
    assert asked.options == {"key_buffer_size": "32M", "back_log": "80"} and asked.left_out == ["bind_address"]
    assert any(note.endswith("my.cnf:2: key_buffer became key_buffer_size") for note in asked.notes)
    done = translate(server, {"loose_key_buffer": "16M"})
    assert done.options == {"loose_key_buffer_size": "16M"}
    with pytest.raises(SpecError, match="it has no option innodb_log_file"):
        translate(server, {"innodb_log_file": "16M"})


PERCONA_WIZARD = """
[mysql]
port = 3306
socket = /var/lib/mysql/mysql.sock
[mysqld]
user = mysql
default-storage-engine = InnoDB
socket = /var/lib/mysql/mysql.sock
pid-file = /var/lib/mysql/mysql.pid
key-buffer-size = 32M
myisam-recover = FORCE,BACKUP
max-allowed-packet = 16M
skip-name-resolve
innodb = FORCE
datadir = /var/lib/mysql/
log-bin = /var/lib/mysql/mysql-bin
expire-logs-days = 14
query-cache-type = 0
query-cache-size = 0
innodb-log-files-in-group = 2
innodb-log-file-size = 64M
log-error = /var/lib/mysql/mysql-error.log
slow-query-log-file = /var/lib/mysql/mysql-slow.log
"""

CHINESE_TEMPLATE = """
[client]
socket = /data/mysql/mysql.sock
[mysql]
prompt = "\\\\u@\\\\h [\\\\d]> "
no_auto_rehash
[mysqld]
user = mysql
port = 3306
server_id = 3306
basedir = /usr/local/mysql
datadir = /data/mysql
socket = /data/mysql/mysql.sock
pid_file = mysql.pid
# 默认时区
default_time_zone = "+8:00"
log_error = /data/mysql/error.log
slow_query_log = 1
slow_query_log_file = /data/mysql/slow.log
log_bin = /data/mysql/mybinlog
innodb_data_file_path = ibdata1:12M:autoextend
innodb_undo_directory = /data/mysql/undolog
innodb_monitor_enable = "module_innodb"
innodb_monitor_enable = "module_server"
performance_schema = 1
performance_schema_instrument = '%memory%=on'
performance_schema_instrument = '%lock%=on'
"""

DEBIAN_MARIADB = """
[server]
[mysqld]
pid-file                = /run/mysqld/mysqld.pid
basedir                 = /usr
lc-messages-dir         = /usr/share/mysql
lc-messages             = en_US
skip-external-locking
bind-address            = 127.0.0.1
key_buffer              = 16M
log_error               = /var/log/mysql/error.log
expire_logs_days        = 10
character-set-server  = utf8mb4
collation-server      = utf8mb4_general_ci
[embedded]
[mariadb]
[mariadb-10.11]
"""

STOCK = {
    "mysql:5.6.24": (PERCONA_WIZARD,),
    "mysql:5.7.22": (PERCONA_WIZARD, DEBIAN_MYSQL),
    "mysql:8.0.15": (DEBIAN_MYSQL, CHINESE_TEMPLATE),
    "mariadb:10.11.19": (DEBIAN_MARIADB,),
}


@pytest.mark.server
@pytest.mark.parametrize("server", STOCK)
def test_servers_start_with_common_cnf_files(tmp_path, pool, server):
    for at, text in enumerate(STOCK[server]):
        (tmp_path / "my.cnf").write_text(text)
        spec = parse_server(f"{server},@{tmp_path}/my.cnf")
        installation = install(spec)
        settings = settings_for(installation, spec, Profile.MATCHED, Data(), MEMORY, connections=8)
        assert sum("left out, because bakeoff sets them itself" in note for note in settings.notes) == 1
        instance = pool.create(f"stock-{at}", installation, settings)
        instance.start()
        assert instance.ignored_settings() == []
        instance.stop()


@pytest.mark.server
@pytest.mark.parametrize("server", ["mysql:8.0.15", "mariadb:10.11.19"])
def test_the_settings_check_covers_instruments_consumers_and_plugins(make, server):
    instruments = [
        f"performance_schema_instrument={each}" for each in ("%=off", "wait/synch/mutex/sql/%=on", "none=on")
    ]
    options = ["performance_schema=1", *instruments, "performance_schema_consumer_events_waits_history=ON"]
    found = make(",".join([server, *options, "plugin_load_add=ha_none"]))
    found.start()
    states = found.query(
        "SELECT DISTINCT enabled FROM performance_schema.setup_instruments WHERE name LIKE 'wait/synch/mutex/sql/%'"
    )
    assert states == [("YES",)]
    assert found.ignored_settings() == [
        "performance_schema_instrument=none=on: this server has no such instrument, or performance_schema is off",
        "plugin_load_add=ha_none: the server runs without it",
    ]
    found.query("UPDATE performance_schema.setup_consumers SET enabled='NO' WHERE name='events_waits_history'")
    assert "performance_schema_consumer_events_waits_history=ON: the consumer is off" in found.ignored_settings()


@pytest.mark.server
def test_instruments_of_a_server_without_performance_schema_are_reported(make):
    found = make("mysql:8.0.15,performance_schema_instrument=memory/%=off")
    found.start()
    (said,) = found.ignored_settings()
    assert said.startswith("performance_schema_instrument=memory/%=off: this server has no such instrument")


def test_a_pipe_is_not_read_for_the_names_of_its_options(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert parse_server(f"mysql:8.0,@{tmp_path}/pipe").cnf_options == ()
