"""Connections are paired with the server threads that serve them, checked against what the server reports."""

import collections
import contextlib
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from bakeoff.engine import ArmAddress, Engine
from bakeoff.errors import EngineError
from validation.fake_server import FakeServer

CPUS = sorted(os.sched_getaffinity(0))
# What each worker runs, and how each server reports the operating system's thread of the connection that runs it.
SLEEP = "SELECT SLEEP({seconds}), 'worker', {worker}"
ASK = {
    "mysql": "SELECT PROCESSLIST_INFO, THREAD_OS_ID FROM performance_schema.threads "
    "WHERE PROCESSLIST_INFO LIKE 'SELECT SLEEP%'",
    "mariadb": "SELECT INFO, TID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%'",
}
SCRIPT = """
function thread_init() con = sysbench.sql.driver():connect() end
function event()
  if {reconnects} then con:reconnect() end
  if not pcall(function() con:query(string.format("{sleep}", sysbench.tid)) end) then con:reconnect() end
end
"""


def script(folder, *, seconds=0.1, reconnects=False):
    path = folder / "sleep.lua"
    sleep = SLEEP.format(seconds=seconds, worker="%d")
    path.write_text(SCRIPT.format(sleep=sleep, reconnects=str(reconnects).lower()))
    return str(path)


def started(make, text, name="A", **options):
    server = make(text + ("" if "mariadb" in text else ",performance_schema=on"), name, connections=300, **options)
    server.start()
    return server


@pytest.fixture(scope="module")
def server(make_lasting):
    """A MySQL 8.0.15 for the tests that do not count starts."""
    return started(make_lasting, "mysql:8.0.15")


def arm(server, name="A", *, pid=None, transport="socket"):
    place, account = server.address(transport), server.account(transport)
    return ArmAddress(
        name, place.get("socket"), place.get("host"), place.get("port"), account.user, account.password, "mysql",
        "utf8mb4" if "5.5" not in server.name else "utf8", None, server_pid=pid,
    )  # fmt: skip


def measure(engine, path, threads, *, arms=("A",), blocks=1, placement="paired"):
    return engine.measure(
        {
            "cell": "sleep", "script": path, "options": {"mysql_ignore_errors": "all"}, "threads": threads,
            "arms": list(arms), "blocks": blocks, "slice_ns": 50_000_000, "placement": placement,
        }
    )  # fmt: skip


def threads_of_workers(server):
    """Worker -> the server's thread of its connection, as the server reports it."""
    kind = "mariadb" if "mariadb" in server.name else "mysql"
    found = server.query(ASK[kind])
    return {int(str(text).rsplit(",", 1)[1]): int(thread) for text, thread in found}


def affinity(thread):
    try:
        return os.sched_getaffinity(thread)
    except ProcessLookupError:
        return None


def threads_of(pid):
    return [int(folder.name) for folder in Path(f"/proc/{pid}/task").iterdir()]


def named_threads(pid):
    found = {}
    for thread in threads_of(pid):
        with contextlib.suppress(OSError):
            found[Path(f"/proc/{pid}/task/{thread}/comm").read_text().strip()] = thread
    return found


def between_moves(engine, read):
    """Call `read` while the engine's main thread sleeps. When it runs, it may move connections to other CPUs."""
    task = Path(f"/proc/{engine.pid}/task/{engine.pid}")

    def turns_and_state():
        turns = (task / "schedstat").read_text().split()[2]
        return turns, (task / "stat").read_text().rpartition(")")[2].split()[0]

    while True:
        before, found = turns_and_state(), read()
        if before == turns_and_state() and before[1] == "S":
            return found


def look(server, engine, threads):
    """Wait until all workers are running, then return which threads are pinned wrongly."""
    until = time.monotonic() + 5
    while len(serving := threads_of_workers(server)) < threads:
        assert time.monotonic() < until, f"only {len(serving)} of {threads} workers were seen"
    clients = named_threads(engine.pid)
    pairs = {worker: (thread, clients[f"A/{worker}"]) for worker, thread in serving.items()}
    placed = between_moves(engine, lambda: {each: tuple(map(affinity, pair)) for each, pair in pairs.items()})
    wrong = [each for each in placed.items() if each[1][0] != each[1][1] or each[1][0] not in [{cpu} for cpu in CPUS]]
    used = collections.Counter(cpu for theirs, _ in placed.values() for cpu in theirs or ())
    if sorted(used.values()) != sorted(len(range(cpu, threads, len(CPUS))) for cpu in range(min(threads, len(CPUS)))):
        wrong.append(("connections of each CPU", used))
    others = set(threads_of(server.pid)) - set(serving.values())
    wrong += [thread for thread in others if (affinity(thread) or set(CPUS)) != set(CPUS)]
    return wrong


def looks_while(engine, server, path, threads, **more):
    """Measure in a thread and look meanwhile."""
    failed = []

    def run():
        try:
            measure(engine, path, threads, **more)
        except EngineError as error:
            failed.append(error)

    measuring = threading.Thread(target=run)
    measuring.start()
    try:
        return look(server, engine, threads)
    finally:
        measuring.join()
        assert not failed, failed


@contextlib.contextmanager
def interrupted(pid):
    """Repeatedly stop the process for up to a millisecond, like a hypervisor that takes CPUs away from a guest."""
    ended, chance = threading.Event(), random.Random(1)

    def stop():
        while not ended.wait(chance.uniform(1e-4, 2e-3)):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(chance.uniform(1e-4, 1e-3))
            os.kill(pid, signal.SIGCONT)

    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        yield
    finally:
        ended.set()
        stopping.join()


