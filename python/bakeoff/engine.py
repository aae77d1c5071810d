"""Drive bakeoff-engine, the load generator: one process that speaks JSON lines (docs/reference/engine.md).

A thread reads the engine's lines into a queue, so that every wait has a limit and a stop flag. The engine ends with
this process because its standard input closes then.
"""

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from bakeoff.engine_messages import (
    Answer,
    Cpus,
    Done,
    Failed,
    FailuresMessage,
    Hello,
    HistogramMessage,
    Log,
    MeasureRequest,
    Note,
    Probed,
    Progress,
    SliceMessage,
    Translated,
    read_answer,
)
from bakeoff.errors import EngineError, SpecError
from bakeoff.find_engine import require_engine
from bakeoff.spec.dumps import DumpFile

CONTRACT = 5
_HELLO_LIMIT_S = 15.0
_GRACE_S = 150.0  # beyond a slice: connecting, thread start, a drain (60 s at most by contract), histograms
_CHUNK_S = 600.0  # the longest chunk of a replay, by contract
_LOAD_S = 24 * 3600.0  # longest silence between two answers to a command or a load
_DESCRIBE_S = 30.0  # limit for loading scripts, to see what they declare

_REPORTED_LEVELS = frozenset({"fatal", "alert", "warning"})  # without what scripts print (`Creating table …`)
_FILES = ("script", "capture")  # fields of requests

Message = dict[str, Any]  # what a script declares, or a capture's event
A = TypeVar("A", Done, Cpus, Probed, Note)


@dataclass(frozen=True)
class ArmAddress:
    """How the engine reaches one arm; fields are those of the contract's `open`."""

    name: str
    socket: str | None
    host: str | None
    port: int | None
    user: str
    password: str = field(repr=False)
    database: str
    charset: str
    collation: str | None
    tls: str = "disabled"
    prepare_mode: str = "server"
    server_pid: int | None = None
    slowdown_percent: float = 0.0
    read_only: bool = False

    def message(self) -> Message:
        fields = {name: value for name, value in vars(self).items() if name not in ("socket", "host", "port")}
        return fields | {
            "address": {"socket": self.socket} if self.socket else {"host": self.host, "port": self.port},
            "database": self.database or None,
            "tls": {"mode": self.tls, "ca": None, "cert": None, "key": None},
            "ignore_errors": [1213, 1020, 1205],
        }


@dataclass(frozen=True)
class Measurement:
    slices: list[SliceMessage]
    histograms: list[HistogramMessage]
    failures: list[FailuresMessage] = field(default_factory=list)


def engine_path() -> Path:
    return Path(require_engine())


def describe_workloads(scripts: Iterable[str] = ()) -> list[Message]:
    """Return what scripts (bundled names or paths; default: all bundled ones) declare: name, options, commands, runs.

    SpecError, with file and line, if there is no such script or it does not load.
    """
    scripts = list(scripts)
    command = [str(engine_path()), "workloads", *scripts]
    try:
        ran = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=_DESCRIBE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SpecError(
            f"workload: {', '.join(scripts)} did not load within {_DESCRIBE_S:.0f} s.",
            hint="Code outside of functions runs when the script is loaded.",
        ) from None
    if ran.returncode:
        reason = ran.stderr.strip().removeprefix("bakeoff-engine: ")
        hint = "See `bakeoff list workloads`."
        if any(script.endswith(".sql") for script in scripts):
            hint = "A workload is a Lua script or a capture; `bakeoff replay FILE.sql SERVER SERVER` runs statements."
        raise SpecError(f"workload: {reason}", hint=hint)
    described: list[Message] = json.loads(ran.stdout)
    return described


@cache
def declared_by(script: str) -> Message:
    return describe_workloads([script])[0]


def _start(cpus: frozenset[int] | None) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [str(engine_path()), "drive"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",  # a script may write any byte to standard error
        start_new_session=True,  # keep Ctrl-C from the engine, so that the run can end in order
    )
    if cpus:
        os.sched_setaffinity(process.pid, cpus)
    return process


