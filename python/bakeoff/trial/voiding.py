"""What voids an epoch for all its arms, after which the run goes on, and what ends the run."""

from collections.abc import Sequence

from bakeoff.engine import Message
from bakeoff.errors import EngineError, ServerError
from bakeoff.trial.recount import CountsDisagree

# More errors than this, per event, and the arm measures failing rather than working.
_ERROR_SHARE = 0.01
# Errors that say "this epoch went wrong"; the others (refused password, bad script) would be the same every time.
_VOIDING = frozenset({"server_lost", "sql_error", "connect_failed", "thread_init_timeout", "not_paired"})


class TooManyErrors(Exception):
    """An arm's statements failed too often for its throughput to mean anything."""


def is_voiding(error: Exception) -> bool:
    """Whether an error voids the epoch (and the run goes on), rather than ending the run."""
    if isinstance(error, EngineError):
        return error.code in _VOIDING
    return isinstance(error, (ServerError, TooManyErrors, CountsDisagree))


def check_errors(slices: Sequence[Message]) -> None:
    """Look at the errors that a measuring counted.

    Raises:
        TooManyErrors: more than one in a hundred events, in an arm.
    """
    events: dict[str, int] = {}
    errors: dict[str, dict[str, int]] = {}
    for message in slices:
        arm = message["arm"]
        events[arm] = events.get(arm, 0) + message["events"]
        for code, count in message["errors"].items():
            by_code = errors.setdefault(arm, {})
            by_code[code] = by_code.get(code, 0) + count
    for arm, by_code in errors.items():
        total = sum(by_code.values())
        if total > _ERROR_SHARE * max(events[arm], 1):
            codes = ", ".join(f"{code} × {count}" for code, count in sorted(by_code.items()))
            raise TooManyErrors(f"arm {arm}: {total} errors in {events[arm]} events ({codes})")
