"""The client's host on 127.0.0.1: what is copied, how the engine ends, and the errors when ssh fails."""

import contextlib
import os
import shutil
import signal
import socket
import stat
import threading
import time

import psutil
import pytest
from messages import study

from bakeoff.engine import engine_path
from bakeoff.errors import EngineError, HostError, SpecError
from bakeoff.results import RunDirectory
from bakeoff.run import client_host
from bakeoff.run.client_host import ClientHost
from bakeoff.spec import Study, Workload
from bakeoff.spec.study import Placement
from bakeoff.stats.progress import Listener
from tests.client.sshd import Sshd
from tests.conftest import make_shell_folder, wait_for

HERE = "127.0.0.1"


@pytest.fixture(scope="module")
def module_sshd():
    folder = make_shell_folder()
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        sshd = Sshd(folder)
        undo.callback(sshd.close)
        sshd.wait_until_it_answers()
        yield sshd


@pytest.fixture
def sshd(module_sshd, monkeypatch):
    monkeypatch.setenv("BAKEOFF_SSH", module_sshd.command)
    monkeypatch.setattr(client_host, "_BULK_S", 0.2)
    return module_sshd


class Notes(Listener):
    def __init__(self):
        self.stages, self.notes = [], []

    def stage(self, text):
        self.stages.append(text)

    def note(self, text):
        self.notes.append(text)


def connect(host=HERE, *, asked=None, listener=None, stop=None):
    asked = (asked or study()).loaded_from(host)
    return ClientHost.connect(asked, listener or Notes(), stop or threading.Event())


def engine_of(client):
    return client.engine(stop=threading.Event(), on_log=print)


def answer(engine, script="oltp_read_only"):
    """The error for an arm that the engine does not know."""
    with pytest.raises(EngineError) as caught:
        engine.command("x", script, "prepare", options={}, threads=1, seed=1)
    return caught.value


def test_the_engine_is_copied_once_and_answers_like_a_local_one(sshd):
    first, second = Notes(), Notes()
    client = connect(listener=first)
    assert "copying to 127.0.0.1" in first.stages
    (copied,) = sshd.cache.glob("bakeoff/client/engine-*/bakeoff-engine")
    assert copied.read_bytes() == engine_path().read_bytes()
    assert stat.S_IMODE(copied.stat().st_mode) == stat.S_IMODE(copied.parent.stat().st_mode) == 0o700
    connect(listener=second)
    assert "copying to 127.0.0.1" not in second.stages
    assert list(sshd.cache.glob("bakeoff/client/engine-*/b*")) == [copied]
    assert first.notes == ["127.0.0.1 is this machine: client and servers share its CPUs"]
    with engine_of(client) as engine:
        assert answer(engine).code == "bad_request"
        process = psutil.Process(engine.pid)
        assert process.exe() == str(copied)
        long = "y" * 3_000_000
        with pytest.raises(EngineError, match="yyyy"):
            engine.command(long, "oltp_read_only", "prepare", options={}, threads=1, seed=1)
    wait_for(lambda: not process.is_running(), 10, "the engine's end")


def test_the_network_is_measured_and_kept(sshd, tmp_path):
    client = connect()
    assert (client.network.client_address, client.network.servers_address) == (HERE, HERE)
    assert 1_000 < client.network.rtt_ns < 50e6
    assert client.network.bytes_per_s > 1e6
    assert f"{os.cpu_count()} × " in client.network.client_machine
    assert client.access.clients == (HERE, "localhost")
    run = RunDirectory.create(tmp_path, study())
    client.keep_network(run)
    assert run.network() == client.network
    run.write_json("network.json", run.network().model_copy(update={"client_machine": "128 × EPYC, 1 TiB"}))
    with pytest.raises(HostError, match=r"the run's client was 128 × EPYC, 1 TiB\. Start a new run\."):
        client.keep_network(run)


def test_scripts_and_captures_are_copied_with_the_files_beside_them(sshd, tmp_path):
    (tmp_path / "shop.lua").write_text('require("helper")')
    (tmp_path / "helper.lua").write_text("")
    (tmp_path / "shop.capture").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(3_000_000))
    (tmp_path / "notes.txt").write_text("not for others")
    workloads = tuple(Workload(script=str(tmp_path / name)) for name in ("shop.lua", "shop.capture"))
    asked = study().model_copy(update={"workloads": (*workloads, Workload(script="oltp_read_only"))})
    client = connect(asked=asked)
    folders = sorted((sshd.cache / "bakeoff" / "client").glob("workload-*"), key=lambda each: len([*each.iterdir()]))
    assert [{path.name for path in folder.iterdir()} for folder in folders] == [
        {"shop.capture", ".complete"},
        {"shop.lua", "helper.lua", ".complete"},
    ]
    assert client._paths == {
        str(tmp_path / "shop.lua"): str(folders[1] / "shop.lua"),
        str(tmp_path / "shop.capture"): str(folders[0] / "shop.capture"),
    }
    with engine_of(client) as engine:
        environment = psutil.Process(engine.pid).environ()
    assert environment["LUA_PATH"] == f"{folders[1]}/?.lua;{folders[0]}/?.lua;;"


