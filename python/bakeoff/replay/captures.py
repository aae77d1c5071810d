"""Make and read captures with the engine (docs/reference/capture.md)."""

import contextlib
import io
import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import IO

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
    text: Iterable[bytes] | None = None,
) -> Message:
    """Make a capture of query logs; return its totals: `header`, `overall`, `digests` (docs/reference/capture.md).

    `text` is the content of the log `-`, in pieces. An unfinished capture is deleted.
    """
    options = [*(["--redact"] if redact else []), *([f"--format={log_format}"] if log_format else [])]
    command = [str(engine_path()), "capture", f"--output={output}", *options, "--", *logs]
    stdin = None if text is None else subprocess.PIPE
    process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said: list[str] = []
    listening = threading.Thread(target=_listen, args=(process.stderr, said, on_progress), daemon=True)
    listening.start()
    try:
        if process.stdin:
            with contextlib.suppress(BrokenPipeError):  # the engine has failed; its status says why
                process.stdin.writelines(text or ())
                process.stdin.close()
        if code := process.wait():
            listening.join()
            raise _capture_error("".join(said), code, hint="Name the format: --format slow, general or sql.")
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(OSError):
            if process.stdin:
                process.stdin.close()
        if process.returncode:
            output.with_name(f"{output.name}.partial").unlink(missing_ok=True)
    return capture_totals(output)


def _listen(stderr: IO[bytes], said: list[str], on_progress: Callable[[int, int | None], None]) -> None:
    for line in io.TextIOWrapper(stderr, "utf-8", "replace"):
        if line.startswith("{"):
            progress = json.loads(line)
            on_progress(progress["done"], progress["total"])
        else:
            said.append(line)


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