def check_starts(make, text, folder, *, starts, threads, restart_every=10, beside=contextlib.nullcontext):
    """Start measuring `starts` times. Each worker's threads must be on its CPU, and no other thread may be pinned."""
    path, wrong = script(folder), collections.Counter()
    for first in range(0, starts, restart_every):
        server = started(make, text, f"{text.replace(':', '-')}-{first}")
        try:
            with Engine() as engine:
                engine.open([arm(server, pid=server.pid)])
                for _ in range(min(restart_every, starts - first)):
                    with beside(server.pid):
                        wrong.update(str(each) for each in looks_while(engine, server, path, threads, blocks=2))
        finally:
            server.remove()
    assert not wrong


@pytest.mark.server
@pytest.mark.parametrize("text", ["mysql:8.0.15", "mariadb:10.11"])
def test_every_connection_is_paired_with_its_own_thread(make, tmp_path, text):
    check_starts(make, text, tmp_path, starts=6, threads=16, restart_every=3)


@pytest.mark.server
def test_threads_that_lose_their_cpu_are_paired_as_well(make, tmp_path):
    check_starts(make, "mariadb:10.11", tmp_path, starts=15, threads=16, restart_every=15, beside=interrupted)


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("text", ["mysql:5.7.22", "mysql:8.0.15", "mysql:8.0.31", "mysql:9", "mariadb:10.11"])
def test_a_thousand_starts_pair_no_connection_wrongly(make, tmp_path, text):
    check_starts(make, text, tmp_path, starts=200, threads=6)


@pytest.mark.server
def test_256_connections_are_paired_within_a_second_and_released(server, tmp_path):
    path = script(tmp_path, seconds=0)
    with Engine() as engine:
        engine.open([arm(server, pid=server.pid)])
        took = {}
        for placement in ("free", "paired") * 4:  # the quickest of four: the machine is shared
            begin = time.monotonic()
            measure(engine, path, 256, placement=placement)
            took[placement] = min(time.monotonic() - begin, took.get(placement, 60.0))
        assert took["paired"] < took["free"] + 1.0
        until = time.monotonic() + 5
        pinned = [1]
        while pinned and time.monotonic() < until:
            pinned = [thread for thread in threads_of(server.pid) if affinity(thread) not in (set(CPUS), None)]
        assert not pinned


@pytest.mark.server
def test_killed_and_reopened_connections_are_paired_again(server, tmp_path):
    with Engine() as engine:
        engine.open([arm(server, pid=server.pid)])
        assert not looks_while(engine, server, script(tmp_path, reconnects=True), 4, blocks=2)
        path, killed = script(tmp_path), []

        def kill():
            time.sleep(0.4)
            ids = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%'"
            for (identity,) in server.query(ids):
                server.query(f"KILL {identity}")
                killed.append(identity)
            time.sleep(0.3)
            killed.append(look(server, engine, 4))

        killer = threading.Thread(target=kill)
        killer.start()
        measure(engine, path, 4, blocks=8)
        killer.join()
        assert len(killed) >= 3
        assert killed[-1] == []


@pytest.mark.server
def test_connections_change_their_cpus_in_the_same_way_for_all_arms(server, tmp_path):
    # Connections that never rest leave this thread without a CPU for seconds on a busy machine.
    path, workers, seen = script(tmp_path, seconds=0.002), 6, set()
    with Engine() as engine:
        engine.open([arm(server, name, pid=server.pid) for name in "AB"])
        measuring = threading.Thread(target=lambda: measure(engine, path, workers, arms="AB", blocks=15))
        measuring.start()
        while measuring.is_alive():
            clients = named_threads(engine.pid)
            names = [[f"{name}/{worker}" for worker in range(workers)] for name in "AB"]
            if clients.keys() >= {*names[0], *names[1]}:
                places = between_moves(engine, lambda: [[affinity(clients[name]) for name in own] for own in names])  # noqa: B023
                if all(len(place or ()) == 1 for own in places for place in own):  # all connected, and none ended
                    assert places[0] == places[1]
                    seen.add(str(places[0]))
        measuring.join()
    assert len(seen) >= 3


@pytest.mark.server
@pytest.mark.parametrize("transport", ["socket", "tcp"])
def test_a_local_running_server_is_paired_without_a_given_pid(server, tmp_path, transport):
    with Engine() as engine:
        engine.open([arm(server, transport=transport)])
        assert not looks_while(engine, server, script(tmp_path), 4)


@pytest.mark.server
def test_an_engine_ended_by_a_signal_leaves_no_thread_pinned(server, tmp_path):
    path = script(tmp_path)
    with Engine() as engine:
        engine.open([arm(server, pid=server.pid)])

        def end():
            assert not look(server, engine, 4)
            os.kill(engine.pid, signal.SIGTERM)

        ending = threading.Thread(target=end)
        ending.start()
        with pytest.raises(EngineError):
            measure(engine, path, 4, blocks=100)
        ending.join()
    assert {thread for thread in threads_of(server.pid) if affinity(thread) not in (set(CPUS), None)} == set()


@pytest.mark.server
def test_pairing_fails_if_one_arm_cannot_be_paired(server, tmp_path, fakeserver_binary):
    path = script(tmp_path, seconds=0)
    with FakeServer(tmp_path / "s.sock") as fake, Engine() as engine:
        other = ArmAddress("B", str(fake.socket), None, None, "root", "", "mysql", "utf8mb4", None)
        engine.open([arm(server, pid=server.pid), other])
        with pytest.raises(EngineError, match="connections cannot be paired") as caught:
            measure(engine, path, 2, arms=("A", "B"))
        assert (caught.value.code, caught.value.arm) == ("not_paired", "B")
        assert measure(engine, path, 2, arms=("A", "B"), placement="free").slices
