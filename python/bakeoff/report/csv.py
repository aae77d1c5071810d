"""Render a report's records as CSV."""

import csv
import io

from bakeoff.report.view import ReportView


def render_csv(view: ReportView) -> str:
    records = [*view.records, *(row for each in view.more_records if each.in_csv for row in each.rows)]
    columns = list(dict.fromkeys(key for record in records for key in record))
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()
