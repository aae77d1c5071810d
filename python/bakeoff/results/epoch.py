"""What one epoch left behind: its outcome, and its measurements as frames."""

from dataclasses import dataclass
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
        phases_s: seconds of `restore`, `start`, `gates`, `warm`, `measure`, `stop`.
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


@dataclass(frozen=True)
class EpochData:
    """One finished epoch as the statistics read it.

    Attributes:
        epoch, build: numbers from 0.
        valid, void_reason: as in its outcome.
        slices: one row a slice, columns of `bakeoff.results.frames.SLICE_SCHEMA`.
        histograms: the engine's `histogram` messages (docs/engine.md), one a cell, arm and operation.
        variables: for each arm, its server's global variables.
    """

    epoch: int
    build: int
    valid: bool
    void_reason: str
    slices: pl.DataFrame
    histograms: list[dict[str, Any]]
    variables: dict[str, dict[str, str]]
