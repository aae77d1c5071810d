"""Recorded traces of real servers, as they ship: `NAME.npz` beside `NAME.json`, which tells where they come from."""

import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from bakeoff.errors import ResultsError
from bakeoff.results.epoch_data import write_atomically

SHIPPED = Path(__file__).parent


class Origin(BaseModel):
    """Where a set of traces comes from.

    Attributes:
        recorded_at: UTC, when it began.
        load: mean share of the machine's CPU time that others than the recorded servers and their client used.
        machine: CPUs, memory, system, in one line.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    server: str
    workload: str
    threads: int
    restarts: int
    slice_ms: float
    guard_ms: float
    seconds: float
    recorded_at: str
    machine: str
    load: float
    bakeoff: str
    commit: str | None
    command: str


@dataclass(frozen=True)
class Traces:
    """A series of slices for each of many starts of one server; arrays of shape (restarts, slices).

    Attributes:
        events: completed in a slice.
        taken_us: microseconds that a slice took: the mean over its connections of the time they were busy.
        reference: the slice was of the second server, which was started once and measured in turn with the first.
    """

    origin: Origin
    events: NDArray[np.uint16]
    taken_us: NDArray[np.uint32]
    reference: NDArray[np.bool_]


def names() -> tuple[str, ...]:
    """Sets that ship."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.npz")))


def read(path: Path) -> Traces:
    """Read a set.

    Args:
        path: of its `.npz`.

    Raises:
        ResultsError: it is missing or damaged.
    """
    try:
        with np.load(path) as arrays:
            origin = Origin.model_validate(json.loads(path.with_suffix(".json").read_text(encoding="utf-8")))
            return Traces(origin, arrays["events"], arrays["taken_us"], arrays["reference"])
    except (OSError, ValueError, KeyError) as error:
        raise ResultsError(f"{path}: {error}.", hint="Record it again: python -m validation.record.") from None


def write(traces: Traces, path: Path) -> None:
    """Write a set: `path` and its `.json`."""
    packed = io.BytesIO()
    np.savez_compressed(packed, events=traces.events, taken_us=traces.taken_us, reference=traces.reference)
    write_atomically(path, packed.getvalue())
    write_atomically(path.with_suffix(".json"), (traces.origin.model_dump_json(indent=1) + "\n").encode())
