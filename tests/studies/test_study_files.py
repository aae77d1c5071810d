"""Study files: what they become, and every mistake as one line with file, line, reason and remedy."""

import math
import os
import time
from functools import partial
from pathlib import Path

import pytest
import study_files
from hypothesis import given
from hypothesis import strategies as st
from study_files import assert_refused, study_of

from bakeoff.cli.study_request import request_study
from bakeoff.errors import SpecError
from bakeoff.plan import plan_study
from bakeoff.plan.factorial import arm_names, make_study
from bakeoff.run.arms import load_key
from bakeoff.spec import Connection
from bakeoff.spec.fields import Sizes
from bakeoff.spec.study import Part
from bakeoff.spec.study_file import find_study, read_study, shipped_studies
from bakeoff.units import parse_rows
from tools.docs_tables import study_schema

ROOT = Path(__file__).parents[2]

GOOD = """\
title: Charsets
question: What does utf8mb4 cost?
servers: ["mysql:5.7", "mysql:8.0"]
factors:
  collation: [latin1_swedish_ci, utf8mb4_general_ci, utf8mb4_0900_ai_ci]
  prepare_mode: [server, client]
where:
  - not: {server: "mysql:5.7", collation: utf8mb4_0900_ai_ci}
baseline: {server: "mysql:8.0"}
workloads: [oltp_read_only, {script: oltp_point_select, options: {range_size: 10}}]
threads: [1, 16]
tables: 2
table_size: 20k
precision: 2%
budget: 1h30m
scales:
  demo: {keep: {collation: [latin1_swedish_ci, utf8mb4_general_ci]}, budget: 4m, table_size: 5000}
"""


def made(tmp_path, text=GOOD, scale=""):
    return study_of(tmp_path, text, scale=scale)


def test_every_combination_that_where_leaves_is_an_arm(tmp_path):
    study = made(tmp_path)
    assert len(study.arms) == 2 * 3 * 2 - 2
    assert study.baseline.label == "mysql:8.0 · latin1_swedish_ci · server"
    assert len({arm.label for arm in study.arms}) == len(study.arms)
    assert not any("5.7" in arm.label and "0900" in arm.label for arm in study.arms)
    assert study.design.excluded == 2
    assert study.design.levels["A"] == ("mysql:8.0", "latin1_swedish_ci", "server")
    assert [factor.parts for factor in study.design.factors] == [(Part.SERVER,), (Part.DATA,), (Part.CLIENT,)]
    assert (study.budget_s, study.tables, study.table_size, study.threads) == (5400.0, 2, 20_000, (1, 16))
    assert study.precision == study.equivalence == pytest.approx(math.log(1.02))
    assert study.workloads[1].options == (("range_size", 10),)
    assert study.seed == 7


def test_a_scale_changes_sizes_and_keeps_the_question(tmp_path):
    study = made(tmp_path, scale="demo")
    assert len(study.arms) == 2 * 2 * 2
    assert (study.budget_s, study.table_size, study.design.scale) == (240.0, 5000, "demo")
    assert len(study.design.factors) == 3


def test_the_command_line_overrides_the_file_and_derived_values(tmp_path):
    (tmp_path / "my.yaml").write_text(GOOD)
    sizes = Sizes(budget_s="90s", precision="0.5%").given()
    asked = request_study(str(tmp_path / "my.yaml"), changes={**sizes, "seed": 4, "control": True}).study
    assert (asked.budget_s, asked.seed, asked.arms[-1].name) == (90.0, 4, "A'")
    assert asked.precision == asked.equivalence == pytest.approx(math.log(1.005))
    (tmp_path / "my.yaml").write_text(GOOD + "equivalence: 3%\n")
    asked = request_study(str(tmp_path / "my.yaml"), changes=Sizes(precision="0.5%").given()).study
    assert asked.equivalence == pytest.approx(math.log(1.03))


