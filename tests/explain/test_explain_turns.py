"""How the budget for explaining is divided among kinds of epochs, by a fake clock."""

import threading
from collections import Counter
from types import SimpleNamespace

import pytest
from messages import study
from pretended_servers import SignalledPool, tools_of

from bakeoff.explain import after_verdict, statement_plans, waits
from bakeoff.explain.after_verdict import KINDS, Explaining
from bakeoff.explain.waits import CellWaits
from bakeoff.results import RunDirectory

TOOLS = SimpleNamespace(stop=SimpleNamespace(is_set=lambda: False))


def kinds_run(monkeypatch, budget_s, epoch_s, failing=(), failing_s=None, note=lambda _: None, load=lambda: TOOLS):
    """Return the kinds in the order of their epochs. Each epoch takes `epoch_s`; the kinds in `failing` fail."""
    clock, begun = [0.0], []

    def run_epoch(self, kind, tools, arm_s):
        begun.append(kind.name)
        clock[0] += failing_s if failing_s and kind.name in failing else epoch_s
        return "it failed" if kind.name in failing else ""

    monkeypatch.setattr(after_verdict, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(after_verdict._Explanation, "_overhead_s", lambda self: 8.0)
    monkeypatch.setattr(after_verdict._Explanation, "_run_epoch", run_epoch)
    listener, cells = SimpleNamespace(note=note), {"cell": ("A", "B")}
    asked = after_verdict._Explanation(Explaining(budget_s), None, listener, load, None, cells)
    asked._measure_kinds([kind for kind in KINDS if not kind.spare], {kind.name: [] for kind in KINDS})
    assert clock[0] <= budget_s
    return begun


@pytest.mark.parametrize(
    ("budget_s", "expected"),
    [
        (110.0, {"plans": 1, "profile": 3, "waits": 1}),
        (150.0, {"plans": 1, "profile": 3, "waits": 3}),
        (400.0, {"plans": 1, "profile": 6, "waits": 6}),
    ],
)
def test_earlier_kinds_get_enough_epochs_for_an_interval_first(monkeypatch, budget_s, expected):
    begun = kinds_run(monkeypatch, budget_s, epoch_s=20.0)
    assert {kind: begun.count(kind) for kind in dict.fromkeys(begun)} == expected


def test_a_failing_kind_does_not_take_time_from_the_others(monkeypatch):
    begun = kinds_run(monkeypatch, 130.0, epoch_s=20.0, failing=("profile",))
    assert begun.count("profile") == 2
    assert begun.count("waits") == 3


def test_a_kind_that_took_long_to_fail_does_not_end_the_others(monkeypatch):
    begun = kinds_run(monkeypatch, 200.0, epoch_s=20.0, failing=("profile",), failing_s=60.0)
    assert begun.count("profile") == 2
    assert begun.count("waits") == 3


def test_epochs_that_take_longer_than_expected_do_not_exceed_the_budget(monkeypatch):
    assert kinds_run(monkeypatch, 110.0, epoch_s=60.0) == ["plans"]


def test_a_budget_that_suffices_is_suggested_before_anything_is_loaded(monkeypatch):
    said = []
    assert kinds_run(monkeypatch, 5.0, epoch_s=20.0, note=said.append, load=None) == []
    assert said == ["Explaining needs about 1 min 30 s: write --explain-budget 90s."]


@pytest.mark.needs("replay")
def test_plans_of_every_round_are_kept(monkeypatch, tmp_path):
    def plans_of(_log, servers):
        return {"statements": {}, "counts": dict.fromkeys(servers, 1)}

    monkeypatch.setattr("bakeoff.replay.answers.plans_of", plans_of)
    kept = {}
    writer = SimpleNamespace(write_server_json=lambda arm, _name, values: kept.update({arm: dict(values)}))
    watch = statement_plans.Plans(writer)
    for arms in (("A", "B"), ("A", "C")):
        ours = {arm: SimpleNamespace(home=tmp_path, query=lambda *_: None) for arm in arms}
        setups = tuple(SimpleNamespace(arm=SimpleNamespace(name=arm)) for arm in arms)
        for cell in ("c", "d"):
            with watch(SimpleNamespace(ours=ours, setups=setups), SimpleNamespace(name=cell, fixed_work=False)):
                pass
    assert {arm: [(cell, set(found["counts"])) for cell, found in cells.items()] for arm, cells in kept.items()} == {
        contender: [("c", {"A", contender}), ("d", {"A", contender})] for contender in ("B", "C")
    }


def test_waits_of_every_round_are_added_up(monkeypatch):
    kept = {}
    writer = SimpleNamespace(write_server_json=lambda arm, _name, values: kept.update({arm: values}))
    readings = {"A": iter([10, 40, 40, 90]), "B": iter([0, 20])}
    readings["C"] = iter([50, 60])
    monkeypatch.setattr(waits, "_switch_stages_on", lambda _: None)
    monkeypatch.setattr(waits, "_read", lambda arm: Counter({"wait/io": next(readings[arm])}))
    watch = waits.Waits(writer)
    cell = SimpleNamespace(name="c", guard_ns=0)
    own = {"events": 95, "outside_events": 5}
    for arms in (("A", "B"), ("A", "C")):
        with watch(SimpleNamespace(ours={arm: arm for arm in arms}), cell) as seen:
            for arm in arms:
                seen(own | {"arm": arm})
    found = {arm: CellWaits.model_validate(cells["c"]) for arm, cells in kept.items()}
    assert {arm: (each.events, each.waits["wait/io"]) for arm, each in found.items()} == {
        "A": (200, 80),
        "B": (100, 20),
        "C": (100, 10),
    }


def test_an_explaining_epoch_interrupted_by_a_stop_signal_is_dropped(tmp_path):
    run, stop = RunDirectory.create(tmp_path, study()), threading.Event()
    tools, plan = tools_of(SignalledPool(stop), stop)
    cells = {plan.cells[0].name: ("A", "B")}
    asked = after_verdict._Explanation(Explaining(60.0), run, tools.listener, lambda: tools, plan, cells)
    kind = after_verdict.Kind("plans", lambda _: None)
    assert asked._run_epoch(kind, tools, 1.0) == "interrupted"
    assert run.explaining("plans").finished_epochs() == ()
