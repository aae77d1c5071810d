"""Everything that can go wrong, as one tree, and the exit code that each kind gives.

A message says, in this order: what failed, where, why, what to do. It fits one line and never holds a password.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every bakeoff command (documented in docs/cli.md)."""

    DONE = 0
    DIFFERENCE = 1  # a check was asked for (`gauntlet`, `--publish`) and did not hold
    USAGE = 2  # bad command line or study
    NOT_READY = 3  # a server or the host cannot do this now
    TRIAL_INVALID = 4  # it ran, and the result cannot be used
    INTERNAL = 5  # a bug in bakeoff
    INTERRUPTED = 130


class BakeoffError(Exception):
    """The root: a message for a person, a stable code for a program, an exit code for a shell.

    Args:
        message: what failed, where and why.
        hint: what to do about it; printed after the message.
    """

    code = "internal"
    exit_code = ExitCode.INTERNAL

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class SpecError(BakeoffError):
    """What the user asked for cannot be: a typo, an unknown name, a contradiction.

    Attributes:
        arm: name of the arm that cannot be, where it is one; a study file's line follows from it.
    """

    code = "spec"
    exit_code = ExitCode.USAGE
    arm: str | None = None


class ServerError(BakeoffError):
    """A server could not be fetched, initialised, started, reached or stopped.

    Args:
        log_tail: last lines of the server's error log, shown under the message.
    """

    code = "server"
    exit_code = ExitCode.NOT_READY

    def __init__(self, message: str, *, hint: str = "", log_tail: str = "") -> None:
        super().__init__(message, hint=hint)
        self.log_tail = log_tail


class HostError(BakeoffError):
    """This machine lacks something: a library, a program, disk, memory, a port."""

    code = "host"
    exit_code = ExitCode.NOT_READY


class EngineError(BakeoffError):
    """The engine answered with an error; `code` is the contract's (docs/engine.md), `sql_errno` a server's."""

    exit_code = ExitCode.TRIAL_INVALID

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


class TrialInvalid(BakeoffError):
    """It ran, but what came out cannot be used (crash, error rate, saturated client)."""

    code = "trial_invalid"
    exit_code = ExitCode.TRIAL_INVALID


class ResultsError(BakeoffError):
    """A run directory is missing, damaged, or of a version that this program cannot read."""

    code = "results"
    exit_code = ExitCode.USAGE