def test_settings_reach_the_part_that_they_belong_to(tmp_path):
    study = made(
        tmp_path,
        """\
title: All settings
servers: ["mysql:8.0,innodb_io_capacity=500"]
settings: {transport: tcp, charset: utf8mb4, connection_charset: latin1, page_size: 8k, row_format: compressed}
factors:
  key_block_size: [4, 8]
  option.innodb_flush_neighbors: [0, 1]
  rows: [1k, 2k]
  allocator:
    system: {preload: default}
    jemalloc: {preload: libjemalloc.so.2}
workloads: [oltp_point_select]
""",
    )
    arm = next(arm for arm in study.arms if arm.label == "8 · 1 · 2k · jemalloc")
    assert dict(arm.server.options) == {
        "innodb_io_capacity": "500", "innodb_page_size": "8k", "innodb_flush_neighbors": "1",
    }  # fmt: skip
    assert arm.server.env == (("LD_PRELOAD", "libjemalloc.so.2"),)
    assert study.baseline.server.env == ()
    assert arm.data.table_options == "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8"
    assert arm.data.options == (("table_size", 2000),)
    assert (arm.connection.transport, arm.connection.charset, arm.data.charset) == ("tcp", "latin1", "utf8mb4")


@pytest.mark.parametrize(
    ("server", "settings", "factors", "named"),
    [
        ("mysql:8.0,innodb_io_capacity=5000", "", "option.innodb_io_capacity: [200, 400]", "innodb_io_capacity"),
        ("mysql:8.0,skip-log-bin", "", "option.log_bin: [a, b]", "log_bin"),
        ("mysql:8.0,loose_back_log=80", "", "option.back_log: [90, 100]", "back_log"),
        ("mysql:8.0,env.LD_PRELOAD=a.so", "", "preload: [default, b.so]", "LD_PRELOAD"),
        ("mysql:8.0", "buffer_pool: 64M", "option.innodb_buffer_pool_size: [64M, 1G]", "innodb_buffer_pool_size"),
        ("mysql:8.0", "option.innodb-io-capacity: 1", "option.innodb_io_capacity: [1, 2]", "innodb_io_capacity"),
        ("mysql:8.0", "script.table-size: 1000", "rows: [1k, 2k]", "table_size"),
        ("mysql:8.0", "env.LD_PRELOAD: a.so", "preload: [default, b.so]", "LD_PRELOAD"),
        ("mysql:8.0", "page_size: 8k", "option.innodb_page_size: [4k, 8k]", "innodb_page_size"),
        ("mysql:8.0", "content: ascii", "script.content: [ascii, latin]", "content"),
        (
            "mysql:8.0",
            "server_charset: utf8mb4",
            "option.character_set_server: [latin1, ascii]",
            "character_set_server",
        ),
        (
            "mariadb:11.4",
            "page_compression: lz4",
            "option.innodb_compression_algorithm: [a, b]",
            "innodb_compression_al",
        ),
        ("mysql:8.0", "storage: {iops: 3000}", "storage.iops: [1000, 2000]", "storage.iops"),
        ("mysql:8.0", "table_options: row_format = dynamic", "row_format: [dynamic, compact]", "row_format"),
        ("mysql:8.0", "engine: innodb", "script.mysql_storage_engine: [innodb, myisam]", "mysql_storage_engine"),
    ],
)
def test_two_settings_of_the_same_thing_are_refused(tmp_path, server, settings, factors, named):
    title, _, workloads = TEXT.splitlines()
    fixed = f'settings: {{server: "{server}", {settings}}}'
    text = f"{title}\n{fixed}\nfactors: {{{factors}}}\n{workloads}\n"
    assert_refused(tmp_path, text, line=3, named=f"both set {named}", remedy="Keep one of the two")


def test_a_setting_left_at_its_default_sets_nothing(tmp_path):
    factors = "factors: {pool: {a: {buffer_pool: default, option.innodb-buffer-pool-size: 1G}, b: {buffer_pool: 2G}}}\n"
    text = f'title: x\nservers: ["mysql:8.0"]\n{factors}workloads: [oltp_read_only]\n'
    sizes = [dict(arm.server.options)["innodb_buffer_pool_size"] for arm in made(tmp_path, text).arms]
    assert sizes == ["1G", str(2 << 30)]


def test_cnf_files_are_relative_to_the_study_or_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    text = 'title: x\nservers: ["mysql:8.0", "mysql:8.0,@my.cnf"]\nworkloads: [oltp_read_only]\n'
    for scale in ("", "demo"):
        study = made(tmp_path, text + "scales: {demo: {threads: [1]}}\n", scale=scale)
        assert study.arms[1].server.cnf_files == (str(tmp_path / "my.cnf"),)
        assert study.arms[1].label == "mysql:8.0,@my.cnf"
    typed = request_study(str(tmp_path / "my.yaml"), servers=["mysql:8.0", "mysql:8.0,@typed.cnf"]).study
    assert typed.arms[1].server.cnf_files == ("/typed.cnf",)


