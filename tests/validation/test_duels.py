"""Duels of the suite: what is recorded, what a journal survives, and which duels run again."""

import math
import subprocess
import sys
import time
from datetime import UTC, datetime

import psutil
import pytest

from bakeoff.errors import HostError, ResultsError
from bakeoff.stats.model import Interval, Stop, Word
from validation import campaign
from validation.campaign import Summary, ever_excludes, first_by_key, judged, planned, run_missing
from validation.duels import Background, Duel, Judgement, Outcome, run_bakeoff, run_duel
from validation.journal import append_entry, read_entries

DUEL = Duel(kind="slow2", number=3, servers=("mysql:8.0.15", "mysql:8.0.15"), seed=7, slowdown_percent=2)


def outcome(duel=DUEL, *, mean=-0.02, half=0.01, words=(Word.INCONCLUSIVE,), points=(), error=None):
    judgement = Judgement(
        cell="oltp_point_select/4", mean=mean, low=mean - half, high=mean + half, live=Interval(low=None, high=None),
        words=words, stop=Stop.BUDGET, points=points, flags=(),
    )  # fmt: skip
    return Outcome(
        duel=duel,
        judgements=() if error else (judgement,),
        started_at=datetime.now(UTC),
        wall_s=80.0,
        measured_s=12.0,
        other_share=0.1,
        error=error,
    )


def test_the_truth_of_an_injected_slowdown_is_exact_and_unlike_servers_have_none():
    assert DUEL.truth == pytest.approx(math.log(100 / 102))
    assert DUEL.model_copy(update={"slowdown_percent": 0.0}).truth == 0.0
    assert DUEL.model_copy(update={"servers": ("mysql:5.7.22", "mysql:8.0.15")}).truth is None


def test_the_command_is_one_that_a_user_can_type(tmp_path):
    words = DUEL.command(tmp_path)
    assert words[:3] == ("duel", "mysql:8.0.15", "mysql:8.0.15")
    assert words[words.index("--inject-slowdown") + 1] == "2%"
    assert words[words.index("--runs") + 1] == str(tmp_path)
    assert "--inject-slowdown" not in DUEL.model_copy(update={"slowdown_percent": 0.0}).command(tmp_path)


def test_a_duel_that_fails_says_why_and_leaves_nothing(tmp_path):
    duel = DUEL.model_copy(update={"servers": ("mysql:nonsense", "mysql:nonsense")})
    ran = run_duel(duel, tmp_path / "run")
    assert ran.judgements == ()
    assert "exit code 2" in ran.error and "nonsense" in ran.error
    assert not (tmp_path / "run").exists()


def test_a_command_that_takes_too_long_is_ended_and_says_so():
    code, _, err = run_bakeoff(["list", "servers"], 0.0)
    assert code == 124 and "ended after 0 s" in err


def test_a_journal_survives_a_line_that_was_cut_off(tmp_path):
    path = tmp_path / "duels.jsonl"
    append_entry(path, outcome())
    with path.open("a") as file:
        file.write(outcome().model_dump_json()[:200])
    assert len(read_entries(path, Outcome)) == 1
    later = outcome(DUEL.model_copy(update={"number": 4}))
    append_entry(path, later)
    kept = read_entries(path, Outcome)
    assert [each.duel.number for each in kept] == [3, 4]
    assert list(first_by_key(kept)) == [DUEL.key, later.duel.key]


def test_a_file_that_is_not_a_journal_is_refused(tmp_path):
    path = tmp_path / "duels.jsonl"
    path.write_text('{"something": "else"}\n')
    with pytest.raises(ResultsError, match=r"duels.jsonl:1"):
        read_entries(path, Outcome)


def test_the_first_outcome_of_a_duel_counts():
    assert first_by_key([outcome(mean=0.01), outcome(mean=0.5)])[DUEL.key].only.mean == 0.01


def test_planned_duels_mix_their_kinds_evenly():
    duels = planned({"aa": 30, "slow2": 30}, ["mysql:8.0.15"], seed=1)
    assert len({duel.key for duel in duels}) == 60 and len({duel.seed for duel in duels}) == 60
    first_half = [duel.kind for duel in duels[:30]]
    assert 12 <= first_half.count("aa") <= 18
    assert duels == planned({"aa": 30, "slow2": 30}, ["mysql:8.0.15"], seed=1)
    assert duels != planned({"aa": 30, "slow2": 30}, ["mysql:8.0.15"], seed=2)


def test_the_kind_decides_the_servers_and_the_truth():
    first, second = sorted(planned({"swap": 1}, ["mysql"], seed=1), key=lambda duel: duel.kind)
    assert first.servers == second.servers[::-1]
    assert first.truth is None
    (slow,) = planned({"slow5": 1}, ["mysql"], seed=1)
    assert slow.truth == pytest.approx(-math.log(1.05))
    (loaded,) = planned({"aa": 1}, ["mysql"], seed=1, background=True)
    assert loaded.key != planned({"aa": 1}, ["mysql"], seed=1)[0].key


