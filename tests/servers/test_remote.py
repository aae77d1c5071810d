"""Running servers: where the password comes from, errors when nobody answers, and that nothing on them is changed."""

import socket
import ssl
from types import SimpleNamespace

import pymysql
import pytest

from bakeoff.errors import HostError, ServerError, SpecError
from bakeoff.servers import RemoteServer, client, readiness
from bakeoff.spec import parse_server


@pytest.fixture(autouse=True)
def a_home_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    return tmp_path


def test_a_typed_password_beats_mysql_pwd_and_my_cnf(monkeypatch, tmp_path):
    spec = parse_server("mysql://me@db.example:3307/")
    assert RemoteServer(spec).account().password == ""
    (tmp_path / ".my.cnf").write_text("[mysqld]\npassword=no\n[client]\npassword = 'from file'\n")
    assert RemoteServer(spec).account().password == "from file"
    monkeypatch.setenv("MYSQL_PWD", "from env")
    assert RemoteServer(spec).account().password == "from env"
    assert RemoteServer(spec, password="typed").account().password == "typed"
    assert "typed" not in repr(RemoteServer(spec, password="typed").account())


@pytest.mark.server
def test_non_ascii_passwords_are_sent_unchanged(sandbox):
    root = RemoteServer(parse_server(f"mysql://root@localhost/?socket={sandbox['socket']}"))
    root.query("CREATE USER walker@localhost IDENTIFIED WITH mysql_native_password BY 'geheimnüß€'")
    try:
        walker = parse_server(f"mysql://walker@localhost/?socket={sandbox['socket']}")
        assert RemoteServer(walker, password="geheimnüß€").query("SELECT 1") == [(1,)]
    finally:
        root.query("DROP USER walker@localhost")


def test_the_address_is_taken_from_the_url():
    assert RemoteServer(parse_server("mysql://me@db:3307/")).address() == {"host": "db", "port": 3307}
    assert RemoteServer(parse_server("mysql://me@localhost/?socket=/run/x.sock")).address("tcp") == {
        "socket": "/run/x.sock"
    }


def test_options_for_a_running_server_are_refused():
    with pytest.raises(SpecError, match="cannot be given to a running server"):
        RemoteServer(parse_server("mysql://me@db/,innodb_flush_method=fsync"))


def test_an_unreachable_server_is_an_error():
    with pytest.raises(HostError, match=r"no server answers at 127\.0\.0\.1:1\."):
        RemoteServer(parse_server("mysql://me@127.0.0.1:1/")).connect()


def test_an_invalid_host_name_is_an_error():
    with pytest.raises(ServerError, match=r"server db\.\.example:3306: .*label empty or too long"):
        RemoteServer(parse_server("mysql://me@db..example/")).connect()


def test_a_listener_that_sends_nothing_is_an_error(monkeypatch):
    monkeypatch.setattr(client, "_LOGIN_LIMIT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(HostError, match=f"no server answers at {address}"):
            RemoteServer(parse_server(f"mysql://me@{address}/")).connect()


@pytest.mark.parametrize(
    ("code", "complaint", "message"),
    [
        (1045, "Access denied for user 'me'@'db' (using password: YES)", "refuses user me: wrong password"),
        (1044, "Access denied for user 'me'@'%' to database 'd'", "to database 'd'"),
    ],
)
def test_a_refusal_is_reported_with_its_own_reason(monkeypatch, code, complaint, message):
    def refuse(**_how):
        raise pymysql.err.OperationalError(code, complaint)

    monkeypatch.setattr(client, "Connection", refuse)
    remote = RemoteServer(parse_server("mysql://me@db:3307/"), password="geheim")
    with pytest.raises(ServerError, match=message) as caught:
        remote.connect("d")
    assert ("wrong password" in str(caught.value)) is (code == 1045)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("encrypted", [False, True])
def test_unsupported_tls_falls_back_to_plaintext_unless_tls_is_required(monkeypatch, encrypted):
    tried = []

    def connect(**how):
        tried.append(how.get("ssl_disabled", False))
        if tried[-1]:
            return SimpleNamespace(limit_reads=lambda seconds: None)
        problem = pymysql.err.OperationalError(2003, "Can't connect to MySQL server on 'db' (unsupported protocol)")
        problem.original_exception = ssl.SSLError("unsupported protocol")
        raise problem

    monkeypatch.setattr(client, "Connection", connect)
    remote = RemoteServer(parse_server("mysql://me@db:3307/"), password="", encrypted=encrypted)
    if encrypted:
        with pytest.raises(ServerError, match=r"db:3307: .*unsupported protocol"):
            remote.connect()
    else:
        remote.connect()
    assert tried == ([False] if encrypted else [False, True])


@pytest.mark.server
def test_warming_a_running_server_leaves_its_settings_unchanged(sandbox):
    root = RemoteServer(parse_server(f"mysql://root@localhost/?socket={sandbox['socket']}"))
    reader = parse_server(f"mysql://reader@127.0.0.1:{sandbox['port']}/")
    root.query("CREATE USER reader@'127.0.0.1' IDENTIFIED WITH mysql_native_password BY 'right'")
    root.query("GRANT ALL ON *.* TO reader@'127.0.0.1'")
    root.query("CREATE DATABASE d")
    try:
        remote = RemoteServer(reader, password="right")
        assert remote.version_string == "8.0.15"
        root.query("CREATE TABLE d.t (id INT PRIMARY KEY)")
        before = remote.variables()
        assert readiness.warm(remote, "d")
        readiness.finish_pending_work(remote, 0.5)
        after = remote.variables()
        assert {name for name in before if before[name] != after[name] and name.startswith("innodb")} == set()
        assert remote.data_bytes("d") > 0
        with pytest.raises(ServerError, match="wrong password") as caught:
            RemoteServer(reader, password="secret").connect()
        assert "secret" not in str(caught.value)
    finally:
        root.query("DROP DATABASE d")
        root.query("DROP USER reader@'127.0.0.1'")
