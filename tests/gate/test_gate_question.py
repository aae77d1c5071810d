"""A gate as a study keeps it."""

from messages import study

from bakeoff.gate.rule import GateQuestion
from bakeoff.spec import Study


def test_a_stored_gate_is_read_as_one():
    asked = study().model_copy(update={"question": GateQuestion(reference=-0.02, name="reads")})
    stored = Study.model_validate_json(asked.model_dump_json())
    assert stored == asked and type(stored.question) is GateQuestion
