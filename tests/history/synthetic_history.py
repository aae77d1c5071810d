"""A history of forty nights whose truth is known."""

import math
import random
from datetime import UTC, datetime, timedelta

from bakeoff.history.history_file import P95, THROUGHPUT, Annotation, Point

BEGIN = datetime(2026, 10, 1, 3, tzinfo=UTC)
STEP, STEP_AT = math.log(0.97), 20
SWAP_AT = 30


def nights(
    cell="oltp_read_only/4", metric=THROUGHPUT, *, series="nightly", step=STEP, count=40, seed=1, folder="/nowhere"
):
    """Slow the contender by 3 % from night 20 on; from night 30 another machine slows both arms by a fifth."""
    rng = random.Random(seed)
    for night in range(count):
        epochs = [rng.gauss(0.0, 0.01) for _ in range(8)]
        error = 0.01 / math.sqrt(8)
        ratio = 0.02 + (step if night >= STEP_AT else 0.0) + sum(epochs) / 8
        reference = (11_000 if night < SWAP_AT else 8_800) * math.exp(rng.gauss(0, 0.03))
        reference = 4e4 / reference if metric == P95 else reference
        run = f"nightly-{night:02}"
        yield Point(
            series=series, cell=cell, metric=metric, baseline="mysql:8.0.15", contender="path:build",
            at=BEGIN + timedelta(days=night), commit=f"{night:02}{'abcdef0123'}", run=run, path=f"{folder}/{run}",
            tool="bakeoff 0.2.0", machine="2 × Xeon" if night < SWAP_AT else "2 × EPYC",
            versions=("8.0.15", "9.8.0"), ratio=ratio, error=error, low=ratio - 2.4 * error, high=ratio + 2.4 * error,
            epochs=8, reference=reference, value=reference * math.exp(ratio),
        )  # fmt: skip


def history(folder="/nowhere"):
    """Points of three lines, the first of which changes, three single runs of another tool, and two remarks."""
    points = [
        *nights(folder=folder),
        *nights("oltp_read_only/4", P95, step=0.0, seed=2, folder=folder),
        *nights("oltp_point_select/16", step=0.0, seed=3, folder=folder),
        *(
            Point(
                series="before", cell="oltp_read_only/4", contender="mysql:8.0.15", at=BEGIN - timedelta(days=day),
                run=f"log-{day}", tool="sysbench 1.0.20", value=10_000.0 + 300 * day,
            )
            for day in (3, 2, 1)
        ),
    ]  # fmt: skip
    remarks = [
        Annotation(at=BEGIN + timedelta(days=STEP_AT - 1, hours=9), series="nightly", text="compiler updated"),
        Annotation(at=BEGIN + timedelta(days=SWAP_AT - 1, hours=9), text="machine replaced"),
    ]
    return sorted(points, key=lambda point: point.at), remarks
