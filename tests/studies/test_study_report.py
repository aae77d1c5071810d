"""A study's own tables in every form of the report."""

import io
import re

import pytest
from rich.console import Console
from screens import screen_of
from synthetic import Truth, make_run

from bakeoff.cli.main import run as command
from bakeoff.plan.factorial import make_study
from bakeoff.report import build_view, render_html, render_markdown, render_terminal
from bakeoff.spec.study_file import read_study
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop

STUDY = """\
title: charsets
question: What does utf8mb4 cost?
servers: ["mysql:5.7", "mysql:8.0"]
factors: {collation: [latin1_swedish_ci, utf8mb4_general_ci]}
workloads: [oltp_read_only, oltp_point_select]
threads: [4]
control: true
published: {file: p.csv, source: somebody in 2019, value: tps, columns: {workload: w, server: s, collation: c}}
"""
CSV = """\
w,s,c,tps
oltp_read_only,mysql:5.7.25,latin1_swedish_ci,100
oltp_read_only,mysql:8.0.15,latin1_swedish_ci,90
oltp_read_only,mysql:5.7.25,utf8mb4_general_ci,60
oltp_read_only,mysql:8.0.15,utf8mb4_general_ci,120
"""


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    (folder / "my.yaml").write_text(STUDY)
    (folder / "p.csv").write_text(CSV)
    study = make_study(read_study(folder / "my.yaml"), seed=3)
    assert [arm.name for arm in study.arms] == ["A", "B", "C", "D", "A'"]
    # B: utf8mb4 on 5.7, half as fast; C: latin1 on 8.0, 10 % behind; D: utf8mb4 on 8.0, 20 % behind.
    run = make_run(folder, study, truth=Truth(effect={"B": -0.69, "C": -0.105, "D": -0.223}))
    return build_view(run, analyse(run.load_epochs(), study, ended=Stop.BUDGET))


def texts(table):
    return [[value.text for value in row.values] for row in table.rows]


def test_published_ratios_are_judged(view):
    judged = {row[0]: (row[1], row[3]) for row in texts(view.tables["published"])}
    assert judged == {
        "server: mysql:8.0 over mysql:5.7, latin1_swedish_ci": ("0.90×", "agrees"),
        "server: mysql:8.0 over mysql:5.7, utf8mb4_general_ci": ("2.00×", "same order, different size"),
        "collation: utf8mb4_general_ci over latin1_swedish_ci, mysql:5.7": ("0.60×", "same order, different size"),
        "collation: utf8mb4_general_ci over latin1_swedish_ci, mysql:8.0": ("1.33×", "differs"),
    }
    assert "somebody in 2019" in view.tables["published"].note


def test_effects_interactions_and_pairs_are_shown(view):
    assert {row[0] for row in texts(view.tables["effects"])} == {"server", "collation"}
    assert len(view.tables["effects"].rows) == 4  # two factors in two cells
    ratios = [float(row[3].rstrip("×")) for row in texts(view.tables["interactions"])]
    assert ratios == [pytest.approx(0.89 / 0.5, rel=0.1)] * 2
    matrix = next(table for name, table in view.tables.items() if name.startswith("pairs-"))
    labels = [row[0] for row in texts(matrix)]
    assert labels == [
        "mysql:5.7 · utf8mb4_general_ci", "mysql:8.0 · utf8mb4_general_ci", "mysql:8.0 · latin1_swedish_ci",
        "mysql:5.7 · latin1_swedish_ci",
    ]  # fmt: skip
    assert list(matrix.columns[2:]) == labels
    assert [row[2 + place] for place, row in enumerate(texts(matrix))] == ["–"] * 4
    fastest_over_slowest, slowest_over_fastest = texts(matrix)[3][2], texts(matrix)[0][5]
    assert float(fastest_over_slowest.rstrip("%")) == pytest.approx(100, abs=8)
    assert float(slowest_over_fastest.replace("−", "-").rstrip("%")) == pytest.approx(-50, abs=3)


def test_pairs_show_a_difference_below_one_per_cent(tmp_path):
    (tmp_path / "my.yaml").write_text(STUDY.partition("published")[0])
    study = make_study(read_study(tmp_path / "my.yaml"), seed=3)
    effect = {"B": -0.004, "C": -0.105, "D": -0.223}
    run = make_run(tmp_path, study, Truth(effect=effect, sd_restart=0.001, sd_slice=0.005))
    view = build_view(run, analyse(run.load_epochs(), study, ended=Stop.BUDGET))
    matrix = next(table for name, table in view.tables.items() if name.startswith("pairs-"))
    row = dict(zip(matrix.columns, texts(matrix)[2], strict=True))
    assert row["arm"] == "mysql:5.7 · utf8mb4_general_ci"
    assert re.fullmatch(r"−0\.[345]\d?%", row["mysql:5.7 · latin1_swedish_ci"])


