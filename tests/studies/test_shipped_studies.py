"""Every study that ships, with the arms and data of scale demo, on real servers, and its report in headless Chromium.

It measures a minute instead of a verdict's time: `make test-studies`.
"""

from pathlib import Path

import pytest

from bakeoff.results import open_run
from bakeoff.spec.study_file import read_study, shipped_studies
from bakeoff.stats.effects import published_ratios
from bakeoff.stats.interval import N_MIN_SHOWN
from bakeoff.stats.model import Analysis

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", sorted(shipped_studies()))
def test_a_study_runs_at_demo_scale_and_its_report_opens(shell, name):
    ran = shell.run(
        "run", name, "--scale", "demo", "--budget", "60s", "--no-verdict", "--no-explain", "--quiet", limit_s=400
    )
    assert ran.code == 0, ran
    (path,) = shell.runs
    run = open_run(path)
    study = run.study()
    analysis = run.read("analysis.json", Analysis)
    assert {factor.name for factor in study.design.factors} == set(read_study(shipped_studies()[name]).levels)
    cells = len({comparison.cell for comparison in analysis.comparisons})
    assert len(analysis.comparisons) == cells * (len(study.arms) - 1)
    assert analysis.epochs_used >= 1
    assert not analysis.undeclared, analysis.undeclared
    for summary in analysis.arms:
        assert summary.tps > 0, summary
    if study.design.published:
        ratios = published_ratios(analysis, study.design, study.precision)
        assert ratios
        for ratio in ratios:
            # A single epoch has no interval, and its ratio no judgement on the screen.
            assert ratio.agreement in " ".join(ran.out.split()) or ratio.measured.n < N_MIN_SHOWN, ratio
    said, asked, headings = opened(path / "report.html")
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [(path / "report.html").resolve().as_uri()]
    assert study.design.question in headings


def opened(page_file):
    """Return the errors of a page in a browser, the URLs that it requested, and its headings."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}: apt-get install chromium")
    said, asked = [], []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda wanted: asked.append(wanted.url))
        page.goto(page_file.resolve().as_uri(), wait_until="networkidle")
        headings = page.locator("h1, h2, h3").all_inner_texts()
        browser.close()
    return said, asked, headings
