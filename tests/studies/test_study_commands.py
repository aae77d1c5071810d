"""`bakeoff run` and `bakeoff plan`, as a shell sees them."""

import json

import pytest

from bakeoff.results import open_run
from bakeoff.stats.model import Analysis

STUDY = """\
title: small charsets
question: What does utf8mb4 cost?
servers: ["mysql:5.7.22", "mysql:8.0.15"]
factors:
  collation: [latin1_swedish_ci, utf8mb4_general_ci, utf8mb4_0900_ai_ci]
where:
  - not: {server: "mysql:5.7.22", collation: utf8mb4_0900_ai_ci}
workloads: [oltp_point_select]
threads: [1]
tables: 1
table_size: 2k
builds: 1
warm_up: 1s
budget: 60s
scales:
  demo: {keep: {collation: [latin1_swedish_ci, utf8mb4_general_ci]}, precision: 20%}
"""


def write(shell, text=STUDY):
    (shell.folder / "my.yaml").write_text(text)
    return "my.yaml"


@pytest.mark.parametrize(
    ("old", "new", "code", "place", "named", "remedy"),
    [
        ('"mysql:5.7.22", "', '"mysql:4.1", "mysql:5.7.22", "', 2, "my.yaml:3", "4.1", "mysql:5.5.9"),
        ("oltp_point_select", "oltp_piont_select", 2, "my.yaml:8", "oltp_piont_select", "list workloads"),
        ("table_size: 2k", "table_size: 9000m", 3, "my.yaml:11", "disk", "fewer rows"),
        (
            "builds: 1",
            "settings: {script.range_sise: 10}",
            2,
            "my.yaml:12: settings.script.range_sise",
            "no option range_sise",
            "Did you mean range_size?",
        ),
        ("builds: 1", "settings:\n  script.skip-trx: maybe", 2, "my.yaml:13", "'maybe'", "Write on or off."),
        ("builds: 1", "settings: {script.frobnicate: 1}", 2, "my.yaml:12", "frobnicate", "Leave the setting"),
        (
            "[oltp_point_select]",
            "\n  - script: oltp_point_select\n    options:\n      range_sise: 10",
            2,
            "my.yaml:11",
            "no option range_sise",
            "Did you mean range_size?",
        ),
        ("builds: 1", "settings: {buffer_pool: 9999G}", 3, "my.yaml:12", "memory", "smaller buffer pools"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(shell, inside, old, new, code, place, named, remedy):
    assert old in STUDY
    ran = inside("run", write(shell, STUDY.replace(old, new, 1)))
    assert ran.code == code, ran
    assert f"{place}: " in ran.complaint
    assert named in ran.complaint
    assert remedy in ran.complaint
    assert shell.runs == []


def test_a_level_that_a_version_lacks_is_reported_with_its_line(shell, inside):
    ran = inside(
        "plan",
        write(shell, STUDY.replace('where:\n  - not: {server: "mysql:5.7.22", collation: utf8mb4_0900_ai_ci}\n', "")),
    )
    assert ran.code == 2
    assert "my.yaml:5: factors.collation.2: " in ran.complaint
    assert "utf8mb4_0900_ai_ci" in ran.complaint
    assert "where" in ran.complaint


def test_unknown_studies_and_scales_get_suggestions(shell, inside):
    ran = inside("run", "charset-colation")
    assert (ran.code, "charset-collation" in ran.complaint) == (2, True)
    ran = inside("plan", "charset-collation", "--scale", "huge")
    assert ran.code == 2
    assert "demo, small, paper" in ran.complaint


def test_plan_shows_arms_cells_loads_memory_and_disk(shell, inside):
    ran = inside("plan", write(shell), "--format", "json")
    assert ran.code == 0, ran
    planned = json.loads(ran.out)
    assert [arm["label"] for arm in planned["arms"]][:2] == [
        "mysql:5.7.22 · latin1_swedish_ci", "mysql:5.7.22 · utf8mb4_general_ci",
    ]  # fmt: skip
    assert (len(planned["arms"]), planned["cells"], planned["loads"]) == (5, ["oltp_point_select/1"], 5)
    assert planned["disk_bytes"] > 5 * planned["load_bytes"] > 0
    assert planned["memory_bytes"] >= 5 * planned["buffer_pool_bytes"]
    text = inside("plan", write(shell), "--scale", "demo")
    assert "share their loads" not in text.out and "in the client alone" not in text.out, "all differ"
    assert "4 servers, all at once" in text.out
    assert shell.runs == []


def test_dry_runs_note_shared_loads_and_client_only_differences(shell, inside):
    same_data = inside("duel", "mysql:8.0.15", "mysql:8.0.15,innodb_flush_method=fsync", "--dry-run").out
    assert "Arms with the same letter share their loads." in same_data and "in the client alone" not in same_data
    twins = inside("duel", "mysql:8.0.15", "mysql:8.0.15", "--dry-run").out
    assert "Arms with the same number differ in the client alone." in " ".join(twins.split())


def test_shipped_studies_are_listed(shell, inside):
    ran = inside("list", "studies", "--format", "json")
    names = {row["name"]: row["scales"] for row in json.loads(ran.out)}
    assert names["charset-collation"] == "demo small paper"


@pytest.mark.server
def test_a_study_is_run_to_its_report(shell):
    ran = shell.run(
        "run", write(shell), "--scale", "demo", "--seed", "5", "--budget", "8s", "--no-verdict", limit_s=280
    )
    assert ran.code == 0, ran
    (path,) = shell.runs
    run = open_run(path)
    study = run.study()
    assert (study.seed, study.budget_s, study.design.scale) == (5, 8.0, "demo")
    assert len(study.arms) == 4
    analysis = run.read("analysis.json", Analysis)
    assert analysis.contenders == ("B", "C", "D")
    variables = run.variables(0)
    assert variables["A"]["version"].startswith("5.7.22")
    assert variables["D"]["character_set_server"] == "utf8mb4"
    assert study.design.question in (path / "report.html").read_text()
    builds = run.builds()
    assert len(builds) == 4
    for build in builds.values():
        assert build["rows"] == 2000
        assert build["data_bytes"]["sbtest"] > build["index_bytes"]["sbtest"] > 0
        assert build["rows_bytes"]["sbtest"] > build["index_bytes"]["sbtest"]
