"""Explain finished runs on real servers: what the extra epochs find, and that they change nothing."""

import hashlib
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bakeoff.explain.explained import Explained
from bakeoff.explain.perf import permission
from bakeoff.explain.profiles import PROFILES
from bakeoff.report.context import Context
from bakeoff.results import open_run
from bakeoff.run.loading import Loader
from bakeoff.stats.model import Analysis

pytestmark = pytest.mark.server

SMALL = ("--tables", "1", "--table-size", "20000", "--threads", "2", "--warm-up", "1s", "--quiet", "--seed", "5")


@pytest.fixture(autouse=True)
def needs_perf():
    if reason := permission().reason:
        pytest.skip(reason)


def profiles_of(run):
    """Return what the profiles found in the only comparison, by cell."""
    context = Context(run, run.read("analysis.json", Analysis))
    return {pair.cell: found for pair, found in context.once(Explained).profiles.items()}


def digests(folder):
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.fixture
def finished(shell, slowed_duel):
    """A finished run of equal servers; the second does everything twice."""
    path = shell.folder / "runs" / slowed_duel.run.name
    shutil.copytree(slowed_duel.run.path, path)
    return open_run(path)


def test_a_finished_run_is_explained_and_keeps_its_evidence(shell, finished):
    evidence = digests(finished.path / "epochs") | digests(finished.path / "builds")
    analysis = (finished.path / "analysis.json").read_bytes()
    ran = shell.run("explain", "latest", "--explain-budget", "30s", "--quiet")
    assert ran.code == 0, ran
    whole = shell.run("report", "latest", "--format", "text").out
    assert "kernel: network" in whole and "Off-CPU time" in whole + ran.err, whole
    assert digests(finished.path / "epochs") | digests(finished.path / "builds") == evidence
    assert (finished.path / "analysis.json").read_bytes() == analysis
    (found,) = profiles_of(finished).values()
    assert 1 <= found.epochs <= 6
    assert found.all.contender / found.all.baseline == pytest.approx(2, rel=0.25)
    names = {each.name for each in found.functions}
    assert {"row_search_mvcc", "dispatch_command", "do_command"} <= names
    assert max(found.incomplete) < 0.1
    assert "<script>" in (finished.path / "report.html").read_text("utf-8")
    assert not list(finished.path.rglob("*.data")) and not list(finished.path.rglob(".perf-*"))


def test_a_budget_that_is_too_small_is_reported_with_one_that_suffices(inside, finished, monkeypatch):
    # The budget is checked before the loaded data is used.
    monkeypatch.setattr(Loader, "load_all", lambda *_, **__: {})
    ran = inside("explain", "latest", "--explain-budget", "1s")
    assert ran.code == 0 and "Explaining needs about" in ran.out + ran.err, ran
    assert re.search(r"write --explain-budget \d+s\.", " ".join((ran.out + ran.err).split())), ran
    assert "Explaining needs about" in inside("report", "latest", "--format", "md").out


@pytest.mark.slow
def test_without_perf_the_report_says_so_and_keeps_its_verdict(shell, finished):
    empty = shell.folder / "bin"
    empty.mkdir()
    ran = shell.run("explain", "latest", PATH=str(empty))
    assert ran.code == 0 and "perf is not installed" in ran.out + ran.err, ran
    text = shell.run("report", "latest", "--format", "md").out
    assert "perf is not installed" in text and "SLOWER" in text.upper()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_without_capabilities_the_report_says_what_is_missing_and_shows_the_rest(shell, finished):
    """Like root in a container, without CAP_PERFMON or access to processes of other accounts."""
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) < 2:
        pytest.skip("kernel.perf_event_paranoid lets everybody sample the kernel")
    dropped = "-perfmon,-sys_admin,-sys_ptrace"
    command = ["setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}", *shell.command]
    ran = subprocess.run(
        [*command, "explain", "latest", "--explain-budget", "60s", "--quiet"],
        env=shell.env, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert ran.returncode == 0, ran
    text = shell.run("report", "latest", "--format", "md").out
    assert "No off-CPU data: kernel.perf_event_paranoid allows samples of user code only" in text
    assert "The kernel's part is missing" in text or "profile epochs failed: perf failed: " in text
    assert "### Waits" in text and "SLOWER" in text.upper()


@pytest.mark.parametrize("arms", ["A", "A,C", "A,A", "nobody"])
def test_the_arms_option_must_name_two_arms_of_the_run(inside, finished, arms):
    ran = inside("explain", "latest", "--arms", arms)
    assert ran.code == 2 and "does not name two arms of the run" in ran.complaint


# Slow: profiles are compared with what is known without them.


def explained_duel(shell, *arguments, budget="90s"):
    ran = shell.run("duel", *arguments, "--budget", budget, "--precision", "3%", limit_s=600)
    assert ran.code == 0, ran
    return open_run(shell.runs[-1])


@pytest.mark.slow
@pytest.mark.timeout(1200)
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


@pytest.mark.slow
@pytest.mark.timeout(900)
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


@pytest.mark.slow
@pytest.mark.timeout(900)
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
