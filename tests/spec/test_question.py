"""What a study asks: a verdict, or the record of a feature."""

import json

import pytest

from bakeoff import features
from bakeoff.errors import SpecError
from bakeoff.gate.rule import GateQuestion
from bakeoff.search.model import Search, Setting
from bakeoff.spec import Arm, Question, Study, Workload, parse_server

ARMS = tuple(Arm(name=name, label=name, server=parse_server("mysql:8.0")) for name in "AB")


def asking(question):
    return Study(title="", arms=ARMS, workloads=(Workload(script="oltp_read_only"),), question=question)


@pytest.mark.parametrize(
    "question",
    [
        Question(),
        GateQuestion(reference=-0.02, name="reads"),
        Search(builds=ARMS),
        Search(settings=(Setting(factor="option.a", good="(not set)", bad="1", pairs=(("a", "1"),)),)),
    ],
)
def test_a_stored_question_is_read_as_the_record_of_its_feature(question):
    study = asking(question)
    assert Study.model_validate_json(study.model_dump_json()) == study
    assert type(Study.model_validate_json(study.model_dump_json()).question) is type(question)


@pytest.mark.parametrize("kind", ["nonsense", "gate"])
def test_a_question_of_a_missing_feature_is_refused_in_one_line(monkeypatch, kind):
    stored = json.loads(asking(GateQuestion(reference=-0.02)).model_dump_json())
    stored["question"]["kind"] = kind
    monkeypatch.setattr(features, "part", lambda *_: None)
    with pytest.raises(
        SpecError, match=f"^study: it asks a question of kind '{kind}', which this bakeoff does not know"
    ):
        Study.model_validate(stored)


def test_arms_join_a_search_alone():
    three = (*ARMS, ARMS[0].model_copy(update={"name": "C"}))
    assert asking(Question()).model_copy(update={"arms": three}).starting_arms == three
    assert asking(Search(builds=three)).model_copy(update={"arms": three}).starting_arms == three[:2]