def test_only_missing_duels_run_and_a_failure_is_tried_once_more(tmp_path, monkeypatch):
    tried = []

    def simulated_duel(duel, folder, *, background):
        tried.append(duel.number)
        return outcome(duel, error="exit code 4: simulated" if duel.number == 1 else None)

    monkeypatch.setattr(campaign, "run_duel", simulated_duel)
    duels = planned({"aa": 4}, ["mysql:8.0.15"], seed=1)
    append_entry(tmp_path / "duels.jsonl", outcome(next(duel for duel in duels if duel.number == 2)))
    journal = run_missing(duels, tmp_path)
    assert sorted(tried) == [0, 1, 1, 3]
    assert sorted(each.duel.number for each in first_by_key(journal).values()) == [0, 2, 3]
    assert len(journal) == len(read_entries(tmp_path / "duels.jsonl", Outcome)) == 5  # failures are kept


def test_two_runs_do_not_share_a_folder(tmp_path, monkeypatch):
    def nested(duel, folder, *, background):
        with pytest.raises(HostError, match="already running"):
            run_missing([], tmp_path)
        return outcome(duel)

    monkeypatch.setattr(campaign, "run_duel", nested)
    duels = planned({"aa": 1}, ["mysql:8.0.15"], seed=1)
    assert len(run_missing(duels, tmp_path)) == 1
    assert len(run_missing(duels, tmp_path)) == 1


def test_a_miss_is_described_with_its_epochs():
    equal = DUEL.model_copy(update={"kind": "aa", "slowdown_percent": 0.0})
    good = outcome(mean=-0.02, words=(Word.SLOWER,))
    missed = outcome(DUEL.model_copy(update={"number": 4}), mean=0.05, words=(Word.FASTER,), points=(0.04, 0.06))
    misled = outcome(equal, mean=0.02, words=(Word.FASTER,))
    first, second, third = judged([good, missed, misled])
    assert (first.right, first.wrong, first.covered) == (True, False, True)
    assert (second.right, second.wrong, second.covered) == (False, True, False)
    assert third.wrong
    assert missed.duel.key in str(second) and "+0.040 +0.060" in str(second) and "other work 10%" in str(second)


def test_a_duel_without_an_interval_holds_nothing_and_misses_nothing():
    without = outcome(mean=-0.96, half=math.nan)
    without = without.model_copy(
        update={"judgements": (without.only.model_copy(update={"low": None, "high": None}),)},
    )
    (one,) = judged([without])
    assert (one.covered, one.missed) == (False, False)
    assert (Summary.of(judged([outcome(), without])).intervals, Summary.of([one]).intervals) == (1, 0)


def test_peeking_is_judged_at_every_look():
    early = (0.03, 0.0301, 0.0299, 0.03, 0.03, -0.2, 0.2, 0.0)
    assert ever_excludes(early, 0.0)
    assert not ever_excludes(early, 0.03)
    assert not ever_excludes((0.03, 0.0301, 0.0299), 0.0)  # too few epochs for any live interval


def test_background_load_dies_with_its_parent():
    code = (
        "import time\nfrom validation import duels\nduels.BURST_S = (30.0, 30.0)\n"
        "class Most(duels.random.Random):\n    def randint(self, a, b):\n        return 2\n"
        "duels.random.Random = Most\n"
        "with duels.Background(1):\n    print('on', flush=True)\n    time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == "on\n"
    deadline = time.monotonic() + 20
    while len(children := psutil.Process(parent.pid).children()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert len(children) == 2 and not alive


def test_background_load_ends_with_its_block():
    before = time.monotonic()
    with Background(1):
        time.sleep(0.1)
    assert time.monotonic() - before < 10


@pytest.mark.slow
@pytest.mark.server
def test_a_real_duel_is_recorded_and_leaves_nothing_behind(shell, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", shell.env["XDG_CACHE_HOME"])
    duel = DUEL.model_copy(update={"slowdown_percent": 5.0, "budget": "15s", "table_size": 1000})
    (kept,) = run_missing([duel], shell.folder / "campaign")
    assert kept.error is None and kept.duel.truth == pytest.approx(-math.log(1.05))
    assert kept.only.cell == "oltp_point_select/4" and len(kept.only.points) >= 1
    assert 0 < kept.measured_s < kept.wall_s and 0 <= kept.other_share <= 1
    assert list((shell.folder / "campaign" / "runs").iterdir()) == []
    assert shell.left_behind() == []
