"""`bakeoff doctor --prove`: duels whose answers are known, judged."""

import json
import math
import tempfile
import threading

import pytest

from bakeoff.errors import RunInvalid
from bakeoff.run import machine_check
from bakeoff.run.machine_check import judge_duel, prove, resolve
from bakeoff.stats.model import Comparison, Estimate, Interval, Verdict, Word


def comparison(low, high, *words):
    return Comparison.model_construct(
        estimate=Estimate(mean=(low + high) / 2, interval=Interval(low=low, high=high), n=6),
        verdict=Verdict(words=words, at_least=None, sentence=""),
    )


@pytest.mark.parametrize(
    ("low", "high", "word", "held"),
    [
        (-0.002, 0.003, Word.EQUIVALENT, [True, True]),
        (0.001, 0.003, Word.EQUIVALENT, [False, True]),
        (0.010, 0.030, Word.FASTER, [False, False]),
        (-0.030, -0.010, Word.SLOWER, [False, False]),
    ],
)
def test_equal_servers_must_be_found_equal(low, high, word, held):
    assert [proof.holds for proof in judge_duel(comparison(low, high, word), 0.0)] == held


@pytest.mark.parametrize(
    ("low", "high", "word", "held"),
    [
        (-0.055, -0.045, Word.SLOWER, [True, True]),
        (-0.110, 0.010, Word.INCONCLUSIVE, [True, False]),
        (-0.035, -0.025, Word.SLOWER, [False, True]),
        (0.045, 0.055, Word.FASTER, [False, False]),
    ],
)
def test_a_slowdown_must_be_found_at_its_true_size(low, high, word, held):
    assert -0.055 < -math.log1p(0.05) < -0.045
    assert [proof.holds for proof in judge_duel(comparison(low, high, word), 5.0)] == held


def test_a_duel_without_an_interval_proves_nothing():
    empty = Comparison.model_construct(
        estimate=Estimate(mean=0.0, interval=Interval(low=None, high=None), n=1),
        verdict=Verdict(words=(Word.INCONCLUSIVE,), at_least=None, sentence=""),
    )
    assert [proof.holds for proof in judge_duel(empty, 5.0)] == [False, False]


@pytest.mark.parametrize("test_run", [resolve, prove])
@pytest.mark.parametrize(
    ("problem", "written", "kept"),
    [(RunInvalid("no epoch"), True, True), (RunInvalid("no server"), False, False), (KeyboardInterrupt(), True, False)],
)
def test_a_failed_test_run_keeps_the_folder_that_its_message_names(
    tmp_path, monkeypatch, test_run, problem, written, kept
):
    def fail(_study, folder, _asked, **_more):
        if written:
            (folder / "epochs").mkdir()
        raise problem

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(machine_check, "run_study", fail)
    with pytest.raises(type(problem)):
        test_run("mysql:8.0.15", seed=1, threads=1, listener=None, stop=threading.Event())
    assert len(list(tmp_path.glob("bakeoff-doctor-*/epochs"))) == len(list(tmp_path.iterdir())) == kept


def test_a_test_run_that_ends_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with machine_check._folder_of_a_test_run() as folder:
        assert [str(each) for each in tmp_path.iterdir()] == [folder]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_doctor_prove_holds_on_this_machine(shell):
    ran = shell.run("doctor", "--prove", "--server", "mysql:8.0.15", "--seed", "1", "--format", "json", limit_s=800)
    found = json.loads(ran.out)["proof"]
    assert [each["holds"] for each in found] == [True] * 4, ran
    assert ran.code == 0, ran
