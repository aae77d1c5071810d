"""Fixtures that run bakeoff's command, in a separate process or inside the test, and shared servers and runs."""

import contextlib
import functools
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from bakeoff import servers
from bakeoff.cli import main
from bakeoff.results import RunDirectory, directory, open_run
from bakeoff.servers.paths import cache_root, make_open_folder
from bakeoff.spec import parse_server
from bakeoff.stats.model import Analysis

# A busy machine does not make a test fail.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

# It asks git three times. Once is enough for all run directories that tests make.
directory.checkout_commit = functools.cache(directory.checkout_commit)

COMMAND = (sys.executable, "-m", "bakeoff.cli.start")

# Tests that need an idle machine, for times or profiles. They run first, one at a time.
ALONE = {
    "explain/test_known_profiles.py", "replay/test_claims.py", "report/test_report_size.py",
    "servers/test_placement.py",
}  # fmt: skip
# Tests that measure, pin threads to CPUs, share one duel, or keep both CPUs busy. Two tests run at a time, but never
# two of these.
MEASURING = {
    "bench/test_client_cost.py", "bench/test_connections.py", "replay/test_replaying.py", "run/test_budget.py",
    "run/test_counters.py", "run/test_duel.py", "run/test_every_duel.py", "explain/test_causes.py",
    "explain/test_explaining.py", "explain/test_named_causes.py", "sysbench/test_idle.py", "test_crates.py",
    "test_every_feature.py", "validation/test_causes.py", "validation/test_duels.py", "validation/test_fake_checks.py",
    "validation/test_replay.py",
}  # fmt: skip
# Files that take half a minute or more, the longest first: begun before the short ones, so that all workers end
# together.
LONG = (
    "studies/test_shipped_studies.py", "servers/test_every_server.py", "audit/test_pairs.py", "cli/test_bad_input.py",
    "cluster/test_clusters.py", "client/test_hosts.py", "replay/test_examples.py", "search/test_bisection.py", "tpcc",
    "gate/test_gate_command.py", "data/test_kept_loads.py", "replay/test_duels.py", "servers/test_running.py",
    "test_engine_network.py", "replay/test_running.py", "run/test_unlike_servers.py", "studies/test_resume.py",
    "first_hour/test_walk.py",
)  # fmt: skip
# Folders whose files share a server and its data.
TOGETHER = {"tpcc"}


# A background job inherits that Ctrl-C is ignored, and so would the commands that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class OneFileAtATime(LoadScopeScheduling):
    """Distributes tests by file, treating all of `ALONE` as one file, and all of `MEASURING` as another.

    One worker runs the tests of `ALONE`, then two until those of `MEASURING` have ended; the others rest. After that
    all keep two CPUs busy, since tests wait for servers a third of their time. xdist's groups (`--dist loadgroup`)
    have no effect with pytest 9.2.
    """

    def _split_scope(self, nodeid):
        scope = scope_of(nodeid)
        return "alone" if scope in ALONE else "measuring" if scope in MEASURING else scope

    def _workers(self):
        """Return how many workers may run now."""
        units = [self.workqueue, *self.assigned_work.values()]
        left = {scope for unit in units for scope, tests in unit.items() if not all(tests.values())}
        return 1 if "alone" in left else 2 if "measuring" in left else len(self.nodes)

    def _assign_work_unit(self, node):
        if node in self.nodes[: self._workers()]:
            super()._assign_work_unit(node)

    def mark_test_complete(self, node, item_index, duration=0):
        before = self._workers()
        super().mark_test_complete(node, item_index, duration)
        if self._workers() > before:
            # Twice, as at the start: a worker does not run its first test until it has a second.
            for other in self.nodes * 2:
                self._reschedule(other)


def scope_of(nodeid):
    """Return the file of a test, or its folder if one worker runs all files of that folder."""
    file = nodeid.partition("::")[0].removeprefix("tests/")
    folder = file.partition("/")[0]
    return folder if folder in TOGETHER else file


def pytest_collection_modifyitems(items):
    """Order tests: alone, measuring, without a server, then all others, with the longest files first."""
    with_server = {scope_of(item.nodeid) for item in items if item.get_closest_marker("server")}

    def turn(item):
        scope = scope_of(item.nodeid)
        if scope in ALONE or scope in MEASURING:
            return 0 if scope in ALONE else 1
        if scope in LONG:
            return 3 + LONG.index(scope)
        return 2 if scope not in with_server else 3 + len(LONG)

    items.sort(key=turn)
    for item in items:
        for feature in (name for mark in item.iter_markers("needs") for name in mark.args):
            if find_spec(f"bakeoff.{feature}") is None:
                item.add_marker(pytest.mark.skip(reason=f"bakeoff.{feature} is not installed"))


def pytest_collection_finish():
    """Keep garbage collection from scanning the modules and the thousands of tests, which stay."""
    gc.freeze()


def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False
    return OneFileAtATime(config, log)


FEATURE_OF_COMMAND = {
    "gate": "gate", "bisect": "search", "replay": "replay", "capture": "replay", "explain": "explain",
    "compare": "history", "history": "history", "cluster": "cluster",
    "audit": "audit",
}  # fmt: skip


def is_installed(command):
    """Return whether this bakeoff has the command: tests also run without the folder of a feature."""
    feature = FEATURE_OF_COMMAND.get(command)
    return feature is None or find_spec(f"bakeoff.{feature}") is not None