def test_decimal_and_date_levels_are_read_verbatim(tmp_path):
    study = made(tmp_path, changed("prepare_mode: [server, client]", "option.x: [8.10, 2001-01-02, 0640, +5]"))
    assert {dict(arm.server.options)["x"] for arm in study.arms} == {"8.10", "2001-01-02", "0640", "+5"}


def test_connection_settings_ignore_case_and_refuse_unknown_values(tmp_path):
    study = made(
        tmp_path, changed("[server, client]", "[Server, CLIENT]") + "settings: {transport: Socket, tls: Required}\n"
    )
    assert {(arm.connection.transport, arm.connection.tls) for arm in study.arms} == {("socket", "required")}
    assert {arm.connection.prepare_mode for arm in study.arms} == {"server", "client"}
    with pytest.raises(SpecError, match=r"transport cannot be 'pipe'\. Write one of socket, tcp"):
        Connection(transport="pipe")


def test_a_custom_script_has_a_name_and_may_be_read_only(tmp_path):
    (tmp_path / "mine.lua").write_text("function event() end\n")
    text = GOOD.replace(
        "{script: oltp_point_select, options: {range_size: 10}}",
        "{script: mine.lua, name: look, writes: false}, {script: mine.lua, name: change}",
    )
    plan = plan_study(made(tmp_path, text), overhead_s=1, load_s=1)
    assert {cell.workload: cell.writes for cell in plan.cells} == {
        "oltp_read_only": False, "look": False, "change": True,
    }  # fmt: skip
    assert plan.cell("look/16").script == str(tmp_path / "mine.lua")


def test_arms_share_loads_exactly_where_that_is_sound(tmp_path):
    study = made(
        tmp_path,
        """\
title: Sharing
design: full
servers: ["mysql:8.0"]
factors:
  prepare_mode: [server, client]
  preload: [default, libjemalloc.so.2]
  buffer_pool: [64M, 128M]
  page_size: [8k, 16k]
  collation: [utf8mb4_bin, utf8mb4_general_ci]
workloads: [oltp_point_select]
""",
    )
    assert len(study.arms) == 32
    assert len({load_key(arm) for arm in study.arms}) == 4  # page size × collation


def test_a_buffer_pool_can_be_a_ratio_of_the_data(tmp_path):
    study = made(
        tmp_path,
        'title: Pools\nservers: ["mysql:8.0"]\nfactors: {buffer_pool: [4x, 1x, 0.25x]}\nworkloads: [oltp_read_only]\n'
        "tables: 4\ntable_size: 1m\n",
    )
    sizes = [int(dict(arm.server.options)["innodb_buffer_pool_size"]) for arm in study.arms]
    assert sizes[0] / sizes[1] == pytest.approx(4, rel=0.02)
    assert sizes[1] / sizes[2] == pytest.approx(4, rel=0.02)
    assert 0.5e9 < sizes[1] < 2e9


@pytest.mark.parametrize(
    ("settings", "workload", "expected"),
    [
        pytest.param("", "{script: tpcc, options: {scale: 10}}", 10 * 110 * 2**20, marks=pytest.mark.needs("tpcc")),
        pytest.param("script.scale: 20,", "tpcc", 20 * 110 * 2**20, marks=pytest.mark.needs("tpcc")),
        ("script.table_size: 1M,", "oltp_read_only", 4 * 2**20 * 250),
        ("content: japanese, rows: 1m,", "oltp_read_only", 4e6 * (250 + 2 * 178)),
        ("column_type: varchar, text_length: 1119, column_length: 2000, rows: 1m,", "oltp_read_only", 4e6 * 1250),
    ],
)
@pytest.mark.parametrize("order", ["{} buffer_pool: 0.5x", "buffer_pool: 0.5x, {}"])
def test_a_ratio_accounts_for_everything_that_sizes_the_data(tmp_path, settings, workload, expected, order):
    text = study_files.changed(TEXT, "[oltp_read_only]", f"[{workload}]") + f"settings: {{{order.format(settings)}}}\n"
    pool = int(dict(made(tmp_path, text).baseline.server.options)["innodb_buffer_pool_size"])
    assert pool == pytest.approx(expected / 2, rel=0.01)


