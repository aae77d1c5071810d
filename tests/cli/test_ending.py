"""Which signals end a run."""

import contextlib
import os
import signal
import subprocess
import threading
import time

import psutil
import pytest

from bakeoff.cli.run import ending_in_order
from bakeoff.results.manifest import bakeoff_version
from tests.conftest import COMMAND, wait_for


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def number(request):
    before = signal.getsignal(request.param)
    yield request.param
    signal.signal(request.param, before)


def test_the_first_signal_stops_gracefully_and_the_second_at_once(number):
    signal.signal(number, signal.SIG_DFL)
    stop = threading.Event()
    with ending_in_order(stop):
        signal.raise_signal(number)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is signal.SIG_DFL


def test_what_nohup_ignores_stays_ignored(number):
    signal.signal(number, signal.SIG_IGN)
    stop = threading.Event()
    with ending_in_order(stop):
        signal.raise_signal(number)
    assert not stop.is_set()
    assert signal.getsignal(number) is signal.SIG_IGN


@pytest.mark.parametrize("after_s", [0.2, 0.5, 0.9])
def test_ctrl_c_during_imports_shows_no_traceback(after_s):
    command = subprocess.Popen([*COMMAND, "duel", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(after_s)
    command.send_signal(signal.SIGINT)
    _, err = command.communicate(timeout=30)
    assert command.returncode in (0, 1, 130, -signal.SIGINT)
    # What Python itself says before the first line of bakeoff is not ours to silence.
    assert "bakeoff" not in err or err == "bakeoff: interrupted.\n"


@pytest.fixture
def fetching(shell):
    """`fetching(prefix)`: a command whose client fetches a server without end, and the client."""
    pids, client = shell.folder / "pid", shell.folder / "mvn"
    client.write_text(f"#!/bin/sh\necho $$ > {pids}.part; mv {pids}.part {pids}; exec sleep 120\n")
    client.chmod(0o755)
    env = os.environ | {"PATH": f"{shell.folder}:{os.environ['PATH']}"}
    env |= dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), str(shell.folder / "fresh"))
    started = []

    def start(*prefix):
        command = subprocess.Popen(
            [*prefix, *COMMAND, "server", "install", "mysql:8.0.12"],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(command)
        wait_for(pids.exists)
        started.append(psutil.Process(int(pids.read_text())))
        return started

    yield start
    for process in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def has_ended(process):
    """True for zombies, too, whose exit status nobody has read yet."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_signal_ends_a_download_as_ctrl_c_does(shell, fetching, number):
    signal.signal(number, signal.SIG_DFL)
    command, client = fetching()
    command.send_signal(number)
    assert (command.wait(60), command.stderr.read()) == (130, "bakeoff: interrupted.\n")
    assert has_ended(client)
    assert list((shell.folder / "fresh/bakeoff/servers").iterdir()) == []


def test_a_download_ends_when_its_command_is_killed(fetching):
    command, client = fetching()
    command.kill()
    wait_for(lambda: has_ended(client), 10)


def test_a_download_under_nohup_outlives_the_terminal(fetching):
    command, client = fetching("nohup")
    command.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert command.poll() is None and client.is_running()
    command.terminate()
    assert command.wait(60) == 130


SCRIPT = """
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query("SELECT 1") end
"""
# Reading the text of a row takes some milliseconds, so that a checksum over all rows takes minutes.
SLOW = "ALTER TABLE t ADD COLUMN v text AS (SHA2(REPEAT(a, 500000), 512)) VIRTUAL;\n"


@pytest.mark.server
def test_ctrl_c_ends_an_endless_statement_and_leaves_no_run(shell):
    (shell.folder / "own.lua").write_text(SCRIPT)
    rows = ",".join(f"({number})" for number in range(10_000, 30_000))
    made = f"CREATE TABLE t (a int PRIMARY KEY);\nINSERT INTO t VALUES {rows};\n"
    (shell.folder / "own.sql").write_text(made + SLOW)
    process = shell.start("duel", *["mysql:8.0.15"] * 2, "--data", "own.sql", "-w", "own.lua", "--no-verdict")
    wait_for(lambda: [file for file in shell.work.glob("load-*/*/load.json") if '"loaded":{' in file.read_text()])
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    ran = shell.finish(process, limit_s=20)
    assert (ran.code, shell.runs) == (130, []), ran


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_options_print_the_version(inside, option):
    ran = inside(option)
    assert (ran.code, ran.out) == (0, f"bakeoff {bakeoff_version()}\n")


def test_sysbench_starts_before_anything_else_is_imported():
    imported = subprocess.run(
        [*COMMAND[:1], "-X", "importtime", *COMMAND[1:], "sysbench", "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert imported.stdout == "sysbench 1.0.20\n"
    modules = {line.rsplit("|", 1)[-1].strip() for line in imported.stderr.splitlines()}
    assert {name for name in modules if name.startswith("bakeoff")} == {
        "bakeoff", "bakeoff.cli", "bakeoff.find_engine",
    }  # fmt: skip
    assert not modules & {"click", "numpy", "arro3", "subprocess"}
