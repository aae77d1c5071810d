"""Switches printed by perf become off-CPU time in slices; on a real server a row lock is found as the cause."""

import contextlib
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pymysql
import pytest

from bakeoff.errors import HostError
from bakeoff.explain import after_verdict, off_cpu, perf
from bakeoff.explain.off_cpu import LOCK, Fold, Pause, Recording, compare_off_cpu, recorded
from bakeoff.explain.perf import Window
from bakeoff.explain.profiles import BACKGROUND, KERNEL, PREEMPTED, SERVING, Function

TEXT = """\
mysqld 10/11 [001]     1.000000100: PERF_RECORD_SWITCH OUT
mysqld 10/11 [000]     1.000000400: PERF_RECORD_SWITCH IN
mysqld 10/11 [000]     1.000000420: PERF_RECORD_SWITCH OUT preempt
mysqld 10/11 [000]     1.000000450: PERF_RECORD_SWITCH IN
mysqld 10/11 [000]     1.000000500:\x20
\tffffffff81 schedule ([kernel.kallsyms])
\tffffffff82 do_fsync ([kernel.kallsyms])
\t      5601 os_file_fsync_posix (/opt/my sql/bin/mysqld)

mysqld 10/11 [000]     1.000000510: PERF_RECORD_SWITCH OUT preempt
mysqld 10/11 [001]     1.000000700: PERF_RECORD_SWITCH IN
other  77/77 [001]     1.000000800: PERF_RECORD_SWITCH OUT
mysqld 10/12 [001]     1.000000900: PERF_RECORD_SWITCH OUT
other  77/77 [001]     1.000001000: PERF_RECORD_SWITCH IN
"""
STACK = (Function("os_file_fsync_posix", "mysqld"), Function("do_fsync", KERNEL), Function("schedule", KERNEL))


def recording_of(text):
    class Recorder:
        def end(self):
            pass

        @contextmanager
        def text(self, *_):
            yield text.splitlines(keepends=True)

    return Recording(Recorder(), {10: []})


def test_switches_become_pauses_with_the_stacks_that_were_kept():
    recording = recording_of(TEXT)
    recording.read()
    second = 10**9
    assert recording.pauses[10] == [
        Pause(11, second + 100, second + 400, False, (), 0),
        Pause(11, second + 420, second + 450, True, (), 0),
        Pause(11, second + 510, second + 700, True, STACK, 2),  # both that it had on this CPU
        Pause(12, second + 900, second + 1000, False, (), 0),  # until the end: it did not come back
    ]
    assert recording.end_ns == second + 1000


@pytest.mark.parametrize("every", [1, 13])
def test_a_sample_stands_for_the_switches_since_the_one_before(every):
    """Switches of a thread that is sampled at regular intervals, beginning with its first one."""
    lines = []
    for at in range(3 * every):
        time_ns = 1000 * at
        if at % every == 0:
            lines.append(f"mysqld 10/11 [000]     1.{time_ns:09}: \n\t  5601 os_file_fsync_posix (/opt/bin/mysqld)\n\n")
        lines.append(f"mysqld 10/11 [000]     1.{time_ns + 1:09}: PERF_RECORD_SWITCH OUT\n")
        lines.append(f"mysqld 10/11 [000]     1.{time_ns + 2:09}: PERF_RECORD_SWITCH IN\n")
    recording = recording_of("".join(lines))
    recording.read()
    assert [each.stands_for for each in recording.pauses[10] if each.stack] == [1, every, every]


def test_a_recording_that_lost_many_switches_is_refused():
    with pytest.raises(HostError, match=r"perf lost 50% of the threads' switches\."):
        recording_of(TEXT + "mysqld 10/12 [001]     1.000001100: PERF_RECORD_LOST lost 10\n").read()


def test_off_cpu_time_is_shared_out_by_the_stacks_of_all_connections():
    command, sync = Function("do_command", "mysqld"), Function("fsync", "libc.so.6")
    beyond = Function("[unknown]", "[unknown]")
    pauses = [
        Pause(1, 0, 150_000, False, (command, sync), 3),  # 50 µs of it in a slice
        Pause(1, 200_000, 250_000, False, (beyond, sync), 1),  # between the slices
        Pause(2, 300_000, 350_000, False, (beyond, sync), 1),
        Pause(2, 350_000, 370_000, False, (), 0),
        Pause(2, 370_000, 380_000, True, (command,), 7),
        Pause(3, 100_000, 400_000, False, (), 0),  # a thread without any stack is ignored
        Pause(4, 390_000, 500_000, False, (sync,), 9),
    ]
    fold = Fold()
    fold.add(pauses, [Window(100_000, 200_000, 5), Window(300_000, 400_000, 6)])
    assert fold.stacks == {
        (SERVING, command, sync): 90,  # of 120 µs of threads 1 and 2, by 3 times 50 and once 50 µs
        (SERVING, sync): 30,
        (SERVING, command, PREEMPTED): 10,
        (BACKGROUND, sync): 10,
    }
    assert (fold.events, fold.length_ns) == (11, 200_000)


