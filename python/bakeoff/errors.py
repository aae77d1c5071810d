"""All exceptions of bakeoff, and the exit code of each kind.

A message says, in this order: what failed, where, why, what to do. It fits one line and never holds a password.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

KeyPath = tuple[str | int, ...]
"""Keys and indexes that lead to a value of a study, as `("arms", "B", "server")`; arms are named, not counted."""


class ExitCode(IntEnum):
    """Exit codes of every bakeoff command (documented in docs/reference/cli.md)."""

    DONE = 0
    DIFFERENCE = 1  # a check was requested (`gate`, `--publish`, `doctor --prove`) and failed
    USAGE = 2  # bad command line or study
    NOT_READY = 3  # a server or the host cannot do this now, or a run directory is damaged
    RUN_INVALID = 4  # the run finished, but its result cannot be used
    INTERNAL = 5  # a bug in bakeoff
    UNCLEAR = 6  # a gate or a bisection cannot tell
    BISECT_SKIP = 125  # `gate --bisect`: this build cannot be judged
    BISECT_ABORT = 128  # `gate --bisect`: no build can be judged
    INTERRUPTED = 130


class BakeoffError(Exception):
    """Base class: a message for people, an exit code for shells.

    `hint` says what to do; `field` is the value of the study at fault, to find its line in a study file.
    """

    exit_code = ExitCode.INTERNAL

    def __init__(self, message: str, *, hint: str = "", field: KeyPath = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.field = field

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class SpecError(BakeoffError):
    """The command line or study is wrong: a typo, an unknown name, a contradiction."""

    exit_code = ExitCode.USAGE


@contextmanager
def within(*outer: str | int) -> Iterator[None]:
    """Prepend keys to the field of a SpecError that leaves the block: `within("arms", "B")`."""
    try:
        yield
    except SpecError as error:
        error.field = (*outer, *error.field)
        raise


class ServerError(BakeoffError):
    """A server could not be fetched, initialised, started, reached or stopped; `log_tail` ends its log."""

    exit_code = ExitCode.NOT_READY

    def __init__(self, message: str, *, hint: str = "", log_tail: str = "") -> None:
        super().__init__(message, hint=hint)
        self.log_tail = log_tail


class HostError(BakeoffError):
    """This machine lacks something: a library, a program, disk, memory, a port."""

    exit_code = ExitCode.NOT_READY


class UnreachableError(HostError):
    """Nothing answers at a running server's address. Before measuring this ends the run, later only an epoch."""


class EngineError(BakeoffError):
    """The engine reported an error; `code` is the protocol's (docs/reference/engine.md), `sql_errno` the server's."""

    exit_code = ExitCode.RUN_INVALID

    def __init__(
        self,
        message: str,
        *,
        code: str = "internal",
        arm: str | None = None,
        sql_errno: int | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.arm = arm
        self.sql_errno = sql_errno


class RunInvalid(BakeoffError):
    """The run finished, but its result cannot be used (crash, error rate)."""

    exit_code = ExitCode.RUN_INVALID


class ResultsError(BakeoffError):
    """A run directory is missing, damaged, being written, or of a version that this program cannot read."""

    exit_code = ExitCode.NOT_READY
