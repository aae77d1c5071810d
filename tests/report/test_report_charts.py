"""Charts of the page, lines that end at a restart, charts as files."""

import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter

import pytest
from plain_analysis import plain_analysis
from synthetic import duel_study, make_run
from view_parts import panels_of

from bakeoff.errors import SpecError
from bakeoff.report import build_view, charts, render_html
from bakeoff.report.charts import VERDICTS, picture_png, picture_svg
from bakeoff.report.html import _swatch
from bakeoff.report.view import Panel, Role, Series
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Analysis, Stop


def lines(**fields):
    """Three epochs of two points each, of one arm."""
    series = Series(
        name="a", key="arm-0", x=(0.0, 2.0) * 3, y=(10.0, 20.0, 30.0, 40.0, 5.0, 50.0), group=(0, 0, 4, 4, 7, 7)
    )
    base = {"id": "p", "title": "t", "x_title": "x", "y_title": "y", "series": (series,)}
    return Panel(**base | fields)


def test_every_chart_has_its_axes(view):
    for panel in view.panels:
        svg = ET.fromstring(charts.draw(panel))
        assert [text.text for text in svg.iter("text")].count(panel.x_title) == 1


def test_chart_lines_break_between_epochs():
    rows = charts.describe(lines())["datasets"]["p-rows"]
    assert [row["y"] is None for row in rows] == [False, False, True] * 3
    path = re.search(r'<path d="([^"]*)" stroke="var\(--arm-0\)"', charts.draw(lines()))[1]
    assert path.count("M") == 3


def test_a_line_at_one_is_drawn_even_far_from_the_points():
    series = Series(name="a", key="arm-0", x=(0.0, 1.0), y=(1.4, 1.5), tips=("e", "f"))
    drawn = charts.draw(lines(mark="points", y_zero=False, series=(series,), one="1: as fast"))
    svg = ET.fromstring(drawn)
    assert [text.text for text in svg.iter("text")].count("1: as fast") == 1
    assert [line.get("stroke") for line in svg.iter("line")].count("var(--ink)") == 1
    heights = {text.text: text.get("transform") for text in svg.iter("text")}
    assert "1" in heights  # the axis reaches it


def test_many_arms_differ_in_colour_or_shape_and_only_the_control_is_grey(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(1,))
    more = [study.arms[1].model_copy(update={"name": name, "label": name}) for name in "CDEFGHIJKLMNOPQ"]
    study = study.model_copy(update={"arms": (*study.arms, *more)})
    run = make_run(tmp_path, study, epochs=2, blocks=1)
    arms = build_view(run, plain_analysis(run, study)).arms
    keys = [f"arm-{arm.slot}" for arm in arms]
    assert len({(charts.css_key(key), charts._shape(key)) for key in keys}) == len(arms) == 18
    assert len({_swatch(arm.slot) for arm in arms}) == 18, "swatches"
    assert [arm.role for arm, key in zip(arms, keys, strict=True) if charts.css_key(key) == "arm-6"] == [Role.CONTROL]


def test_the_report_command_imports_neither_scipy_special_nor_servers():
    code = (
        "import bakeoff.cli.report, sys; print([n for n in ('scipy.special', 'bakeoff.servers') if n in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_a_report_of_six_cells_has_few_charts(view):
    """A chart takes some hundredths of a second; `bench/startup` measures the sum."""
    assert len(panels_of(view)) <= 35


def texts(svg):
    return [element.text for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_verdicts_picture_has_the_question_and_every_row(view):
    svg = picture_svg(view, VERDICTS)
    written = "\n".join(texts(svg))
    assert view.question in written and view.dateline in written
    for row in view.forest.rows:
        assert f"{row.label} · {row.contender}" in written
        assert f"{row.ratio}" in written and row.interval in written and row.verdict in written
    assert "var(--" not in svg and "#fe00" not in svg
    assert "#feabcd" in picture_svg(view.model_copy(update={"question": "Is #feabcd a colour?"}), VERDICTS)


def shapes(svg):
    """Count a picture's marks by their role for screen readers."""
    return Counter(re.findall(r'aria-roledescription="([^"]+)"', svg))


def test_a_picture_keeps_contenders_without_a_ratio(view):
    first, *others = view.forest.rows
    rows = (
        first.model_copy(update={"epochs": (), "low": None, "high": None, "ratio": "n/a", "interval": ""}),
        *others,
    )
    cut = view.model_copy(update={"forest": view.forest.model_copy(update={"rows": rows})})
    before, after = (picture_svg(each, VERDICTS) for each in (view, cut))
    assert shapes(after)["point"] == shapes(before)["point"] - 1
    assert shapes(after)["rule mark"] == shapes(before)["rule mark"] - 1
    written = texts(after)
    assert f"n/a  {first.verdict}" in written
    labels = [f"{row.label} · {row.contender}" for row in rows]
    assert [text for text in written if text in labels] == labels


def test_every_kind_of_chart_is_drawn_alone_with_its_legend(view):
    kinds = {(panel.mark, panel.x_kind): panel for panel in panels_of(view)}
    assert len(kinds) >= 4
    for panel in kinds.values():
        svg = picture_svg(view, panel.id)
        assert panel.title in texts(svg) and "var(--" not in svg and "#fe00" not in svg
        own = {series.name for series in panel.series if not series.key.startswith("arm-")}
        arms = {arm.label for arm in view.arms if f"arm-{arm.slot}" in {series.key for series in panel.series}}
        assert own | arms <= set(texts(svg))


def test_a_png_has_twice_the_resolution_of_the_svg(view):
    svg, png = ET.fromstring(picture_svg(view, VERDICTS)), picture_png(view, VERDICTS)
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">II", png[16:24]) == (2 * int(svg.get("width")), 2 * int(svg.get("height")))


def test_an_unknown_chart_name_hints_at_valid_ones(view):
    with pytest.raises(SpecError) as caught:
        picture_svg(view, "thread-0")
    assert "threads-0" in caught.value.hint


def test_pictures_are_written_by_the_report_command(tmp_path, inside, monkeypatch):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False, labels=('a "b" <script>', "c';"))
    run = make_run(tmp_path, study, epochs=6)
    run.write_json("analysis.json", analyse(run.load_epochs(), study, ended=Stop.PRECISE))
    ran = inside("report", str(run.path), "--format", "svg", "--chart", "percentiles-0")
    assert ran.code == 0 and {'a "b" <script>', "c';"} <= set(texts(ran.out))
    # The page names the command beside every chart.
    page = render_html(build_view(run, run.read("analysis.json", Analysis)))
    commands = re.findall(r"<code>bakeoff (report \S+ --format svg --chart (\S+) -O \S+)</code>", page)
    assert [name for _, name in commands] == ["verdicts", *re.findall(r'<figure id="([^"]+)"', page)]
    monkeypatch.chdir(tmp_path)
    words = commands[1][0].split()
    assert inside(*words, "--runs", str(tmp_path)).code == 0 and (tmp_path / words[-1]).read_text().startswith("<svg")
    file = tmp_path / "verdicts.png"
    assert inside("report", str(run.path), "--format", "png", "--output", str(file)).out == f"{file}\n"
    assert file.read_bytes().startswith(b"\x89PNG")
    assert "There are: verdicts" in inside("report", str(run.path), "--format", "svg", "--chart", "x").complaint
    assert inside("report", str(run.path), "--chart", "verdicts").code == 2