@dataclass(frozen=True)
class Ran:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line that starts with `bakeoff:`."""
        lines = [line for line in self.err.splitlines() if line.startswith("bakeoff:")]
        assert len(lines) == 1, self.err
        return lines[0]


@pytest.fixture(params=["some", pytest.param("all", marks=pytest.mark.slow)])
def of_runs(request):
    """`of_runs(400)`: number of runs of a simulation: a third of these, or all of them in slow tests."""
    return lambda runs: runs if request.param == "all" else runs // 3


def wait_for(condition, limit_s=60, what="a condition"):
    """Wait until the condition is true; returns its value."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {limit_s} s for {what}")


class Shell:
    """A folder for runs, a cache with a separate work folder (servers and templates are shared), and the command."""

    command = COMMAND

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.work = self.cache / "bakeoff" / "work"
        shared, own = cache_root(), self.cache / "bakeoff"
        own.mkdir(parents=True)
        for name in ("servers", "templates", "locks"):
            make_open_folder(shared / name)
            (own / name).symlink_to(shared / name)
        self.env = os.environ | {
            "BAKEOFF_RUNS": str(folder / "runs"),
            "XDG_CACHE_HOME": str(self.cache),
            "NO_COLOR": "1",
            "COLUMNS": "100",
        }

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """Start it and return at once."""
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.env | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def run(self, *arguments: str, limit_s: float = 240, **env: str) -> Ran:
        """Run it to its end; see `finish`."""
        return self.finish(self.start(*arguments, **env), limit_s=limit_s)

    def finish(self, process: subprocess.Popen[str], *, limit_s: float = 240) -> Ran:
        """Wait for its end. Fails if there is a traceback, or if anything is left but a load that it says it keeps."""
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert "Traceback" not in out + err, out + err
        # A load that took ten seconds, as the smallest may on a busy machine, is kept for `run --resume`.
        kept = str(self.work / "load-") if "the data loaded so far is kept" in err else None
        assert [each for each in self.left_behind() if not (kept and each.startswith(kept))] == []
        return Ran(process.returncode, out, err)

    @property
    def runs(self) -> list[Path]:
        """Run directories that were left."""
        root = self.folder / "runs"
        return sorted(root.iterdir()) if root.exists() else []

    def left_behind(self) -> list[str]:
        """Servers and engines of this folder that still run, and files in its work folder."""
        left = [str(path) for path in self.work.glob("*/*")]
        cache = bytes(self.cache)
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended, or is another account's
                # Both are empty for a zombie.
                command = (process / "cmdline").read_bytes()
                if cache in command or b"\0XDG_CACHE_HOME=%s\0" % cache in b"\0" + (process / "environ").read_bytes():
                    left.append(command.replace(b"\0", b" ").decode(errors="replace").strip())
        return left


def make_shell_folder() -> Path:
    """Make a folder that the servers' account may enter, unlike pytest's tmp_path."""
    folder = Path(tempfile.mkdtemp(prefix="bakeoff-test-"))
    folder.chmod(0o755)
    return folder


@pytest.fixture
def shell():
    folder = make_shell_folder()
    yield Shell(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def inside(shell, monkeypatch, capfd):
    """`inside(*arguments)`: run the command inside this process, which saves a second of imports.

    For commands that start no server; `shell.run` does the same in a separate process.
    """
    monkeypatch.chdir(shell.folder)
    for name in ("BAKEOFF_RUNS", "XDG_CACHE_HOME", "NO_COLOR", "COLUMNS"):
        monkeypatch.setenv(name, shell.env[name])

    def run(*arguments: str) -> Ran:
        capfd.readouterr()
        code = main.run(list(arguments))
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err, out + err
        assert shell.left_behind() == []
        return Ran(int(code), out, err)

    return run


@dataclass(frozen=True)
class FinishedDuel:
    """A duel that has ended: what it printed, and its run directory."""

    ran: Ran
    run: RunDirectory
    analysis: Analysis
    budget_s: float


@pytest.fixture(scope="session")
def slowed_duel():
    """One duel for all tests of what a run leaves: a server against itself, the second slowed down by 100 %."""
    folder = make_shell_folder()
    shell = Shell(folder)
    ran = shell.run(
        "duel", "mysql:8.0.15", "mysql:8.0.15", "--inject-slowdown", "100%", "--workload", "oltp_point_select",
        "--tables", "1", "--table-size", "5000", "--threads", "4", "--warm-up", "1s", "--precision", "5%",
        "--budget", "60s", "--seed", "2", "--quiet", "--fail-on", "slower", "--no-explain",
    )  # fmt: skip
    assert ran.code == 1, ran
    (path,) = shell.runs
    run = open_run(path)
    yield FinishedDuel(ran, run, run.read("analysis.json", Analysis), budget_s=60.0)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def sandbox():
    """A MySQL 8.0.15 that runs for the whole session, as if somebody else had started it."""
    with servers.sandbox(parse_server("mysql:8.0.15")) as box:
        yield {"socket": str(box.instance.socket_path), "port": box.instance.port, "pid": box.instance.pid}


@pytest.fixture(scope="session")
def fakeserver_binary():
    """Build the fake server from the tree; returns its path."""
    root = (Path(__file__).parents[1] / "crates").resolve().parent
    built = ["cargo", "build", "--quiet", "-p", "bakeoff-fakeserver"]
    subprocess.run(built, cwd=root, check=True)
    metadata = ["cargo", "metadata", "--format-version=1", "--no-deps"]
    described = json.loads(subprocess.run(metadata, cwd=root, check=True, capture_output=True).stdout)
    return Path(described["target_directory"]) / "debug" / "bakeoff-fakeserver"