def test_rows_of_interactions_name_their_factors(tmp_path):
    factors = "".join(f"  option.{name}: [true, false]\n" for name in ("general_log", "slow_query_log", "log_bin"))
    (tmp_path / "my.yaml").write_text(
        'title: t\nservers: ["mysql:8.0"]\nworkloads: [oltp_read_only]\nthreads: [4]\nfactors:\n' + factors
    )
    study = make_study(read_study(tmp_path / "my.yaml"), seed=3)
    run = make_run(tmp_path, study, truth=Truth(), epochs=3, blocks=2)
    rows = texts(build_view(run, analyse(run.load_epochs(), study, ended=Stop.BUDGET)).tables["interactions"])
    heads = [tuple(cell.partition(": ")[0] for cell in row[:3]) for row in rows]
    assert sorted(heads) == [
        ("option.log_bin", "option.general_log ON", "option.general_log OFF"),
        ("option.log_bin", "option.slow_query_log ON", "option.slow_query_log OFF"),
        ("option.slow_query_log", "option.general_log ON", "option.general_log OFF"),
    ]


def test_every_renderer_shows_the_study_tables(view):
    page, text = render_html(view), render_markdown(view)
    shown = io.StringIO()
    render_terminal(view, Console(file=shown, width=160))
    for heading in ("Published and measured", "Effects of the factors", "Interactions", "All pairs"):
        assert heading in page
        assert heading in text
    assert view.question == "What does utf8mb4 cost?"
    assert "differs" in shown.getvalue()
    assert "Interactions" in shown.getvalue()


def test_the_screen_has_a_line_for_each_published_ratio(view, snapshot):
    screen = screen_of(view)
    assert re.search(
        r":\spublished\s\d+\.\d+×,\smeasured\s\d+\.\d+×\s\(.* to .*\): (agrees|same order|differs|cannot tell)", screen
    )
    assert screen == snapshot


def test_the_command_to_rerun_a_study_includes_its_seed(tmp_path):
    (tmp_path / "my.yaml").write_text(STUDY.partition("published")[0])
    study = make_study(read_study(tmp_path / "my.yaml"), seed=3)
    for given, seeded in (
        (("bakeoff", "run", "my.yaml", "--scale", "demo"), "bakeoff run my.yaml --scale demo --seed 3"),
        (("bakeoff", "run", "my.yaml", "--seed=3"), "bakeoff run my.yaml --seed=3"),
    ):
        run = make_run(tmp_path, study, epochs=1, command=given, name=f"run-{len(seeded)}")
        view = build_view(run, analyse(run.load_epochs(), study, ended=Stop.ABORTED))
        assert view.command == seeded


def test_arms_with_different_rows_are_reported_at_the_head(view, tmp_path):
    (tmp_path / "my.yaml").write_text(STUDY.replace("published:", "# published:"))
    study = make_study(read_study(tmp_path / "my.yaml"), seed=3)
    run = make_run(tmp_path, study, truth=Truth())
    answers = {
        arm.name: {"sbtest.sbtest1": {"rows": {"sql": "SELECT COUNT(*)", "answer": f"{10 - (arm.name == 'D')} rows"}}}
        for arm in study.arms
    }
    run.write_json("rows/0.json", answers)
    shown = build_view(run, analyse(run.load_epochs(), study, ended=Stop.BUDGET))
    (status,) = [each for each in shown.statuses if each.word == "DIFFERENT WORK"]
    for word in ("sbtest.sbtest1", "query rows", "9 rows on mysql:8.0 · utf8mb4_general_ci"):
        assert word in status.text
    assert "9 rows" in render_html(shown)
    assert "data-check" not in view.tables


MANY = """\
title: many factors
servers: ["mysql:8.0"]
workloads: [oltp_read_only]
threads: [4]
factors:
  prepare_mode: [client, server]
  transport: [socket, tcp]
  tls: [disabled, required]
  option.innodb_adaptive_hash_index: ["ON", "OFF"]
  row_format: [dynamic, compact]
  option.innodb_flush_neighbors: ["0", "1"]
"""


def test_a_fraction_names_its_aliases_in_plan_and_report(tmp_path, capsys):
    (tmp_path / "my.yaml").write_text(MANY)
    study = make_study(read_study(tmp_path / "my.yaml"), seed=3)
    assert command(["plan", str(tmp_path / "my.yaml")]) == 0
    planned = capsys.readouterr().out
    run = make_run(tmp_path, study, epochs=6, blocks=2, name="many")
    view = build_view(run, analyse(run.load_epochs(), study, ended=Stop.BUDGET))
    assert len(view.tables["effects"].rows) == 6
    mixed = [row.values[2].sub for row in view.tables["interactions"].rows if row.values[2].sub]
    assert mixed and all(text.startswith("with ") and " × " in text for text in mixed)
    for text in (planned, view.tables["effects"].note, render_html(view), render_markdown(view).replace("\\", "")):
        assert "16 of 64 combinations, of resolution IV" in text
        assert "cannot be distinguished" in text