def test_a_copy_that_was_cut_short_is_made_again(sshd, monkeypatch):
    shutil.rmtree(sshd.cache, ignore_errors=True)

    def cut(self, out):
        out.write(engine_path().read_bytes()[:100_000])

    with monkeypatch.context() as patch:
        patch.setattr(client_host._Folder, "write", cut)
        with pytest.raises(HostError, match=r"--client 127\.0\.0\.1: bakeoff-engine could not be copied: "):
            connect()
    assert list((sshd.cache / "bakeoff" / "client").iterdir()) == []
    with engine_of(connect()) as engine:
        assert engine.pid


def test_a_killed_engine_is_reported_as_lost(sshd):
    with engine_of(connect()) as engine:
        os.kill(engine.pid, signal.SIGKILL)
        assert answer(engine).code == "engine_lost"


def test_a_killed_ssh_ends_the_engine(sshd):
    with engine_of(connect()) as engine:
        process = psutil.Process(engine.pid)
        engine._process.kill()
        found = answer(engine)
        assert (found.code, "the engine ended unexpectedly" in found.message) == ("engine_lost", True)
        wait_for(lambda: not process.is_running(), 10, "the engine's end")


def test_a_connection_that_falls_silent_ends_the_engine(sshd, monkeypatch):
    monkeypatch.setattr(client_host, "_SILENCE_S", 2)
    monkeypatch.setattr(client_host, "_ALIVE_S", 1)
    with engine_of(connect()) as engine:
        process = psutil.Process(engine.pid)
        time.sleep(4)
        assert process.is_running()
        os.kill(engine._process.pid, signal.SIGSTOP)
        wait_for(lambda: not process.is_running(), 10, "the engine's end")
        os.kill(engine._process.pid, signal.SIGCONT)
        assert answer(engine).code == "engine_lost"


def test_strangers_are_not_taken_for_the_client():
    with client_host._Echo(HERE, "right") as echo:
        with socket.create_connection((HERE, echo.port)) as stranger:
            stranger.sendall(b"wrongp")
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
        assert echo.client == ""
        with socket.create_connection((HERE, echo.port)) as client:
            client.sendall(b"rightp")
            assert client.recv(1) == b"p"
        assert echo.client == HERE


def fake_ssh(tmp_path, monkeypatch, lines):
    """An ssh that runs a script of these lines instead."""
    script = tmp_path / "fake-ssh"
    script.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    script.chmod(0o755)
    monkeypatch.setenv("BAKEOFF_SSH", str(script))


GOOD = {
    "cache": "/tmp/x/bakeoff/client", "connection": "127.0.0.1 1 127.0.0.1 22", "boot": "0", "cpus": "8",
    "model": "CPU", "memory_kib": "1000",
}  # fmt: skip


def saying(facts):
    return [f'echo "bakeoff:{name} {value}"' for name, value in facts.items()]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"connection": "203.0.113.9 1 10.0.0.1 22"}, "ssh reaches it from 203.0.113.9, at which no server of this"),
        ({"connection": "fe80::1%eth0 1 fe80::2 22"}, "ssh reaches it from fe80::1%eth0, at which no server of this"),
        ({"connection": ""}, "ssh reaches it from an unknown address"),
    ],
)
def test_an_unfit_host_is_refused_before_anything_is_copied(tmp_path, monkeypatch, changed, words):
    facts = GOOD | changed
    fake_ssh(
        tmp_path, monkeypatch, ["echo Welcome", *(f'echo "bakeoff:{name} {value}"' for name, value in facts.items())]
    )
    with pytest.raises(HostError) as caught:
        connect("deploy@db1")
    assert f"--client deploy@db1: {words}" in str(caught.value)


