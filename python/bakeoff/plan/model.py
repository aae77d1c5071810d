"""What will be measured, in which order, for how long: the values written to `plan.json`.

Nothing here is measured; all follows from the study, its seed and the expected seconds of loading and restarting.
"""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Base of the values here."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SliceLength(Frozen):
    """How long one arm is loaded before the other has its turn.

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
        script: bundled name or path.
        threads: connections of each arm.
        writes: it changes data, or may (a script that bakeoff does not know).
        freeze: the resting server is stopped (SIGSTOP) while the other has its turn.
        open_loop: events come at a given rate.
        slices: the length before the pilot, or the one that the pilot chose.
    """

    name: str
    workload: str
    workload_index: int
    script: str
    threads: int
    writes: bool
    freeze: bool
    open_loop: bool
    slices: SliceLength


class CellDraft(Frozen):
    """One cell within an epoch; both seeds go to the engine's `measure` as they are and hold for all arms."""

    cell: str
    order_seed: int
    key_seed: int


class Seeds(Frozen):
    """Roots of an epoch's randomness (`outcome.json`)."""

    order: int
    keys: int
    padding: int


class EpochDraft(Frozen):
    """An epoch as drawn.

    Attributes:
        build: which load of the data is restored, counted from 0.
        start_order: arm names, in the order in which their servers start.
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
        """Names of the cells in the order of measuring."""
        return tuple(draft.cell for draft in self.cells)


class Plan(Frozen):
    """A study turned into epochs.

    Attributes:
        seed: the study's; every order and seed follows from it (bakeoff.plan.seeds).
        arms: names, the baseline first.
        builds: loads of the data that the epochs take in turn.
        seconds_per_cell: wall seconds that all arms together are measured in one cell of one epoch.
        overhead_s: wall seconds of an epoch in which nothing is measured (restore, start, gates, warm-up, stop).
        load_s: wall seconds before the first epoch.
        epochs_min: fewest epochs that give a verdict.
        epochs_expected: how many fit into the budget.
        fits: at least `epochs_min` of them do.
        budget_needed_s: smallest budget in which `epochs_min` epochs of this plan fit.
        epochs: the first drafts, as declared before measuring; later ones follow by the same rule.
    """

    format: int = 1
    seed: int
    arms: tuple[str, ...]
    builds: int
    cells: tuple[Cell, ...]
    seconds_per_cell: float
    overhead_s: float
    load_s: float
    budget_s: float
    epochs_min: int
    epochs_expected: int
    fits: bool
    budget_needed_s: float
    epochs: tuple[EpochDraft, ...]

    @property
    def epoch_s(self) -> float:
        """Expected wall seconds of an epoch with all cells."""
        return self.epoch_seconds(len(self.cells))

    def epoch_seconds(self, cells: int) -> float:
        """Expected wall seconds of an epoch in which `cells` cells are still measured."""
        return self.overhead_s + cells * self.seconds_per_cell

    def cell(self, name: str) -> Cell:
        """The cell of that name.

        Raises:
            KeyError: there is none.
        """
        for cell in self.cells:
            if cell.name == name:
                return cell
        raise KeyError(name)

    def with_slices(self, chosen: dict[str, SliceLength]) -> "Plan":
        """The same plan with slice lengths as the pilot chose them, by cell name."""
        cells = tuple(
            cell.model_copy(update={"slices": chosen[cell.name]}) if cell.name in chosen else cell
            for cell in self.cells
        )
        return self.model_copy(update={"cells": cells})
