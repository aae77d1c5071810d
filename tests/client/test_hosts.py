"""Client and servers on separate hosts: network namespaces of this machine, joined by a link with delay and loss.

The client's sshd is at 10.0.0.1 on a plain pair of devices and at 10.1.0.1 on the link; bakeoff runs on the other host.
"""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pymysql
import pytest

from bakeoff.results import open_run
from tests.client.sshd import Sshd
from tests.conftest import COMMAND, make_shell_folder, wait_for

SMALL = (
    "-w", "oltp_point_select", "--tables", "1", "--table-size", "2000", "--builds", "1", "--warm-up", "1s",
    "--seed", "3", "--quiet",
)  # fmt: skip
PLAIN, LINK = "10.0.0.1", "10.1.0.1"


def install(*servers):
    """Fetch servers that are not here yet: a namespace has no way out."""
    for server in servers:
        subprocess.run([*COMMAND, "server", "install", server], check=True, capture_output=True)


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Hosts:
    """Two hosts: the client's with an sshd, and the servers', where the command runs."""

    def __init__(self, undo):
        self.started = []
        self.folder = make_shell_folder()
        undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.client, self.servers = (f"bakeoff-{os.getpid()}-{name}" for name in ("client", "servers"))
        for space in (self.client, self.servers):
            ip("netns", "add", space)
            undo.callback(ip, "netns", "delete", space)
            ip("-n", space, "link", "set", "lo", "up")
        ip("link", "add", "plain", "netns", self.client, "type", "veth", "peer", "name", "plain", "netns", self.servers)
        for number, space in enumerate((self.client, self.servers), 1):
            ip("-n", space, "address", "add", f"10.0.0.{number}/24", "dev", "plain")
            ip("-n", space, "address", "add", f"fd00::{number}/64", "dev", "plain", "nodad")
            ip("-n", space, "link", "set", "plain", "up")
        self.sshd = Sshd(self.folder, space=self.client)
        undo.callback(self.sshd.close)

    def link(self, undo, *, one_way_s, lost=0.0):
        """A link between the hosts, 10.1.0.1 and 10.1.0.2, until the test ends."""
        words = [self.client, LINK, self.servers, "10.1.0.2", str(one_way_s), str(lost)]
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("link.py")), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        undo.callback(process.wait, 10)
        undo.callback(process.stdin.close)
        assert process.stdout.readline() == b"up\n"
        return process

    def start(self, shell, *arguments):
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.servers, *COMMAND, *arguments],
            cwd=shell.folder, env=shell.env | {"BAKEOFF_SSH": self.sshd.command}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def duel(self, shell, *more, client=LINK):
        """A duel of equal servers."""
        return self.start(shell, "duel", "mysql:5.7.22", "mysql:5.7.22", *SMALL, "--client", client, *more)

    def engines(self):
        """Engines that were copied to the client's host."""
        return _running(str(self.sshd.cache))


def mysqlds(shell):
    return [process for process in _running(str(shell.cache)) if process.name() == "mysqld"]


def _running(word):
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            is_ours = command and (command[0].startswith(word) or any(f"={word}" in each for each in command))
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@pytest.fixture(scope="module")
def namespaces():
    probe = f"bakeoff-{os.getpid()}-probe"
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
        ip("netns", "add", probe)
        ip("netns", "delete", probe)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces and TUN devices need root, ip and /dev/net/tun: {error}")
    install("mysql:5.7.22")
    with contextlib.ExitStack() as undo:
        yield Hosts(undo)


@pytest.fixture
def hosts(namespaces):
    yield namespaces
    for process in namespaces.started:
        process.kill()  # of a test that failed
        process.wait()


@pytest.fixture
def undo():
    with contextlib.ExitStack() as stack:
        yield stack


def finish(process, limit_s=240):
    out, err = process.communicate(timeout=limit_s)
    assert "Traceback" not in out + err, out + err
    return process.returncode, out, err


def flags(run):
    comparisons = run.read_json("analysis.json")["comparisons"]
    return {flag["kind"] for comparison in comparisons for flag in comparison["flags"]}


