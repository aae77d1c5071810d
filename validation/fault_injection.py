"""Checks G18 and G19: faults injected into one arm discard the epoch for both; without restarts there is no verdict.

Whole runs (`run_study`) go to fake servers that are named by URL, as a user's own servers are.
"""

import math
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from rich.console import Console

from bakeoff.errors import EngineError
from bakeoff.report import build_view, render_terminal
from bakeoff.results import RunDirectory
from bakeoff.run.epoch import discards_epoch
from bakeoff.run.runner import run_study
from bakeoff.spec import Arm, Origin, ServerSpec, Study, Workload
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Analysis, Comparison, Obstacle, Stop, Word
from bakeoff.stats.progress import Listener
from validation.check import Check, Finding, Setting, Size
from validation.fake_server import MS, FakeArm, FakeBench, FakeServer, Load, judge, on_fake_server

_LATENCY = ("--latency", "constant:500us")
# Statements from one deadlock to the next: were deadlocks events too, they would be 1/6 of all, not 1/5. It does
# not divide the eight workers: they take turns, and the same ones would meet all, some in an event begun in the guard.
_EVERY = 5
_TOLERANCE = 0.1  # of that share: slices begin and end within events, hence few and long ones
_CRASH_AT = 40_000  # the statement at which a server crashes: in its second epoch or its third
_BUDGET_S = 50.0
# A script without tables: a fake server has none, and a run checks that sysbench's tables are there.
_SCRIPT = """
function thread_init()
   con = sysbench.sql.driver():connect()
end

function event()
   con:query("SELECT c FROM sbtest1 WHERE id = 1")
end
"""


def errors(setting: Setting) -> Finding:
    """Deadlocks on one arm are retried inside the same event, and are not counted as events."""
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
    # Guards and drains are answered and not counted, so the counted share of the errors is what can be checked.
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


def crash(setting: Setting) -> Finding:
    """A server crashes in the middle of an epoch and comes back: no arm uses that epoch, and the report says so."""
    with _fakes() as pool:
        pool.start("A", _LATENCY)
        pool.start("B", (*_LATENCY, "--fault", f"exit@{_CRASH_AT}"))
        analysis, run, listener = _run(pool, setting)
    discarded = analysis.discarded
    epochs = {number: run.load_epoch(number) for number in run.finished_epochs()}
    used = {point.epoch for comparison in analysis.comparisons for point in comparison.points}
    said = any("discarded for all arms" in line for line in listener.notes) and "discarded" in listener.report.lower()
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


def negative_controls(setting: Setting) -> Finding:
    """Negative controls: a clear difference on servers that never restart, and on one start of each."""
    arms = {"A": FakeArm(_LATENCY), "B": FakeArm((*_LATENCY, "--slow-factor", "4"))}
    load = Load(seconds=0.35, threads=4)
    with FakeBench(setting, "negative controls") as bench:
        epochs = [bench.epoch(arms, load) for _ in range(8)]
    with _fakes() as pool:
        never = analyse(epochs, _url_study(pool, setting), ended=Stop.BUDGET).comparisons[0]
    once = judge(epochs[:1], load).comparisons[0]
    restarted = judge(epochs, load).comparisons[0]  # the same figures, as of servers that were started anew
    refused = _without_verdict(never) and _without_verdict(once)
    flagged = never.obstacle is Obstacle.NOT_RESTARTED
    return Finding(
        found=(
            f"ratio {math.exp(never.estimate.mean):.2f}: {_verdict(never)} without a restart, "
            f"{_verdict(once)} from one start, {_verdict(restarted)} from {restarted.estimate.n}"
        ),
        # Where even restarted servers this far apart get no verdict, refusing one proves nothing.
        passed=refused and flagged if not _without_verdict(restarted) else None,
        figures={
            "never": never.verdict.sentence,
            "once": once.verdict.sentence,
            "restarted": restarted.verdict.sentence,
        },
    )


def _verdict(comparison: Comparison) -> str:
    return "no verdict" if _without_verdict(comparison) else " and ".join(comparison.verdict.words)


def _without_verdict(comparison: Comparison) -> bool:
    return not comparison.verdict.claims and Word.EQUIVALENT not in comparison.verdict.words


@dataclass
class _Fakes:
    """Fake servers that may be started again while a run goes on."""

    folder: Path
    servers: dict[str, FakeServer] = field(default_factory=dict)

    def start(self, name: str, law: tuple[str, ...]) -> None:
        """Start one, in place of an earlier one of that name."""
        socket = self.folder / f"{name}.sock"
        socket.unlink(missing_ok=True)
        self.servers[name] = FakeServer(socket, *law)

    def spec(self, name: str) -> ServerSpec:
        """The server as a URL."""
        return ServerSpec(origin=Origin.URL, location=f"mysql://root@localhost/?socket={self.folder / f'{name}.sock'}")

    @contextmanager
    def restarting(self) -> Iterator[None]:
        """Inside the block a server that has crashed is started again, without the fault that made it crash."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.05):
                for name, server in list(self.servers.items()):
                    if not server.running:
                        server.close()
                        self.start(name, _LATENCY)

        # A fake server ends with the thread that started it, so the thread must outlive the run.
        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@contextmanager
def _fakes() -> Iterator[_Fakes]:
    folder = Path(tempfile.mkdtemp(prefix="bakeoff-fake-"))
    pool = _Fakes(folder)
    try:
        yield pool
    finally:
        for server in pool.servers.values():
            server.close()
        shutil.rmtree(folder, ignore_errors=True)


class _Listener(Listener):
    """Keeps the notes of a run, and its report as a terminal shows it."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.report = ""

    def note(self, text: str) -> None:
        """Keep a note."""
        self.notes.append(text)


def _url_study(pool: _Fakes, setting: Setting) -> Study:
    return Study(
        title="fake servers",
        arms=tuple(Arm(name=name, label=f"fake {name}", server=pool.spec(name)) for name in "AB"),
        workloads=(Workload(script="oltp_point_select"),),
        tables=1,
        table_size=1000,
        budget_s=_BUDGET_S,
        builds=1,
        seed=setting.seed,
    )


def _run(pool: _Fakes, setting: Setting) -> tuple[Analysis, RunDirectory, _Listener]:
    listener = _Listener()
    script = pool.folder / "select.lua"
    script.write_text(_SCRIPT, encoding="utf-8")
    study = _url_study(pool, setting).model_copy(update={"workloads": (Workload(script=str(script)),)})
    with pool.restarting():
        run, analysis = run_study(
            study, setting.folder, listener=listener, stop=threading.Event(), passwords={}, command_line=("validation",)
        )
    with StringIO() as page:
        render_terminal(build_view(run, analysis), Console(file=page, width=200))
        listener.report = page.getvalue()
    return analysis, run, listener


FAULT_CHECKS = (
    Check(
        test="G18",
        what="deadlocks and cut connections on one fake server",
        target="errors are not counted as events; a lost server discards the epoch",
        sizes=frozenset(Size),
        run=on_fake_server(errors),
    ),
    Check(
        test="G18",
        what="a fake server crashes in the middle of a run",
        target="the epoch is discarded for both arms, and the report says so",
        sizes=frozenset({Size.QUICK, Size.FULL}),
        run=on_fake_server(crash),
    ),
    Check(
        test="G19",
        what="a factor of 4 apart, never restarted, or started once",
        target="no verdict",
        sizes=frozenset(Size),
        run=on_fake_server(negative_controls),
    ),
)
