"""Plan a study by pure functions: arms, cells and epochs, in which random order, with which seeds, for how long."""

from bakeoff.plan.epochs import Cell, CellDraft, EpochDraft, Plan, Seeds, SliceLength, seed_for, writes
from bakeoff.plan.schedule import epoch_draft, plan_study, share_seconds, slice_bounds, with_longer_slices
from bakeoff.plan.timing import (
    EPOCHS_MIN,
    best_seconds_per_cell,
    comfortable_seconds,
    guard_ns,
    needed_seconds,
    pilot_slice_max_ns,
    precise_seconds,
    whole_blocks,
)

__all__ = [
    "EPOCHS_MIN", "Cell", "CellDraft", "EpochDraft", "Plan", "Seeds", "SliceLength", "best_seconds_per_cell",
    "comfortable_seconds", "epoch_draft", "guard_ns", "needed_seconds", "pilot_slice_max_ns", "plan_study",
    "precise_seconds", "seed_for", "share_seconds", "slice_bounds", "whole_blocks", "with_longer_slices", "writes",
]  # fmt: skip
