"""The plan of a study (`plan.json`): cells, epochs and rounds, their random orders and seeds.

Nothing here is measured. A random choice has a path, such as `("start", 3, "A")`; its number is the first 53 bits of
SHA-256 of `bakeoff/1/SEED/start/3/A`. A random order sorts items by their numbers. So a choice depends on the study's
seed and its own path alone: adding a cell or an epoch changes no other choice, and any language can recompute it.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

from pydantic import Field

from bakeoff.spec import Frozen, Placement

ROUND_BLOCKS = 1_000_000
"""Blocks of round r are numbered from r times this, so that the rounds of an epoch can be distinguished."""


class SliceLength(Frozen):
    slice_ns: int  # counted part of a slice
    guard_ns: int  # issued but not counted at the start of a slice; at most a tenth of it


class Cell(Frozen):
    """One workload at one concurrency."""

    name: str  # `oltp_point_select/4`; unique in the study
    workload: str  # the part of the name before the slash
    workload_index: int  # in `Study.workloads`
    script: str
    threads: int
    writes: bool  # it changes data, or may (a script that bakeoff does not know)
    freeze: bool  # the resting server is stopped (SIGSTOP) while the other has its turn
    placement: Placement
    open_loop: bool
    slices: SliceLength  # the length before the pilot, or the one that the pilot chose
    seconds: float | None = None  # of all arms together in an epoch; None for the plan's `seconds_per_cell`
    fixed_work: bool = False  # every pass runs the same list of events
    speed: float | None = None  # captured seconds replayed per second
    throttled: bool = Field(default=False, exclude_if=lambda throttled: not throttled)  # an arm's storage is limited

    @property
    def long_slices(self) -> bool:
        """Whether its slices last a second or more, so that no pilot chooses their length."""
        return self.writes or self.open_loop or self.throttled

    @property
    def guard_ns(self) -> int:
        """Guard of every measured slice; 0 for fixed work, all of whose events count."""
        return 0 if self.fixed_work else self.slices.guard_ns

    def with_slices(self, slices: SliceLength) -> "Cell":
        return self.model_copy(update={"slices": slices})


class CellDraft(Frozen):
    """One cell within an epoch. Both seeds go to the engine's `measure` and hold for all arms; no `arms` means all."""

    cell: str
    order_seed: int
    key_seed: int
    arms: tuple[str, ...] = ()


class Seeds(Frozen):
    order: int
    keys: int
    padding: int


class EpochDraft(Frozen):
    """An epoch as drawn; cells are in the order of measuring."""

    epoch: int
    build: int  # which load of the data is restored, counted from 0
    start_order: tuple[str, ...]
    cells: tuple[CellDraft, ...]
    padding_bytes: dict[str, int]  # by arm: size of an environment variable that only moves the stack
    seeds: Seeds

    @property
    def cell_order(self) -> tuple[str, ...]:
        return tuple(draft.cell for draft in self.cells)


class Plan(Frozen):
    """A study turned into epochs."""

    format: int = 1
    seed: int
    arms: tuple[str, ...]  # names, the baseline first
    builds: int  # loads of the data; epochs use them in rotation
    cells: tuple[Cell, ...]
    seconds_per_cell: float  # wall seconds of all arms together in one cell and epoch, mean over cells
    turns: int = 0  # arms that share these seconds, the baseline once more for each round after the first
    overhead_s: float  # wall seconds of an epoch in which nothing is measured
    load_s: float  # wall seconds before the first epoch and after the last one
    budget_s: float
    epochs_min: int  # fewest that give a verdict
    epochs_expected: int  # how many fit into the budget; `fits` if that is enough
    fits: bool
    budget_needed_s: float  # smallest budget with a verdict
    unpaired: str = ""  # why the connections run free although pairing was wanted

    def with_arms(self, names: Iterable[str]) -> "Plan":
        return self.model_copy(update={"arms": tuple(names)})

    @property
    def epoch_s(self) -> float:
        return self.overhead_s + len(self.cells) * self.seconds_per_cell

    def seconds_of(self, cell: str) -> float:
        seconds = self.cell(cell).seconds
        return self.seconds_per_cell if seconds is None else seconds

    def arm_seconds(self, cell: str) -> float:
        return self.seconds_of(cell) / (self.turns or len(self.arms))

    def measuring_seconds(self, arms: Mapping[str, int]) -> float:
        return sum(self.arm_seconds(cell) * self._turns_of(count) for cell, count in arms.items())

    def _turns_of(self, count: int) -> int:
        contenders = len(self.arms) - 1
        in_a_round = math.ceil(contenders / max(1, self.turns - contenders))
        return min(turns(count, at_once=1 + in_a_round), self.turns or count)

    def cell(self, name: str) -> Cell:
        return {cell.name: cell for cell in self.cells}[name]

    def all_free(self, reason: str) -> "Plan":
        free = self.with_cells(cell.model_copy(update={"placement": Placement.FREE}) for cell in self.cells)
        return free.model_copy(update={"unpaired": reason})

    def with_cells(self, cells: Iterable[Cell]) -> "Plan":
        return self.model_copy(update={"cells": tuple(cells)})

    def with_slices(self, chosen: dict[str, SliceLength]) -> "Plan":
        return self.with_cells(cell.with_slices(chosen.get(cell.name, cell.slices)) for cell in self.cells)


def seed_for(seed: int, *path: int | str) -> int:
    """Return the number of one choice, uniform in [0, 2**53)."""
    text = "/".join(["bakeoff", "1", str(seed), *map(str, path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11


def shuffled(items: Iterable[str], seed: int, *path: int | str) -> tuple[str, ...]:
    return tuple(sorted(items, key=lambda item: (seed_for(seed, *path, item), item)))


def rounds(arms: tuple[str, ...], *, at_once: int, seed: int, epoch: int) -> tuple[tuple[str, ...], ...]:
    """Choose which arms run together in each round of an epoch, when the servers do not all fit into memory.

    Every contender is in one round, with the baseline (the first arm). The groups are drawn anew for every epoch.
    """
    if len(arms) <= at_once:
        return (arms,)
    contenders = shuffled(arms[1:], seed, "rounds", epoch)
    count = -(-len(contenders) // (at_once - 1))
    least, more = divmod(len(contenders), count)
    ends = [(index + 1) * least + min(index + 1, more) for index in range(count)]
    return tuple((arms[0], *contenders[start:end]) for start, end in pairwise([0, *ends]))


def turns(arms: int, *, at_once: int) -> int:
    """Count the turns in a cell of an epoch: one per arm, and one more of the baseline per round after the first."""
    if arms <= at_once:
        return arms
    return arms - 1 + -(-(arms - 1) // (at_once - 1))
