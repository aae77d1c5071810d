"""One node's part of a run: describe the node, load its data once, measure epochs and return each as an archive.

Nothing here imports Ray. The worker's process is the parent of all servers of the node, and the kernel kills them when
it ends.
"""

import contextlib
import io
import math
import os
import shutil
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any, TypedDict, TypeVar

import psutil
from pydantic import ValidationError

from bakeoff.engine import Engine
from bakeoff.errors import BakeoffError, RunInvalid
from bakeoff.files import sync_file_system
from bakeoff.results import RunDirectory
from bakeoff.results.manifest import bakeoff_version, checkout_commit, gather_host
from bakeoff.run.arms import MemoryShare, download_reporter, max_servers_for_aio, prepare_arms, share_memory
from bakeoff.run.epoch import EpochDone, EpochOrder, run_epoch
from bakeoff.run.epoch_servers import EpochTools
from bakeoff.run.forecast import forecast, require_disk
from bakeoff.run.loading import Loader
from bakeoff.run.measuring import check_workloads, resolved
from bakeoff.run.resume import script_digests, setup_digests
from bakeoff.run.runner import LOADING_SHARE, before_epochs, builds_of, load
from bakeoff.servers import ServerPool
from bakeoff.servers.paths import boot_id, work_root
from bakeoff.servers.profile import OF_THE_MACHINE
from bakeoff.spec import Study
from bakeoff.stats.progress import Listener

# Parts of file names, in the order in which they are tried.
_DAEMONS = (
    "raylet", "gcs_server", "ray::DashboardAgent", "ray::RuntimeEnvAgent", "dashboard", "log_monitor", "monitor"
)  # fmt: skip
_OWN_NICENESS = 0
T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """Result of a worker's method; an error is a value, so that Ray does not wrap it."""

    value: Any = None
    error: BakeoffError | None = None
    stopped: bool = False


class Facts(TypedDict, total=False):
    """A node, in types that every version of bakeoff understands.

    `time_s` is its clock and `share` the memory that servers can have, a `MemoryShare`; `problem` says why they cannot.
    """

    bakeoff: str
    commit: str
    boot: str
    time_s: float
    host: dict[str, Any]
    engine: dict[str, Any]
    problem: str
    share: dict[str, Any] | None


def facts(study: str | None = None) -> Facts:
    """Describe this node; with a study as JSON, also the memory for its servers."""
    found: Facts = {
        "bakeoff": bakeoff_version(),
        "commit": checkout_commit() or "",
        "boot": boot_id(),
        "time_s": time.time(),
        "host": gather_host(work_root(), work_root()).model_dump(mode="json"),
        "engine": {},
        "problem": "",
        "share": None,
    }
    try:
        with Engine() as engine:
            found["engine"] = engine.hello.facts()
    except BakeoffError as error:
        found["problem"] = str(error)
    if study is not None:
        try:
            share = share_memory(Study.model_validate_json(study), at_most=max_servers_for_aio())
            found["share"] = asdict(share)
        except ValidationError:
            pass  # the study is from another version, for which `require_same_programs` refuses this node
        except BakeoffError as error:
            found["problem"] = found["problem"] or str(error)
    return found


def daemons_cpu_s() -> dict[str, float]:
    found: dict[str, float] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()[:6]
            name = next((each for each in _DAEMONS if any(each in word.rpartition("/")[2] for word in words)), "")
            if name and any("ray" in word for word in words):
                times = process.cpu_times()
                found[name] = found.get(name, 0.0) + times.user + times.system
    return found


def rest_and_measure_daemons(seconds: float) -> dict[str, float]:
    """Return the shares of one CPU that Ray's daemons take while the node is idle, by name."""
    before, begin = daemons_cpu_s(), time.monotonic()
    time.sleep(seconds)
    took_s = time.monotonic() - begin
    return {name: max(0.0, after - before.get(name, 0.0)) / took_s for name, after in daemons_cpu_s().items()}


@dataclass(frozen=True)
class Ready:
    """Description of a worker that has loaded its data.

    `setups` are digests of each arm's binary and options, except those that depend on the machine, `scripts` those of
    files by path, `rows` the data check by build, `files` an archive of what loading has written.
    """

    builds: int
    setups: dict[str, str]
    scripts: dict[str, str]
    rows: dict[str, Any]
    files: bytes


@dataclass(frozen=True)
class Parcel:
    """A measured epoch: its directory, and with a pilot `plan.json` and `pilot.json`, as an archive."""

    done: EpochDone
    files: bytes


Report = tuple[str, tuple[Any, ...]]  # a listener's method, and its arguments


class Reports(Listener):
    """A listener that keeps all notes, and the latest of everything else, until the driver asks for them."""

    def __init__(self) -> None:
        self._kept: dict[object, Report] = {}

    def stage(self, text: str) -> None:
        self._kept["stage"] = ("stage", (text,))

    def progress(self, label: str, done: int, total: int | None, unit: str) -> None:
        self._kept[label,] = ("progress", (label, done, total, unit))

    def throughput(self, cell: str, arm: str, per_s: float) -> None:
        self._kept[cell, arm] = ("throughput", (cell, arm, per_s))

    def note(self, text: str) -> None:
        self._kept[object()] = ("note", (text,))

    def take(self) -> list[Report]:
        return [self._kept.pop(key) for key in list(self._kept)]


