"""The profiles of an explained run: tables, two flame graphs on one scale, and the script that zooms and searches."""

import base64
import hashlib
import json
import re
import shutil
import subprocess

import pytest
from axe_playwright_python.sync_playwright import Axe
from plain_analysis import plain_analysis
from profiled import BASE, SERVER, Function, add_profiles
from synthetic import Truth, duel_study, make_run

from bakeoff.errors import ResultsError
from bakeoff.explain.explained import Explained
from bakeoff.explain.flame import TEMPLATES, flame_script, profile_section
from bakeoff.explain.profiles import PROFILE_FILE
from bakeoff.report import build_view, render_html, render_json, render_markdown
from bakeoff.report.context import Context
from bakeoff.report.view import Section
from bakeoff.units import format_ns

CELL, NAME = "oltp_read_only/4", "oltp_read_only · 4 threads"


def explained_run(folder, **options):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,))
    run = make_run(folder, study, truth=Truth(effect={"B": -0.3}))
    add_profiles(run, cells=[CELL], **options)
    return run


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    run = explained_run(tmp_path_factory.mktemp("explained"))
    return build_view(run, plain_analysis(run, run.study()))


@pytest.fixture(scope="module")
def html(explained):
    return render_html(explained)


def test_tables_name_the_function_and_the_part_that_take_more(explained):
    parts, functions = (explained.tables[f"profile-1-{kind}"] for kind in ("parts", "functions"))
    assert parts.rows[0].values[0].text == "row access" and parts.rows[0].values[4].text.endswith("·")
    assert functions.rows[0].values[0].text == "row_search_mvcc" and functions.rows[0].values[3].text.startswith("+")
    text = render_markdown(explained)
    assert "| row access |" in text and "flame" not in text
    assert "profile-1-functions" in json.loads(render_json(explained))["tables"]


def of_three_arms(folder):
    """Make a run in which B and C are slower than A in two workloads: four claims."""
    study = duel_study(workloads=("oltp_read_only", "oltp_point_select"), threads=(4,), control=False)
    third = study.arms[1].model_copy(update={"name": "C", "label": "third"})
    study = study.model_copy(update={"arms": (*study.arms, third)})
    return make_run(folder, study, truth=Truth(effect={"B": -0.3, "C": -0.5})), [CELL, "oltp_point_select/4"]


def test_arms_that_were_asked_for_come_before_claims_that_were_not_profiled(tmp_path):
    run, cells = of_three_arms(tmp_path)
    add_profiles(run, cells=cells, arms=("B", "C"))
    run.write_json("explain/asked.json", [["B", "C"]])
    view = build_view(run, plain_analysis(run, run.study()))
    assert {"profile-1-parts", "profile-2-parts"} <= view.tables.keys() and "profile-3-parts" not in view.tables


def test_profiles_are_ordered_by_the_latest_request_and_four_are_shown(tmp_path):
    run, cells = of_three_arms(tmp_path)
    for arms in (("A", "B"), ("A", "C"), ("B", "C")):
        add_profiles(run, cells=cells, arms=arms)
    run.write_json("explain/asked.json", [["A", "B"], ["B", "C"]])
    context = Context(run, plain_analysis(run, run.study()))
    arms = [(pair.baseline, pair.contender) for pair in context.once(Explained).profiles]
    assert arms == [("B", "C")] * 2 + [("A", "B")] * 2 + [("A", "C")] * 2
    shown = profile_section(context)
    assert sum(isinstance(part, Section) for part in shown.parts) == 4


def test_a_page_without_profiles_has_no_script_and_allows_none(page):
    assert "<script" not in page and "script-src" not in page


def test_the_policy_allows_the_one_script_of_the_page(html):
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html and html.count("<script") == 1


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_script_formats_times_as_the_report_does():
    times = [0.4, 37.0, 999.6, 1234.5, 20_000.0, 999_700.0, 2.5e6, 999.6e6, 2.5e9, 47e9, 1234.4e9]
    page = "const document = {querySelectorAll: () => []};\n"
    code = f"{page}{flame_script()}\nconsole.log(JSON.stringify({times}.map(time)))"
    ran = subprocess.run(["node", "--eval", code], check=True, capture_output=True, text=True)
    assert json.loads(ran.stdout) == [format_ns(ns) for ns in times]


