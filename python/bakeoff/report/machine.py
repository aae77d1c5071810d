"""The report for programs: CSV (one row a comparison, unrounded) and JSON."""

import csv
import io
import json

from bakeoff.report.view import ReportView

_FOR_PEOPLE = frozenset(
    {
        "forest", "throughput", "threads_panels", "scaling_panels", "time_panels", "jitter_panels", "warm_up_panels",
        "epoch_panels", "percentile_panels", "arm_panels", "host_panels", "pilot_panels", "cpu_bars", "latency",
        "costs", "method", "documents", "other_settings", "records",
    }
)  # fmt: skip


def render_csv(view: ReportView) -> str:
    """Rows of `view.records` with a heading; ratios as ratios, times in ns, rates per second; empty where unknown."""
    columns = list(dict.fromkeys(key for record in view.records for key in record))
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(view.records)
    return out.getvalue()


def render_json(view: ReportView) -> str:
    """One document: the answers in words, and under `comparisons` the same unrounded."""
    document = view.model_dump(mode="json", exclude=set(_FOR_PEOPLE))
    document["comparisons"] = list(view.records)
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
