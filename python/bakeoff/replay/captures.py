"""Make and read captures with the engine (docs/reference/capture.md)."""

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

from bakeoff.engine import Message, engine_path
from bakeoff.errors import BakeoffError, EngineError, HostError, SpecError


class UnknownFormatError(SpecError):
    """A file is neither a capture nor a log in a known format."""


def make_capture(
    logs: Iterable[str],
    output: Path,
    *,
    redact: bool,
    log_format: str | None,
    on_progress: Callable[[int, int | None], None],
) -> Message:
    """Make a capture of query logs; return its totals: `header`, `overall`, `digests` (docs/reference/capture.md)."""
    said: list[str] = []
    pipes = {"stderr": subprocess.PIPE, "encoding": "utf-8", "errors": "replace"}
    with _making(logs, output, redact, log_format, pipes) as process:
        assert process.stderr
        for line in process.stderr:
            if line.startswith("{"):
                progress = json.loads(line)
                on_progress(progress["done"], progress["total"])
            else:
                said.append(line)
        if code := process.wait():
            raise _capture_error("".join(said), code, hint="Name the format: --format slow, general or sql.")
    return capture_totals(output)


def make_capture_of(
    text: Iterable[bytes],
    output: Path,
    *,
    redact: bool,
    log_format: str,
    on_progress: Callable[[int, int | None], None],
) -> Message:
    """Like `make_capture`, for a log that comes in pieces."""
    with (
        tempfile.TemporaryFile() as said,
        _making(["-"], output, redact, log_format, {"stdin": subprocess.PIPE, "stderr": said}) as process,
    ):
        assert process.stdin
        done = 0
        # Closed by the engine when it fails; its status says why.
        with contextlib.suppress(BrokenPipeError):
            for piece in text:
                process.stdin.write(piece)
                done += len(piece)
                on_progress(done, None)
            process.stdin.close()
        if code := process.wait():
            said.seek(0)
            lines = said.read().decode("utf8", "replace").splitlines()
            raise _capture_error("\n".join(line for line in lines if not line.startswith("{")), code)
    return capture_totals(output)


@contextlib.contextmanager
def _making(
    logs: Iterable[str], output: Path, redact: bool, log_format: str | None, pipes: dict[str, Any]
) -> Iterator[subprocess.Popen[Any]]:
    """Start the engine to make a capture; end it and delete an unfinished capture when the block ends."""
    options = [*(["--redact"] if redact else []), *([f"--format={log_format}"] if log_format else [])]
    command = [str(engine_path()), "capture", f"--output={output}", *options, "--", *logs]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, **pipes)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdin:
            with contextlib.suppress(OSError):
                process.stdin.close()
        if process.returncode:
            output.with_name(f"{output.name}.partial").unlink(missing_ok=True)


def capture_totals(path: Path) -> Message:
    command = [str(engine_path()), "capture", "--", str(path)]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if ran.returncode:
        raise _capture_error(ran.stderr, ran.returncode)
    answer: Message = json.loads(ran.stdout)
    return answer


def capture_events(path: Path) -> Generator[Message, None, None]:
    """Yield the events of a capture. Close it unless all of them are taken, to end the process that reads them."""
    command = [str(engine_path()), "capture", "--events", "--", str(path)]
    with tempfile.TemporaryFile() as said, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as process:
        assert process.stdout
        for line in process.stdout:
            yield json.loads(line)
        if code := process.wait():
            said.seek(0)
            raise _capture_error(said.read().decode("utf8", "replace"), code)


def _capture_error(said: str, code: int, *, hint: str = "") -> BakeoffError:
    reason = " ".join(said.split()).removeprefix("bakeoff-engine: ")
    if code == 2:
        return SpecError(f"capture: {reason}.")
    if code == 4:
        return UnknownFormatError(f"capture: {reason}.", hint=hint)
    if code == 3:
        return HostError(f"capture: {reason}.")
    return EngineError(f"the engine ended unexpectedly (status {code}): {reason}", code="engine_lost")
