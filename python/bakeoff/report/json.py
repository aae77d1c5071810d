"""Render a report for programs, as JSON."""

import json

from bakeoff.report.view import ReportView


def render_json(view: ReportView) -> str:
    """Return the head, `tables` by id, unrounded records, and the answer of a feature's question."""
    left_out = {"forest", "sections", "records", "more_records", "arms_table"}
    document = view.model_dump(mode="json", exclude=left_out)
    if view.conclusion and view.conclusion.document:
        document[view.conclusion.key] = view.conclusion.document.model_dump(mode="json")
    document["tables"] = {name: table.model_dump(mode="json") for name, table in view.tables.items()}
    document["comparisons"] = view.records
    document |= {each.name: each.rows for each in view.more_records}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
