"""The doctor's forecast from a test run, compared with a real duel; a report for publishing."""

import json
import math

import pytest

from bakeoff.results import open_run
from bakeoff.stats.model import Analysis

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

EQUAL = ("mysql:8.0.15", "mysql:8.0.15", "--workload", "oltp_point_select", "--threads", "4", "--tables", "1")


def test_a_duel_reaches_about_what_the_doctor_forecast(shell):
    ran_doctor = shell.run("doctor", "--server", "mysql:8.0.15", "--seed", "1", "--format", "json", limit_s=200)
    assert ran_doctor.code == 0, ran_doctor
    forecast = json.loads(ran_doctor.out)["resolution"]
    ran = shell.run(
        "duel", *EQUAL, "--table-size", "10000", "--builds", "1", "--precision", "0.05%", "--budget", "5m", "--quiet",
        limit_s=500,
    )  # fmt: skip
    assert ran.code == 0, ran
    (path,) = shell.runs
    (comparison,) = open_run(path).read("analysis.json", Analysis).comparisons
    reached = comparison.estimate.interval.half_width
    # Forecast for these five minutes: spread over time falls with the square root, so any line of the table says it.
    line = forecast["forecast"][2]
    expected = line["half_width"] * math.sqrt(max(line["seconds"], 300) / 300)
    # Five or six epochs know a spread within a factor of 2.5 (95 %), and the machine changes between the two.
    assert expected / 4 < reached < 4 * expected


def test_a_published_report_includes_its_control(shell):
    ran = shell.run(
        "duel", *EQUAL, "--table-size", "10000", "--builds", "1", "--precision", "5%", "--budget", "3m", "--publish",
        limit_s=400,
    )  # fmt: skip
    (path,) = shell.runs
    analysis = open_run(path).read("analysis.json", Analysis)
    assert analysis.control == "A'"
    assert ran.code == (0 if analysis.trusted else 1), ran
    assert {each.name for each in (path / "publish").iterdir()} == {
        "report.html", "report.md", "results.csv", "results.json", "verdicts.svg", "time-0.svg",
    }  # fmt: skip
    assert "(control)" in (path / "publish" / "report.md").read_text()
