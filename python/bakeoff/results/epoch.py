"""What one epoch left behind: its outcome, and its measurements as frames."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict, JsonValue


class Outcome(BaseModel):
    """How an epoch went: `outcome.json`, written last. Fields as docs/results.md tells.

    Attributes:
        valid: False: the epoch counts for no arm, for `void_reason`.
        started_at: UTC.
        wall_s, measured_s: seconds in all, and inside `measure`.
        phases_s: seconds of `restore`, `start`, `gates`, `warm`, `pilot`, `measure`, `settle`, `check`, `stop`.
        seeds: `order`, `keys`, `padding`.
        gates: for each arm what was waited for before measuring.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epoch: int
    build: int
    valid: bool = True
    void_reason: str = ""
    started_at: datetime
    wall_s: float
    measured_s: float
    phases_s: dict[str, float] = {}
    start_order: tuple[str, ...] = ()
    cell_order: tuple[str, ...] = ()
    seeds: dict[str, int] = {}
    gates: dict[str, dict[str, JsonValue]] = {}


def joined(rounds: Sequence[Outcome]) -> Outcome:
    """The outcome of an epoch of several rounds: phases are summed; the baseline's gates are those of its first."""
    first = rounds[0]
    phases: dict[str, float] = {}
    gates: dict[str, dict[str, JsonValue]] = {}
    for outcome in rounds:
        for phase, seconds in outcome.phases_s.items():
            phases[phase] = phases.get(phase, 0.0) + seconds
        gates = outcome.gates | gates
    return first.model_copy(
        update={
            "valid": all(outcome.valid for outcome in rounds),
            "void_reason": next((outcome.void_reason for outcome in rounds if outcome.void_reason), ""),
            "wall_s": max(outcome.wall_s for outcome in rounds),  # each counts from its own begin to the epoch's end
            "measured_s": sum(outcome.measured_s for outcome in rounds),
            "phases_s": phases,
            "cell_order": tuple(dict.fromkeys(cell for outcome in rounds for cell in outcome.cell_order)),
            "gates": gates,
        }
    )


@dataclass(frozen=True)
class EpochData:
    """One finished epoch as the statistics read it.

    Attributes:
        epoch, build: numbers from 0.
        valid, void_reason: as in its outcome.
        slices: one row a slice, columns of `bakeoff.results.frames.SLICE_SCHEMA`.
        histograms: the engine's `histogram` messages (docs/engine.md), one a cell, arm and operation.
        variables: for each arm, its server's global variables.
        recounts: for each arm and cell, what its server had counted itself before and after (`stats.recount`); empty
            for workloads whose work the server does not count.
    """

    epoch: int
    build: int
    valid: bool
    void_reason: str
    slices: pl.DataFrame
    histograms: list[dict[str, Any]]
    variables: dict[str, dict[str, str]]
    recounts: dict[str, dict[str, list[dict[str, dict[str, int]]]]] = field(default_factory=dict)