@pytest.mark.parametrize(
    ("host", "options", "words"),
    [
        ("no-such-host.invalid", {}, "Could not resolve hostname no-such-host.invalid: "),
        (
            HERE,
            {"more": "-p 1"},
            "port 1: Connection refused. `ssh -oBatchMode=yes 127.0.0.1 true` must work",
        ),
        (HERE, {"key": "host_key"}, "without a password"),
        (HERE, {"known": "/dev/null"}, "Host key verification failed. `ssh -oBatchMode=yes 127.0.0.1 true` must work"),
        (HERE, {"known": "wrong"}, "Host key verification failed. `ssh -oBatchMode=yes 127.0.0.1 true` must work"),
    ],
)
def test_a_failing_ssh_is_a_one_line_error(sshd, monkeypatch, host, options, words):
    if options.get("known") == "wrong":
        wrong = sshd.folder / "wrong_hosts"
        wrong.write_text(f"[{HERE}]:{sshd.port} {(sshd.folder / 'own_key.pub').read_text()}")
        options = {"known": wrong}
    command = sshd.command_with(**options).replace(f"-p {sshd.port}", "" if "more" in options else f"-p {sshd.port}")
    monkeypatch.setenv("BAKEOFF_SSH", command)
    with pytest.raises(HostError) as caught:
        connect(host)
    assert str(caught.value).startswith(f"--client {host}: ")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_ssh_program_is_an_error(monkeypatch):
    monkeypatch.setenv("BAKEOFF_SSH", "/no/such/ssh -v")
    with pytest.raises(HostError, match=r"/no/such/ssh cannot be found\. Install"):
        connect()


def test_an_engine_that_fails_to_start_remotely_is_an_error(tmp_path, monkeypatch):
    loader = "echo \"bakeoff-engine: libc.so.6: version 'GLIBC_2.99' not found\" >&2; exit 1"
    fake_ssh(
        tmp_path, monkeypatch, [f'case "$*" in *drive*) {loader};; *tar*) cat >/dev/null; exit 0;; esac', *saying(GOOD)]
    )
    with pytest.raises(HostError, match=r"--client db1: the engine ended unexpectedly .*GLIBC_2\.99' not found"):
        connect("db1")


def test_ctrl_c_ends_a_connection_that_hangs(tmp_path, monkeypatch):
    fake_ssh(tmp_path, monkeypatch, ["exec sleep 60"])
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        connect(stop=stop)
    assert time.monotonic() - begin < 5


def test_a_firewall_between_client_and_servers_is_named(sshd, monkeypatch):
    def closed(self, address, token):
        self.client, self.port = "", 1

    monkeypatch.setattr(client_host._Echo, "__init__", closed)
    monkeypatch.setattr(client_host._Echo, "__enter__", lambda self: self)
    monkeypatch.setattr(client_host._Echo, "__exit__", lambda *_: None)
    with pytest.raises(HostError, match=r"from there 127.0.0.1 port 1 cannot be reached: Connection refused.*firewall"):
        connect()


# ---- what a study asks for -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--freeze",), "--freeze: client and servers are on different hosts"),
        (("--placement", "paired"), "--placement paired: client and servers are on different hosts"),
        pytest.param(
            ("--ray",), "--client and --ray cannot be combined. Leave one out.", marks=pytest.mark.needs("cluster")
        ),
        (("--hosts", "2"), "--hosts: it chooses nodes of a cluster."),
    ],
)
def test_options_that_conflict_with_client_are_refused(inside, options, words):
    ran = inside("duel", "mysql:5.7", "mysql:8.0.15", "--no-verdict", "--client", "db1", *options)
    assert (ran.code, words in ran.complaint) == (2, True), ran.complaint


@pytest.mark.parametrize("host", ["-oProxyCommand=touch /tmp/x", "a b", ""])
def test_a_host_is_never_passed_as_an_ssh_option(host):
    with pytest.raises(SpecError, match=r"--client .*: expected \[USER@\]HOST"):
        study().loaded_from(host)


def test_a_running_server_is_refused(inside):
    ran = inside("duel", "mysql://root@db1/", "mysql:8.0.15", "--no-verdict", "--client", "a")
    assert (ran.code, "has a running server, which --client does not reach" in ran.complaint) == (2, True)


def test_a_study_of_transports_is_refused(inside, shell):
    text = 'title: t\nservers: ["mysql:8.0.15"]\nfactors: {transport: [socket, tcp]}\nworkloads: [oltp_point_select]\n'
    (shell.folder / "my.yaml").write_text(text)
    ran = inside("run", "my.yaml", "--no-verdict", "--client", "a")
    assert (ran.code, "factor transport: client and servers are on different hosts" in ran.complaint) == (2, True)


def test_a_resumed_run_keeps_its_client(inside, shell):
    (shell.folder / "runs").mkdir()
    run = RunDirectory.create(shell.folder / "runs", study().loaded_from("a"))
    ran = inside("run", "--resume", run.name, "--client", "b")
    assert (ran.code, "Leave --client out." in ran.complaint) == (2, True)


def test_nothing_is_paired_or_frozen():
    from bakeoff.plan import plan_study

    asked = study().loaded_from("a")
    plan = plan_study(asked, overhead_s=1.0, load_s=1.0)
    assert {(cell.placement, cell.freeze) for cell in plan.cells} == {(Placement.FREE, False)}
    assert plan.unpaired == "client and servers are on different hosts"
    assert Study.model_validate_json(asked.model_dump_json()) == asked
