"""The run, its report and the browser that report tests share."""

from report_fixtures import analysis, browser, page, run, view  # noqa: F401