def test_sampling_only_user_code_gives_no_off_cpu_data(monkeypatch):
    off_cpu._reason.cache_clear()
    monkeypatch.setattr(perf, "permission", lambda: perf.Permission("", "cpu-clock:u"))
    assert off_cpu.hindrance().startswith("No off-CPU data: kernel.perf_event_paranoid")
    off_cpu._reason.cache_clear()


@pytest.mark.parametrize(("budget_s", "left_out"), [(39.0, True), (40.0, False)])
def test_off_cpu_is_left_out_of_budgets_below_three_epochs_of_each_kind(budget_s, left_out):
    said, notes = [], {kind.name: [] for kind in after_verdict.KINDS}
    listener = SimpleNamespace(note=said.append)
    explanation = after_verdict._Explanation(after_verdict.Explaining(budget_s), None, listener, None, None, {})
    kinds = explanation._affordable(list(after_verdict.KINDS), notes, 4.0)
    assert ("off-cpu" not in [kind.name for kind in kinds]) is left_out and len(kinds) == 4 - left_out
    assert notes["off-cpu"] == said == (["No off-CPU data: it needs --explain-budget 40s or more."] * left_out)


# ---- on a real server ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def updating(box, keys):
    """Run one connection for each of these rows that locks it, works for 3 ms and commits, over and over."""
    done = threading.Event()
    counts = [0] * len(keys)

    def work(at):
        with contextlib.closing(connect(box)) as connection, connection.cursor() as cursor:
            while not done.is_set():
                cursor.execute(f"SELECT v FROM off_cpu.t WHERE id = {keys[at]} FOR UPDATE")
                time.sleep(0.003)
                connection.commit()
                counts[at] += 1

    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(keys))]
    for each in threads:
        each.start()
    try:
        yield counts
    finally:
        done.set()
        for each in threads:
            each.join()


def connect(box):
    return pymysql.connect(unix_socket=box["socket"], user="root")


@pytest.mark.parametrize(("connections", "seconds"), [(4, 0.4), (4, 8.0), (64, 2.0), (1, 30.0)])
def test_the_stacks_of_long_slices_fit_into_a_recording(connections, seconds):
    """perf stops when its file is full, which with slices of 2 s could be before the second arm's turn."""
    arguments = off_cpu._sampling(connections, seconds)
    rate = int(arguments[arguments.index("--freq") + 1])
    assert rate * connections * seconds * off_cpu._STACK_BYTES <= 40e6
    assert rate == 150 or seconds > 0.4


@pytest.mark.server
@pytest.mark.timeout(120)
def test_connections_that_lock_one_row_wait_for_its_lock(sandbox, tmp_path):
    """Where switches cannot be recorded, only the stated reason is tested."""
    if reason := off_cpu.hindrance():
        assert reason.endswith(".") and "off-CPU data: " in reason
        pytest.skip(reason)
    with contextlib.closing(connect(sandbox)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE off_cpu")
        cursor.execute("CREATE TABLE off_cpu.t (id INT PRIMARY KEY, v INT)")
        cursor.execute("INSERT INTO off_cpu.t VALUES (1, 0), (2, 0), (3, 0), (4, 0)")
        connection.commit()
    pid, profiles = sandbox["pid"], []
    for keys in ((1, 2, 3, 4), (1, 1, 1, 1)):
        with updating(sandbox, keys) as counts:
            while not all(counts):
                time.sleep(0.01)
            with recorded({"A": pid}, 4, tmp_path, seconds=1.0) as recording:
                begin_ns, before = time.monotonic_ns(), sum(counts)
                time.sleep(1.0)
                window = Window(begin_ns, time.monotonic_ns(), sum(counts) - before)
                recording.read()
        fold = Fold()
        fold.add(recording.pauses[pid], [window])
        profiles.append(fold.profile("context-switches", period_ns=1_000))
    assert not list(tmp_path.iterdir()), "perf's file is gone"
    found = compare_off_cpu({0: profiles[0]}, {0: profiles[1]})
    first = found.statements[0]
    assert (first.waiting.part, first.waiting.way) == ("transactions and row locks", LOCK), found.statements
    # Three of four connections wait while one works for 3 ms.
    assert first.time.baseline < 2e6 < 6e6 < first.time.contender < 60e6
    assert first.time.difference.mean > 0.8 * found.all.difference.mean
    for side, profile in (("baseline", profiles[0]), ("contender", profiles[1])):
        off_s = (getattr(found.all, side) + getattr(found.client, side)) / 1e9 * profile.events
        assert 0.75 * 4 < off_s / profile.seconds <= 4.01, "four connections, which hardly ever run"
