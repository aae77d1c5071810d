"""What a study asks: a verdict, or the record of a feature."""

import json

import pytest

from bakeoff import features
from bakeoff.errors import SpecError
from bakeoff.spec import Arm, Question, Study, Workload, parse_server

ARMS = tuple(Arm(name=name, label=name, server=parse_server("mysql:8.0")) for name in "ABC")
STUDY = Study(title="", arms=ARMS, workloads=(Workload(script="oltp_read_only"),), question=Question())


def test_a_verdict_study_survives_a_json_round_trip():
    assert Study.model_validate_json(STUDY.model_dump_json()) == STUDY


@pytest.mark.parametrize("kind", ["nonsense", "gate"])
def test_a_question_of_a_missing_feature_is_refused_in_one_line(monkeypatch, kind):
    stored = json.loads(STUDY.model_dump_json())
    stored["question"] = {"kind": kind, "name": "reads"}
    monkeypatch.setattr(features, "part", lambda *_: None)
    with pytest.raises(
        SpecError, match=f"^study: it asks a question of kind '{kind}', which this bakeoff does not know"
    ):
        Study.model_validate(stored)


def test_a_verdict_starts_with_every_arm():
    assert STUDY.starting_arms == ARMS
