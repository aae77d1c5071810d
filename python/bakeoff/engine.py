"""Drive bakeoff-engine, the load generator: one process, JSON lines (docs/reference/engine.md).

A reader thread puts the engine's lines into a queue, so that every wait has a limit and a stop flag. The engine ends
with this process, because its standard input then closes.
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
from typing import Any, Self

from bakeoff.errors import EngineError, SpecError
from bakeoff.find_engine import require_engine

CONTRACT = 5
_HELLO_LIMIT_S = 15.0
_GRACE_S = 150.0  # beyond a slice: connecting, thread start, a drain (60 s at most by contract), histograms
_CHUNK_S = 600.0  # longest chunk of a replay, by contract
_LOAD_S = 24 * 3600.0  # between two answers to a command or a load
_DESCRIBE_S = 30.0  # of loading scripts, to see what they declare

_REPORTED_LEVELS = frozenset({"fatal", "alert", "warning"})  # without what scripts print (`Creating table …`)
_FILES = ("script", "capture")  # fields of requests

Message = dict[str, Any]


@dataclass(frozen=True)
class ArmAddress:
    """How the engine reaches one arm; the fields of the contract's `open`."""

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
        address = {"socket": self.socket} if self.socket else {"host": self.host, "port": self.port}
        return {
            "name": self.name,
            "address": address,
            "user": self.user,
            "password": self.password,
            "database": self.database or None,
            "charset": self.charset,
            "collation": self.collation,
            "tls": {"mode": self.tls, "ca": None, "cert": None, "key": None},
            "prepare_mode": self.prepare_mode,
            "server_pid": self.server_pid,
            "slowdown_percent": self.slowdown_percent,
            "read_only": self.read_only,
            "ignore_errors": [1213, 1020, 1205],
        }


@dataclass(frozen=True)
class Measurement:
    """The `slice`, `histogram` and `failures` messages of one `measure`."""

    slices: list[Message]
    histograms: list[Message]
    failures: list[Message] = field(default_factory=list)


@dataclass(frozen=True)
class Probed:
    """The network between the engine and the servers' host: median round trip, and bytes/s towards the engine."""

    rtt_ns: int
    bytes_per_s: float


def engine_path() -> Path:
    return Path(require_engine())


