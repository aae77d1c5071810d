"""How a study stores a gate."""

from messages import study

from bakeoff.gate.rule import GateQuestion
from bakeoff.spec import Study


def test_a_gate_question_survives_a_round_trip_through_json():
    asked = study().model_copy(update={"question": GateQuestion(reference=-0.02, name="reads")})
    stored = Study.model_validate_json(asked.model_dump_json())
    assert stored == asked and type(stored.question) is GateQuestion
