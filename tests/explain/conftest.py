"""The run, its report and the browser that report tests share; what tests of perf need."""

import pytest
from report_fixtures import analysis, browser, page, run, view  # noqa: F401

from bakeoff.explain.perf import permission


@pytest.fixture
def needs_perf():
    if reason := permission().reason:
        pytest.skip(reason)
