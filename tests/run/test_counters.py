"""Counters read around a cell, the kernel's and the server's, without the cost of reading them."""

import os
import threading

import pytest

from bakeoff.results.epoch_data import COUNTERS, CellCounters
from bakeoff.run.counters import CellCounts, Reading, _numbers, _process, _Thread, _threads, spent_between, sum_of


class Kept:
    """Stands in for an epoch's writer."""

    def write_server_json(self, arm, name, values):
        assert name == COUNTERS
        self.by_arm = {**getattr(self, "by_arm", {}), arm: dict(values)}


def test_the_kernels_counters_of_this_process_grow():
    before, threads = _process(os.getpid()), _threads(os.getpid())
    held = bytearray(30_000_000)
    for place in range(0, len(held), 4096):
        held[place] = 1
    sum(range(3_000_000))
    spent = spent_between(Reading(before, threads=threads), Reading(_process(os.getpid())))
    assert spent["cpu.user_ns"] >= 10_000_000
    assert spent["faults.minor"] > 0
    assert spent["memory.rss_bytes"] > 30_000_000
    assert threads[threading.get_native_id()].cpu_ns > 0


def test_the_cost_of_reading_counters_is_subtracted():
    before = Reading({"status.Com_show_status": 8, "status.Handler_read_key": 100}, {"status.Com_show_status": 1})
    after = Reading({"status.Com_show_status": 9, "status.Handler_read_key": 150, "status.New": 1})
    assert spent_between(before, after) == {"status.Handler_read_key": 50}


def test_unsigned_counters_wrap_to_negative():
    before = _numbers({"Innodb_buffer_pool_pages_misc": "18446744073709551574"})
    after = _numbers({"Innodb_buffer_pool_pages_misc": "8"})
    assert spent_between(Reading(before), Reading(after)) == {"status.Innodb_buffer_pool_pages_misc": 50}


def test_readable_io_counters_are_kept_even_at_zero():
    before, after = Reading({"io.writes": 4, "faults.minor": 7, "cpu.user_ns": 1}), Reading({"io.writes": 4})
    assert spent_between(before, after) == {"io.writes": 0}


def thread(name="mysqld", cpu_ns=0, voluntary=0):
    return _Thread(name, cpu_ns, voluntary, 0)


def test_switches_of_threads_that_ended_are_not_guessed():
    before = {1: thread(voluntary=5), 2: thread(voluntary=7)}
    assert spent_between(Reading({}, threads=before), Reading({}, threads={1: thread(voluntary=9)})) == {}
    both = {1: thread(voluntary=9), 2: thread(voluntary=7), 3: thread(voluntary=4)}
    assert spent_between(Reading({}, threads=before), Reading({}, threads=both)) == {"switches.voluntary": 8}
    created = {"status.Threads_created": 0}, {"status.Threads_created": 2}
    spent = spent_between(Reading(created[0], threads=before), Reading(created[1], threads=both))
    assert spent == {"status.Threads_created": 2}


def test_cpu_time_is_split_by_thread_name():
    names = ("mysqld", "ib_log_writer", "ib_pg_flush_co", "ib_srv_purge", "ib_io_rd-1", "ib_dict_stats")
    before = {number: thread(name) for number, name in enumerate(names)}
    after = {number: thread(name, cpu_ns=1000) for number, name in enumerate(names)}
    spent = spent_between(
        Reading({"cpu.user_ns": 0, "cpu.system_ns": 0}, threads=before),
        Reading({"cpu.user_ns": 9000, "cpu.system_ns": 1000}, threads=after),
    )
    groups = {name: value for name, value in spent.items() if name.startswith("cpu.thread.")}
    assert groups == {
        f"cpu.thread.{name}_ns": 1000 for name in ("log", "page_cleaner", "purge", "io", "background")
    } | {"cpu.thread.connections_ns": 5000}


def test_cell_events_include_those_outside_windows_and_rounds_add_up():
    kept = Kept()
    counts = CellCounts(kept)
    own = {"arm": "A", "load_ns": 10**9, "events": 9, "outside_events": 1}
    before, after = Reading({"status.X": 1, "memory.rss_bytes": 7}), Reading({"status.X": 41, "memory.rss_bytes": 8})
    for _ in range(2):
        counts.add("c", [own, own, own | {"arm": "B"}], {"A": before}, {"A": after})
    (arm,) = kept.by_arm
    assert arm == "A"
    cell = CellCounters(**kept.by_arm["A"]["c"])
    assert (cell["events"], cell["seconds"]) == (40, 4)
    assert cell["counters"] == {"status.X": 80, "memory.rss_bytes": 8}


def test_switches_unknown_in_one_round_are_left_out_of_the_sum():
    def spent(**switches):
        counters = {f"switches.{name}": count for name, count in switches.items()} | {"io.reads": 2}
        return CellCounters(events=10, seconds=1, counters=counters)

    known, unknown = spent(voluntary=8, involuntary=3), spent()
    for first, second in ((known, unknown), (unknown, known)):
        added = sum_of(first, second)
        assert added["counters"] == {"io.reads": 4}
        assert sum_of(added, known)["counters"] == {"io.reads": 6}
    both = sum_of(known, spent(voluntary=1))["counters"]
    assert both == {"switches.voluntary": 9, "switches.involuntary": 3, "io.reads": 4}, "known, and there were none"


@pytest.mark.server
def test_every_epoch_has_the_counters_of_both_servers(slowed_duel):
    run = slowed_duel.run
    for epoch in run.finished_epochs():
        found = run.server_json(epoch, COUNTERS, dict[str, CellCounters])
        assert list(found) == ["A", "B"]
        for arm, statements in (("A", 1), ("B", 2)):  # B runs every event twice and counts it once
            (cell,) = found[arm].values()
            counters = cell["counters"]
            per_event = {name: value / cell["events"] for name, value in counters.items()}
            assert per_event["status.Com_stmt_execute"] == pytest.approx(statements, rel=0.05)
            assert per_event["status.Handler_read_key"] == pytest.approx(statements, rel=0.05)
            # Not what SHOW GLOBAL STATUS itself reads and writes.
            assert abs(counters.get("status.Handler_write", 0)) < 10
            cpu_ns = counters["cpu.user_ns"] + counters["cpu.system_ns"]
            slices = run.load_epoch(epoch).slices
            in_slices = slices.rows(slices["arm"] == arm)["server_cpu_ns"].sum()
            assert cpu_ns == pytest.approx(in_slices, rel=0.4)
            assert counters["switches.voluntary"] > 0


@pytest.mark.server
def test_the_report_shows_costs_per_event(slowed_duel, inside):
    ran = inside("report", str(slowed_duel.run.path), "--format", "md", "--output", "-")
    assert "## Why in detail" in ran.out and "Costs per event" in ran.out
    assert "server CPU, user mode" in ran.out