@pytest.mark.needs("replay")
def test_a_ratio_does_not_count_captures_which_load_nothing(tmp_path):
    (tmp_path / "shop.capture").write_bytes(b"\x28\xb5\x2f\xfd")
    small = "{script: oltp_read_only, options: {table_size: 1m}}"
    pools = [
        int(dict(arm.server.options)["innodb_buffer_pool_size"])
        for workloads in (f"[{small}]", f"[shop.capture, {small}]")
        for arm in made(
            tmp_path,
            study_files.changed(TEXT, "[oltp_read_only]", workloads)
            + "table_size: 4m\nsettings: {buffer_pool: 0.5x}\n",
        ).arms
    ]
    assert len(set(pools)) == 1


def test_a_ratio_uses_the_arms_own_rows_or_dump(tmp_path):
    (tmp_path / "shop.sql").touch()
    os.truncate(tmp_path / "shop.sql", 200_000_000)
    for settings, expected in (("rows: 1m", 1e9), ("data: shop.sql", 1.3 * 200e6)):
        (arm, _) = made(tmp_path, f"{TEXT}settings: {{{settings}, buffer_pool: 0.5x}}\n").arms
        pool = int(dict(arm.server.options)["innodb_buffer_pool_size"])
        assert pool == pytest.approx(expected / 2, rel=0.02)
    unknown = TEXT + 'settings: {data: "mysql://a@h/shop", buffer_pool: 0.5x}\n'
    assert_refused(tmp_path, unknown, line=4, named="is not known yet", remedy="buffer_pool: 512M")


changed = partial(study_files.changed, GOOD)


