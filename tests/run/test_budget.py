"""`--budget` on real servers: from loading to verdict it takes what was asked, or less when the rule says so."""

import pytest

from bakeoff.results import open_run
from bakeoff.stats.model import Analysis, Stop

pytestmark = pytest.mark.server

SMALL = (
    "--tables",
    "1",
    "--table-size",
    "5000",
    "--threads",
    "2",
    "--workload",
    "oltp_point_select",
    "--builds",
    "1",
    "--quiet",
    "--no-verdict",
    "--no-explain",  # has a separate budget
)
REPORT_S = 3.0  # analysis and page on a machine that tests share, beyond what the run sets aside for them


def used_s(shell, *arguments):
    """Wall seconds from the first load to the report, the analysis, the run."""
    ran = shell.run("duel", *arguments, *SMALL, limit_s=600)
    assert ran.code == 0, ran
    (path,) = shell.runs
    run = open_run(path)
    used = (path / "report.html").stat().st_mtime - run.manifest().created_at.timestamp()
    return used, run.read("analysis.json", Analysis), run


def test_a_run_that_stops_early_stays_within_its_budget(slowed_duel):
    path = slowed_duel.run.path
    used = (path / "report.html").stat().st_mtime - slowed_duel.run.manifest().created_at.timestamp()
    assert used <= 1.05 * slowed_duel.budget_s + REPORT_S


@pytest.mark.slow
def test_a_run_uses_its_budget_and_stays_within_it(shell):
    # 0.05 % is out of reach in this time.
    used, analysis, run = used_s(shell, "mysql:8.0.15", "mysql:8.0.15", "--budget", "28s", "--precision", "0.05%")
    assert analysis.stopped is Stop.BUDGET
    assert used <= 1.05 * 28 + REPORT_S
    longest_s = max(run.outcome(epoch).wall_s for epoch in run.finished_epochs())
    assert used + 2 * longest_s >= 28, "another epoch would have fitted"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("servers", "budget_s"),
    [
        (("mysql:8.0.15", "mysql:5.7.22"), 90),
        (("mysql:8.0.15", "mysql:5.7.22"), 240),
        (("mysql:8.0.15",) * 6, 240),  # six servers to start in every epoch
        (("mysql:5.5.34", "mariadb:10.11"), 120),  # slow to load, slow to stop
    ],
)
def test_a_longer_budget_is_used_but_not_exceeded(shell, servers, budget_s):
    used, analysis, run = used_s(
        shell, *servers, "--budget", f"{budget_s}s", "--precision", "0.05%", "--workload", "oltp_read_write"
    )
    assert used <= 1.05 * budget_s + REPORT_S
    if analysis.stopped is Stop.BUDGET:
        assert used >= 0.6 * budget_s
    lengths = [run.outcome(epoch).wall_s for epoch in run.finished_epochs()]
    assert max(lengths) <= 0.7 * budget_s
