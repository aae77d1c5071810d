"""Compare profiles with what is known without them, on an idle machine."""

import json
import math
import subprocess

import pytest
from profiled import profiles_of

from bakeoff.explain.profiles import PROFILES
from bakeoff.report.context import Context
from bakeoff.results import open_run
from bakeoff.stats.model import Analysis

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.usefixtures("needs_perf")]

SMALL = ("--tables", "1", "--table-size", "20000", "--threads", "2", "--warm-up", "1s", "--quiet", "--seed", "5")


def explained_duel(shell, *arguments, budget="90s"):
    ran = shell.run("duel", *arguments, "--budget", budget, "--precision", "3%", limit_s=600)
    assert ran.code == 0, ran
    return open_run(shell.runs[-1])


def test_widths_add_up_to_the_cpu_time_that_was_counted(shell):
    run = explained_duel(
        shell, "mysql:5.7.22", "mysql:8.0.15", "--workload", "oltp_point_select,oltp_read_only", *SMALL,
        "--explain-budget", "150s", budget="150s",
    )  # fmt: skip
    assert profiles_of(run)
    context = Context(run, run.read("analysis.json", Analysis))
    slices = run.explaining(PROFILES).slices("cell", "arm", "server_cpu_ns", "events")
    by = slices.by("cell", "arm")
    counted_ns = by.by_key(by.sum(slices["server_cpu_ns"]) / by.sum(slices["events"]))
    for cell, found in profiles_of(run).items():
        assert found.epochs >= 3
        widths = (found.all.baseline, found.all.contender)
        # A machine's speed may change by a third between these epochs and the counted ones, for all arms alike.
        for width, arm in zip(widths, "AB", strict=True):
            assert width == pytest.approx(counted_ns[cell, arm], rel=0.1), cell
        known = [context.summaries[cell, arm].server_cpu_ns_per_event for arm in "AB"]
        assert widths[1] / widths[0] == pytest.approx(known[1] / known[0], rel=0.1), cell
        low, high = found.all.difference.interval.low, found.all.difference.interval.high
        slack = (high - low) / 2
        assert low - slack <= known[1] - known[0] <= high + slack, cell
        assert sum(cost.difference.mean for _, cost in found.groups) == pytest.approx(found.all.difference.mean)
        unknown = next((each.own for each in found.functions if each.name == "[unknown]"), None)
        assert unknown is None or unknown.baseline < 0.03 * found.all.baseline
        assert max(found.incomplete) < 0.1


BURN = r"""
#include <errno.h>
#include <sys/syscall.h>
void burn(void) { for (volatile int i = 0; i < 20000; i++) {} }
long recv(int fd, void *buffer, unsigned long size, int flags) {
  register long r10 __asm__("r10") = flags; register long r8 __asm__("r8") = 0; register long r9 __asm__("r9") = 0;
  long result;
  burn();
  __asm__ volatile("syscall" : "=a"(result)
                   : "a"(SYS_recvfrom), "D"(fd), "S"(buffer), "d"(size), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  if (result < 0) { errno = -result; return -1; }
  return result;
}
"""


def test_a_loop_in_a_preloaded_library_is_named(shell):
    (shell.folder / "burn.c").write_text(BURN)
    library = shell.folder / "libburn.so"
    build = [
        "gcc",
        "-O0",
        "-fno-omit-frame-pointer",
        "-shared",
        "-fPIC",
        "-o",
        str(library),
        str(shell.folder / "burn.c"),
    ]
    subprocess.run(build, check=True)
    run = explained_duel(
        shell, "mysql:8.0.15", f"mysql:8.0.15,env.LD_PRELOAD={library}", "--workload", "oltp_point_select", *SMALL,
        "--explain-budget", "90s",
    )  # fmt: skip
    (found,) = profiles_of(run).values()
    assert found.functions[0].name == "burn (libburn)" and found.functions[0].own.is_clear
    assert found.groups[0][0] == "library libburn.so"
    assert found.functions[0].own.difference.mean == pytest.approx(found.all.difference.mean, rel=0.2)


def test_a_preloaded_allocator_is_named(shell):
    """This allocator is slow: it fills every allocation twice."""
    source = r"""
#include <stddef.h>
#include <string.h>
extern void *__libc_malloc(size_t); extern void __libc_free(void *);
void scribble(void *block, size_t size) {
  for (volatile size_t i = 0; i < size + 200; i++) if (i < size) ((volatile char *)block)[i] = 1;
}
void *malloc(size_t size) {
  void *block = __libc_malloc(size);
  if (block && size < 65536) scribble(block, size);
  return block;
}
void free(void *block) { __libc_free(block); }
"""
    (shell.folder / "slow.c").write_text(source)
    library = shell.folder / "libslowmalloc.so"
    build = ["gcc", "-O0", "-fno-builtin", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-o", str(library)]
    subprocess.run([*build, str(shell.folder / "slow.c")], check=True)
    run = explained_duel(
        shell, "mysql:8.0.15", f"mysql:8.0.15,env.LD_PRELOAD={library}", "--workload", "oltp_read_only", *SMALL,
        "--explain-budget", "90s",
    )  # fmt: skip
    (found,) = profiles_of(run).values()
    parts = [name for name, cost in found.groups if cost.is_clear and cost.difference.mean > 0]
    assert parts[0] in ("memory allocation", "library libslowmalloc.so")
    assert found.functions[0].name == "scribble (libslowmalloc)"
    assert math.isfinite(found.all.difference.mean) and json.loads((run.path / "analysis.json").read_text())