@pytest.mark.parametrize(
    ("text", "line", "named", "remedy"),
    [
        (changed("title: Charsets", "titel: Charsets"), 1, "titel", "Did you mean title?"),
        (changed("title: Charsets", "xyz: Charsets"), 1, "xyz", "typo"),
        (changed("title: Charsets\n", ""), 1, "title: it is missing", "Write it"),
        (changed("  prepare_mode: [server", "  prepare_mod: [server"), 6, "prepare_mod", "prepare_mode"),
        (changed("  prepare_mode: [server, client]", "  innodb_io_size: [1, 2]"), 6, "innodb_io_size", "option."),
        (changed("[server, client]", "[server, klient]"), 6, "prepare_mode cannot be 'klient'", "server, client"),
        (GOOD + "settings: {tls: verify_ca}\n", 18, "tls cannot be 'verify_ca'", "disabled, preferred, required"),
        (GOOD + "settings: {engine: [innodb, myisam]}\n", 18, "valid string", "one value; write factors"),
        (changed("[server, client]", "[server, server]"), 6, "appears twice", "Leave one out"),
        (changed("[server, client]", "[]"), 6, "needs a level", "at least two"),
        (changed('baseline: {server: "mysql:8.0"}', 'baseline: {server: "mysql:5.6"}'), 9, "mysql:5.6", "mysql:5.7"),
        (changed('baseline: {server: "mysql:8.0"}', "baseline: {charset: x}"), 9, "charset is unknown", "collation"),
        (
            changed('baseline: {server: "mysql:8.0"}', "baseline: {collation: utf8mb4_0900_ai_ci}"),
            9,
            "left out by where",
            "Name another",
        ),
        (changed("collation: utf8mb4_0900_ai_ci}", "collation: utf8mb4_0900_as}"), 8, "utf8mb4_0900_as", "It has"),
        (changed('servers: ["mysql:5.7", "mysql:8.0"]', "servers: [mysql 5.7]"), 3, "mysql 5.7", "FLAVOUR:VERSION"),
        (changed('servers: ["mysql:5.7", "mysql:8.0"]', "servers: []"), 3, "at least 1 item", "studies.md"),
        (
            changed('servers: ["mysql:5.7", "mysql:8.0"]', 'servers: ["mysql://u:pw@h/", "mysql:8.0"]'),
            3,
            "password",
            "MYSQL_PWD",
        ),
        (changed("budget: 1h30m", "budget: soon"), 15, "soon", "4m"),
        (changed("budget: 1h30m", "budget: -5.5"), 15, "'-5.5'", "4m"),
        (changed("budget: 1h30m", "budget: 0.0"), 15, "above zero", "4m"),
        (changed("budget: 1h30m", "budget: .inf"), 15, "'.inf'", "4m"),
        (changed("budget: 1h30m", "warm_up: -1.5"), 15, "'-1.5'", "4m"),
        (changed("options: {range_size: 10}", "rate_per_s: .inf"), 10, "valid number", "studies.md"),
        (changed("precision: 2%", "precision: 90%"), 14, "90%", "1%"),
        (changed("table_size: 20k", "table_size: many"), 13, "many", "100k"),
        (changed("threads: [1, 16]", "threads: [1, four]"), 11, "threads.1", "studies.md"),
        (changed("threads: [1, 16]", "threads: [1, 0]"), 11, "greater than or equal to 1", "studies.md"),
        (changed("tables: 2", "tables[]: 2"), 1, "no such key", "docs/reference/studies.md"),
        (changed("title: Charsets", "title: &x [*x]"), 1, "inside each other", "studies.md"),
        (GOOD + "settings: {script.column_length: 1k}\n", 18, "column_length cannot be '1k'", "1 to 16383"),
        (changed("tables: 2", "tables: 2000"), 12, "1000", "studies.md"),
        (changed("workloads: [oltp_read_only", "workloads: [''"), 10, "needs a name", "list workloads"),
        (changed("options: {range_size", "option: {range_size"), 10, "option", "Did you mean options?"),
        (GOOD + "tls: required\n", 18, "tls", "Write it under settings: {tls: …}."),
        (changed("servers:", "server:"), 3, "server: there is no such key", "Did you mean servers?"),
        (GOOD + "charset: latin1\n", 18, "charset", "Write it under settings"),
        (GOOD + "option.sync_binlog: 1\n", 18, "option.sync_binlog", "Write it under settings"),
        (changed("[oltp_read_only, {script: oltp_point_select, options: {range_size: 10}}]", "oltp_read_only"), 10,
         "workloads", "Write a list: [4]"),
        (changed("keep: {collation:", "keep: {colation:"), 17, "colation", "collation"),
        (changed("[latin1_swedish_ci, utf8mb4_general_ci]}", "[latin1]}"), 17, "'latin1'", "latin1_swedish_ci"),
        (changed("title: Charsets", "title: [Charsets"), 2, "", "quote"),
        (GOOD + "budget: 3h\n", 18, "budget: it appears twice", "Leave one out"),
        (GOOD + "settings: {prepare_mode: client}\n", 18, "varies it already", "Keep one"),
        (GOOD + "published: {file: no.csv, source: x, value: tps, columns: {}}\n", 18, "no.csv", "beside"),
        (GOOD + "published: {source: x}\n", 18, "neither figures nor claims", "Write file"),
        (changed("latin1_swedish_ci, utf8mb4_general_ci, u", "utf8mb4_0900_ai_ci, u"), 5, "appears twice", "Leave"),
        (changed("prepare_mode: [server, client]", "x: {1: {},\n    '1': {}}"), 7, "x.1: it appears twice", "Leave"),
        (changed("prepare_mode: [server, client]", "x: {true: {}, 'ON': {}}"), 6, "x.ON: it appears twice", "Leave"),
        ("- a\n", 1, "mapping", "title"),
        ("title: x\nservers: [mysql]\nworkloads: [oltp_read_only]\n", 2, "servers: nothing is left", "Add a server"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_line_and_its_remedy(tmp_path, text, line, named, remedy):
    assert_refused(tmp_path, text, line=line, named=named, remedy=remedy)


def test_a_collation_of_another_charset_is_refused(tmp_path):
    with pytest.raises(SpecError, match=r"my.yaml:5: .*latin1_swedish_ci belongs to charset latin1, not utf8mb4"):
        made(tmp_path, GOOD + "settings: {charset: utf8mb4}\n")


def test_an_unknown_scale_is_reported_with_the_known_ones(tmp_path):
    with pytest.raises(SpecError, match=r"my.yaml:16: scales: scale paper is unknown. This study has demo."):
        made(tmp_path, scale="paper")


def test_published_figures_find_their_arms_and_cells(tmp_path):
    (tmp_path / "p.csv").write_text("w,s,c,t,tps\noltp_read_only,mysql:5.7.25,latin1_swedish_ci,16,100.5\n")
    text = GOOD + (
        "published:\n  file: p.csv\n  source: somebody\n  value: tps\n"
        "  columns: {workload: w, server: s, collation: c, threads: t}\n"
    )
    study = made(tmp_path, text)
    figures = study.design.published.figures
    labels = {arm.name: arm.label for arm in study.arms}
    assert {labels[figure.arm] for figure in figures} == {
        "mysql:5.7 · latin1_swedish_ci · server", "mysql:5.7 · latin1_swedish_ci · client",
    }  # fmt: skip
    assert {(figure.cell, figure.value) for figure in figures} == {("oltp_read_only/16", 100.5)}
    with pytest.raises(SpecError, match=r"my.yaml:22: published.columns.threads: p.csv has no column tt. It has w, s"):
        made(tmp_path, text.replace("threads: t}", "threads: tt}"))


def test_published_figures_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "p.csv").write_text("w,tps\noltp_read_only,100.5\n", encoding="utf-8-sig")
    text = TEXT + "published: {file: p.csv, source: somebody, value: tps, columns: {workload: w}}\n"
    assert [figure.value for figure in made(tmp_path, text).design.published.figures] == [100.5, 100.5]


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_published_figures_use_the_closest_version_of_a_series(tmp_path, order):
    rows = ["mysql:8.0.15,1000\n", "mysql:8.0.36,900\n"]
    (tmp_path / "p.csv").write_text("s,tps\n" + "".join(rows[order]))
    published = "published: {file: p.csv, source: somebody, value: tps, columns: {server: s}}\n"
    for servers in ("mysql:8.0.15 mysql:8.0.36", "mysql:8.0.11 mysql:8.0.37", "mysql:8.0.15,a=1 mysql:8.0.36,a=1"):
        first, second = servers.split()
        text = f'title: x\nservers: ["{first}", "{second}"]\nworkloads: [oltp_read_only]\n{published}'
        assert [figure.value for figure in made(tmp_path, text).design.published.figures] == [1000, 900]


def test_published_figures_find_a_custom_script_by_its_name(tmp_path):
    (tmp_path / "mine.lua").touch()
    (tmp_path / "p.csv").write_text("w,tps\nmine,100.5\n")
    text = TEXT.replace("oltp_read_only", "mine.lua") + (
        "published: {file: p.csv, source: somebody, value: tps, columns: {workload: w}}\n"
    )
    figures = made(tmp_path, text).design.published.figures
    assert {(figure.cell, figure.arm, figure.value) for figure in figures} == {("mine/4", name, 100.5) for name in "AB"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"w,s,tps\n\noltp_read_only,mysql:5.7\n", r"^p.csv:3: tps is '', not a number above zero"),
        (b"w,s,tps\noltp_read_only,mysql:5.7,inf\n", r"^p.csv:2: tps is 'inf', not a number above zero"),
        (
            b"w,s,tps\ncaf\xe9,mysql:5.7,3\n",
            r"^my.yaml:19: published.file: .*p.csv cannot be read: it is not CSV in UTF-8",
        ),
    ],
)
def test_published_figures_that_cannot_be_read_are_reported_with_their_line(tmp_path, content, message):
    (tmp_path / "p.csv").write_bytes(content)
    published = "published:\n  file: p.csv\n  source: x\n  value: tps\n  columns: {workload: w, server: s}\n"
    with pytest.raises(SpecError, match=message):
        made(tmp_path, GOOD + published)