def describe_workloads(scripts: Iterable[str] = ()) -> list[Message]:
    """Return what scripts declare: `name`, `options` (`name`, `type`, `default`, `description`), `commands`, `runs`.

    `scripts` are bundled names or paths; if empty, all bundled scripts.

    Raises:
        SpecError: a script does not exist or does not load; with file and line.
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
    """Like `describe_workloads`, for one script."""
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
    """A running engine. Use as a context manager; requests block and are made from one thread.

    Args:
        stop: when set, a running request is cancelled and returns what it has.
        cpus: CPUs that the engine may use; None for all.
        on_log: receives the engine's warnings.
        process: a running engine, perhaps on another host; None to start one here.
        heartbeat_s: send a line this often, for an engine that ends when it hears nothing.
        paths: paths on the engine's host of scripts and captures that it has under other names.
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
        self._lines: queue.Queue[Message | None] = queue.Queue()
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
            self.hello = self._receive(time.monotonic() + _HELLO_LIMIT_S)
            if self.hello.get("type") != "hello" or self.hello.get("contract") != CONTRACT:
                raise EngineError(
                    f"{engine_path()} speaks contract {self.hello.get('contract')}, this bakeoff {CONTRACT}.",
                    hint="Build both from the same tree: make setup.",
                )
        except BaseException:
            self.close()
            raise
        if heartbeat_s:
            threading.Thread(target=self._beat, args=(heartbeat_s,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return int(self.hello["pid"])

    def open(self, arms: Iterable[ArmAddress]) -> list[Message]:
        """Connect to the arms; return what each server reports about itself.

        Raises:
            EngineError: an arm cannot be reached, or refuses the login.
        """
        return list(self._request({"type": "open", "arms": [arm.message() for arm in arms]}, 30.0)["arms"])

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
        """Run a script's command (`prepare`, `cleanup`) on one arm; return its seconds.

        Raises:
            EngineError: with the contract's codes.
        """

        def see(message: Message) -> bool:
            if message["type"] == "progress" and on_progress:
                on_progress(message["label"], message["done"], message["total"])
            return False

        request: Message = {"type": "command", "arm": arm, "script": script, "command": command}
        request |= {"options": options, "threads": threads, "seed": seed}
        return float(self._request(request, _LOAD_S, see)["seconds"])

    def load(
        self,
        arm: str,
        stages: Iterable[Iterable[Message]],
        *,
        threads: int,
        on_progress: Callable[[int, int], None],
        marks: str | None = None,
        resumed: bool = False,
    ) -> Message:
        """Load a dump into one arm's server; return the engine's `translated`: `names`, `left_out`.

        Args:
            stages: files to load in parallel, stage after stage (`bakeoff.spec.dumps`).
            threads: connections.
            on_progress: called with bytes of files done, and in all.
            marks: database in which the engine marks how far each file is; files then have a `number`.
            resumed: an earlier load has left marks; files say what it has `done`.

        Raises:
            EngineError: a statement failed (`sql_errno`), with file and line, or a file cannot be read.
        """
        found: Message = {"names": {}, "left_out": {}}

        def see(message: Message) -> bool:
            if message["type"] == "progress":
                on_progress(message["done"], message["total"])
            elif message["type"] == "translated":
                found.update(message)
            return False

        request = {"type": "load", "arm": arm, "stages": [list(stage) for stage in stages if stage], "threads": threads}
        request |= {"marks": marks, "resumed": resumed} if marks else {}
        self._request(request, _LOAD_S, see)
        return found

    def cache_line_ns(self) -> int | None:
        """Return the round trip of a cache line between two CPUs; None with one CPU or busy ones."""
        found: int | None = self._request({"type": "cpus"}, _GRACE_S)["cache_line_ns"]
        return found

    def probe(self, host: str, port: int, token: str, *, limit_s: float) -> Probed:
        """Measure the network from the engine to an echo at this address.

        Raises:
            EngineError: `connect_failed` if it cannot be reached.
        """
        answer = self._request({"type": "probe", "host": host, "port": port, "token": token}, limit_s)
        return Probed(answer["rtt_ns"], answer["bytes_per_s"])

    def measure(
        self,
        request: Message,
        *,
        on_slice: Callable[[Message], None] | None = None,
        until: Callable[[list[Message]], bool] | None = None,
    ) -> Measurement:
        """Run one cell; return early, with `cancelled`, when the stop flag is set.

        Args:
            request: the contract's fields except `type` and `id`.
            on_slice: receives each slice as it ends.
            until: asked after each slice, with all slices so far; True ends the cell.

        Raises:
            EngineError: with the contract's codes.
        """
        slices: list[Message] = []
        histograms: list[Message] = []
        failures: list[Message] = []

        def see(message: Message) -> bool:
            if message["type"] == "slice":
                slices.append(message)
                if on_slice:
                    on_slice(message)
                return until is not None and until(slices)
            if message["type"] == "histogram":
                histograms.append(message)
            elif message["type"] == "failures":
                failures.append(message)
            return False

        # Every slice may be drained slowly, so each may be as late as this.
        silence_s = sum(request.get(span, 0) for span in ("guard_ns", "slice_ns")) / 1e9 + _GRACE_S
        silence_s += _CHUNK_S if "capture" in request else 0.0
        done = self._request({"type": "measure", **request}, silence_s, see)
        if stopped := done.get("workers_stopped"):
            # The arms no longer had equally many connections.
            raise EngineError(
                f"event() returned true on {stopped} connections and so ended them; a measured workload must keep its "
                "connections",
                code="script_error",
            )
        return Measurement(slices, histograms, failures)

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

    def _request(self, message: Message, silence_s: float, see: Callable[[Message], bool] | None = None) -> Message:
        """Send a request, pass every answer but the last to `see`, and return the last.

        Each answer must come within `silence_s`. If `see` returns True, the request is cancelled.
        """
        identity = self._next_id
        self._next_id += 1
        self._send(self._with_its_paths(message) | {"id": identity})
        deadline = time.monotonic() + silence_s
        enough = cancelling = False
        while True:
            if (enough or self._stop.is_set()) and not cancelling:
                cancelling = True
                self._send({"type": "cancel", "id": identity + 1_000_000})
            answer = self._receive(deadline, tick=not cancelling)
            kind = answer.get("type")
            if kind == "tick":
                continue
            if kind == "log":
                if answer.get("level") in _REPORTED_LEVELS:
                    self._on_log(str(answer.get("message", "")))
            elif answer.get("id") != identity:
                continue
            elif kind == "error":
                raise EngineError(
                    str(answer["message"]),
                    code=str(answer["code"]),
                    arm=answer.get("arm"),
                    sql_errno=answer.get("sql_errno"),
                )
            elif kind in ("done", "opened", "cpus", "probed"):
                return answer
            elif see:
                enough = see(answer) or enough
                deadline = time.monotonic() + silence_s

    def _with_its_paths(self, message: Message) -> Message:
        return {name: self._paths.get(value, value) if name in _FILES else value for name, value in message.items()}

    def _send(self, message: Message) -> None:
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

    def _receive(self, deadline: float, *, tick: bool = False) -> Message:
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                self.close()
                raise EngineError("the engine did not answer in time and was ended.", code="internal")
            try:
                message = self._lines.get(timeout=min(remaining, 0.2))
            except queue.Empty:
                if tick and self._stop.is_set():
                    return {"type": "tick"}
                continue
            if message is None:
                raise self._died()
            return message

    def _died(self) -> EngineError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        self._stderr_reader.join(timeout=2)
        words = " | ".join(self._stderr) or "it said nothing"
        status = "" if self._process.returncode is None else f" (status {self._process.returncode})"
        return EngineError(f"the engine ended unexpectedly{status}: {words}", code="engine_lost")

    def _read_stdout(self) -> None:
        assert self._process.stdout
        try:
            for line in self._process.stdout:
                try:
                    self._lines.put(json.loads(line))
                except json.JSONDecodeError:
                    self._stderr.append(line.strip())
        finally:
            self._lines.put(None)

    def _read_stderr(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self._stderr.append(line.rstrip())