class Worker:
    """One node's part of a run. `take` and `end` may be called while `prepare` or `measure` runs."""

    def __init__(self) -> None:
        self._reports = Reports()
        self._stop = threading.Event()
        self._open = contextlib.ExitStack()
        self._tools: EpochTools | None = None
        self._run: RunDirectory | None = None
        # Ray raises it for its workers, so the OOM killer would choose the servers first.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("0", encoding="ascii")

    def pid(self) -> int:
        return os.getpid()

    def prepare(self, study: Study, name: str, share: MemoryShare, *, first: bool) -> Answer:
        """Load the data; the `first` host decides how many builds fit, and compares the answers of captures."""
        return self._answer(lambda: self._prepare(study, name, share, first=first))

    def measure(self, order: EpochOrder) -> Answer:
        return self._answer(lambda: self._measure(order))

    def take(self) -> list[Report]:
        return self._reports.take()

    def end(self) -> None:
        self._stop.set()

    def close(self) -> None:
        self._stop.set()
        self._open.close()

    def _answer(self, work: Callable[[], T | None]) -> Answer:
        try:
            value = work()
        except BakeoffError as error:
            return Answer(stopped=True) if self._stop.is_set() else Answer(error=error)
        except KeyboardInterrupt:
            return Answer(stopped=True)
        return Answer(stopped=True) if value is None else Answer(value)

    def _prepare(self, study: Study, name: str, share: MemoryShare, *, first: bool) -> Ready:
        reports, stop = self._reports, self._stop
        study = resolved(study)
        check_workloads(study)
        require_disk(forecast(study))
        reset_niceness()
        if (niceness := os.getpriority(os.PRIO_PROCESS, 0)) > _OWN_NICENESS:
            reports.note(
                f"servers run at niceness {niceness}, as Ray's workers do; start Ray with RAY_worker_niceness=0"
            )
        setups = prepare_arms(
            study, share.memory, passwords={}, on_progress=download_reporter(reports, stop), stop=stop
        )
        pool = self._open.enter_context(ServerPool(work_root(), stop=stop))
        with Engine(stop=stop, on_log=reports.note) as engine:
            run = RunDirectory.create(pool.work / "run", study, engine=engine.hello.facts(), data_path=work_root())
            limit_s = study.budget_s * LOADING_SHARE if first else math.inf
            loader = Loader(study, pool, run, reports, engine, stop)
            tools = load(loader, setups, share, limit_s=limit_s, host=name)
        if first:
            before_epochs(tools, run)
        self._tools, self._run = tools, run
        builds = builds_of(tools)
        return Ready(
            builds,
            setup_digests(setups, leave_out=OF_THE_MACHINE),
            script_digests(study),
            {str(build): run.read_json(f"rows/{build}.json") for build in range(builds)},
            pack(run.path, leave_out=("epochs", "manifest.json", "study.json", ".lock")),
        )

    def _measure(self, order: EpochOrder) -> Parcel | None:
        assert self._tools
        assert self._run
        done = run_epoch(order, self._tools, self._run)
        if done is None:
            return None
        epoch = f"epochs/{done.number:03d}"
        names = [epoch, *(("plan.json", "pilot.json") if done.plan else ())]
        parcel = Parcel(done, pack(self._run.path, only=names))
        shutil.rmtree(self._run.path / epoch)
        return parcel


def reset_niceness() -> None:
    """Undo niceness 15 of Ray's workers, which servers would inherit, if privileges allow."""
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 — numbers, not paths; each thread has a niceness
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread), _OWN_NICENESS)


def pack(folder: Path, *, only: list[str] | None = None, leave_out: tuple[str, ...] = ()) -> bytes:
    names = only or sorted(path.name for path in folder.iterdir() if path.name not in leave_out)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in names:
            tar.add(folder / name, arcname=name)
    return archive.getvalue()


def unpack(content: bytes, folder: Path, *, replaces: bool = True) -> None:
    """Write an archive's files below a folder, `outcome.json` last, since it says that the others are complete.

    All are on disk before the first is renamed. One sync serves all files, because one for each would take most of the
    driver's time. Unless `replaces`, existing files stay as they are.
    """
    files = {folder / path: data for path, data in _members(content)}
    parts = {
        path: path.with_name(f".{path.name}.{token_hex(4)}.part")
        for path in sorted(files, key=lambda path: path.name == "outcome.json")
        if replaces or not path.exists()
    }
    try:
        for path, part in parts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(files[path])
        sync_file_system(folder)
        for path, part in parts.items():
            part.replace(path)
        sync_file_system(folder)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def _members(content: bytes) -> Iterator[tuple[PurePosixPath, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts:
                raise RunInvalid(f"a node sent a file outside its run directory: {member.name!r}")
            file = tar.extractfile(member) if member.isfile() else None
            if file:
                yield path, file.read()
