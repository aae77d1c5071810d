from pathlib import Path

import pytest
from plain_analysis import plain_analysis
from synthetic import duel_study, make_run

from bakeoff.report import build_view, render_html


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Two workloads, three thread counts, a control, one discarded epoch."""
    return make_run(tmp_path_factory.mktemp("runs"), duel_study(), discarded={5: "arm B: server crashed (signal 11)"})


@pytest.fixture(scope="session")
def analysis(run):
    return plain_analysis(run, run.study())


@pytest.fixture(scope="session")
def view(run, analysis):
    with pytest.MonkeyPatch.context() as patch:  # as if the run were in the default folder
        patch.setenv("BAKEOFF_RUNS", str(run.path.parent))
        return build_view(run, analysis)


@pytest.fixture(scope="session")
def page(view):
    return render_html(view)


CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        yield browser
        browser.close()
