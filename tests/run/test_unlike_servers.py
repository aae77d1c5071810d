"""What a duel of unlike servers is made of: cells, control, reads before writes, placement for all arms or none."""

import json

import pytest

from bakeoff.results import open_run
from bakeoff.stats.model import Analysis, Stop

pytestmark = pytest.mark.server


def duel(shell, *arguments):
    """Run a short duel on few rows; returns its run directory."""
    small = ("--tables", "1", "--table-size", "2000", "--builds", "1", "--warm-up", "1s", "--no-verdict", "--quiet")
    ran = shell.run("duel", *arguments, *small, limit_s=400)
    assert ran.code == 0, ran
    return open_run(shell.runs[-1])


def test_a_duel_of_two_versions_runs_reads_before_writes_with_a_control(shell):
    run = duel(
        shell, "mysql:5.7.22", "mysql:8.0.15", "--workload", "oltp_point_select,oltp_read_write", "--threads", "1,4",
        "--control", "--budget", "15s",
    )  # fmt: skip
    analysis = run.read("analysis.json", Analysis)
    assert {comparison.cell for comparison in analysis.comparisons} == {
        "oltp_point_select/1", "oltp_point_select/4", "oltp_read_write/1", "oltp_read_write/4",
    }  # fmt: skip
    assert analysis.control == "A'"
    assert analysis.stopped in (Stop.BUDGET, Stop.PRECISE, Stop.DECISIVE)
    assert all(comparison.stop is not Stop.RUNNING for comparison in analysis.comparisons)
    orders = [run.outcome(epoch).cell_order for epoch in run.finished_epochs()]
    complete = [order for order in orders if len(order) == 4]
    assert complete
    for order in complete:  # reads before writes, so that no read runs beside the flushing of earlier writes
        assert max(order.index(f"oltp_point_select/{n}") for n in (1, 4)) < min(
            order.index(f"oltp_read_write/{n}") for n in (1, 4)
        )
    assert json.loads((run.path / "plan.json").read_text())["cells"]


def test_all_arms_run_free_if_one_cannot_be_paired_and_the_report_says_why(shell):
    pool = "mariadb:10.11,thread_handling=pool-of-threads"
    run = duel(shell, "mysql:8.0.15", pool, "--budget", "6s", "--threads", "1", "--placement", "paired")
    plan = run.read_json("plan.json")
    assert {cell["placement"] for cell in plan["cells"]} == {"free"}
    assert "thread_handling=pool-of-threads" in plan["unpaired"]
    assert "thread_handling=pool-of-threads" in (run.path / "report.html").read_text(encoding="utf-8")


DURABILITY = """
require("oltp_common")
function prepare_statements() prepare_point_selects() end
function event()
  con:query("/*!80000 SET GLOBAL innodb_flush_log_at_trx_commit=0 */")
  execute_point_selects()
end
"""


def test_settings_that_a_script_sets_on_one_arm_alone_are_flagged(shell, tmp_path):
    (tmp_path / "durability.lua").write_text(DURABILITY)
    script = ("--workload", str(tmp_path / "durability.lua"), "--threads", "1", "--no-explain")
    run = duel(shell, "mysql:5.7.22", "mysql:8.0.15", *script, "--budget", "15s")
    (comparison,) = run.read("analysis.json", Analysis).comparisons
    said = [str(flag) for flag in comparison.flags if "while it was measured" in flag.text]
    assert said == [
        "SETTINGS: on arm B, while it was measured, innodb_flush_log_at_trx_commit went from 1 to 0: "
        "the workload, or another client, set it."
    ]
    epoch = run.load_epoch(run.finished_epochs()[0])
    assert epoch.changes == {"B": {"durability/1": {"innodb_flush_log_at_trx_commit": ("1", "0")}}}
    assert "while it was measured" in (run.path / "report.html").read_text(encoding="utf-8")
