"""What every renderer makes of one synthetic run; a changed snapshot is a changed report."""

import io
import json

import pytest
from rich.console import Console

from bakeoff.report import render_csv, render_json, render_markdown, render_terminal


@pytest.fixture
def placed(view):
    """The view, as if the run lay in a fixed place."""
    return view.model_copy(update={"directory": "bakeoff-runs/RUN"})


def in_terminal(view, width, **options):
    out = io.StringIO()
    render_terminal(view, Console(file=out, width=width, **options))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_terminal(placed, snapshot, width):
    assert in_terminal(placed, width) == snapshot


def test_terminal_obeys_no_color(placed, monkeypatch):
    coloured = in_terminal(placed, 120, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    plain = in_terminal(placed, 120, force_terminal=True, color_system="standard")
    assert "\x1b[3" in coloured and "\x1b[3" not in plain
    assert "SLOWER" in plain


def test_markdown(placed, snapshot):
    assert render_markdown(placed) == snapshot


def test_csv(placed, snapshot):
    lines = render_csv(placed).splitlines()
    # Six digits: enough to see a change, too few to see another machine's last bit.
    rounded = [",".join(_rounded(field) for field in line.split(",")) for line in lines]
    assert rounded == snapshot


def test_json_is_one_document_with_unrounded_comparisons(placed):
    document = json.loads(render_json(placed))
    assert len(document["comparisons"]) == 12
    first = document["comparisons"][0]
    assert first["ratio_low"] < first["ratio"] < first["ratio_high"]
    assert document["verdicts"][0]["sentence"]
    assert document["tables"]["undeclared"]["rows"]


def test_view(placed, snapshot):
    """Everything but the charts' points, which are checked by what they must say (test_report_content.py)."""
    document = placed.model_dump(mode="json", exclude={"records", "costs"})
    for section in document["sections"]:
        _without_points(section)
    assert json.dumps(document, indent=1, ensure_ascii=False) == snapshot


def _without_points(section):
    for part in section["parts"]:
        if part["kind"] == "section":
            _without_points(part)
        for panel in part.get("panels", ()):
            names = [series["name"] for series in panel["series"]]
            panel["series"] = names
            for field in ("boundaries", "level", "level_band"):
                del panel[field]


def _rounded(field):
    try:
        return f"{float(field):.6g}"
    except ValueError:
        return field
