"""Plans of a statement: compared between arms, and read from the documents of the hypergraph optimizer."""

from contextlib import closing
from types import SimpleNamespace

import pytest

from bakeoff import servers
from bakeoff.replay.answers import _plans
from bakeoff.replay.plans import Step, key_parts_of, same_plan, steps_of, steps_of_tree
from bakeoff.replay.sessions import Sessions
from bakeoff.spec import parse_server


def explains(*access, table="sbtest1"):
    """Make a server's sessions; without an access it explains nothing."""
    steps = tuple(Step("", table, each, "", None, ()) for each in access)
    return SimpleNamespace(explain=lambda _event, _sql: steps)


def test_plans_are_compared_with_the_first_arm_that_has_one():
    """The first arm may explain nothing, as MySQL 5.5 does for writes."""
    sessions = {"A": explains(), "B": explains("range"), "C": explains("all rows"), "D": explains("range")}
    found = _plans("UPDATE sbtest1 SET k = ?", [{"sql": "UPDATE sbtest1 SET k = 1"}], sessions)
    assert found["differs"] == ["C"]
    assert found["plans"] == {
        "A": [], "B": ["sbtest1: range"], "C": ["sbtest1: all rows"], "D": ["sbtest1: range"],
    }  # fmt: skip


def test_unexplained_statements_are_kept_and_those_without_tables_dropped():
    """MySQL 5.5, for example, cannot explain an INSERT."""
    sample = {"sql": "INSERT INTO sbtest1 VALUES (1)"}
    found = _plans("INSERT INTO sbtest1 VALUES (?)", [sample], {"A": explains(), "B": explains()})
    assert found["plans"] == {"A": [], "B": []} and not found["differs"]
    without = explains("none", table="")
    assert _plans("DO 1", [sample], {"A": without, "B": without}) is None
    assert _plans("DO 1", [], {"A": explains(), "B": explains()}) is None


def scan(**words):
    """Make a range scan of the primary key, as a document has it."""
    kind = {"access_type": "index", "index_access_type": "index_range_scan", "operation": "Index range scan"}
    return kind | {"table_name": "sbtest1", "index_name": "PRIMARY", "key_columns": ["id"]} | words


def test_tree_plans_are_read_like_tabular_ones():
    """Operations as MySQL 9.7.4 nests them with and without its hypergraph optimizer."""
    distinct = Step("", "sbtest1", "range", "PRIMARY", 1, ("filesort", "temporary"))
    temporary = {
        "access_type": "materialize",
        "temp_table": True,
        "inputs": [{"access_type": "filter", "inputs": [scan()]}],
    }
    table = {"access_type": "table", "table_name": "<temporary>", "inputs": [temporary]}
    old = steps_of_tree({"query_plan": {"access_type": "sort", "inputs": [table]}})
    new = steps_of_tree({"query_plan": {"access_type": "sort", "duplicate_removal": True, "inputs": [scan()]}})
    assert [str(step) for step in old] == ["sbtest1: range PRIMARY, 1 part; filesort; temporary"]
    assert [str(step) for step in new] == ["sbtest1: range PRIMARY, 1 part; filesort"]
    assert same_plan([distinct], old) and not same_plan([distinct], new)


def test_joins_of_a_nested_plan_keep_their_order_and_aliases():
    outer = scan(
        operation="Single-row index lookup", index_access_type="index_lookup", lookup_references=["const"], alias="b"
    )
    inner = scan(
        operation="Index lookup", index_access_type="index_lookup", lookup_references=["b.id"], index_name="k_1"
    )
    found = steps_of_tree({"query_plan": {"access_type": "join", "inputs": [outer, inner]}})
    assert [str(step) for step in found] == ["b: const PRIMARY, 1 part", "sbtest1: ref k_1, 1 part"]
    assert key_parts_of({"inputs": [outer, inner]}) == {("b", "PRIMARY"): 1, ("sbtest1", "k_1"): 1}
    hashed = steps_of_tree(
        {
            "query_plan": {
                "access_type": "join",
                "join_algorithm": "hash",
                "inputs": [scan(), {"access_type": "table", "table_name": "t"}],
            }
        }
    )
    assert [str(step) for step in hashed] == ["sbtest1: range PRIMARY, 1 part; hash join", "t: all rows"]


def test_the_select_type_of_an_update_does_not_change_its_plan():
    row = {"table": "sbtest1", "type": "range", "key": "PRIMARY"}
    assert same_plan(*(steps_of([row | {"select_type": kind}], {}) for kind in ("UPDATE", "SIMPLE")))


def test_a_document_that_holds_no_plan_has_no_steps():
    assert (
        steps_of_tree(None)
        == ()
        == steps_of_tree({"query_plan": {"operation": "<not executable by iterator executor>"}})
    )


@pytest.mark.server
@pytest.mark.slow
def test_both_optimizers_give_equal_plans_for_equal_work():
    event = {"session": {"optimizer_switch": "hypergraph_optimizer=on"}, "connection": 2}
    with servers.sandbox(parse_server("mysql:9.7.4")) as box:
        for sql in (
            "CREATE DATABASE IF NOT EXISTS shop",
            "CREATE TABLE shop.item (id INT PRIMARY KEY, shop INT, title CHAR(20), KEY (shop, title))",
            "INSERT INTO shop.item WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 999)"
            " SELECT i, i % 20, i FROM n",
            "ANALYZE TABLE shop.item",
        ):
            box.instance.query(sql)
        with closing(Sessions(box.instance, "shop", now_s=0)) as sessions:
            for sql, old, new in (
                (b"SELECT title FROM item WHERE shop = 3", "item: ref shop, 1 part; index only", None),
                (b"SELECT title FROM item WHERE id BETWEEN 5 AND 9", "item: range PRIMARY, 1 part", None),
                (b"SELECT title FROM item WHERE id = 5", "item: const PRIMARY", "item: const PRIMARY, 1 part"),
                (b"SELECT DISTINCT title FROM item WHERE id BETWEEN 5 AND 9 ORDER BY title",
                 "item: range PRIMARY, 1 part; filesort; temporary", "item: range PRIMARY, 1 part; filesort"),
            ):  # fmt: skip
                traditional, tree = sessions.explain({}, sql), sessions.explain(event, sql)
                assert [str(step) for step in traditional] == [old]
                assert [str(step) for step in tree] == [new or old]
                assert same_plan(traditional, tree) == ("DISTINCT" not in sql.decode())
