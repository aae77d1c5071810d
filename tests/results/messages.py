"""Messages and outcomes as the engine and a run would give them."""

from datetime import UTC, datetime

from bakeoff.results import SLICE_SCHEMA, Outcome
from bakeoff.spec import Arm, Study, Workload, control_of, parse_server


def study(title: str = "mysql:5.7 vs mysql:8.0") -> Study:
    """Two arms and a control, one cell."""
    baseline = Arm(name="A", label="mysql:5.7", server=parse_server("mysql:5.7"))
    contender = Arm(name="B", label="mysql:8.0", server=parse_server("mysql:8.0"))
    return Study(
        title=title, arms=(baseline, contender, control_of(baseline)), workloads=(Workload(script="oltp_read_only"),)
    )


def slice_message(**fields: object) -> dict[str, object]:
    """An engine's `slice` message; all numbers 1 unless given."""
    numbers = dict.fromkeys(SLICE_SCHEMA.keys() - {"epoch", "build"}, 1)
    texts = {"type": "slice", "id": 3, "cell": "oltp_read_only/4", "arm": "A", "errors": {"1213": 2}, "threads": {}}
    return numbers | texts | fields


def outcome(epoch: int = 0, build: int = 0, **fields: object) -> Outcome:
    """A good epoch."""
    return Outcome(
        epoch=epoch, build=build, started_at=datetime(2026, 11, 21, tzinfo=UTC), wall_s=3.0, measured_s=2.0, **fields
    )