def listening(process):
    """Addresses on which a process listens for TCP, from the table of its namespace."""
    inodes = set()
    for entry in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(str(entry.readlink()))
    found = set()
    for table, size in (("tcp", 8), ("tcp6", 32)):
        for line in Path(f"/proc/{process.pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                digits = words[1].partition(":")[0]
                assert len(digits) == size
                found.add(".".join(str(byte) for byte in reversed(bytes.fromhex(digits))))
    return found


def socket_of(process):
    return next(word.partition("=")[2] for word in process.cmdline() if word.startswith("--socket="))


def account_of(process):
    """The host and the stored hash of the account for TCP; None until it is made."""
    with (
        contextlib.suppress(pymysql.MySQLError),
        pymysql.connect(unix_socket=socket_of(process), user="root") as server,
        server.cursor() as cursor,
    ):
        cursor.execute("SELECT Host, authentication_string FROM mysql.user WHERE User = 'bakeoff'")
        return cursor.fetchone()


def holds_password(content, stored):
    """Whether a text holds the password of a stored hash (mysql_native_password): 32 hexadecimal digits."""
    for run in re.findall(rb"[0-9a-f]{32,}", content):
        for begin in range(len(run) - 31):
            twice = hashlib.sha1(hashlib.sha1(run[begin : begin + 32]).digest()).hexdigest()
            if twice.upper() == stored.removeprefix("*"):
                return True
    return False


def memory_of(process):
    """Return the contents of a process's writable memory."""
    content = []
    with Path(f"/proc/{process.pid}/mem").open("rb") as memory:
        for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines():
            span, rights, *_ = line.split()
            begin, end = (int(each, 16) for each in span.split("-"))
            with contextlib.suppress(OSError, ValueError, OverflowError):
                if rights.startswith("rw"):
                    memory.seek(begin)
                    content.append(memory.read(end - begin))
    return b"".join(content)


def measuring(hosts, shell):
    """A server and the engine that loads it from the other host, once the server has the account for it."""
    servers, engines = mysqlds(shell), hosts.engines()
    for server in servers if engines else ():
        with contextlib.suppress(psutil.Error):
            if account := account_of(server):
                return server, engines[0], account
    return None


def nothing_is_left(hosts, shell):
    wait_for(lambda: not hosts.engines() + mysqlds(shell), 10, "the end of engines and servers")
    return True


@pytest.mark.server
def test_a_duel_over_a_slow_link_is_flagged_client_bound(shell, hosts, undo):
    hosts.link(undo, one_way_s=0.005)  # long compared with waiting for a CPU while other tests run
    process = hosts.duel(shell, "--threads", "4", "--budget", "20s", "--no-verdict", "--precision", "5%")
    server, engine, (allowed_from, stored) = wait_for(lambda: measuring(hosts, shell), 120, "a server with an account")
    assert listening(server) == {"10.1.0.2"}
    assert allowed_from == LINK
    # Proves that the search works: the engine gets the password soon after the account is created.
    wait_for(lambda: holds_password(memory_of(engine), stored), what="the password in the engine")
    commands = [each.info["cmdline"] for each in psutil.process_iter(["cmdline"])]
    code, _, err = finish(process)
    assert (code, err) == (0, "")

    (path,) = shell.runs
    files = [each for folder in (path, hosts.sshd.cache) for each in folder.rglob("*") if each.is_file()]
    for content in (*(each.read_bytes() for each in files), repr(commands).encode()):
        assert not holds_password(content, stored)
    run = open_run(path)
    network = run.network()
    assert (network.client_address, network.servers_address) == (LINK, "10.1.0.2")
    assert 10e6 < network.rtt_ns < 15e6
    assert network.bytes_per_s > 1e6
    for arm in run.read_json("analysis.json")["arms"]:
        assert 0.5 * 4 / (network.rtt_ns / 1e9) < arm["tps"] < 4 / 0.010
        assert arm["server_cpu_ns_per_event"] is None
        assert 0 < arm["client_cpu_share"] < 1
    assert flags(run) == {"CLIENT BOUND"}
    sentence = "Client on 10.1.0.1 (10.1.0.1; "
    _, whole, _ = finish(hosts.start(shell, "report", path.name, "--format", "text"))
    assert sentence in " ".join(whole.split())
    assert sentence in (path / "report.html").read_text()
    assert nothing_is_left(hosts, shell)


@pytest.mark.slow
@pytest.mark.server
def test_lost_packets_raise_the_p99(shell, hosts, undo):
    hosts.link(undo, one_way_s=0.001, lost=0.03)
    code, _, err = finish(hosts.duel(shell, "--threads", "4", "--budget", "40s", "--no-verdict", "--precision", "5%"))
    assert (code, err) == (0, "")
    for arm in open_run(shell.runs[0]).read_json("analysis.json")["arms"]:
        quantiles = arm["quantiles_ns"]
        assert quantiles["0.5"] < 10e6 < 100e6 < quantiles["0.99"]  # a packet is sent again after 200 ms


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize(("client", "address"), [(PLAIN, "10.0.0.2"), ("fd00::1", "fd00::2")])
def test_a_fast_network_is_not_the_bottleneck(shell, hosts, client, address):
    code, out, err = finish(hosts.duel(shell, "--budget", "40s", "--no-verdict", client=client))
    assert (code, err) == (0, "")
    run = open_run(shell.runs[0])
    assert run.network().servers_address == address
    assert run.network().rtt_ns < 1e6
    assert "CLIENT BOUND" not in flags(run), out


@pytest.mark.slow
@pytest.mark.server
def test_different_servers_can_be_compared_over_tls(shell, hosts, undo):
    install("mysql:8.0.15", "mysql:9", "mariadb:11.8")
    hosts.link(undo, one_way_s=0.0002)
    process = hosts.start(
        shell, "duel", "mysql:8.0.15", "mysql:9", "mariadb:11.8", *SMALL, "--client", LINK, "--tls", "required",
        "--budget", "60s", "--no-verdict",
    )  # fmt: skip
    code, _, err = finish(process)
    assert (code, err) == (0, "")


@pytest.mark.slow
@pytest.mark.server
def test_a_users_script_is_copied_to_the_client_host(shell, hosts):
    (shell.folder / "shop.lua").write_text('require("shop_common")')
    (shell.folder / "shop_common.lua").write_text(
        "function prepare() local c = sysbench.sql.driver():connect()\n"
        " c:query('CREATE TABLE t (id INT PRIMARY KEY)') c:query('INSERT INTO t VALUES (1)') end\n"
        "function thread_init() con = sysbench.sql.driver():connect() end\n"
        "function event() con:query('SELECT id FROM t') end\n"
    )
    process = hosts.start(
        shell, "duel", "mysql:5.7.22", "mysql:5.7.22", "-w", "shop.lua", "--client", PLAIN, "--budget", "40s",
        "--builds", "1", "--no-verdict", "--quiet",
    )  # fmt: skip
    code, _, err = finish(process)
    assert (code, err) == (0, "")


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(900)
def test_a_killed_engine_costs_its_epoch_and_no_other(shell, hosts, undo):
    hosts.link(undo, one_way_s=0.0005)
    process = hosts.duel(shell, "--budget", "60s", "--no-verdict", "--precision", "0.1%")
    _, engine, _ = wait_for(lambda: measuring(hosts, shell), 150, "a server with an account")
    engine.kill()
    code, _, err = finish(process)
    assert (code, err) == (0, "")
    run = open_run(shell.runs[0])
    outcomes = [run.outcome(epoch) for epoch in run.finished_epochs()]
    assert [outcome.valid for outcome in outcomes][:2] == [False, True]
    assert "the engine ended unexpectedly" in outcomes[0].discard_reason


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(900)
def test_a_cut_network_ends_the_run_and_it_can_be_resumed(shell, hosts, undo):
    link = hosts.link(undo, one_way_s=0.0005)
    process = hosts.duel(shell, "--budget", "100s", "--no-verdict", "--precision", "0.1%")

    def second_epoch():
        path = next((path for path in shell.runs if not path.name.startswith(".")), None)
        run = open_run(path) if path else None
        return measuring(hosts, shell) if run and run.finished_epochs() else None

    _, engine, _ = wait_for(second_epoch, 150, "a second epoch")
    os.kill(link.pid, signal.SIGSTOP)
    engine.wait(timeout=60)
    code, _, err = finish(process)
    assert code == 4, err
    assert re.search(r"epochs 1 and 2 both had to be discarded: the engine ended unexpectedly .*10\.1\.0\.1", err)
    assert nothing_is_left(hosts, shell)
    os.kill(link.pid, signal.SIGCONT)
    run = open_run(shell.runs[0])
    code, _, err = finish(hosts.start(shell, "run", "--resume", run.name, "--quiet"))
    assert code == 0, err
    assert len(run.finished_epochs()) > 3
    assert run.network().servers_address == "10.1.0.2"


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_engine_or_server_outlives_bakeoff(shell, hosts, undo, number):
    hosts.link(undo, one_way_s=0.0005)
    process = hosts.duel(shell, "--budget", "100s", "--no-verdict")
    wait_for(lambda: measuring(hosts, shell), 120, "a server with an account")
    process.send_signal(number)
    code, _, err = finish(process)
    assert code == (130 if number == signal.SIGINT else -number), err
    assert nothing_is_left(hosts, shell)
