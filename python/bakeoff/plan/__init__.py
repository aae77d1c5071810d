"""Plan a study by pure functions: arms, cells and epochs, in which random order, with which seeds, for how long."""

from bakeoff.plan.epochs import Cell, EpochDraft, Plan, SliceLength
from bakeoff.plan.schedule import epoch_draft, plan_study, share_seconds, with_longer_slices
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
    "EPOCHS_MIN", "Cell", "EpochDraft", "Plan", "SliceLength", "best_seconds_per_cell", "comfortable_seconds",
    "epoch_draft", "guard_ns", "needed_seconds", "pilot_slice_max_ns", "plan_study", "precise_seconds", "share_seconds",
    "whole_blocks", "with_longer_slices",
]  # fmt: skip
