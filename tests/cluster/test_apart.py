"""Client and servers on hosts of their own: network namespaces of this machine, joined by a link with delay and loss.

Ray speaks over a plain pair of devices (10.0.0.x); what is measured goes over the link (10.1.0.x).
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from bakeoff.results import open_run
from bakeoff.servers.paths import cache_root, make_open_folder

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
        self.undo = undo
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
                "ip", "netns", "exec", self.spaces[at], str(RAY), "start", *options, f"--node-ip-address=10.0.0.{at + 1}",
                f"--node-name={self.names[at]}", f"--num-cpus={at}", "--object-store-memory=80000000", "--block",
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

    def start(self, shell, *arguments):
        return subprocess.Popen(
            ["ip", "netns", "exec", self.spaces[0], *COMMAND, *arguments],
            cwd=shell.folder, env=shell.env | self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def duel(self, shell, *more, interface="10.1.0.2"):
        """A duel of equal servers, loaded from host-a."""
        return self.start(
            shell, "duel", "mysql:8.0.15", "mysql:8.0.15", *SMALL, "--ray", "10.0.0.1:6379",
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
def hosts():
    if os.geteuid() != 0 or not Path("/dev/net/tun").exists() or not shutil.which("ip"):
        pytest.skip("network namespaces and TUN devices need root, ip and /dev/net/tun")
    with contextlib.ExitStack() as undo:
        yield Hosts(undo)


@pytest.fixture
def undo():
    with contextlib.ExitStack() as stack:
        yield stack


def finish(process, limit_s=240):
    out, err = process.communicate(timeout=limit_s)
    assert "Traceback" not in out + err, out + err
    return process.returncode, out, err


def wait_for(condition, limit_s, what):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {limit_s} s for {what}")


def flags(run):
    return {flag["kind"] for comparison in run.analysis()["comparisons"] for flag in comparison["flags"]}


def listeners(hosts, process):
    """Addresses and ports at which a server listens, TCP of its namespace."""
    return {(each.laddr.ip, each.laddr.port) for each in process.net_connections("tcp") if each.status == "LISTEN"}
