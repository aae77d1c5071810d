"""The plan of a study (`plan.json`): cells, epochs and rounds, their random orders and seeds.

Nothing here is measured; all follows from the study, its seed and the expected seconds of loading and restarting.
Every random choice of a run follows from one number. The scheme (version 1): a choice has a path, such as
`("start", 3, "A")`. Its number is the first 53 bits of SHA-256 of the text `bakeoff/1/SEED/start/3/A`; 53 bits are
exact in every JSON reader. A random order sorts items by their numbers. So a choice depends on the study's seed and on
its own path alone: adding a cell or an epoch changes no other choice, and any language can recompute it.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

from bakeoff.spec import Frozen, Placement

ROUND_BLOCKS = 1_000_000
"""Blocks of round r are numbered from r times this, so that the rounds of an epoch can be distinguished."""


class SliceLength(Frozen):
    """How long one arm is loaded before the next has its turn.

    Attributes:
        slice_ns: counted part of a slice.
        guard_ns: issued but not counted at the start of a slice; at most a tenth of `slice_ns`.
    """

    slice_ns: int
    guard_ns: int


class Cell(Frozen):
    """One workload at one concurrency.

    Attributes:
        name: `oltp_point_select/4`; unique in the study.
        workload: name of the workload, the part before the slash.
        workload_index: its place in `Study.workloads`.
        writes: it changes data, or may (a script that bakeoff does not know).
        freeze: the resting server is stopped (SIGSTOP) while the other has its turn.
        fixed_work: every pass runs the same list of events (`bakeoff.plan.workloads.WorkloadKind`).
        speed: captured seconds replayed per second; None if it does not follow the capture's clock.
        slices: the length before the pilot, or the one that the pilot chose.
        seconds: wall seconds that all arms together are measured in an epoch; None for the plan's `seconds_per_cell`.
    """

    name: str
    workload: str
    workload_index: int
    script: str
    threads: int
    writes: bool
    freeze: bool
    placement: Placement
    open_loop: bool
    slices: SliceLength
    seconds: float | None = None
    fixed_work: bool = False
    speed: float | None = None

    @property
    def guard_ns(self) -> int:
        """Guard of every measured slice; 0 for fixed work, all of whose events count."""
        return 0 if self.fixed_work else self.slices.guard_ns


class CellDraft(Frozen):
    """One cell within an epoch. Both seeds go to the engine's `measure` and hold for all arms; no `arms` means all."""

    cell: str
    order_seed: int
    key_seed: int
    arms: tuple[str, ...] = ()


class Seeds(Frozen):
    """Roots of an epoch's randomness (`outcome.json`)."""

    order: int
    keys: int
    padding: int


class EpochDraft(Frozen):
    """An epoch as drawn.

    Attributes:
        build: which load of the data is restored, counted from 0.
        cells: in the order of measuring; those that only read come first.
        padding_bytes: arm -> length of an environment variable that does nothing but move the process's stack.
    """

    epoch: int
    build: int
    start_order: tuple[str, ...]
    cells: tuple[CellDraft, ...]
    padding_bytes: dict[str, int]
    seeds: Seeds

    @property
    def cell_order(self) -> tuple[str, ...]:
        return tuple(draft.cell for draft in self.cells)


