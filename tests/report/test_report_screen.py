"""Screens at the end of runs: at most 40 lines, no word broken (`screen_of` checks that), every figure once."""

import pytest
from screens import rendered, screen_of
from synthetic import Truth, duel_study, make_run

from bakeoff.report import build_view
from bakeoff.report.text import SCREEN_LINES
from bakeoff.report.view import Footnote, Row, Screen, Table
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop

COLLATIONS = ("latin1_swedish_ci", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci", "utf8mb4_bin")


def duel(**fields):
    return duel_study(**{"workloads": ("oltp_read_only",), "threads": (4,), "control": False} | fields)


def of_arms(study, labels, effects):
    """Return the study with these arms, and its truth."""
    names = [f"S{at:02}" for at in range(len(labels))]
    arms = tuple(
        study.arms[0].model_copy(update={"name": name, "label": label})
        for name, label in zip(names, labels, strict=True)
    )
    return study.model_copy(update={"arms": arms}), Truth(effect=dict(zip(names, effects, strict=True)))


def eight_arms():
    labels = [f"mysql:{version} · {collation}" for version in ("5.7.22", "8.0.15") for collation in COLLATIONS]
    effects = (0.0, -0.04, -0.3, -0.1, -0.02, -0.15, -0.4, 0.08)
    return of_arms(duel(workloads=("oltp_read_only", "oltp_point_select")), labels, effects)


def thirty_arms():
    labels = [f"mysql:8.0.{patch},innodb_flush_log_at_trx_commit=2" for patch in range(11, 41)]
    return of_arms(duel(), labels, [0.0, *(0.01 * (at % 7) - 0.03 for at in range(29))])


CASES = {
    "two arms": lambda: (duel(), Truth()),
    "eight arms, two cells": eight_arms,
    "thirty arms": thirty_arms,
    "a ladder of threads": lambda: (duel(threads=(1, 2, 4, 8, 16, 32, 64), control=True), Truth()),
    "nothing decided": lambda: (duel(threads=(1, 4)), Truth(effect={"B": 0.002}, sd_restart=0.05)),
    "interrupted": lambda: (duel(control=True), Truth()),
}


@pytest.fixture(scope="module")
def view_of(tmp_path_factory):
    made = {}

    def view(case):
        if case not in made:
            study, truth = CASES[case]()
            ended, epochs = (Stop.ABORTED, 4) if case == "interrupted" else (Stop.BUDGET, 6)
            run = make_run(tmp_path_factory.mktemp("runs"), study, truth, epochs=epochs, blocks=2)
            made[case] = build_view(run, analyse(list(run.load_epochs()), study, ended=ended))
        return made[case]

    return view


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("case", CASES)
def test_screens_fit_and_match_their_snapshots(view_of, case, width, snapshot):
    assert screen_of(view_of(case), width) == snapshot


def table_of(count, label):
    rows = tuple(Row.of(f"{label} {at}", "0.5×", "fast") for at in range(count))
    return Table(id="t", columns=("contender", "ratio", "extra"), rows=rows, wide=("extra",))


def screen_with(view, **fields):
    return screen_of(view.model_copy(update={"screen": Screen(answer="It is faster.", **fields)}))


def test_a_table_of_more_than_twenty_rows_shows_the_ten_largest(view_of):
    shown = screen_with(view_of("two arms"), table=table_of(21, "arm"), ranks=tuple(range(20, -1, -1)))
    assert shown.count("0.5×") == 10 and "arm 20" in shown and "arm 10" not in shown
    assert "… and 11 more" in shown
    assert screen_with(view_of("nothing decided"), table=table_of(20, "arm")).count("0.5×") == 20


def test_a_table_that_is_too_wide_loses_its_least_important_column_then_is_stacked(view_of):
    rows = {length: screen_with(view_of("two arms"), table=table_of(2, "x" * length)) for length in (50, 69, 76)}
    assert "extra" in rows[50] and "fast" in rows[50]
    assert "extra" not in rows[69] and "ratio" in rows[69]
    assert "\n" + "x" * 76 + " 1\n  ratio 0.5×\n" in rows[76]


def test_an_overfull_screen_is_truncated(view_of):
    lines = tuple(f"line {at} with several words that fill most of a line of eighty columns" for at in range(9))
    shown = screen_with(
        view_of("two arms"), table=table_of(20, "x" * 77), why=lines, figures=lines, effort="6 restarts"
    )
    assert len(shown.splitlines()) <= SCREEN_LINES
    assert shown.count("… and ") >= 3 and "6 restarts" in shown and "x" * 77 + " 0" in shown


def test_columns_of_one_title_keep_their_own_values(view_of):
    table = Table(id="t", columns=("", ""), rows=(Row.of("host", "tower"), Row.of("memory", "64 GB")))
    assert "host    tower\nmemory  64 GB\n" in screen_with(view_of("two arms"), table=table)


def test_long_paths_get_their_own_line_and_local_ones_are_relative(view_of, tmp_path, monkeypatch):
    deep = tmp_path / "a folder" / ("x" * 60) / "run"
    placed = view_of("two arms").model_copy(update={"directory": str(deep)})
    assert f"\nReport:\n{deep}/report.html\nMore:\nbakeoff report '{deep}' --format text\n" in rendered(placed, 80)
    monkeypatch.chdir(tmp_path)
    assert f"\nReport:\na folder/{'x' * 60}/run/report.html\n" in rendered(placed, 80)
    assert "\nReport: a folder/" in rendered(placed, 120)


def test_every_kind_of_doubt_is_named_once(view_of):
    view = view_of("two arms")
    notes = [Footnote(number=at, word="UNSTABLE", text=f"reason {at}.", where=("a cell",)) for at in (1, 2, 3)]
    shown = screen_of(view.model_copy(update={"footnotes": tuple(notes)}))
    assert shown.count("UNSTABLE") == 1 and "UNSTABLE: reason 1. (a cell) … and 2 more." in shown
