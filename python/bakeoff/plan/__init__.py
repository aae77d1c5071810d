"""Plan a study with pure functions: arms, cells, epochs, random orders, seeds and durations."""

from bakeoff.plan.epochs import Cell, EpochDraft, Plan, SliceLength
from bakeoff.plan.schedule import CellPilot, epoch_draft, plan_study
from bakeoff.plan.timing import EPOCHS_MIN, guard_ns, ideal_seconds, least_seconds, pilot_slice_max_ns, whole_blocks

__all__ = [
    "EPOCHS_MIN", "Cell", "CellPilot", "EpochDraft", "Plan", "SliceLength", "epoch_draft", "guard_ns", "ideal_seconds",
    "least_seconds", "pilot_slice_max_ns", "plan_study", "whole_blocks",
]  # fmt: skip
