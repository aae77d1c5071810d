"""How the drop-in connects: character set, accounts, TLS, rotation, options files; on a real server."""

import json
import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bakeoff import servers
from bakeoff.spec import parse_server
from tests.conftest import wait_for

pytestmark = pytest.mark.server

SELECT_1 = """
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query("SELECT 1") end
"""
SAY = """
function prepare()
  local con = sysbench.sql.driver():connect()
  print("answer", con:query_row("{sql}"))
end
function event() end
"""


def answer(ours, *arguments, sql, **env) -> str:
    ran = ours("/dev/stdin", *arguments, "prepare", stdin=SAY.replace("{sql}", sql), **env)
    assert ran.code == 0, ran.out
    return ran.out.split("answer\t", 1)[1].strip()


@pytest.fixture(scope="module")
def account(lasting_server):
    """An account with a password over TCP; mysql_native_password lets it log in without TLS."""
    server = lasting_server
    server.sql(
        "CREATE USER drop_in@'127.0.0.1' IDENTIFIED WITH mysql_native_password BY 'a b#c'; "
        f"GRANT ALL ON {server.database}.* TO drop_in@'127.0.0.1'",
        "mysql",
    )
    yield (
        "--mysql-host=127.0.0.1",
        f"--mysql-port={server.port}",
        "--mysql-user=drop_in",
        f"--mysql-db={server.database}",
    )
    server.sql("DROP USER drop_in@'127.0.0.1'", "mysql")


CHARSET = "SELECT CONCAT(@@character_set_client, ' ', @@collation_connection)"


def test_the_character_set_is_chosen_reported_and_recorded(ours, server):
    assert answer(ours, *server.options, sql=CHARSET) == "utf8mb4 utf8mb4_0900_ai_ci"
    latin1 = ("--mysql-charset=latin1", "--mysql-collation=latin1_bin")
    assert answer(ours, *server.options, *latin1, sql=CHARSET) == "latin1 latin1_bin"
    script = (
        "function thread_init() con = sysbench.sql.driver():connect() end function event() con:query('SELECT 1') end"
    )
    ran = ours("/dev/stdin", *server.options, *latin1, "--remarks", "--events=1", "run", stdin=script)
    assert "Connection character set: latin1, collation: latin1_bin\nThreads started!\n" in ran.out
    result = json.loads(ours("/dev/stdin", *server.options, "--events=1", "--json", "run", stdin=script).out)
    assert (result["charset"], result["collation"]) == ("utf8mb4", None)
    assert result["server"]["collation"] == "utf8mb4_0900_ai_ci"
    assert result["server"]["version"].startswith("8.0.15")


def test_passwords_come_from_the_command_line_the_environment_or_a_file(ours, server, account, tmp_path):
    me = "SELECT CURRENT_USER()"
    assert answer(ours, *account, "--mysql-password=a b#c", sql=me) == "drop_in@127.0.0.1"
    assert answer(ours, *account, sql=me, MYSQL_PWD="a b#c") == "drop_in@127.0.0.1"
    file = tmp_path / "my.cnf"
    file.write_text(
        "[mysqld]\nport=1\n[client]\nuser=drop_in\npassword='a b#c'\nhost=127.0.0.1\n"
        f"port={server.port}\ndefault-character-set=latin1\n"
    )
    with_file = (f"--my-cnf={file}", f"--mysql-db={server.database}")
    assert answer(ours, *with_file, sql=me) == "drop_in@127.0.0.1"
    assert answer(ours, *with_file, sql="SELECT @@character_set_client") == "latin1"
    assert answer(ours, *with_file, "--mysql-charset=utf8mb4", sql="SELECT @@character_set_client") == "utf8mb4"


@pytest.fixture(scope="module")
def tls_server():
    """A MySQL 8.0.15 that offers TLS, and options for its TCP account."""
    with servers.sandbox(parse_server("mysql:8.0.15,ssl=1")) as box:
        account = box.tcp_account
        address = ("--mysql-host=127.0.0.1", f"--mysql-port={box.instance.port}", "--mysql-db=mysql")
        yield (*address, f"--mysql-user={account.user}", f"--mysql-password={account.password}"), box.instance.datadir


@pytest.mark.parametrize(
    ("mode", "encrypted"),
    [("off", False), ("disabled", False), ("preferred", True), ("required", True), ("on", True)],
)
def test_tls_follows_the_ssl_mode(ours, tls_server, mode, encrypted):
    options, _ = tls_server
    cipher = "SELECT LENGTH(VARIABLE_VALUE) FROM performance_schema.session_status WHERE VARIABLE_NAME = 'Ssl_cipher'"
    assert (int(answer(ours, *options, f"--mysql-ssl={mode}", sql=cipher)) > 0) == encrypted


