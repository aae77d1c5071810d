"""The page in a real browser: it opens from a disk, needs no network, logs no errors and fits a phone."""

import itertools
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from plain_analysis import plain_analysis
from synthetic import Truth, duel_study, make_run
from view_parts import panels_of

from bakeoff.plan.factorial import make_study
from bakeoff.report import build_view, render_html
from bakeoff.spec.study_file import read_study
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page_file(view, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_html(view), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, page_file, request):
    """Open the page at a width and colour scheme; record what it logged and requested."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda wanted: asked.append(wanted.url))
    page.goto(page_file.as_uri(), wait_until="load")
    yield page, said, asked
    context.close()


DESKTOP, DARK, PHONE = (1100, "light"), (1100, "dark"), (400, "light")


@pytest.mark.parametrize("opened", [DESKTOP, DARK, PHONE], indirect=True)
def test_the_page_opens_from_disk_without_requests_or_console_messages(opened, page_file):
    page, said, asked = opened
    page.wait_for_load_state("networkidle")
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [page_file.as_uri()]
    assert "mysql:8.0" in page.title()


@pytest.mark.parametrize("opened", [DESKTOP], indirect=True)
def test_every_chart_is_present_and_not_empty(opened, view):
    page, _, _ = opened
    panels = panels_of(view)
    assert page.locator("figure").count() == len(panels) + 2 == 22
    for panel in panels:
        drawn = page.locator(f"#{panel.id} svg path[fill^='var(--'], #{panel.id} svg path[stroke^='var(--']")
        assert drawn.count() >= len(panel.series), panel.id
        box = page.locator(f"#{panel.id} svg").bounding_box()
        assert box["width"] > 250 and box["height"] > 100
    assert page.locator("#ladder-0 svg, #ladder-1 svg").count() == 2
    assert page.locator(".strip .point").count() == len(view.controls) == 6
    assert page.locator("#epochs-0 svg text", has_text="1: as fast").count() == 1


@pytest.mark.parametrize("opened", [DESKTOP, DARK, PHONE], indirect=True)
def test_forest_rows_share_an_axis_and_show_the_margin(opened, study_file):
    page, _, _ = opened
    page.goto(study_file.as_uri(), wait_until="load")
    strips = page.locator("#verdict .strip")
    assert strips.count() == 6
    places = set()
    for strip in strips.all():
        whole, one, margin = (
            found.bounding_box() for found in (strip, strip.locator(".one"), strip.locator(".margin"))
        )
        places.add((round(whole["width"]), round(one["x"] - whole["x"])))
        assert margin["width"] >= 3 and margin["height"] > 20
        assert margin["x"] < one["x"] < margin["x"] + margin["width"]
    assert len(places) == 1
    boxes = [tick.bounding_box() for tick in page.locator("#verdict .axis span").all()]
    assert len(boxes) >= 3
    assert all(left["x"] + left["width"] < right["x"] for left, right in itertools.pairwise(boxes))


@pytest.mark.parametrize("opened", [(390, "light")], indirect=True)
@pytest.mark.parametrize("of_study", [False, True], ids=["duel", "study"])
def test_on_a_phone_nothing_overflows_and_no_figure_appears_twice_on_the_first_page(opened, study_file, of_study):
    page, _, _ = opened
    if of_study:
        page.goto(study_file.as_uri(), wait_until="load")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    said = [e.inner_text() for e in page.locator("#verdict > p, #verdict .status, #verdict .figures li").all()]
    rows = [row.inner_text() for row in page.locator("#verdict .forest-row.cell").all()]
    figures = [found for text in said for found in re.findall(r"\d[\d.]*[×%]", text)]
    assert len(rows) == 6 and len(set(rows)) == 6
    assert figures and len(figures) == len(set(figures))
    assert [
        figure for figure in figures if any(re.search(rf"(?<![\d.]){re.escape(figure)}", row) for row in rows)
    ] == []


@pytest.mark.parametrize("opened", [DESKTOP], indirect=True)
def test_folded_content_opens_by_keyboard(opened):
    page, said, _ = opened
    command = page.locator("#time-0 .save code")
    assert not command.is_visible()
    page.locator("#time-0 .save summary").focus()
    page.keyboard.press("Enter")
    assert command.is_visible() and "--format svg --chart time-0" in command.inner_text()
    page.emulate_media(media="print")
    assert not command.is_visible() and page.locator(".forest-row.cell").first.is_visible()
    assert said == []


@pytest.mark.parametrize("opened", [PHONE, (360, "dark"), (768, "light")], indirect=True)
def test_the_page_fits_a_narrow_screen(opened):
    page, _, _ = opened
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    beyond = page.evaluate(
        """[...document.querySelectorAll('h1, h2, p, figure, .answer, .forest-row, .status, pre')]
           .filter(e => e.getBoundingClientRect().right > window.innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
    )
    assert beyond == []