SCALED = """\
title: x
servers: ["mysql:8.0.15"]
workloads: [oltp_read_only]
settings: {charset: latin1}
factors:
  content:
    - digits
    - ascii
    - latin
    - japanese
scales:
  demo:
    keep: {content: [digits, japanese]}
"""


@pytest.mark.parametrize("scale", ["", "demo"])
def test_a_bad_level_is_reported_on_the_same_line_at_every_scale(tmp_path, scale):
    assert_refused(tmp_path, SCALED, line=10, named="japanese", remedy="", scale=scale)
    twice = SCALED.replace('["mysql:8.0.15"]', '["mysql:5.7.22", "mysql:8.0.15"]').replace("- japanese", "- digits")
    assert_refused(tmp_path, twice, line=10, named="appears twice", remedy="Leave one out", scale=scale)


def test_a_mistake_in_a_scales_setting_is_reported_on_its_line(tmp_path):
    scale = 'scales:\n  demo:\n    settings:\n      data: "mysql://a@h/shop"\n      buffer_pool: 0.5x\n'
    text = f"{TEXT}settings: {{buffer_pool: 64M}}\n{scale}"
    assert_refused(tmp_path, text, line=9, named="is not known yet", remedy="buffer_pool: 512M", scale="demo")


@pytest.mark.parametrize(
    ("more", "named", "remedy"),
    [
        ("settings: {nosuch: 1}", "scales.demo.settings.nosuch: ", "option."),
        ("settings: {content: ascii}", "scales.demo.settings.content: factor content varies it", "Keep one"),
        ("threads: [4, 4]", "scales.demo.threads.1: 4 appears twice", "Leave one out"),
        ("workloads: [oltp_read_only, '']", "scales.demo.workloads.1: a workload needs a name", "list workloads"),
    ],
)
@pytest.mark.parametrize("scale", ["", "demo"])
def test_a_mistake_in_a_scale_is_reported_whichever_is_chosen(tmp_path, more, named, remedy, scale):
    assert_refused(tmp_path, f"{SCALED}    {more}\n", line=14, named=named, remedy=remedy, scale=scale)
    empty = SCALED.replace("[digits, japanese]", "[]")
    assert_refused(tmp_path, empty, line=13, named="demo.keep.content: a factor needs", remedy="Leave", scale=scale)


