"""Every kind of part in every format, and sections that have nothing to show."""

import io
import json
from operator import itemgetter
from types import SimpleNamespace

import pytest
from rich.console import Console
from synthetic import duel_study

from bakeoff.report import render_html, render_json, render_markdown, render_terminal
from bakeoff.report.setups import _data_text, _sizes
from bakeoff.report.view import Charts, Code, Column, Fold, Panel, Prose, Row, Section, Series, Table, Value
from bakeoff.spec import Workload
from bakeoff.spec.server_name import parse_server

TABLE = Table(
    id="extra",
    group_title="cell",
    columns=("arm", "value"),
    rows=(Row.of("A", Value(text="1", sub="2×"), group="c"),),
    note="what it is",
)
FACTS = Table(id="facts", columns=("", ""), rows=(Row.of("processor", "fast"),))
LONG = TABLE.model_copy(update={"id": "long", "page_only": True})
CHART = Panel(
    id="chart",
    title="a chart",
    x_title="x",
    y_title="y",
    series=(Series(name="l", key="ink", x=(1.0, 2.0), y=(1.0, 2.0)),),
)


@pytest.fixture(scope="module")
def shown(view):
    """A report whose only section holds everything, with an inner one for the terminal."""
    section = Section.of(
        "Everything",
        Prose(text="See `docs/<x>.md`."),
        FACTS,
        LONG,
        Charts(panels=(CHART,), intro="before", note="after"),
        Code(text="bakeoff run <x>"),
        Fold(title="a file", content=Code(text="[mysqld]")),
        Section.of("Inside", TABLE, in_terminal=True),
        Section.of("Nothing", Table(id="none", columns=("a",), rows=()), Charts(panels=())),
        anchor="everything",
        nav="All",
    )
    return view.model_copy(update={"sections": (section,)})


def test_a_section_without_content_is_left_out():
    assert Section.of("Nothing", None, Table(id="none", columns=("a",), rows=())) is None


def test_the_page_shows_every_part_and_links_to_the_section(shown):
    page = render_html(shown)
    for text in (
        '<a href="#everything">All</a>', '<h2 id="everything">Everything</h2>', "<h3>Inside</h3>", 'id="table-extra"',
        "See <code>docs/&lt;x&gt;.md</code>.", 'id="table-long"', '<figure id="chart">',
        "<p>before</p>",
        '<p class="small">after</p>', '<pre class="command">bakeoff run &lt;x&gt;</pre>', "<summary>a file</summary>",
        "<small>2×</small>",
    ):  # fmt: skip
        assert text in page
    assert "Nothing" not in page


def test_markdown_leaves_out_charts_and_page_only_parts(shown):
    text = render_markdown(shown)
    assert "## Everything\n\nSee `docs/<x>.md`.\n\n- processor: fast\n" in text
    assert "### Inside\n\n| cell | arm | value |\n| --- | --- | ---: |\n| c | A | 1 (2×) |\n\nwhat it is" in text
    assert "```sh\nbakeoff run <x>\n```" in text
    for absent in ("a chart", "before", "a file", "Nothing"):
        assert absent not in text
    assert text.count("1 (2×)") == 1


def test_a_terminal_shows_the_sections_meant_for_it(shown):
    out = io.StringIO()
    render_terminal(shown, Console(file=out, width=100))
    assert "Inside" in out.getvalue() and "1 (2×)" in out.getvalue() and "Everything" not in out.getvalue()


def test_json_has_every_table_by_its_id(shown):
    tables = json.loads(render_json(shown))["tables"]
    assert list(tables) == ["comparisons", "facts", "long", "extra"]
    assert tables["extra"]["rows"][0]["values"] == [{"text": "A", "sub": ""}, {"text": "1", "sub": "2×"}]


def test_a_column_that_is_empty_in_every_row_is_left_out():
    table = Table.of(
        "t",
        [("a", None, 0), ("b", None, 2)],
        Column("name", itemgetter(0)),
        Column("nothing", itemgetter(1)),
        Column("size", itemgetter(2), "{:.1f}".format, wide=True),
        group=lambda _: "g",
        group_title="group",
    )
    assert table.columns == ("name", "size") and table.wide == ("size",) and table.group_title == "group"
    assert table.rows == (Row.of("a", "0.0", group="g"), Row.of("b", "2.0", group="g"))


@pytest.mark.parametrize(
    ("workload", "source", "server", "said"),
    [
        ("oltp_read_only", "", "mysql:5.7.22", "4 tables of 100,000 rows, 2 builds an arm"),
        pytest.param("tpcc", "", "mysql:5.7.22", "10 warehouses, 2 builds an arm", marks=pytest.mark.needs("tpcc")),
        ("oltp_read_only", "/home/ann/shop.sql.gz", "mysql:5.7.22", "shop.sql.gz, 2 builds an arm"),
        ("shop", "/home/ann/shop.sql.gz", "mysql:5.7.22", "shop.sql.gz, 2 builds an arm"),
        ("shop", "", "mysql:5.7.22", "none loaded"),
        ("shop", "", "mysql://root@db1/shop", "what the running servers have"),
    ],
)
def test_the_environment_describes_only_data_that_was_loaded(workload, source, server, said):
    study = duel_study(workloads=(workload,), control=False)
    arms = [
        arm.model_copy(update={"data": arm.data.model_copy(update={"source": source}), "server": parse_server(server)})
        for arm in study.arms
    ]
    context = SimpleNamespace(
        study=study.model_copy(update={"arms": tuple(arms)}),
        cells_planned=[SimpleNamespace(workload_index=0, fixed_work=workload == "shop")],
    )
    assert _data_text(context, 2) == said


def test_row_counts_match_what_the_engine_loads():
    own = Workload(script="oltp_read_only", options=(("table_size", "1M"), ("tables", 2)))
    asked = duel_study(workloads=("oltp_read_only",), threads=(4,)).model_copy(update={"workloads": (own,)})
    assert _sizes(asked, own) == "2 tables of 1,048,576 rows"


@pytest.mark.needs("tpcc")
def test_the_size_of_tpcc_is_given_in_warehouses():
    tpcc = Workload(script="tpcc", options=(("scale", 3),))
    asked = duel_study(workloads=("oltp_read_only",), threads=(4,)).model_copy(update={"workloads": (tpcc,)})
    assert _sizes(asked, tpcc) == "3 warehouses"
