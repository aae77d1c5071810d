"""Snapshots of one synthetic run in every format."""

import io
import json

import pytest
from rich.console import Console

from bakeoff.report import render_csv, render_json, render_markdown, render_terminal


@pytest.fixture
def placed(view):
    """Return the view as if the run were at a fixed path."""
    return view.model_copy(update={"directory": "bakeoff-runs/RUN"})


def in_terminal(view, width, **options):
    out = io.StringIO()
    render_terminal(view, Console(file=out, width=width, **options))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_terminal_output_matches_its_snapshot(placed, snapshot, width):
    assert in_terminal(placed, width) == snapshot


def test_terminal_obeys_no_color(placed, monkeypatch):
    coloured = in_terminal(placed, 120, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    plain = in_terminal(placed, 120, force_terminal=True, color_system="standard")
    assert "\x1b[3" in coloured and "\x1b[3" not in plain
    assert "SLOWER" in plain


@pytest.mark.needs("search")
def test_markdown_matches_its_snapshot(placed, snapshot):
    assert render_markdown(placed) == snapshot


def test_csv_matches_its_snapshot(placed, snapshot):
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


@pytest.mark.needs("search")
def test_the_outline_of_sections_matches_its_snapshot(placed, snapshot):
    """Titles, notes, charts and columns; other tests check the content."""
    assert "\n".join(line for section in placed.sections for line in _outline(section, 0)) == snapshot


def _outline(part, level):
    yield "  " * level + " · ".join(filter(None, _head(part)))
    inner = [part.content] if hasattr(part, "content") else getattr(part, "panels", getattr(part, "parts", ()))
    for each in inner:
        yield from _outline(each, level + 1)


def _head(part):
    match getattr(part, "kind", "chart"):
        case "section":
            return f"# {part.title}", part.anchor, part.nav, part.note
        case "table":
            return f"table {part.id}", part.group_title, " | ".join(part.columns), part.note
        case "charts":
            return "charts", part.intro, part.note
        case "chart":
            lines = ", ".join(dict.fromkeys(series.name for series in part.series))
            return f"chart {part.id}", part.title, f"{part.x_title} × {part.y_title}", lines
        case "bars":
            return f"bars {part.id}", f"{len(part.bars)} bars"
        case kind:
            return kind, getattr(part, "title", ""), getattr(part, "text", "")[:100]


def _rounded(field):
    try:
        return f"{float(field):.6g}"
    except ValueError:
        return field