class Engine:
    """A running engine, to be used as a context manager. Requests block, and are made from one thread.

    Every request raises EngineError with the contract's codes if it fails.

    Args:
        stop: when set, a running request is cancelled and returns what it has.
        process: an engine that runs already, on any host; None to start one here, on these `cpus`.
        heartbeat_s: send a line this often, for an engine that ends when it hears nothing.
        paths: scripts and captures that have other paths on the engine's host.
    """

    def __init__(
        self,
        *,
        stop: threading.Event | None = None,
        cpus: frozenset[int] | None = None,
        on_log: Callable[[str], None] | None = None,
        process: subprocess.Popen[str] | None = None,
        heartbeat_s: float | None = None,
        paths: Mapping[str, str] | None = None,
    ) -> None:
        self._stop = stop or threading.Event()
        self._on_log = on_log or (lambda _line: None)
        self._lines: queue.Queue[Answer | EngineError | None] = queue.Queue()
        self._stderr: deque[str] = deque(maxlen=20)
        self._next_id = 1
        self._paths = paths or {}
        self._closed = threading.Event()
        self._writing = threading.Lock()
        self._process = process or _start(cpus)
        threading.Thread(target=self._read_stdout, daemon=True).start()
        self._stderr_reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._stderr_reader.start()
        try:
            self.hello = self._hello()
        except BaseException:
            self.close()
            raise
        if heartbeat_s:
            threading.Thread(target=self._beat, args=(heartbeat_s,), daemon=True).start()

    def _hello(self) -> Hello:
        hello = self._receive(time.monotonic() + _HELLO_LIMIT_S)
        contract = hello.contract if isinstance(hello, Hello) else None
        if contract != CONTRACT:
            raise EngineError(
                f"{engine_path()} speaks contract {contract}, this bakeoff {CONTRACT}.",
                hint="Build both from the same tree: make setup.",
            )
        assert isinstance(hello, Hello)
        return hello

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self.hello.pid

    def open(self, arms: Iterable[ArmAddress]) -> None:
        self._request("open", {"arms": [arm.message() for arm in arms]}, Note, 30.0)

    def command(
        self,
        arm: str,
        script: str,
        command: str,
        *,
        options: dict[str, Any],
        threads: int,
        seed: int,
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> float:
        """Run a script's command (`prepare`, `cleanup`) on one arm; return its seconds."""

        def see(answer: Answer) -> bool:
            if isinstance(answer, Progress) and on_progress:
                on_progress(answer.label, answer.done, answer.total)
            return False

        request = {"arm": arm, "script": script, "command": command, "options": options}
        return self._request("command", {**request, "threads": threads, "seed": seed}, Done, _LOAD_S, see).seconds

    def load(
        self,
        arm: str,
        stages: Iterable[Iterable[DumpFile]],
        *,
        threads: int,
        on_progress: Callable[[int, int], None],
        marks: str | None = None,
        resumed: bool = False,
    ) -> Translated:
        """Load a dump into one arm's server, which is open already.

        Args:
            stages: files that are loaded in parallel, stage after stage (`bakeoff.spec.dumps`).
            on_progress: called with the bytes of files done, and in all.
            marks: a database in which the engine marks how far each file is; files have a `number` then.
            resumed: an earlier load has marked there; files say what it has `done`.
        """
        found = Translated()

        def see(answer: Answer) -> bool:
            nonlocal found
            if isinstance(answer, Progress):
                on_progress(answer.done, answer.total)
            elif isinstance(answer, Translated):
                found = answer
            return False

        request = {"arm": arm, "stages": [list(stage) for stage in stages if stage], "threads": threads}
        marking = {"marks": marks, "resumed": resumed} if marks else {}
        self._request("load", request | marking, Done, _LOAD_S, see)
        return found

    def cache_line_ns(self) -> int | None:
        return self._request("cpus", {}, Cpus, _GRACE_S).cache_line_ns

    def probe(self, host: str, port: int, token: str, *, limit_s: float) -> Probed:
        """Measure the network to an echo at this address; EngineError `connect_failed` if it cannot be reached."""
        return self._request("probe", {"host": host, "port": port, "token": token}, Probed, limit_s)

    def measure(
        self,
        request: MeasureRequest,
        *,
        on_slice: Callable[[SliceMessage], None] | None = None,
        until: Callable[[list[SliceMessage]], bool] | None = None,
    ) -> Measurement:
        """Run one cell, or the part of it before the stop flag is set.

        `until` is asked after each slice, with all slices so far; True ends the cell early.
        """
        measured = Measurement([], [])

        def see(answer: Answer) -> bool:
            if not isinstance(answer, dict):
                return False
            if answer["type"] == "histogram":
                measured.histograms.append(answer)
            elif answer["type"] == "failures":
                measured.failures.append(answer)
            else:
                measured.slices.append(answer)
                if on_slice:
                    on_slice(answer)
                return until is not None and until(measured.slices)
            return False

        # Every slice may be drained slowly, so each may be as late as this.
        silence_s = (request.get("guard_ns", 0) + request.get("slice_ns", 0)) / 1e9 + _GRACE_S
        silence_s += _CHUNK_S if "capture" in request else 0.0
        done = self._request("measure", request, Done, silence_s, see)
        if done.workers_stopped:
            # The arms no longer had equally many connections.
            raise EngineError(
                f"event() returned true on {done.workers_stopped} connections and so ended them; a measured "
                "workload must keep its connections",
                code="script_error",
            )
        return measured

    def close(self) -> None:
        """End the engine by closing its input, then by force. Safe to call twice."""
        process = self._process
        self._closed.set()
        with contextlib.suppress(OSError):
            if process.stdin:
                process.stdin.close()
        for end in (None, process.terminate, process.kill):
            if end:
                end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
                return

    def _request(
        self,
        kind: Literal["open", "command", "load", "measure", "cpus", "probe"],
        fields: Mapping[str, object],
        last: type[A],
        silence_s: float,
        see: Callable[[Answer], bool] = lambda _answer: False,
    ) -> A:
        """Send a request, pass every answer to `see` until the last, which is returned.

        Each answer must come within `silence_s`. When `see` returns True the request is cancelled.
        """
        identity = self._next_id
        self._next_id += 1
        there = {name: self._paths.get(str(fields[name]), fields[name]) for name in _FILES if name in fields}
        self._send({**fields, **there, "type": kind, "id": identity})
        deadline = time.monotonic() + silence_s
        enough = cancelling = False
        while True:
            if (enough or self._stop.is_set()) and not cancelling:
                cancelling = True
                self._send({"type": "cancel", "id": identity + 1_000_000})
            answer = self._receive(deadline, tick=not cancelling)
            if isinstance(answer, Log):
                if answer.level in _REPORTED_LEVELS:
                    self._on_log(answer.message)
            elif isinstance(answer, Failed) and answer.id in (identity, None):  # None if it could not be read
                raise EngineError(answer.message, code=answer.code, arm=answer.arm, sql_errno=answer.sql_errno)
            elif answer is None or isinstance(answer, Hello) or _id_of(answer) != identity:
                continue
            elif isinstance(answer, last):
                return answer
            else:
                enough = see(answer) or enough
                deadline = time.monotonic() + silence_s

    def _send(self, message: Mapping[str, object]) -> None:
        try:
            self._write(json.dumps(message) + "\n")
        except (BrokenPipeError, ValueError):
            raise self._died() from None

    def _write(self, line: str) -> None:
        assert self._process.stdin
        with self._writing:
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _beat(self, every_s: float) -> None:
        with contextlib.suppress(OSError, ValueError):  # the engine has ended
            while not self._closed.wait(every_s):
                self._write("\n")

    def _receive(self, deadline: float, *, tick: bool = False) -> Answer | None:
        """Return the next answer; None if `tick` and the stop flag was set meanwhile."""
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                self.close()
                raise EngineError("the engine did not answer in time and was ended.", code="internal")
            try:
                answer = self._lines.get(timeout=min(remaining, 0.2))
            except queue.Empty:
                if tick and self._stop.is_set():
                    return None
                continue
            if answer is None:
                raise self._died()
            if isinstance(answer, EngineError):
                raise answer
            return answer

    def _died(self) -> EngineError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        # The engine's last lines may still be on their way.
        self._stderr_reader.join(timeout=2)
        words = " | ".join(self._stderr) or "it said nothing"
        status = "" if self._process.returncode is None else f" (status {self._process.returncode})"
        return EngineError(f"the engine ended unexpectedly{status}: {words}", code="engine_lost")

    def _read_stdout(self) -> None:
        assert self._process.stdout
        try:
            for line in self._process.stdout:
                if not (line.startswith("{") and line.endswith("\n")):  # C code of a script, or the engine's end
                    self._stderr.append(line.strip())
                    continue
                try:
                    self._lines.put(read_answer(line))
                except EngineError as error:
                    self._lines.put(error)
        finally:
            self._lines.put(None)

    def _read_stderr(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self._stderr.append(line.rstrip())


def _id_of(answer: Answer) -> int | None:
    return answer["id"] if isinstance(answer, dict) else getattr(answer, "id", None)