def test_merge_keys_are_read_and_merged_mistakes_have_a_line(tmp_path):
    text = changed(
        "{script: oltp_point_select, options: {range_size: 10}}]",
        "&w {script: oltp_point_select, options: {range_size: 10}}, {<<: *w, name: again}]",
    )
    assert [each.name for each in made(tmp_path, text).workloads] == ["", "", "again"]
    assert_refused(
        tmp_path, text.replace("options:", "option:"), line=10, named="option", remedy="Did you mean options?"
    )


def test_the_documented_schema_is_current():
    written = (ROOT / "docs" / "reference" / "study.schema.json").read_text(encoding="utf-8")
    assert written == study_schema(), "write it anew: make docs"


def test_the_study_in_the_manual_is_read(tmp_path):
    text = (ROOT / "docs" / "reference" / "studies.md").read_text(encoding="utf-8")
    example = text.split("```yaml\n")[1].split("```")[0]
    study = made(tmp_path, example)
    assert len(study.arms) == 4


@pytest.mark.parametrize("name", sorted(shipped_studies()))
@pytest.mark.parametrize("scale", ["demo", "small", "paper"])
def test_every_shipped_study_has_every_scale(name, scale):
    study = make_study(read_study(shipped_studies()[name], scale=scale), seed=1)
    whole = make_study(read_study(shipped_studies()[name]), seed=1)
    assert [factor.name for factor in study.design.factors] == [factor.name for factor in whole.design.factors]
    assert study.design.question
    assert study.design.about
    assert scale != "demo" or study.budget_s <= 300


def test_an_unknown_study_name_suggests_the_nearest():
    with pytest.raises(SpecError, match="Did you mean charset-collation"):
        find_study("charset-colation")
    with pytest.raises(SpecError, match="there is no such file"):
        find_study("nowhere/my.yaml")


@given(st.integers(1, 700))
def test_arm_names_are_unique(count):
    assert len(set(arm_names(count))) == count


@pytest.mark.parametrize(("text", "rows"), [("20000", 20_000), ("100k", 100_000), ("10m", 10_000_000), ("1,000", 1000)])
def test_rows_are_read_as_people_write_them(text, rows):
    assert parse_rows(text) == rows


TEXT = 'title: x\nservers: ["mysql:8.0.15", "mysql:8.0.15,env.A=1"]\nworkloads: [oltp_read_only]\n'
ALIASES = "".join(f"a{at}: &a{at} [{','.join([f'*a{at - 1}'] * 9)}]\n" for at in range(1, 10))
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


