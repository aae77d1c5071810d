"""What the data takes on disk on every arm: a result in its own right, beside the throughput."""

from collections.abc import Mapping
from typing import Any

from bakeoff.report import numbers
from bakeoff.report.context import Context
from bakeoff.report.view import Row, Table, Value
from bakeoff.units import format_bytes

_SIZES = (("data_bytes", "on disk"), ("rows_bytes", "rows"), ("index_bytes", "secondary indexes"))


def sizes_table(context: Context) -> Table:
    """Bytes of every arm's data, the mean of its loads, and ratios to the baseline's; no rows when nothing is known."""
    loads: dict[str, list[Mapping[str, Any]]] = {}
    for name, build in context.run.builds().items():
        if isinstance(build, dict):
            for arm in build.get("arms") or [build.get("arm", name.rpartition("-")[0])]:
                loads.setdefault(str(arm), []).append(build)
    sizes = {arm: {key: _mean(found, key) for key, _ in _SIZES} for arm, found in loads.items()}
    base = sizes.get(context.analysis.baseline, {})
    shown = [(key, name) for key, name in _SIZES if any(each[key] for each in sizes.values())]
    rows = tuple(
        Row(
            group="",
            values=(
                Value(text=context.labels[arm]),
                *(
                    Value(
                        text="n/a" if (own := sizes[arm][key]) is None else format_bytes(own),
                        sub=numbers.plain_ratio(own, base.get(key)) if arm != context.analysis.baseline else "",
                    )
                    for key, _ in shown
                ),
            ),
            slot=context.slots[arm],
        )
        for arm in context.arms
        if arm in sizes and arm != context.analysis.control
    )
    return Table(
        id="sizes",
        group_title="",
        columns=("arm", *(name for _, name in shown)),
        rows=rows if shown else (),
        note="After loading, before any measurement; on disk: the files of the tables. Rows and secondary indexes as "
        "the server reckons them. Arms that share their loads have the same sizes.",
    )


def _mean(builds: list[Mapping[str, Any]], key: str) -> float | None:
    totals = [sum(build[key].values()) for build in builds if isinstance(build.get(key), dict)]
    return sum(totals) / len(totals) if totals else None
