import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.errors import SpecError
from bakeoff.spec import Origin, parse_server
from bakeoff.spec.server_name import url_parts, url_password


@pytest.mark.parametrize(
    "text",
    [
        "mysql",
        "mysql:8.0.15",
        "mariadb:10.11,plugin_load_add=ha_rocksdb",
        "mysql:8.0,innodb_flush_method=fsync,sync_binlog=0",
        "path:/opt/mysql,skip_log_bin",
        "tarball:mysql-8.4.6-linux-glibc2.28-x86_64.tar.xz",
        "mysql:8.0,@/etc/my.cnf,env.LD_PRELOAD=libjemalloc.so.2",
        "mysql://bench@127.0.0.1:3307/?socket=/tmp/x.sock",
    ],
)
def test_server_names_round_trip(text):
    assert str(parse_server(text)) == text


def test_dashes_and_leading_dashes_are_forgiven():
    assert parse_server("mysql:8.0,--innodb-flush-method=fsync").options == (("innodb_flush_method", "fsync"),)


def test_a_comma_inside_a_value_stays_in_it():
    spec = parse_server("mysql:8.0,sql_mode=STRICT_TRANS_TABLES,NO_ZERO_DATE,sync_binlog=0")
    assert dict(spec.options) == {"sql_mode": "STRICT_TRANS_TABLES,NO_ZERO_DATE", "sync_binlog": "0"}


def test_a_tilde_in_a_cnf_path_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "fast.cnf").write_text("[mysqld]\nsync-binlog = 0\n", "utf-8")
    assert parse_server("mysql:8.0,@~/fast.cnf").cnf_options == ("sync_binlog",)
    assert parse_server("mysql:8.0,@~nobody-is-called-this/fast.cnf").cnf_options == ()


def test_a_cnf_file_resolves_against_the_folder_it_was_named_in(tmp_path, monkeypatch):
    (tmp_path / "fast.cnf").write_text("[mysqld]\nsync-binlog = 0\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    for text in ("mysql:8.0,@fast.cnf", "mysql:8.0,@./fast.cnf"):
        spec = parse_server(text)
        assert (spec.cnf_files, spec.cnf_options) == ((str(tmp_path / "fast.cnf"),), ("sync_binlog",))
        assert str(spec) == "mysql:8.0,@fast.cnf" and parse_server(str(spec)) == spec
    monkeypatch.chdir("/")
    assert parse_server("mysql:8.0,@fast.cnf", tmp_path) == spec
    assert str(spec) == f"mysql:8.0,@{str(tmp_path).lstrip('/')}/fast.cnf"
    monkeypatch.chdir("/etc")
    assert str(spec) == f"mysql:8.0,@{tmp_path}/fast.cnf"


def test_a_password_never_stays_in_the_spec():
    spec = parse_server("mysql://bench:s%65cret@db.test:3307/")
    assert spec.origin is Origin.URL
    assert "secret" not in str(spec)
    assert "secret" not in spec.model_dump_json()
    assert "secret" not in repr(spec)
    assert url_password("mysql://bench:s%65cret@db.test:3307/") == "secret"
    assert url_parts(spec.location) == ("db.test", 3307, None, "bench")


@pytest.mark.parametrize(
    "text",
    ["", "mysql://[x", "mysql://h:port/", "mysql:", "Mysql:8.0", "path:", "mysql:8.0,=x", "mysql:8.0,9x=1", "mysql 8"],
)
def test_an_invalid_name_is_a_one_line_error_with_a_hint(text):
    with pytest.raises(SpecError) as caught:
        parse_server(text)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "mysql://root:s3,cret9@db/",
        "mysql://root:cret9@db/,bad name=1",
        "MYSQL://root:cret9@db/",
        "mysql://root:cret9",
        "mysql://root:cret9#ter@db/",
    ],
)
def test_a_url_that_is_not_understood_shows_no_password(text):
    with pytest.raises(SpecError) as caught:
        parse_server(text)
    assert "cret9" not in str(caught.value)


def test_an_address_in_brackets_keeps_them():
    spec = parse_server("mysql://bench:x@[::1]:3307/")
    assert spec.location == "mysql://bench@[::1]:3307/"
    assert url_parts(spec.location) == ("::1", 3307, None, "bench")


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        spec = parse_server(text)
    except SpecError:
        return
    assert str(spec)


def test_an_option_that_comes_twice_is_refused_unless_the_server_collects_it():
    with pytest.raises(SpecError, match="back_log appears twice"):
        parse_server("mysql:8.0,back_log=80,back-log=90")
    collected = parse_server("mysql:8.0,optimizer_switch=mrr=off,optimizer_switch=index_merge=off")
    assert dict(collected.options) == {"optimizer_switch": "mrr=off,index_merge=off"}
