"""An epoch whose servers do not all fit into memory: several rounds, each with the baseline (method 2.1)."""

from bakeoff.plan.seeds import shuffled

ROUND_BLOCKS = 1_000_000
"""Blocks of round r are numbered from r times this, so that one epoch's slices tell their rounds apart."""


def rounds(arms: tuple[str, ...], *, at_once: int, seed: int, epoch: int) -> tuple[tuple[str, ...], ...]:
    """Which arms run together in each round of an epoch.

    Every contender is in one round, with the baseline; who is together with whom is drawn anew for every epoch.
    Rounds are of the same size, or of two sizes that differ by one.

    Args:
        arms: the baseline first.
        at_once: how many may run at the same time, 2 or more (1 when there is but one arm).
        seed: the study's.
        epoch: number from 0.
    """
    if len(arms) <= at_once:
        return (arms,)
    contenders = shuffled(arms[1:], seed, "rounds", epoch)
    count = -(-len(contenders) // (at_once - 1))
    least, more = divmod(len(contenders), count)
    made = []
    start = 0
    for index in range(count):
        end = start + least + (1 if index < more else 0)
        made.append((arms[0], *contenders[start:end]))
        start = end
    return tuple(made)


def turns(arms: int, *, at_once: int) -> int:
    """How many arms take turns in a cell of an epoch: all, and the baseline once more for every round but the first."""
    if arms <= at_once:
        return arms
    return arms - 1 + -(-(arms - 1) // (at_once - 1))