def test_nothing_adds_to_the_width_of_a_frame():
    """Padding or a border would make a box wider than its time."""
    (rule,) = re.findall(r"^\.frames i \{.*?\}", (TEMPLATES / "flame.css").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert "padding: 0;" in rule and "border" not in rule and "width: calc(var(--w) * var(--z) * 1%)" in rule


def test_function_names_are_escaped_in_html(tmp_path):
    evil = Function("</i><script>alert(1)</script>\"' onload=x", "<b>lib</b>")
    run = explained_run(tmp_path, stacks={(*BASE, evil): 9000, (*BASE, Function("f", SERVER)): 10})
    text = render_html(build_view(run, plain_analysis(run, run.study())))
    assert text.count("<script") == 1 and "<b>lib" not in text and '" onload' not in text


def test_a_damaged_profile_is_an_error_that_names_the_file(tmp_path):
    run = explained_run(tmp_path, epochs=1)
    (file,) = run.path.glob(f"explain/profile/000/servers/A/{PROFILE_FILE}")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(ResultsError, match=r"explain/profile/000/servers/A/profile\.json\.gz is damaged"):
        build_view(run, plain_analysis(run, run.study()))


def test_the_reason_for_a_missing_profile_is_shown(tmp_path):
    run = make_run(tmp_path, duel_study(workloads=("oltp_read_only",), threads=(4,)), epochs=5)
    run.write_json("explain/notes.json", {"profile": ["perf is not installed."]})
    view = build_view(run, plain_analysis(run, run.study()))
    assert "perf is not installed." in render_markdown(view) and "<script" not in render_html(view)


def test_a_build_without_symbols_gets_a_hint_at_the_full_build(tmp_path):
    run = explained_run(tmp_path)
    run.write_json("epochs/000/servers/A/notes.json", {"binaries": ["vendor mysql-8.4.8-minimal.tar.xz: SHA-256"]})
    text = render_markdown(build_view(run, plain_analysis(run, run.study())))
    assert text.count("is a minimal build without debug symbols") == 1
    assert " --full` gets a build with all names" in text


@pytest.fixture
def opened(browser, html, tmp_path, request):
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    (tmp_path / "report.html").write_text(html, "utf-8")
    page.goto((tmp_path / "report.html").as_uri(), wait_until="load")
    yield page
    assert said == []
    context.close()


DESKTOP, DARK, PHONE = (1100, "light"), (1100, "dark"), (400, "light")


def frame(page, side, name):
    return page.locator(".frames").nth(side).locator("i").filter(has_text=re.compile(f"^{re.escape(name)}$"))


@pytest.mark.browser
@pytest.mark.parametrize("opened", [DESKTOP], indirect=True)
def test_widths_are_times_on_one_scale(opened):
    roots = [frame(opened, side, "handle_connection").bounding_box()["width"] for side in (0, 1)]
    reads = [frame(opened, side, "row_search_mvcc").bounding_box()["width"] for side in (0, 1)]
    assert roots[1] == pytest.approx(opened.locator(".frames").nth(1).bounding_box()["width"], rel=0.01)
    assert roots[0] / roots[1] == pytest.approx(7400 / 7850, rel=0.02)
    assert reads[1] - reads[0] == pytest.approx(roots[1] - roots[0], abs=0.03 * roots[1])
    assert "p3" in frame(opened, 0, "row_search_mvcc").get_attribute("class")
    assert frame(opened, 0, "MYSQLparse").get_attribute("class") in ("e", "p1", "m1")


@pytest.mark.browser
@pytest.mark.parametrize("opened", [DESKTOP, PHONE], indirect=True)
def test_a_click_zooms_both_sides_and_the_button_shows_all(opened):
    before = [frame(opened, side, "row_search_mvcc").bounding_box()["width"] for side in (0, 1)]
    frame(opened, 0, "row_search_mvcc").click()
    after = [frame(opened, side, "row_search_mvcc").bounding_box()["width"] for side in (0, 1)]
    whole = opened.locator(".frames").first.bounding_box()["width"]
    assert after[1] == pytest.approx(whole, rel=0.01) and after[0] / after[1] == pytest.approx(
        before[0] / before[1], rel=0.02
    )
    assert frame(opened, 0, "btr_cur_search_to_nth_level").is_visible()
    assert "mysql:5.7" in opened.locator(".flame-says").inner_text()
    opened.get_by_role("button", name="Whole graph").click()
    assert frame(opened, 0, "row_search_mvcc").bounding_box()["width"] == pytest.approx(before[0], rel=0.01)


@pytest.mark.browser
@pytest.mark.parametrize("opened", [DESKTOP], indirect=True)
def test_search_marks_functions_and_adds_up_their_time(opened):
    opened.get_by_role("searchbox").fill("ROW_")
    assert opened.locator(".frames i.hit").count() == 4
    said = opened.locator(".flame-says").inner_text()
    times = [float(value) for value in re.findall(r"([\d.]+) µs", said)]
    assert times == [pytest.approx(3500 * 0.05, rel=0.03), pytest.approx(3950 * 0.05, rel=0.03)]
    opened.get_by_role("searchbox").fill("")
    assert opened.locator(".frames i.hit").count() == 0


@pytest.mark.browser
@pytest.mark.parametrize("opened", [DESKTOP], indirect=True)
def test_the_keyboard_does_all_that_a_mouse_does(opened):
    opened.locator(".frames").nth(1).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown"):
        opened.keyboard.press(key)
    assert opened.locator(".flame-says").inner_text().startswith("row_search_mvcc: ")
    opened.keyboard.press("Enter")
    assert frame(opened, 1, "row_search_mvcc").bounding_box()["width"] > 900
    opened.keyboard.press("Escape")
    opened.keyboard.press("ArrowUp")
    assert opened.locator(".flame-says").inner_text().startswith("JOIN::exec: ")
    opened.keyboard.press("ArrowRight")
    assert opened.locator(".frames .at").count() == 1


@pytest.mark.browser
@pytest.mark.parametrize("opened", [DESKTOP, DARK, PHONE], indirect=True)
def test_the_graph_is_accessible_and_fits(opened):
    assert opened.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    found = Axe().run(opened)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.browser
def test_the_graph_is_shown_without_javascript(browser, html, tmp_path):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    (tmp_path / "report.html").write_text(html, "utf-8")
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator(".frames i", has_text="row_search_mvcc").count() == 2
    assert not page.locator(".flame-tools").is_visible()
    context.close()