@pytest.mark.parametrize("width", [390, 1100])
def test_long_server_labels_wrap_between_options_and_do_not_overflow(browser, tmp_path, width):
    labels = ("mysql:8.0.15,innodb_flush_method=fsync", "mysql:8.0.15,innodb_flush_method=O_DIRECT,big_tables=ON")
    study = duel_study(workloads=("oltp_read_only",), threads=(1, 4), control=False, labels=labels)
    run = make_run(tmp_path, study, epochs=6)
    file = tmp_path / "page.html"
    file.write_text(render_html(build_view(run, plain_analysis(run, study))), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(file.as_uri())
    assert page.locator("h1 wbr").count() >= 4 and page.locator("td wbr").count() >= 4
    beyond = page.evaluate(
        """[...document.querySelectorAll('h1, p, .arms li, .legend li, .bars > span, .facts')]
           .filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display != 'inline')
           .map(e => e.outerHTML.slice(0, 90))"""
    )
    assert beyond == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    if width == 1100:
        table = page.locator(".scroll:has(#table-latency)")
        assert table.evaluate("e => e.scrollWidth <= e.clientWidth")
        page.set_viewport_size({"width": 680, "height": 800})  # a sheet of A4 with its margins
        page.emulate_media(media="print")
        cut = "[...document.querySelectorAll('table')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
        assert page.evaluate(f"{cut}.map(e => e.id)") == []
    page.close()


@pytest.mark.parametrize(
    ("opened", "medium", "dark"),
    [(DESKTOP, "screen", False), (DARK, "screen", True), (DARK, "print", False)],
    indirect=["opened"],
)
def test_text_has_enough_contrast_in_light_dark_and_print(opened, medium, dark):
    page, _, _ = opened
    page.emulate_media(media=medium)

    def luminance(selector, attribute):
        found = page.evaluate(
            f"getComputedStyle(document.querySelector({selector!r}))[{attribute!r}].match(/[\\d.]+/g).map(Number)"
        )
        linear = [(c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4) for c in found[:3]]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    paper = luminance("body", "backgroundColor")
    assert (paper < 0.1) == dark
    for selector, attribute, least in (
        ("h1", "color", 10), (".dateline", "color", 4.5), ("figure svg text", "fill", 4.5), (".status", "color", 7),
    ):  # fmt: skip
        text = luminance(selector, attribute)
        ground = luminance(selector, "backgroundColor") if selector == ".status" else paper
        contrast = (max(text, ground) + 0.05) / (min(text, ground) + 0.05)
        assert contrast >= least, (selector, contrast)


@pytest.mark.parametrize("opened", [PHONE], indirect=True)
def test_a_term_links_to_its_meaning(opened):
    page, said, _ = opened
    meaning = page.locator("#table-words").get_by_text("one of the setups compared")
    assert not meaning.is_visible()
    page.locator("a.word", has_text="arm").first.click()
    assert meaning.is_visible() and said == []


STUDY = """\
title: charsets
question: What does utf8mb4 cost?
servers: ["mysql:5.7", "mysql:8.0"]
factors: {collation: [latin1_swedish_ci, utf8mb4_general_ci]}
workloads: [oltp_read_only, oltp_point_select]
threads: [4]
control: true
"""


@pytest.fixture(scope="module")
def study_file(tmp_path_factory):
    """The page of a study of four arms and a control, with effects, interactions and pairs."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "my.yaml").write_text(STUDY)
    study = make_study(read_study(folder / "my.yaml"), seed=3)
    run = make_run(folder, study, truth=Truth(effect={"B": -0.69, "C": -0.105, "D": -0.223}))
    path = folder / "report.html"
    path.write_text(render_html(build_view(run, analyse(run.load_epochs(), study, ended=Stop.BUDGET))), "utf-8")
    return path


@pytest.mark.parametrize("opened", [DESKTOP, DARK, PHONE], indirect=True)
@pytest.mark.parametrize("of_study", [False, True], ids=["duel", "study"])
def test_the_unfolded_page_has_no_axe_core_violations(opened, study_file, of_study):
    page, _, _ = opened
    if of_study:
        page.goto(study_file.as_uri(), wait_until="load")
        assert page.locator("table[id^='table-pairs'], [id^='table-pairs'] table").count() > 0
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.locator("details:not([open])").count() == 0 < page.locator("details[open]").count()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert len(found.response["passes"]) > 20
