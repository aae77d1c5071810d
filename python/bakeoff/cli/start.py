"""Start the `bakeoff` command: hand `bakeoff sysbench` to the engine, else import the rest and run it."""

# `_signal` is built into Python: until here nothing is imported that Ctrl-C could interrupt.
import _signal
import gc
import io
import os
import sys

# During the imports, which take a second, Ctrl-C ends the process at once and silently. A shell reports 130.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
# Later these signals end a command in order, unless they are ignored (`nohup` ignores SIGHUP).
_ENDING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)
_HEEDED = [number for number in _ENDING if _signal.getsignal(number) == _signal.SIG_DFL]

from bakeoff.find_engine import become_sysbench, find_engine  # noqa: E402


class _Output(io.FileIO):
    """Standard output or error that drops what is written after its reader has gone (`bakeoff gate A B | head`)."""

    def write(self, data: bytes) -> int | None:  # type: ignore[override]
        """Write, but to /dev/null after a failure: a reader that goes away must not change the exit code."""
        try:
            return super().write(data)
        except OSError as problem:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if not isinstance(problem, BrokenPipeError):
                raise
            return len(data)


def _without_broken_pipes(stream: object) -> object:
    """Put a stream on an `_Output`, with escapes for characters that its encoding lacks."""
    if not isinstance(stream, io.TextIOWrapper):  # closed by >&-
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False)),  # type: ignore[type-var] # takes bytes
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
    )


def main() -> None:
    """Run the command line; exits with one of `ExitCode`, or as the engine does."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["sysbench"] and (engine := find_engine()):
        become_sysbench(engine, arguments[1:])
    # NumPy's threads do not help here, and starting them costs every command CPU time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from bakeoff.cli.main import run
    from bakeoff.redaction import hide_in_process_list

    hide_in_process_list()
    for name in ("stdout", "stderr"):
        setattr(sys, name, _without_broken_pipes(getattr(sys, name)))
    code = 130
    try:
        for number in _HEEDED:
            _signal.signal(number, _signal.default_int_handler)
        code = run(arguments)
    except KeyboardInterrupt:
        pass
    for number in _HEEDED:
        _signal.signal(number, _signal.SIG_DFL)
    gc.freeze()  # or the interpreter would collect garbage over all modules at exit
    sys.exit(code)


if __name__ == "__main__":
    main()
