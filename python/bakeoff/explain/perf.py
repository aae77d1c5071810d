"""Profile servers with Linux's perf while a cell is measured: CPU samples with call stacks.

Only samples inside a server's own slices count (CLOCK_MONOTONIC). Stacks are unwound by frame pointers. The kernel's
clock (`cpu-clock`) triggers samples, so that a sample is a time, on virtual machines too.
"""

import bisect
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Self

from bakeoff.engine_messages import SliceMessage
from bakeoff.errors import HostError
from bakeoff.explain.profiles import KERNEL, PROFILE_FILE, Function, Profile, Stack
from bakeoff.plan import Cell
from bakeoff.results import EpochWriter
from bakeoff.run.counters import all_events
from bakeoff.run.epoch_servers import EpochServers
from bakeoff.servers.process import Identity, Launch, spawn
from bakeoff.units import visible

# Otherwise perf copies every program and library that it sees to ~/.debug.
_RECORD = ("record", "--no-buildid", "--no-buildid-cache")
_PERIOD_NS = 1_000_003  # a prime, so never in step with slices
_PERIOD_A_CPU_NS = 25_000  # longer on large machines: at most 40,000 samples a second
_BYTES_MAX = "256M"  # of the raw samples of one server in one cell
_READY_S, _END_S, _FOLD_S = 20.0, 20.0, 120.0
_READ_S = 1800.0  # to read and fold all samples of a recording
_PROBE_S = 20.0
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
# Functions in which threads begin; they do not say what a thread does.
_BEGINNINGS = frozenset(
    {"clone", "__clone", "clone3", "__clone3", "start_thread", "_start", "__libc_start_main",
     "__libc_start_main_impl", "__libc_start_call_main", "ret_from_fork", "ret_from_fork_asm"}
)  # fmt: skip
_ENTERING = frozenset({"entry_SYSCALL_64_after_hwframe", "do_syscall_64", "x64_sys_call", "entry_SYSCALL_64"})
# It has no frame pointers, so some stacks end in it.
_C_LIBRARY = re.compile(r"lib(c|pthread)[-.]")
_SAMPLE = re.compile(r"\s(\d+)/\d+\s+(\d+)\.(\d{9}):")
_FRAME = re.compile(r"(.*) \(([^()]*(?: \(deleted\))?)\)$")
_SUFFIXES = re.compile(r"(\.(constprop|isra|part|cold|lto_priv|localalias|llvm)(\.\d+)?|@plt|@@?[A-Z][\w.]*)+$")


@dataclass(frozen=True)
class Permission:
    """What perf may do here, or the `reason` why it may do nothing.

    `whole` samples the whole machine. Otherwise the servers' threads are sampled, which costs microseconds per switch.
    """

    reason: str = ""
    event: str = ""
    whole: bool = False

    @property
    def period_ns(self) -> int:
        return max(_PERIOD_NS, (os.cpu_count() or 1) * _PERIOD_A_CPU_NS) if self.whole else _PERIOD_NS


@cache
def permission() -> Permission:
    if shutil.which("perf") is None:
        return Permission("No profiles and no off-CPU data: perf is not installed (Debian: linux-perf).")
    # Asked for user code and kernel, perf may silently give user code only, so the kernel is tried separately.
    for asked_for, event, whole in (
        ("cpu-clock:I", "cpu-clock:I", True), ("cpu-clock:k", "cpu-clock", False), ("cpu-clock:u", "cpu-clock:u", False)
    ):  # fmt: skip
        asked = probe(*(["--all-cpus"] if whole else []), "--event", asked_for, "-g")
        if asked.returncode == 0:
            return Permission("", event, whole)
    paranoid = int(_PARANOID.read_text("ascii")) if _PARANOID.exists() else 0
    why = f"kernel.perf_event_paranoid is {paranoid}" if paranoid > 2 else complaint(asked.stderr)
    return Permission(f"No profiles and no off-CPU data: perf may not profile here ({why}).")


def probe(*sampling: str) -> subprocess.CompletedProcess[str]:
    """Record a program that does nothing, to see whether perf can."""
    with tempfile.TemporaryDirectory(prefix="bakeoff-perf-") as folder:
        return _ask(*_RECORD, *sampling, "--output", f"{folder}/data", "--", "true")


def _ask(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [shutil.which("perf") or "perf", *arguments]
    env = os.environ | {"LC_ALL": "C"}
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=_PROBE_S, check=False, env=env)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return subprocess.CompletedProcess(argv, 1, "", str(problem))