@pytest.mark.parametrize(
    ("more", "line", "says"),
    [
        ("a0: &a0 [x]\n" + ALIASES, 8, "aliases"),
        ("factors:\n" + "".join(f"  option.o{at}: {TEN}\n" for at in range(12)), 4, "2,000,000,000,000 combinations"),
        ("factors:\n" + "".join(f"  option.o{at}: [a, b]\n" for at in range(30)), 4, "combinations"),
        ("tables: 1" + "0" * 400 + "\n", 4, "401 digits"),
        ('table_size: "1' + "0" * 5000 + '"\n', 4, "5001 digits"),
        ("budget: 99999999999d\n", 4, "longer than a year"),
        ("about: |\n  two\n  lines \x01\n", 6, "U+0001"),
        ('about: "\\e[31m"\n', 4, "control character"),
        ('about: "\\ud800"\n', 4, "control character"),
        ("threads: [4, 4]\n", 4, "twice"),
        ("threads: [99999999]\n", 4, "10000"),
        ("factors: {engine: [innodb]}\n", 4, "one level"),
        ("settings: {buffer_pool: 999999999999999999999x}\n", 4, "not understood"),
        ("builds: 99999999999\n", 4, "1000"),
        ("about: " + "x" * 200_000 + "\n", 1, "100,000 characters"),
    ],
)
def test_a_hostile_study_is_refused_with_its_line_within_a_second(tmp_path, more, line, says):
    begun = time.process_time()
    with pytest.raises(SpecError) as caught:
        study_of(tmp_path, TEXT + more)
    assert f".yaml:{line}: " in str(caught.value) and says in str(caught.value) and "\n" not in str(caught.value)
    assert time.process_time() - begun < 1


def test_a_study_that_is_nested_too_deep_is_refused(tmp_path):
    with pytest.raises(SpecError, match="lists or mappings inside each other"):
        study_of(tmp_path, TEXT + "about: " + "[" * 1500 + "]" * 1500 + "\n")


def test_a_byte_that_is_not_utf8_is_reported_with_its_line(tmp_path):
    path = tmp_path / "latin.yaml"
    path.write_bytes(TEXT.encode() + b"about: caf\xe9\n")
    with pytest.raises(SpecError, match=r"latin\.yaml:4: a byte that is not UTF-8"):
        read_study(path)


def test_aliases_that_repeat_little_are_fine(tmp_path):
    study = study_of(
        tmp_path, TEXT.replace("[oltp_read_only]", "&w [oltp_read_only]") + "scales: {demo: {workloads: *w}}\n"
    )
    assert [workload.script for workload in study.workloads] == ["oltp_read_only"]


def test_an_anchor_does_not_change_a_boolean_level(tmp_path):
    study = study_of(tmp_path, TEXT + "factors: {option.general_log: [&on true, false]}\n")
    assert study.design.levels["A"] == ("mysql:8.0.15", "ON")


def test_boolean_level_names_read_as_on_and_off(tmp_path):
    bundles = "{&a true: {option.general_log: 1}, false: {option.general_log: 0}}"
    study = study_of(tmp_path, f"{TEXT}factors: {{log: {bundles}}}\nbaseline: {{log: false}}\n")
    assert {levels[1] for levels in study.design.levels.values()} == {"ON", "OFF"}
    assert study.design.levels["A"] == ("mysql:8.0.15", "OFF")


TWINS = """\
title: one server
servers: ["mysql://a@localhost/", "mysql://b@127.0.0.1:3306/"]
workloads: [oltp_read_only]
"""


def test_a_running_server_given_twice_is_refused_unless_something_else_differs(tmp_path):
    assert_refused(tmp_path, TWINS, line=2, named="given twice", remedy="Name another server")
    title, _, workloads = TWINS.splitlines()
    varied = 'settings: {server: "mysql://a@localhost/"}\nfactors: {prepare_mode: [server, client]}'
    study = study_of(tmp_path, f"{title}\n{varied}\n{workloads}\n")
    assert len(study.arms) == 2
    for other, named in (("collation: [latin1_bin, utf8mb4_bin]", "one set of"), ("transport: [socket, tcp]", "twice")):
        text = f"{title}\n{varied.replace('prepare_mode: [server, client]', other)}\n{workloads}\n"
        assert_refused(tmp_path, text, line=2, named=named, remedy="Name another server")