class Plan(Frozen):
    """A study turned into epochs.

    Attributes:
        arms: names, the baseline first.
        builds: loads of the data that the epochs take in turn.
        seconds_per_cell: wall seconds that all arms together are measured in one cell of one epoch, mean over cells.
        turns: how many arms share these seconds: all, and the baseline once more for each round after the first.
        overhead_s: wall seconds of an epoch in which nothing is measured (restore, start, readiness, warm-up, stop).
        load_s: wall seconds before the first epoch and after the last one.
        epochs_min: fewest epochs that give a verdict.
        epochs_expected: how many fit into the budget; `fits` if that is enough.
        budget_needed_s: smallest budget with a verdict: `epochs_min` epochs fit, each cell measured its least.
        unpaired: why the connections run free although pairing was wanted; empty if they are paired.
        epochs: the first drafts, as declared before measuring; later ones follow by the same rule.
    """

    format: int = 1
    seed: int
    arms: tuple[str, ...]
    builds: int
    cells: tuple[Cell, ...]
    seconds_per_cell: float
    turns: int = 0
    overhead_s: float
    load_s: float
    budget_s: float
    epochs_min: int
    epochs_expected: int
    fits: bool
    budget_needed_s: float
    unpaired: str = ""
    epochs: tuple[EpochDraft, ...]

    def with_arms(self, names: Iterable[str]) -> "Plan":
        """Return the plan with these arms, some of which have joined since it was made."""
        return self.model_copy(update={"arms": tuple(names)})

    @property
    def epoch_s(self) -> float:
        """Expected wall seconds of an epoch with all cells and arms."""
        return self.overhead_s + len(self.cells) * self.seconds_per_cell

    def seconds_of(self, cell: str) -> float:
        """Wall seconds that a cell is measured in an epoch with all arms."""
        seconds = self.cell(cell).seconds
        return self.seconds_per_cell if seconds is None else seconds

    def arm_seconds(self, cell: str) -> float:
        """Wall seconds that each arm is measured in a cell of an epoch, however many arms are left."""
        return self.seconds_of(cell) / (self.turns or len(self.arms))

    def measuring_seconds(self, arms: Mapping[str, int]) -> float:
        """Expected wall seconds of measuring these numbers of arms (baseline included) by cell."""
        return sum(self.arm_seconds(cell) * self._turns_of(count) for cell, count in arms.items())

    def _turns_of(self, count: int) -> int:
        contenders = len(self.arms) - 1
        in_a_round = math.ceil(contenders / max(1, self.turns - contenders))
        return min(turns(count, at_once=1 + in_a_round), self.turns or count)

    def cell(self, name: str) -> Cell:
        return {cell.name: cell for cell in self.cells}[name]

    def all_free(self, reason: str) -> "Plan":
        """Return the plan with all connections where the kernel puts them, because they cannot be paired."""
        cells = tuple(cell.model_copy(update={"placement": Placement.FREE}) for cell in self.cells)
        return self.model_copy(update={"cells": cells, "unpaired": reason})

    def with_slices(self, chosen: dict[str, SliceLength]) -> "Plan":
        """Return the plan with slice lengths by cell name; other cells keep theirs."""
        cells = tuple(
            cell.model_copy(update={"slices": chosen[cell.name]}) if cell.name in chosen else cell
            for cell in self.cells
        )
        return self.model_copy(update={"cells": cells})


def seed_for(seed: int, *path: int | str) -> int:
    """Return the number of one choice, uniform in [0, 2**53)."""
    text = "/".join(["bakeoff", "1", str(seed), *map(str, path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11


def shuffled(items: Iterable[str], seed: int, *path: int | str) -> tuple[str, ...]:
    """Return items in the random order that belongs to `path`, whatever order they come in."""
    return tuple(sorted(items, key=lambda item: (seed_for(seed, *path, item), item)))


def rounds(arms: tuple[str, ...], *, at_once: int, seed: int, epoch: int) -> tuple[tuple[str, ...], ...]:
    """Choose which arms run together in each round of an epoch, when the servers do not all fit into memory.

    Every contender is in one round, with the baseline (the first arm). The groups are drawn anew for every epoch, and
    their sizes differ by one at most. `at_once` is 2 or more, or 1 if there is only one arm.
    """
    if len(arms) <= at_once:
        return (arms,)
    contenders = shuffled(arms[1:], seed, "rounds", epoch)
    count = -(-len(contenders) // (at_once - 1))
    least, more = divmod(len(contenders), count)
    ends = [(index + 1) * least + min(index + 1, more) for index in range(count)]
    return tuple((arms[0], *contenders[start:end]) for start, end in pairwise([0, *ends]))


def turns(arms: int, *, at_once: int) -> int:
    """Count the turns in a cell of an epoch: one an arm, and one more of the baseline for each round but the first."""
    if arms <= at_once:
        return arms
    return arms - 1 + -(-(arms - 1) // (at_once - 1))