def complaint(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Error:")]
    return lines[0].rstrip(".:")[:120] if lines else "it gives no reason"


class Profiler:
    """A `bakeoff.run.epoch.Watch` that samples the CPU while a cell is measured."""

    def __init__(self, writer: EpochWriter) -> None:
        self._writer = writer
        self._folds: defaultdict[str, dict[str, _Samples]] = defaultdict(dict)

    @contextlib.contextmanager
    def __call__(self, servers: EpochServers, cell: Cell) -> Iterator[Callable[[SliceMessage], None]]:
        slices = Slices(cell.guard_ns)
        with tempfile.TemporaryDirectory(prefix=".perf-", dir=self._writer.path) as name:
            allowed = permission()
            sampling = (
                "--event", allowed.event, "--count", str(allowed.period_ns), "--call-graph", "fp",
                "--max-size", _BYTES_MAX,
            )  # fmt: skip
            recorder = Recorder(servers.pids, Path(name).resolve(), sampling, whole=allowed.whole)
            with recorder:
                yield slices.add
                recorder.end()
                samples = _samples(recorder, servers.pids)
                last_ns = max((at_ns for taken in samples.values() for at_ns, _ in taken), default=0)
                for arm, windows in ((arm, slices.of(arm)) for arm in servers.pids):
                    if windows:
                        sampled = [each for each in windows if not recorder.full or each.end_ns <= last_ns]
                        self._folds[arm].setdefault(cell.name, _Samples()).add(samples[arm], sampled)
                        write_profiles(self._writer, arm, self._folds[arm], (allowed.event, allowed.period_ns))


@dataclass(frozen=True, order=True)
class Window:
    """When an arm was under load, on CLOCK_MONOTONIC."""

    begin_ns: int
    end_ns: int
    events: int


class Slices:
    """The slices of one measurement, and the moment from which they count their time.

    A message comes after its slice's end; the least delayed one gives that moment.
    """

    def __init__(self, guard_ns: int) -> None:
        self._guard_ns = guard_ns
        self._messages: list[SliceMessage] = []
        self._zero_ns: int | None = None

    def add(self, message: SliceMessage) -> None:
        self._messages.append(message)
        zero_ns = time.monotonic_ns() - message["start_ns"] + self._guard_ns - message["load_ns"]
        self._zero_ns = zero_ns if self._zero_ns is None else min(self._zero_ns, zero_ns)

    def of(self, arm: str) -> list[Window]:
        zero_ns = (self._zero_ns or 0) - self._guard_ns
        own = [(zero_ns + each["start_ns"], each) for each in self._messages if each["arm"] == arm]
        return sorted(Window(begin_ns, begin_ns + each["load_ns"], all_events([each])) for begin_ns, each in own)


class Recorder:
    """One `perf record` for all servers.

    It is sampling when the block begins, and perf has always ended after it.
    """

    def __init__(self, pids: Mapping[str, int], folder: Path, sampling: Sequence[str], *, whole: bool) -> None:
        self._pids = dict(pids)
        self._sampling = sampling
        self._whole = whole
        self._folder = folder
        self._data = folder / "samples"
        self._said = folder / "said"
        self._errors = folder / "errors"
        self.full = False  # perf stopped at its maximum file size

    def __enter__(self) -> Self:
        self._running = self._start()
        try:
            self._wait_until_ready()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()

    def _start(self) -> subprocess.Popen[bytes]:
        scope = ["--all-cpus"] if self._whole else ["--pid", ",".join(map(str, self._pids.values()))]
        argv = [
            shutil.which("perf") or "perf", *_RECORD, *self._sampling, "--clockid", "CLOCK_MONOTONIC", "--delay", "-1",
            "--control", "fd:0,1", "--output", str(self._data), *scope,
        ]  # fmt: skip
        us = Identity(os.geteuid(), os.getegid(), switch=False)
        launch = Launch(argv, os.environ | {"LC_ALL": "C"}, us)
        return spawn(launch, cwd=self._folder, log=self._said, error_log=self._errors, stdin=subprocess.PIPE)

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + _READY_S
        with contextlib.suppress(BrokenPipeError):
            assert self._running.stdin
            self._running.stdin.write(b"enable\n")
            self._running.stdin.flush()
        while b"ack" not in self._said.read_bytes():
            if self._running.poll() is not None or time.monotonic() > until:
                raise self._failed()
            time.sleep(0.01)

    def end(self) -> None:
        self.full = self._running.poll() is not None
        self._running.send_signal(signal.SIGINT)
        try:
            self._running.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise self._failed() from None
        if not self._data.exists():
            raise self._failed()

    def _kill(self) -> None:
        self._running.kill()
        self._running.wait()
        with contextlib.suppress(OSError):
            if self._running.stdin:
                self._running.stdin.close()

    @contextlib.contextmanager
    def text(self, *arguments: str) -> Iterator[Iterable[str]]:
        argv = [
            shutil.which("perf") or "perf", "script", "--input", str(self._data), "--no-inline", "--ns",
            "--pid", ",".join(map(str, self._pids.values())), *arguments,
        ]  # fmt: skip
        with (
            self._errors.open("wb") as errors,
            subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace") as reading,
        ):
            assert reading.stdout
            limit = threading.Timer(_READ_S, reading.kill)
            limit.start()
            try:
                yield reading.stdout
                with contextlib.suppress(subprocess.TimeoutExpired):
                    reading.wait(_FOLD_S)
                failed = reading.returncode != 0
            finally:
                limit.cancel()
                reading.kill()
        if failed:
            raise self._failed()

    def _failed(self) -> HostError:
        return HostError(f"perf failed: {complaint(self._errors.read_text('utf-8', 'replace'))}.")


def _samples(recorder: Recorder, pids: Mapping[str, int]) -> dict[str, list[tuple[int, Stack]]]:
    arms = {pid: arm for arm, pid in pids.items()}
    found: dict[str, list[tuple[int, Stack]]] = {arm: [] for arm in pids}
    with recorder.text("--fields", "comm,pid,tid,time,ip,sym,dso") as lines:
        for pid, at_ns, stack in samples_of(lines):
            if pid in arms:
                found[arms[pid]].append((at_ns, stack))
    return found


@dataclass
class Stacks:
    stacks: Counter[Stack] = field(default_factory=Counter)
    events: int = 0
    length_ns: int = 0
    outside: int = 0
    incomplete: int = 0

    def count(self, windows: Sequence[Window]) -> None:
        self.events += sum(window.events for window in windows)
        self.length_ns += sum(window.end_ns - window.begin_ns for window in windows)

    def profile(self, event: str, period_ns: int) -> Profile:
        return Profile.of_stacks(
            self.stacks,
            event=event,
            period_ns=period_ns,
            events=self.events,
            seconds=self.length_ns / 1e9,
            outside=self.outside,
            incomplete=self.incomplete,
        )


def write_profiles(writer: EpochWriter, arm: str, folds: Mapping[str, Stacks], unit: tuple[str, int]) -> None:
    """Write an arm's profiles by cell; a sample is `unit`: what made the kernel sample, and the ns it stands for."""
    profiles = {cell: fold.profile(*unit).model_dump(mode="json") for cell, fold in folds.items()}
    writer.write_server_json(arm, PROFILE_FILE, profiles)


class _Samples(Stacks):
    def add(self, samples: Iterable[tuple[int, Stack]], windows: Sequence[Window]) -> None:
        begins = [window.begin_ns for window in windows]
        for at_ns, stack in samples:
            place = bisect.bisect_right(begins, at_ns) - 1
            if place < 0 or at_ns > windows[place].end_ns:
                self.outside += 1
                continue
            whole = without_beginning(stack)
            self.incomplete += whole is stack and not _C_LIBRARY.match(stack[0].object if stack else "")
            self.stacks[whole] += 1
        self.count(windows)


def samples_of(lines: Iterable[str]) -> Iterator[tuple[int, int, Stack]]:
    """Parse process, moment (ns) and stack of the samples in the output of `perf script`."""
    for header, stack in records_of(lines):
        if found := _SAMPLE.search(header):
            yield int(found[1]), int(found[2]) * 10**9 + int(found[3]), stack


def records_of(lines: Iterable[str]) -> Iterator[tuple[str, Stack]]:
    """Parse headlines and stacks, outermost function first, in the output of `perf script`."""
    known: dict[str, Function] = {}
    header, stack = "", list[Function]()
    for line in lines:
        if line.startswith("\t"):
            text = line.strip().partition(" ")[2]
            function = known.get(text) or known.setdefault(text, _function(text))
            if not (function.object == KERNEL and function.name in _ENTERING):
                stack.append(function)
        elif line.strip():
            if header:
                yield header, tuple(reversed(stack))
            header, stack = line, []
    if header:
        yield header, tuple(reversed(stack))


def without_beginning(stack: Stack) -> Stack:
    """Return the stack without the functions in which every thread begins; the same object if it has none of them."""
    for place, function in enumerate(stack):
        if function.name in _BEGINNINGS:
            rest = stack[place + 1 :]
            return without_beginning(rest) if rest and rest[0].name in _BEGINNINGS else rest or stack[-1:]
    return stack


def _function(text: str) -> Function:
    found = _FRAME.match(text)
    if not found:
        return Function(visible(text), "")
    where = found[2].removesuffix(" (deleted)")
    is_kernel = where.startswith(("[kernel", "[guest.kernel")) or "/lib/modules/" in where or where.endswith(".ko")
    is_kernel = is_kernel or bool(re.fullmatch(r"\[(?!vdso|unknown|heap|stack|vsyscall)\w+\]", where))
    return Function(visible(plain_name(found[1])), KERNEL if is_kernel else where.rpartition("/")[2])


def plain_name(symbol: str) -> str:
    symbol = _SUFFIXES.sub("", symbol)
    symbol = symbol.replace("(anonymous namespace)::", "")
    kept, depth = [], 0
    operator = re.search(r"operator\s*(<<=?|>>=?|<=>|<=?|>=?|->\*?|\(\))", symbol)
    for place, letter in enumerate(symbol):
        if operator and operator.start() <= place < operator.end():
            kept.append(letter)
        elif letter in "<(":
            depth += 1
        elif letter in ">)":
            depth -= 1
        elif not depth:
            kept.append(letter)
    return "".join(kept).strip() or symbol
