"""Every test of the gauntlet, in the order of the method's table."""

from collections.abc import Sequence

from bakeoff.errors import SpecError
from bakeoff.gauntlet import (
    ceiling,
    config_traps,
    fake_drift,
    fake_mishaps,
    fake_quantiles,
    fake_stalls,
    fake_truth,
    real_duels,
    replay,
    write_debt,
)
from bakeoff.gauntlet.model import Check, Size

CHECKS: tuple[Check, ...] = (
    *replay.CHECKS,
    *fake_truth.CHECKS,
    *fake_drift.CHECKS,
    *fake_quantiles.CHECKS,
    *fake_stalls.CHECKS,
    *ceiling.CHECKS,
    *fake_mishaps.CHECKS,
    *config_traps.CHECKS,
    *write_debt.CHECKS,
    *real_duels.CHECKS,
)
"""All of them. A pair of `test` and `what` names one check within a size."""


def select(size: Size, only: Sequence[str] = (), *, checks: Sequence[Check] | None = None) -> tuple[Check, ...]:
    """The checks of a size, in the order of their numbers.

    Args:
        size: which size is asked for.
        only: numbers of the tests (`G1`, `g3`); none: all of the size.
        checks: to choose from; None: all that are registered.

    Raises:
        SpecError: a number that this size does not have.
    """
    belonging = sorted(
        (check for check in (CHECKS if checks is None else checks) if size in check.sizes),
        key=lambda c: _number(c.test),
    )
    asked = {name.strip().upper() for name in only}
    known = dict.fromkeys(check.test for check in belonging)
    for name in sorted(asked - known.keys()):
        raise SpecError(f"--only: size {size} has no test {name}.", hint=f"It has {', '.join(known) or 'none'}.")
    return tuple(check for check in belonging if not asked or check.test in asked)


def _number(test: str) -> int:
    return int(test.removeprefix("G"))
