"""Off-CPU time per event: what a wait is for; idle threads and waits for the client are kept apart."""

import pytest

from bakeoff.explain.off_cpu import FILES, LOCK, NETWORK, NO_PROCESSOR, SLEEP, Waiting, compare_off_cpu
from bakeoff.explain.profiles import BACKGROUND, KERNEL, PREEMPTED, SERVING, Function, Profile

SERVER, LIBC = "mysqld", "libc.so.6"


def stack(first, *functions):
    """Make a stack of functions of the server, the C library (`:f`) and the kernel (`k:f`)."""
    objects = {"k": KERNEL, "": LIBC}
    split = [name.partition(":") if ":" in name and "::" not in name else ("-", "", name) for name in functions]
    return (first, *(Function(name, objects.get(head, SERVER)) for head, _, name in split))


COMMIT = ("do_command", "dispatch_command", "mysql_execute_command", "ha_commit_trans")
SCHEDULE = ("k:schedule_timeout", "k:schedule")
FUTEX = ("k:do_futex", "k:futex_wait", *SCHEDULE)
SYNC = (":fsync", "k:do_fsync", "k:ext4_sync_file", "k:submit_bio_wait", "k:wait_for_completion_io", *SCHEDULE)

WAITS = {
    # MySQL 5.7 syncs in the connection's thread, 8.0 in a separate one.
    stack(SERVING, *COMMIT, "log_write_up_to", "os_file_flush_func", *SYNC): (400, Waiting("redo log", FILES, True)),
    stack(SERVING, *COMMIT, "log_write_up_to", "os_event::wait_low", ":pthread_cond_wait", *FUTEX): (
        300, Waiting("redo log", LOCK, True)),
    # The copy of the stack did not reach further.
    stack(SERVING, "lock_wait_suspend_thread", "os_event::wait_low", ":pthread_cond_wait", *FUTEX): (
        200, Waiting("transactions and row locks", LOCK, True)),
    stack(SERVING, *COMMIT, "net_write_packet", ":send", "k:unix_stream_sendmsg", *SCHEDULE): (
        100, Waiting("network and protocol", NETWORK, True)),
    stack(SERVING, *COMMIT, "srv_conc_enter_innodb", ":clock_nanosleep", "k:do_nanosleep", *SCHEDULE): (
        90, Waiting("transactions and row locks", SLEEP, True)),
    (*stack(SERVING, "do_command", "dispatch_command", "row_search_mvcc", "k:exit_to_user_mode_loop"), PREEMPTED): (
        80, Waiting(NO_PROCESSOR, "", True)),
    stack(SERVING, "do_command", "my_net_read", "vio_read", ":recv", "k:unix_stream_read_generic", *SCHEDULE): (
        70, None),
    stack(BACKGROUND, "log_flusher", "os_file_fsync_posix", *SYNC): (60, Waiting("redo log", FILES, False)),
}  # fmt: skip
IDLE = {
    stack(BACKGROUND, "log_flusher", "os_event::wait_low", ":pthread_cond_wait", *FUTEX): 5_000,
    stack(BACKGROUND, "io_handler_thread", ":io_getevents", "k:do_io_getevents", "k:read_events", *SCHEDULE): 5_000,
    (*stack(BACKGROUND, "log_flusher", "os_file_fsync_posix", *SYNC), PREEMPTED): 5_000,
}


def profile(stacks, *, events=1_000):
    fields = {"event": "context-switches", "period_ns": 1_000, "seconds": 1.0, "outside": 0, "incomplete": 0}
    return Profile.of_stacks(stacks, events=events, **fields)


ALL = {each: count for each, (count, _) in WAITS.items()} | IDLE


def test_waits_are_classified_by_part_and_kind_and_idle_threads_left_out():
    found = compare_off_cpu({0: profile(ALL)}, {0: profile(ALL)})
    named = {each.waiting: each.time.baseline for each in (*found.statements, *found.others)}
    assert named == {waiting: pytest.approx(count) for count, waiting in WAITS.values() if waiting}
    assert found.client.baseline == pytest.approx(70)
    assert found.all.baseline == pytest.approx(400 + 300 + 200 + 100 + 90 + 80)


def test_the_wait_that_differs_is_found_with_its_function():
    sync = next(iter(WAITS))
    sides = [{}, {}]
    for epoch in range(4):
        for side, factor in zip(sides, (1, 2), strict=True):
            side[epoch] = profile(ALL | {sync: 400 * factor + epoch})
    found = compare_off_cpu(*sides)
    first = found.statements[0]
    assert first.waiting == Waiting("redo log", FILES, True) and first.function == "os_file_flush_func"
    assert first.time.is_clear and first.time.difference.mean == pytest.approx(400)
    assert found.all.is_clear and found.all.difference.mean == pytest.approx(400) and found.epochs == 4
    assert not any(each.time.is_clear for each in (*found.statements[1:], *found.others)) and not found.client.is_clear


def test_epochs_that_one_arm_lacks_are_left_out():
    assert compare_off_cpu({0: profile(ALL)}, {1: profile(ALL)}) is None
    assert compare_off_cpu({0: profile(ALL, events=0)}, {0: profile(ALL)}) is None
