"""Explain finished runs on real servers: what the extra epochs find, and that they change nothing."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from profiled import profiles_of

from bakeoff.results import open_run
from bakeoff.run.loading import Loader

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("needs_perf")]


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
