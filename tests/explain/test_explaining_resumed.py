"""What a resumed run explains."""

import pytest
from messages import study

from bakeoff.cli import main
from bakeoff.cli import run as run_command
from bakeoff.explain.after_verdict import Explaining
from bakeoff.results import RunDirectory


def gate():
    return pytest.importorskip("bakeoff.gate.rule").as_gate(study(), 0.02)


def bisection():
    pytest.importorskip("bakeoff.search.model")
    return pytest.importorskip("validation.bisections").study_of_builds(3)


@pytest.mark.parametrize(
    ("begun", "what"),
    [
        (gate, "gate"),
        (bisection, "bisection"),
        (study, ""),
    ],
)
def test_a_resumed_gate_or_bisection_explains_nothing(tmp_path, monkeypatch, capsys, begun, what):
    begun = begun()
    went_on = []
    monkeypatch.setattr(run_command, "run_and_report", lambda _study, options: went_on.append(options.explaining) or 0)
    monkeypatch.setattr(run_command, "require_disk", lambda _seen, **_: None)
    resume = ["run", "--resume", str(RunDirectory.create(tmp_path, begun).path)]
    assert main.run(resume) == main.run([*resume, "--no-explain"]) == 0
    assert went_on == [None if what else Explaining(begun.budget_s / 4), None]
    assert main.run([*resume, "--explain-budget", "1m"]) == (2 if what else 0)
    assert (
        f"is a {what}, which does not explain differences. Leave --explain-budget out." in capsys.readouterr().err
    ) == bool(what)
