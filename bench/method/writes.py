"""What freezing the resting server does to a comparison of writes."""

import math

from reads import INJECTED, SLOWDOWN_PERCENT, TRUTH, too_wide
from table import Result

from bakeoff.stats.diagnostics import carry_over
from bakeoff.stats.interval import standard_deviation
from validation.real_epochs import RealBench, Variant, by_variant, mean_of

_SLICE_NS = 2_000_000_000
_WRITES = 1  # place of the workload in the study


def freeze(bench: RealBench) -> Result:
    """An injected 5 % on writes, with freezing and without, each on servers started for it."""
    variants = [
        Variant("freeze", _SLICE_NS, 16.0, workload=_WRITES, freeze=True),
        Variant("no freeze", _SLICE_NS, 16.0, workload=_WRITES),
    ]
    epochs = []
    for number in range(4):
        epochs += [
            bench.epoch([variant], arms=INJECTED, warm_s=2.0)
            for variant in (variants if number % 2 else variants[::-1])
        ]
    rows = []
    for name, pairs in by_variant(epochs).items():
        values = [pair.value for pair in pairs]
        estimate, carried = mean_of(values), carry_over(pairs).common
        rows.append(
            (
                name,
                math.expm1(estimate.mean) * 100,
                (estimate.interval.half_width or math.nan) * 100,
                standard_deviation(values) * 100,
                None if carried is None else carried.mean * 100,
            )
        )
    by_name = {row[0]: row for row in rows}
    effect = math.expm1(TRUTH) * 100
    held = [name for name, row in by_name.items() if abs(row[1] - effect) <= row[2]]
    wide = too_wide({name: by_name[name][2] for name in held}, effect)
    return Result(
        name="freeze",
        asks=f"Writes, an injected {effect:.2f} %: what does stopping the resting server change?",
        columns=("", "found, %", "±", "SD of one epoch's ratio, %", "carry-over, %"),
        rows=tuple(rows),
        says=(
            f"The truth is held by {' and '.join(held) or 'neither'}. {wide + ' ' if wide else ''}With freezing the "
            f"spread of an epoch's ratio is {by_name['freeze'][3] / by_name['no freeze'][3]:.2g} times that without."
        ),
        figures={"slowdown_percent": SLOWDOWN_PERCENT},
    )
