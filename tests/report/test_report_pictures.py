"""Charts as files of their own."""

import re
import struct
import xml.etree.ElementTree as ET

import pytest
from synthetic import duel_study, make_run
from view_parts import panels_of

from bakeoff.errors import SpecError
from bakeoff.report import build_view, render_html
from bakeoff.report.pictures import VERDICTS, picture_png, picture_svg
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop


def texts(svg):
    return [element.text for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_verdicts_are_one_picture(view):
    svg = picture_svg(view, VERDICTS)
    written = "\n".join(texts(svg))
    assert view.question in written and view.dateline in written
    for row in view.forest.rows:
        assert f"{row.label} · {row.contender}" in written
        assert f"{row.ratio}" in written and row.interval in written and row.verdict in written
    assert "var(--" not in svg and "#fe00" not in svg


def test_every_kind_of_chart_can_be_had_alone_with_its_legend(view):
    kinds = {(panel.mark, panel.x_kind): panel for panel in panels_of(view)}
    assert len(kinds) >= 4
    for panel in kinds.values():
        svg = picture_svg(view, panel.id)
        assert panel.title in texts(svg) and "var(--" not in svg and "#fe00" not in svg
        own = {series.name for series in panel.series if not series.key.startswith("arm-")}
        arms = {arm.label for arm in view.arms if f"arm-{arm.slot}" in {series.key for series in panel.series}}
        assert own | arms <= set(texts(svg))


def test_a_png_has_two_pixels_for_each(view):
    svg, png = ET.fromstring(picture_svg(view, VERDICTS)), picture_png(view, VERDICTS)
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">II", png[16:24]) == (2 * int(svg.get("width")), 2 * int(svg.get("height")))


def test_a_wrong_name_lists_the_right_ones(view):
    with pytest.raises(SpecError) as caught:
        picture_svg(view, "thread-0")
    assert "threads-0" in caught.value.hint


def test_pictures_are_written_by_the_report_command(tmp_path, inside, monkeypatch):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False, labels=('a "b" <script>', "c';"))
    run = make_run(tmp_path, study, epochs=6)
    run.write_analysis(analyse(run.load_epochs(), study, ended=Stop.PRECISE))
    ran = inside("report", str(run.path), "--format", "svg", "--chart", "percentiles-0")
    assert ran.code == 0 and {'a "b" <script>', "c';"} <= set(texts(ran.out))
    # The page names the command beside every chart.
    page = render_html(build_view(run, run.analysis()))
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
