"""Checks of faults injected into one arm: errors are not events, and a lost server discards the epoch for both.

Whole runs (`run_study`) address fake servers by URL, like a user's own servers.
"""

import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from io import StringIO
from pathlib import Path

from rich.console import Console

from bakeoff.errors import EngineError
from bakeoff.report import build_view, render_terminal
from bakeoff.run.epoch import discards_epoch
from bakeoff.run.runner import Invocation, run_study
from bakeoff.spec import Arm, Origin, ServerSpec, Study, Workload
from bakeoff.stats.progress import Listener
from validation.check import Checks, Finding, Setting, Size
from validation.fake_server import MS, FakeArm, FakeBench, FakeServer, Load, on_fake_server

FAULT_CHECKS = Checks(*Size, wrap=on_fake_server)

_LATENCY = ("--latency", "constant:500us")
# Statements from one deadlock to the next. If deadlocks were counted as events, they would be 1/6 of all, not 1/5.
# It does not divide the eight workers, so that no worker meets all of them.
_EVERY = 5
_TOLERANCE = 0.1  # of that share, since slices begin and end within events
_CRASH_AT = 40_000  # statement at which a server crashes, in its second or third epoch
_BUDGET_S = 50.0
# A fake server has no tables, and a run checks that sysbench's tables exist.
_SCRIPT = """
function thread_init()
   con = sysbench.sql.driver():connect()
end

function event()
   con:query("SELECT c FROM sbtest1 WHERE id = 1")
end
"""


@FAULT_CHECKS.add("G18", "errors are not counted as events; a lost server discards the epoch")
def errors(setting: Setting) -> Finding:
    """Deadlocks and cut connections on one fake server."""
    arms = {"A": FakeArm(_LATENCY), "B": FakeArm((*_LATENCY, "--error", f"1213/{_EVERY}"))}
    with FakeBench(setting, "errors") as bench:
        slices = bench.epoch(arms, Load(seconds=1.0, slice_ns=250 * MS)).slices.by("arm").frames()["B"]
        answered = bench.counters["B"]["questions"]
        try:
            bench.epoch({"A": arms["A"], "B": FakeArm((*_LATENCY, "--fault", "close@500"))}, Load(seconds=0.5))
            lost = "nothing"
        except EngineError as error:
            lost = error.code if discards_epoch(error) else f"{error.code}, which does not discard the epoch"
    events, retries = int(slices["events"].sum()), int(slices["retries"].sum())
    # Guards and drains are answered but not counted, so only the share of errors can be checked.
    share = retries / (events + retries)
    apart = events + retries <= answered and abs(share * _EVERY - 1) < _TOLERANCE
    return Finding(
        found=(
            f"{retries} deadlocks beside {events} events, of {answered} statements answered: {share:.1%} of both"
            + (", none counted as an event" if apart else f", NOT {1 / _EVERY:.1%}")
            + f"; a connection that is cut: {lost}"
        ),
        passed=apart and lost == "server_lost",
        figures={"events": events, "retries": retries, "statements": answered, "injected_every": _EVERY, "cut": lost},
    )


@FAULT_CHECKS.add("G18", "the epoch is discarded for both arms, and the report says so", Size.QUICK, Size.FULL)
def crash(setting: Setting) -> Finding:
    """A fake server that crashes in the middle of a run."""
    listener = _Notes()
    with tempfile.TemporaryDirectory(prefix="bakeoff-fake-") as name, _servers(Path(name)):
        study = _study(Path(name), seed=setting.seed)
        run, analysis = run_study(
            study, setting.folder, Invocation(("validation",)), listener=listener, stop=threading.Event()
        )
    with StringIO() as page:
        render_terminal(build_view(run, analysis), Console(file=page, width=200))
        report = page.getvalue()
    discarded = analysis.discarded
    epochs = {number: run.load_epoch(number) for number in run.finished_epochs()}
    used = {point.epoch for comparison in analysis.comparisons for point in comparison.points}
    said = any("discarded for all arms" in line for line in listener.notes) and "discarded" in report.lower()
    right = (
        len(discarded) == 1 and not used & discarded.keys() and all(not epochs[number].valid for number in discarded)
    )
    reason = next(iter(discarded.values()), "no epoch was discarded")
    return Finding(
        found=f"{len(discarded)} of {len(epochs)} epochs discarded for both arms ({reason}); "
        + ("reported while it ran and at the end" if said else "NOT REPORTED"),
        passed=right and said,
        figures={"discarded": dict(discarded), "epochs": len(epochs), "used": sorted(used)},
    )


class _Notes(Listener):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def _socket(folder: Path, arm: str) -> Path:
    return folder / f"{arm}.sock"


def _study(folder: Path, *, seed: int) -> Study:
    script = folder / "select.lua"
    script.write_text(_SCRIPT, encoding="utf-8")
    servers = {
        name: ServerSpec(origin=Origin.URL, location=f"mysql://root@localhost/?socket={_socket(folder, name)}")
        for name in "AB"
    }
    return Study(
        title="fake servers",
        arms=tuple(Arm(name=name, label=f"fake {name}", server=server) for name, server in servers.items()),
        workloads=(Workload(script=str(script)),),
        tables=1,
        table_size=1000,
        budget_s=_BUDGET_S,
        builds=1,
        seed=seed,
    )


@contextmanager
def _servers(folder: Path) -> Iterator[None]:
    """Run both servers; B crashes once and is restarted."""
    started, done = threading.Event(), threading.Event()

    def serve() -> None:  # a fake server ends with the thread that started it
        with ExitStack() as stack:
            stack.enter_context(FakeServer(_socket(folder, "A"), *_LATENCY))
            crashing = FakeServer(_socket(folder, "B"), *_LATENCY, "--fault", f"exit@{_CRASH_AT}")
            stack.callback(crashing.close)
            started.set()
            while crashing.running and not done.wait(0.05):
                pass
            if not done.is_set():
                stack.enter_context(FakeServer(_socket(folder, "B"), *_LATENCY))
            done.wait()

    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(serve)
        while not started.wait(0.05) and not serving.done():
            pass
        try:
            yield
        finally:
            done.set()
            serving.result()
