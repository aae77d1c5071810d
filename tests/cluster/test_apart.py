"""Client and servers on hosts of their own: network namespaces of this machine, joined by a link with delay and loss.

Ray speaks over a plain pair of devices (10.0.0.x); what is measured goes over the link (10.1.0.x).
"""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pymysql
import pytest

from bakeoff.results import open_run
from bakeoff.servers.paths import cache_root, make_open_folder
from tests.conftest import wait_for

COMMAND = (sys.executable, "-m", "bakeoff.cli.start")
RAY = Path(sys.executable).with_name("ray")
SMALL = (
    "-w", "oltp_point_select", "--tables", "1", "--table-size", "2000", "--builds", "1", "--warm-up", "1s",
    "--seed", "3", "--quiet",
)  # fmt: skip


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Hosts:
    """Two hosts: `host-a` (10.0.0.1, Ray's head), where the command runs, and `host-b` (10.0.0.2)."""

    names = ("host-a", "host-b")

    def __init__(self, undo):
        self.started = []
        self.folder = Path(tempfile.mkdtemp(prefix="ba-"))  # short: sockets lie below it
        undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        self.spaces = [f"bakeoff-{os.getpid()}-{name}" for name in "ab"]
        for space in self.spaces:
            ip("netns", "add", space)
            undo.callback(ip, "netns", "delete", space)
            ip("-n", space, "link", "set", "lo", "up")
        a, b = self.spaces
        ip("link", "add", "plain", "netns", a, "type", "veth", "peer", "name", "plain", "netns", b)
        for number, space in enumerate(self.spaces, 1):
            ip("-n", space, "address", "add", f"10.0.0.{number}/24", "dev", "plain")
            ip("-n", space, "address", "add", f"fd00::{number}/64", "dev", "plain", "nodad")
            ip("-n", space, "link", "set", "plain", "up")
        (self.folder / "token").write_text("0" * 64)
        (self.folder / "token").chmod(0o600)
        self.env = os.environ | {
            "RAY_TMPDIR": str(self.folder),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.folder / "token"),
            "RAY_worker_niceness": "0",
        }
        undo.callback(self.kill_all)
        self.start_ray(0, "--head", "--port=6379", "--include-dashboard=false", f"--temp-dir={self.folder}")
        self.start_ray(1, "--address=10.0.0.1:6379")

    def start_ray(self, at, *options):
        own = self.folder / self.names[at] / "bakeoff"
        own.mkdir(parents=True)
        for shared in ("servers", "templates", "locks"):
            (own / shared).symlink_to(make_open_folder(cache_root() / shared))
        process = subprocess.Popen(
            [
                "ip", "netns", "exec", self.spaces[at], str(RAY), "start", *options,
                f"--node-ip-address=10.0.0.{at + 1}", f"--node-name={self.names[at]}", f"--num-cpus={at}",
                "--object-store-memory=80000000", "--block",
            ],
            env=self.env | {"XDG_CACHE_HOME": str(own.parent)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        said = ""
        for line in process.stdout:
            said += line
            if "Ray runtime started" in line:
                return
        raise AssertionError(said)

    def link(self, undo, *, one_way_s, lost=0.0):
        """A link between the hosts, 10.1.0.1 and 10.1.0.2, until the test ends."""
        a, b = self.spaces
        words = [a, "10.1.0.1", b, "10.1.0.2", str(one_way_s), str(lost)]
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
            ["ip", "netns", "exec", self.spaces[0], *COMMAND, *arguments],
            cwd=shell.folder, env=shell.env | self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def duel(self, shell, *more, interface="10.1.0.2"):
        """A duel of equal servers, loaded from host-a."""
        return self.start(
            shell, "duel", "mysql:5.7.22", "mysql:5.7.22", *SMALL, "--ray", "10.0.0.1:6379",
            "--client", "host-a", "--servers", "host-b", "--interface", interface, *more,
        )  # fmt: skip

    def on(self, name, word):
        """Processes of a host whose command line has a word."""
        own, found = str(self.folder / name), []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                here = process.environ().get("XDG_CACHE_HOME") == own or own in " ".join(process.cmdline())
                if here and word in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def kill_all(self):
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("RAY_TMPDIR") == str(self.folder):
                    process.kill()
        for process in psutil.process_iter():  # servers have an environment of their own
            with contextlib.suppress(psutil.Error):
                if str(self.folder) in " ".join(process.cmdline()):
                    process.kill()


@pytest.fixture(scope="module")
def namespaces():
    probe = f"bakeoff-{os.getpid()}-probe"
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
        ip("netns", "add", probe)
        ip("netns", "delete", probe)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces and TUN devices need root, ip and /dev/net/tun: {error}")
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


def names_in(path):
    return {file.name for file in path.iterdir()}


def finish(process, limit_s=240):
    out, err = process.communicate(timeout=limit_s)
    assert "Traceback" not in out + err, out + err
    return process.returncode, out, err


def flags(run):
    comparisons = run.read_json("analysis.json")["comparisons"]
    return {flag["kind"] for comparison in comparisons for flag in comparison["flags"]}


def listening(process):
    """Where a process listens for TCP, by its own namespace's table."""
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
    """What a process has in its writable memory."""
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


def measuring(hosts):
    """A server and the engine that loads it from the other host, once the server has the account for it."""
    servers, engines = hosts.on("host-b", "mysqld"), hosts.on("host-a", "bakeoff-engine")
    for server in servers if engines else ():
        with contextlib.suppress(psutil.Error):
            if account := account_of(server):
                return server, engines[0], account
    return None


@pytest.mark.server
def test_a_duel_over_a_slow_link(shell, hosts, undo):
    hosts.link(undo, one_way_s=0.005)  # long beside what waiting for a CPU adds where other tests run
    process = hosts.duel(shell, "--threads", "4", "--budget", "30s", "--no-verdict", "--precision", "5%")
    server, engine, (allowed_from, stored) = wait_for(lambda: measuring(hosts), 120, "a server with an account")
    assert listening(server) == {"10.1.0.2"}
    assert allowed_from == "10.1.0.1"
    # The engine gets the password soon after the account is made; so it would be found elsewhere, too.
    wait_for(lambda: holds_password(memory_of(engine), stored), what="the password in the engine")
    commands = [each.info["cmdline"] for each in psutil.process_iter(["cmdline"])]
    code, out, err = finish(process)
    assert (code, err) == (0, "")

    (path,) = shell.runs
    files = [each for folder in (path, hosts.folder) for each in folder.rglob("*") if each.is_file()]
    assert any("session" in str(each) and each.suffix == ".log" for each in files)
    for content in (*(each.read_bytes() for each in files), repr(commands).encode()):
        assert not holds_password(content, stored)
    run = open_run(path)
    network = run.network()
    assert (network.client_address, network.servers_address) == ("10.1.0.1", "10.1.0.2")
    assert 10e6 < network.rtt_ns < 15e6
    assert network.bytes_per_s > 1e6
    assert names_in(path / "hosts") == {"host-a.json", "host-b.json"}
    assert {run.outcome(epoch).host for epoch in run.finished_epochs()} == {"host-b"}
    for arm in run.read_json("analysis.json")["arms"]:
        assert 0.5 * 4 / (network.rtt_ns / 1e9) < arm["tps"] < 4 / 0.010
        assert arm["server_cpu_ns_per_event"] is None
        assert 0 < arm["client_cpu_share"] < 1
    assert flags(run) == {"NETWORK"}
    sentence = "Client on host-a (10.1.0.1), servers on host-b (10.1.0.2); round trip "
    assert sentence in " ".join(out.split())
    assert sentence in (path / "report.html").read_text()
    assert hosts.on("host-b", "mysqld") == hosts.on("host-a", "bakeoff-engine") == []


@pytest.mark.slow
@pytest.mark.server
def test_lost_packets_make_a_tail(shell, hosts, undo):
    hosts.link(undo, one_way_s=0.001, lost=0.03)
    code, _, err = finish(hosts.duel(shell, "--threads", "4", "--budget", "40s", "--no-verdict", "--precision", "5%"))
    assert (code, err) == (0, "")
    for arm in open_run(shell.runs[0]).read_json("analysis.json")["arms"]:
        quantiles = arm["quantiles_ns"]
        assert quantiles["0.5"] < 10e6 < 100e6 < quantiles["0.99"]  # a packet is sent again after 200 ms


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize(
    ("interface", "address"), [("plain", "10.0.0.2"), ("10.0.0.2", "10.0.0.2"), ("fd00::2", "fd00::2")]
)
def test_a_fast_network_does_not_decide(shell, hosts, interface, address):
    code, out, err = finish(hosts.duel(shell, "--budget", "40s", "--no-verdict", interface=interface))
    assert (code, err) == (0, "")
    run = open_run(shell.runs[0])
    assert run.network().servers_address == address
    assert run.network().rtt_ns < 1e6
    assert "NETWORK" not in flags(run), out


@pytest.mark.slow
@pytest.mark.server
def test_encrypted_connections_of_unlike_servers(shell, hosts, undo):
    hosts.link(undo, one_way_s=0.0002)
    process = hosts.start(
        shell, "duel", "mysql:8.0.15", "mysql:9", "mariadb:11.8", *SMALL, "--ray", "10.0.0.1:6379",
        "--client", "host-a", "--servers", "host-b", "--interface", "10.1.0.2", "--tls", "required",
        "--budget", "60s", "--no-verdict",
    )  # fmt: skip
    code, _, err = finish(process)
    assert (code, err) == (0, "")


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(900)
@pytest.mark.parametrize("victim", ["client", "servers"])
def test_a_killed_actor_ends_the_run_and_what_is_finished_stays(shell, hosts, undo, victim):
    hosts.link(undo, one_way_s=0.0005)
    process = hosts.duel(shell, "--budget", "100s", "--no-verdict", "--precision", "0.1%")

    def second_epoch():
        path = next((path for path in shell.runs if not path.name.startswith(".")), None)
        run = open_run(path) if path else None
        return measuring(hosts) if run and run.finished_epochs() else None

    server, engine, _ = wait_for(second_epoch, 150, "a second epoch")
    parent = (engine if victim == "client" else server).parent()
    os.kill(parent.pid, signal.SIGKILL)
    wait_for(lambda: not hosts.on("host-b", "mysqld") + hosts.on("host-a", "bakeoff-engine"), 60, "servers and engine")
    code, _, err = finish(process)
    (line,) = [line for line in err.splitlines() if line.startswith("bakeoff:")]
    assert code == (3 if victim == "client" else 4), err
    assert "node host-a was lost" in line if victim == "client" else "no host is left" in line
    assert "Finished epochs are kept" in line
    run = open_run(shell.runs[0])
    valid = [epoch for epoch in run.finished_epochs() if run.outcome(epoch).valid]
    lost = [run.outcome(epoch).discard_reason for epoch in run.finished_epochs() if epoch not in valid]
    assert valid and len(lost) == 1, lost
    code, _, err = finish(hosts.start(shell, "run", "--resume", run.name, "--ray", "10.0.0.1:6379", "--quiet"))
    assert code == 0, err
    assert len(run.finished_epochs()) > len(valid) + len(lost)
    assert {run.outcome(epoch).host for epoch in run.finished_epochs()} == {"host-b"}


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(900)
def test_a_killed_engine_costs_its_epoch_and_no_other(shell, hosts, undo):
    hosts.link(undo, one_way_s=0.0005)
    process = hosts.duel(shell, "--budget", "60s", "--no-verdict", "--precision", "0.1%")
    _, engine, _ = wait_for(lambda: measuring(hosts), 150, "a server with an account")
    engine.kill()
    code, _, err = finish(process)
    assert (code, err) == (0, "")
    run = open_run(shell.runs[0])
    outcomes = [run.outcome(epoch) for epoch in run.finished_epochs()]
    assert [outcome.valid for outcome in outcomes][:2] == [False, True]
    assert "there: status -9" in outcomes[0].discard_reason


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(900)
def test_a_network_that_is_cut_ends_the_run(shell, hosts, undo):
    link = hosts.link(undo, one_way_s=0.0005)
    process = hosts.duel(shell, "--budget", "100s", "--no-verdict", "--precision", "0.1%")
    _, engine, _ = wait_for(lambda: measuring(hosts), 150, "a server with an account")
    os.kill(link.pid, signal.SIGSTOP)
    undo.callback(os.kill, link.pid, signal.SIGCONT)
    engine.wait(timeout=60)
    code, _, err = finish(process)
    assert code == 4, err
    assert re.search(r"had to be discarded: the (client's node does not connect|connection to the client's node)", err)
    assert hosts.on("host-b", "mysqld") == hosts.on("host-a", "bakeoff-engine") == []


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(900)
def test_ctrl_c_ends_both_hosts(shell, hosts, undo):
    hosts.link(undo, one_way_s=0.0005)
    process = hosts.duel(shell, "--budget", "100s", "--no-verdict")
    wait_for(lambda: measuring(hosts), 120, "a server with an account")
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130, err
    assert hosts.on("host-b", "mysqld") == hosts.on("host-a", "bakeoff-engine") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--interface", "10.9.9.9"), "--interface 10.9.9.9: there is no such interface or address. It has plain"),
        (("--interface", "lo"), "--interface lo: no other host reaches a loopback interface."),
        (("--client", "host-c"), "--client host-c: ray has no node of that name. It has host-a, host-b."),
    ],
)
def test_what_is_not_there_is_one_line(shell, hosts, options, words):
    code, _, err = finish(hosts.duel(shell, "--budget", "60s", *options))
    (line,) = err.splitlines()
    assert (code, words in line) == (2, True), err
    assert shell.runs == []
