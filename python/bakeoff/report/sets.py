"""The publication's way beside ours: the median of three sets, and how far it would have moved with other sets."""

import math
import statistics

from bakeoff.report import numbers
from bakeoff.report.answers import cell_text
from bakeoff.report.context import Context
from bakeoff.report.view import Row, Table, Value
from bakeoff.stats.sets import SETS, median_ratios

_SCRIPTS = ("tpcc",)


def sets_table(context: Context) -> Table:
    """Median of three sets against median of three sets, for each comparison of TPC-C; no rows below three epochs."""
    scripts = {cell.name: cell.script for cell in context.plan.cells} if context.plan else {}
    rows = []
    for comparison in context.primary:
        if scripts.get(comparison.cell) not in _SCRIPTS:
            continue
        ratios = median_ratios(
            context.epoch_rates.get((comparison.cell, comparison.contender), {}),
            context.epoch_rates.get((comparison.cell, comparison.baseline), {}),
        )
        if not ratios:
            continue
        estimate = comparison.estimate
        rows.append(
            Row(
                group=cell_text(comparison),
                values=(
                    Value(text=context.labels[comparison.contender]),
                    Value(text=numbers.ratio(math.log(ratios[0]))),
                    Value(
                        text=f"{min(ratios):.2f} to {max(ratios):.2f}",
                        sub=f"{len(ratios)} choices, median {statistics.median(ratios):.2f}",
                    ),
                    Value(
                        text=numbers.ratio(estimate.mean, estimate.interval.half_width),
                        sub=numbers.interval(estimate.interval) or "no interval yet",
                    ),
                ),
                slot=context.slots[comparison.contender],
            )
        )
    return Table(
        id="sets",
        group_title="cell",
        columns=("arm", f"first {SETS} sets", f"any {SETS} sets", "ours"),
        rows=tuple(rows),
        note=(
            f"As published: a ramp-up, {SETS} sets, the median of each arm. A set here is an epoch: a start, the "
            "warm-up at the most connections, then every number of connections once. Any: every choice of that many "
            "of the epochs measured, to show how much luck a single choice holds. Ours: all epochs, with the interval."
        ),
    )
