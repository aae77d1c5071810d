"""The procedures in use against bakeoff: what is judged of a series of starts, and the picture."""

import math
import re
import time
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from simulated_duels import simulated_duel, truth_of

from validation import campaign, procedures_measured
from validation.campaign import DuelJournal
from validation.duels import Duel
from validation.journal import read_entries
from validation.procedures import Procedure, table
from validation.procedures_chart import draw
from validation.procedures_measured import SerialRun, Series, judgements


def series(procedure, *per_s):
    runs = tuple(
        SerialRun(started_at=datetime.now(UTC), per_s=each, seconds=40, wall_s=50, machine=None, commit=None)
        for each in per_s
    )
    return Series(procedure=procedure, warm_up="2s", budget="60s", runs=runs)


def duels(count, **options):
    run = simulated_duel(**options)
    return [run(Duel(kind="aa", number=number, servers=("s", "s"), seed=number), None) for number in range(count)]


def said(asked, procedure, percent):
    return [each.judgement for each in asked if each.procedure is procedure and each.slowdown_percent == percent]


def test_neighbouring_starts_are_judged_and_injecting_is_exact():
    asked = list(judgements([series(Procedure.ONE_LONG, 100.0, 110.0, 100.0)], []))
    first, second = said(asked, Procedure.ONE_LONG, 0.0)
    assert first.log_ratio == pytest.approx(math.log(1.1)) and first.claim == 1
    assert second.log_ratio == pytest.approx(-math.log(1.1)) and second.claim == -1
    injected = said(asked, Procedure.ONE_LONG, 5.0)
    assert injected[0].log_ratio == pytest.approx(math.log(1.1) + truth_of(5))


def test_six_starts_make_a_judgement_of_three_runs_each():
    asked = list(judgements([series(Procedure.MEDIAN_OF_THREE, 100, 103, 100, 104, 90, 105, 100)], []))
    assert len(said(asked, Procedure.MEDIAN_OF_THREE, 0.0)) == 2 == len(said(asked, Procedure.THREE_APART, 0.0))
    (first, _), (apart, _) = said(asked, Procedure.MEDIAN_OF_THREE, 0.0), said(asked, Procedure.THREE_APART, 0.0)
    assert first.log_ratio == pytest.approx(math.log(1.04)) and first.claim == 1
    assert apart.claim == 1
    assert said(asked, Procedure.ONE_LONG, 0.0) == []


def test_an_equal_duel_is_judged_again_with_the_contender_slowed():
    asked = list(judgements([], duels(20, spread=0.004)))
    assert all(each.claim == 0 or abs(each.log_ratio) > each.half_width for each in said(asked, Procedure.BAKEOFF, 0.0))
    slowed = said(asked, Procedure.BAKEOFF, 5.0)
    assert len(slowed) == 20 and all(each.claim == -1 for each in slowed)
    held = [abs(each.log_ratio - truth_of(5)) <= each.half_width for each in slowed]
    assert sum(held) >= 17


def test_a_duel_of_too_few_epochs_claims_nothing_of_any_truth():
    (short,) = duels(1, epochs=4)
    shifted = [said(judgements([], [short]), Procedure.BAKEOFF, percent) for percent in (0.0, 5.0)]
    (equal,), (slowed,) = shifted
    assert equal.claim == slowed.claim == 0
    assert slowed.log_ratio - equal.log_ratio == pytest.approx(truth_of(5))


class SimulatedServer:
    """Serial runs that take no time."""

    def __init__(self, duel):
        self.asked_s = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, seconds):
        self.asked_s.append(seconds)
        (run,) = series(Procedure.ONE_LONG, 100.0).runs
        return run.model_copy(update={"seconds": seconds, "wall_s": seconds + 9.0})


def test_rounds_give_every_way_the_same_wall_time_and_go_on_where_they_stopped(tmp_path, monkeypatch):
    servers = []
    monkeypatch.setattr(
        procedures_measured, "SerialServer", lambda duel: servers.append(SimulatedServer(duel)) or servers[-1]
    )
    monkeypatch.setattr(campaign, "run_duel", simulated_duel())
    for _ in range(2):
        until = time.monotonic() + 0.01
        procedures_measured.measure(
            tmp_path, "s", warm_up="5s", budget="100s", until=until, seed=1, report=lambda text: None
        )
    known = read_entries(tmp_path / "series.jsonl", Series)
    assert len(known) >= 4
    for each in known:
        starts = 2 if each.procedure is Procedure.ONE_LONG else 6
        wall_s = sum(run.wall_s for run in each.runs[1:]) / (len(each.runs) - 1) * starts
        assert wall_s == pytest.approx(107.0)
    assert {(each.warm_up, each.budget) for each in known} == {("5s", "100s")}
    outcomes = DuelJournal(tmp_path / "duels.jsonl").outcomes
    assert [outcome.duel.number for outcome in outcomes] == list(range(len(known) // 2))


def test_a_round_runs_one_duel_whatever_the_journal_has(tmp_path, monkeypatch):
    """Of other kinds, servers, warm-ups and budgets, and with gaps."""
    run = simulated_duel()
    journal = DuelJournal(tmp_path / "duels.jsonl")
    own = Duel(kind="aa", number=0, servers=("s", "s"), seed=1, warm_up="5s", budget="100s")
    others = [{"kind": "slow2"}, {"servers": ("t", "t")}, {"warm_up": "2s"}, {"budget": "60s"}, {"number": 2}, {}]
    for each in others:
        journal.append(run(own.model_copy(update=each), None))
    before = len(journal.outcomes)
    moments = iter((0.0, 2.0))
    monkeypatch.setattr(procedures_measured, "SerialServer", SimulatedServer)
    monkeypatch.setattr(procedures_measured, "_one_series", lambda *_: series(Procedure.ONE_LONG, 100.0))
    monkeypatch.setattr(procedures_measured, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    monkeypatch.setattr(campaign, "run_duel", simulated_duel())
    procedures_measured.measure(tmp_path, "s", warm_up="5s", budget="100s", until=1.0, seed=1, report=lambda text: None)
    (new,) = DuelJournal(tmp_path / "duels.jsonl").outcomes[before:]
    assert (new.duel.kind, new.duel.servers, new.duel.number) == ("aa", ("s", "s"), 1)


def test_the_table_has_a_row_for_each_way_and_truth(tmp_path):
    known = [series(Procedure.ONE_LONG, 100, 103, 99), series(Procedure.MEDIAN_OF_THREE, 100, 103, 100, 104, 90, 105)]
    path = tmp_path / "series.jsonl"
    path.write_text("".join(each.model_dump_json() + "\n" for each in known) + '{"format":1,"way"')
    assert read_entries(path, Series) == known
    rows = table(list(judgements(known, duels(3)))).splitlines()
    assert len(rows) == 2 + 3 * len(Procedure)
    assert sum("bakeoff" in row for row in rows) == 3


def test_the_picture_stands_alone_in_light_and_dark():
    known = [series(Procedure.ONE_LONG, 100, 103, 99), series(Procedure.MEDIAN_OF_THREE, 100, 103, 100, 104, 90, 105)]
    svg = draw(list(judgements(known, duels(5))))
    ElementTree.fromstring(svg)
    assert "prefers-color-scheme:dark" in svg and "<script" not in svg
    assert not re.search(r'(?:fill|stroke)="#fe0', svg)
    assert not re.search(r'(?:href|src)="http', svg)
    for name in ("one long run each", "median of three runs each", "bakeoff", "the same server twice"):
        assert name in svg
