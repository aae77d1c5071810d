"""Measure a replay: which statements it runs, in which chunks, and what it cannot do."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from bakeoff.engine import Measurement, Message
from bakeoff.engine_messages import SliceMessage
from bakeoff.errors import SpecError
from bakeoff.replay.captures import capture_facts, chunk_events
from bakeoff.run.measuring import CellRun
from bakeoff.spec import Arm, Study, Workload
from bakeoff.units import format_duration

_SILENCE_MAX_S = 30.0  # by the clock: nobody waits longer for a statement


class CaptureMeasuring:
    def declared(self, script: str) -> Message | None:
        return None

    def resolved(self, study: Study, workload: Workload) -> Workload:
        """Look for writes in the capture. On running servers only its reads are replayed."""
        if workload.writes is not None:
            return workload
        writes = bool(capture_facts(workload.script).writes) and not study.has_running_server
        return workload.model_copy(update={"writes": writes})

    def check(self, study: Study, workload: Workload) -> None:
        name = f"workload {workload.script}"
        if workload.options:
            raise SpecError(f"{name}: a capture has no options.", hint=f"Leave {workload.options[0][0]} out.")
        if workload.rate_per_s is not None:
            raise SpecError(f"{name}: a capture has no rate.", hint="Replay it by its own clock: speed.")
        facts = capture_facts(workload.script)
        if workload.speed is not None:
            _check_clock(name, facts.moments_us(reads_only=workload.writes is False), workload.speed)

    def check_engine(self, workload: Workload, arm: Arm, engine: str) -> None:
        pass

    def request(self, run: CellRun) -> dict[str, Any] | None:
        """Return capture, chunk size and speed; None for a warm-up of a capture without reads."""
        cell, reads_only = run.cell, run.reads_only
        if run.changes_nothing and not capture_facts(cell.script).reads:
            return None
        rate = run.rates.get((cell.name, reads_only)) or run.rates.get((cell.name, not reads_only))
        return {
            "capture": cell.script,
            "chunk_events": chunk_events(cell, run.slices, reads_only=reads_only, events_per_s=rate),
            "speed": run.workload.speed,
            "reads_only": reads_only,
        }

    def begin(self, run: CellRun) -> Callable[[Measurement], None]:
        """Say once what limits the replay. Statements may fail: each one is judged."""
        return lambda measured: _note_limits(run, measured.slices)


MEASURING = CaptureMeasuring()


def _check_clock(name: str, moments_us: np.ndarray, speed: float) -> None:
    """Refuse a replay by the clock without times, or with a long silence."""
    if not len(moments_us):
        raise SpecError(f"{name}: the log has no times to replay it by.", hint="Leave the speed out.")
    silences_us = np.diff(moments_us, append=moments_us[-1])
    longest = int(silences_us.argmax())
    silence_s = float(silences_us[longest]) / 1e6
    if silence_s > _SILENCE_MAX_S * speed:
        begin = datetime.fromtimestamp(int(moments_us[longest]) / 1e6, UTC)
        raise SpecError(
            f"{name}: the log is silent for {format_duration(silence_s)} from {begin:%H:%M:%S} UTC on; by the clock a "
            f"replay would wait {format_duration(silence_s / speed)} there.",
            hint=f"Replay it at speed {math.ceil(silence_s / _SILENCE_MAX_S)} or more, or as fast as it goes.",
        )


def _note_limits(run: CellRun, slices: Sequence[SliceMessage]) -> None:
    cell = run.cell
    idle = cell.threads - capture_facts(cell.script).connections
    if idle > 0 and (cell.writes or cell.speed):
        why = "it writes" if cell.writes else "it is replayed by the clock"
        run.note_once(
            f"{cell.name}: {idle} of {cell.threads} sessions are idle: the capture has fewer connections, and each "
            f"is replayed once because {why}"
        )
    lengths_ns: Counter[str] = Counter()
    for message in slices:
        lengths_ns[message["arm"]] += message["length_ns"]
    shortest_s = min(lengths_ns.values(), default=0) / 1e9
    if cell.writes and shortest_s < 1:
        run.note_once(
            f"{cell.name}: one pass over the capture takes {shortest_s:.2f} s, once in every epoch because it "
            "writes; a longer capture gives narrower intervals",
            about=f"one pass of {cell.name}",
        )
