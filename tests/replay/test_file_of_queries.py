"""A file of queries with writes, each once: a planted slow query is found, and every other one has a verdict."""

import json

import pytest

READS = (
    "SELECT v FROM t WHERE id = {n}",
    "SELECT COUNT(*) FROM t WHERE k = {n}",
    "SELECT k, COUNT(*) FROM t WHERE id > {n} GROUP BY k",
    "SELECT v FROM t WHERE k = {n} ORDER BY v LIMIT 3",
    "SELECT MAX(id) FROM t WHERE k < {n}",
)
WRITES = ("UPDATE t SET v = 'x' WHERE id = {n}", "INSERT INTO t (k, v) VALUES ({n}, 'new')", "SELECT LAST_INSERT_ID()")
# Without derived_merge the whole table is copied first.
PLANTED = "SELECT d.v FROM (SELECT * FROM t) d WHERE d.id = 7"


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(400)
def test_the_planted_query_is_slower_and_no_other_is_left_untested(shell):
    rows = ",".join(f"({row},{row % 50},'v{row}')" for row in range(1, 5001))
    (shell.folder / "mine.sql").write_text(
        "-- MySQL dump 10.13  Distrib 8.0.15\nCREATE DATABASE `mine`;\nUSE `mine`;\n"
        "CREATE TABLE `t` (`id` int NOT NULL PRIMARY KEY AUTO_INCREMENT, `k` int, `v` varchar(20), KEY `k` (`k`));\n"
        f"INSERT INTO `t` VALUES {rows};\n"
    )
    # Each text is a query of its own by its column list.
    lines = ["USE mine", PLANTED]
    for at in range(12):
        extra = ", ".join(["1", *["NULL"] * at])
        lines += [each.format(n=at).replace("SELECT ", f"SELECT {extra}, ", 1) for each in READS]
    lines += [each.format(n=9) for each in WRITES]
    (shell.folder / "queries.sql").write_text("".join(f"{line};\n" for line in lines))
    ran = shell.run(
        "replay", "queries.sql", "mysql:8.0.15", "mysql:8.0.15,optimizer_switch=derived_merge=off", "--data",
        "mine.sql", "--budget", "100s", "--seed", "3", "--no-explain",
        "--format", "json",
    )  # fmt: skip
    assert ran.code == 0, ran
    queries = json.loads(ran.out)["queries"]
    assert len(queries) > 60
    first = queries[0]
    assert first["query"].startswith("SELECT d.v") and first["verdict"] == "SLOWER" and first["ratio"] < 0.5, first
    assert {each["verdict"] for each in queries} <= {"SLOWER", "unclear", "FASTER"}
    assert {each["baseline_calls"] for each in queries} == {queries[0]["epochs"]}, "one value per restart"