def test_verify_ca_checks_the_certificate(ours, tls_server):
    options, datadir = tls_server
    verify = (*options, "--mysql-ssl=verify_ca")
    assert answer(ours, *verify, f"--mysql-ssl-ca={datadir}/ca.pem", sql="SELECT 1") == "1"
    # A certificate that did not sign the server's.
    stranger = f"--mysql-ssl-ca={datadir}/client-cert.pem"
    ran = ours("/dev/stdin", *verify, stranger, "prepare", stdin=SAY.replace("{sql}", "SELECT 1"))
    assert ran.code == 1
    assert "FATAL: error 2026: " in ran.out
    assert ours("/dev/stdin", *verify, "prepare", stdin=SAY.replace("{sql}", "SELECT 1")).code == 1


def test_required_tls_does_not_fall_back_to_plain_text(ours, server, account):
    required = (*account, "--mysql-password=a b#c", "--mysql-ssl=required")
    ran = ours("/dev/stdin", *required, "prepare", stdin=SAY.replace("{sql}", "SELECT 1"))
    assert ran.code == 1
    assert "FATAL: error 2026: TLS connection error: TLS is required" in ran.out


def test_connections_take_turns_over_the_addresses(ours, server):
    """One of the two sockets does not exist, so every second connection fails."""
    script = """
    function prepare()
      for _ = 1, 4 do
        print("went", (pcall(function() sysbench.sql.driver():connect() end)))
      end
    end
    function event() end
    """
    ran = ours(
        "/dev/stdin", f"--mysql-socket={server.socket},/nowhere.sock", *server.options[1:], "prepare", stdin=script
    )
    assert re.findall(r"went\t(\w+)", ran.out) == ["true", "false", "true", "false"]


def test_a_script_names_its_own_account(ours, account, server):
    script = f"""
    function prepare()
      local target = {{ host = "127.0.0.1", port = {server.port}, user = "drop_in", password = "a b#c" }}
      local con = sysbench.sql.driver():connect(target)
      print("answer", con:query_row("SELECT CURRENT_USER()"))
    end
    function event() end
    """
    ran = ours("/dev/stdin", *server.options, "prepare", stdin=script)
    assert ran.out.split("answer\t")[1].strip() == "drop_in@127.0.0.1"


def test_statements_mean_the_same_in_every_prepare_mode(ours, server):
    script = """
    function prepare()
      local con = sysbench.sql.driver():connect()
      local st = con:prepare("SELECT ?, 'what?', ?, ?")
      local text, number = st:bind_create(sysbench.sql.type.VARCHAR, 20), st:bind_create(sysbench.sql.type.INT)
      local float = st:bind_create(sysbench.sql.type.DOUBLE)
      st:bind_param(text, number, float)
      for _, value in ipairs({ "abcdef", "x'y\\\\z", "" }) do
        text:set(value) number:set(-7) float:set(0.5)
        print("row", unpack(st:execute():fetch_row(), 1, 4))
      end
    end
    function event() end
    """
    said = {}
    for mode in ("auto", "server", "disable", "client", "text"):
        ran = ours("/dev/stdin", *server.options, f"--db-ps-mode={mode}", "prepare", stdin=script)
        said[mode] = re.findall(r"^row\t.*", ran.out, re.MULTILINE)
    assert said["auto"] == ["row\tabcdef\twhat?\t-7\t0.5", "row\tx'y\\z\twhat?\t-7\t0.5", "row\t\twhat?\t-7\t0.5"]
    assert all(lines == said["auto"] for lines in said.values())


def test_a_lost_connection_is_reopened_if_its_error_is_ignored(ours, server):
    script = """
    local n = 0
    function thread_init() con = sysbench.sql.driver():connect() end
    function event()
      n = n + 1
      if n == 3 then con:query("KILL CONNECTION_ID()") end
      con:query("SELECT 1")
    end
    """
    ran = ours("/dev/stdin", *server.options, "--mysql-ignore-errors=all", "--events=10", "--json", "run", stdin=script)
    result = json.loads(ran.out)
    assert ran.code == 0
    assert (result["events"], result["reconnects"]) == (10, 1)
    assert result["errors"]["1317"] == 1


def test_a_server_that_dies_ends_the_run_even_when_its_errors_are_ignored(ours, original, tmp_path):
    """The original ends, too: with a segmentation fault."""
    script = tmp_path / "select_1.lua"
    script.write_text(SELECT_1)
    with servers.sandbox(parse_server("mysql:8.0.15")) as box, ThreadPoolExecutor(4) as pool:
        where = (f"--mysql-socket={box.instance.socket_path}", "--mysql-user=root", "--mysql-db=mysql")
        run = (str(script), *where, "--time=30", "--report-interval=1", "run")
        begun = [
            (program, pool.submit(program, *run, f"--mysql-ignore-errors={ignored}"))
            for program in (ours, original)
            for ignored in ("all", "2013")
        ]
        connected = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'mysql'"
        wait_for(lambda: box.instance.query(connected)[0][0] >= 4, what="four connections")
        time.sleep(1)
        os.kill(box.instance.pid, signal.SIGKILL)
        ended = [(program, run.result()) for program, run in begun]
    for program, ran in ended:
        if program is original:
            assert ran.code in (1, -signal.SIGSEGV)
        else:
            assert ran.code == 1 and "error 2013 (Lost connection" in ran.out + ran.err
            assert "[ 20s ]" not in ran.out + ran.err
