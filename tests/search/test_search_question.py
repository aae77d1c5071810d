"""A search as a study keeps it."""

import pytest

from bakeoff.search.model import Search, Setting
from bakeoff.spec import Arm, Study, Workload, parse_server

ARMS = tuple(Arm(name=name, label=name, server=parse_server("mysql:8.0")) for name in "ABC")


def asking(question):
    return Study(title="", arms=ARMS, workloads=(Workload(script="oltp_read_only"),), question=question)


@pytest.mark.parametrize(
    "question",
    [
        Search(builds=ARMS),
        Search(settings=(Setting(factor="option.a", good="(not set)", bad="1", pairs=(("a", "1"),)),)),
    ],
)
def test_a_search_study_survives_a_json_round_trip(question):
    stored = Study.model_validate_json(asking(question).model_dump_json())
    assert stored == asking(question) and type(stored.question) is Search


def test_a_search_starts_with_two_arms():
    assert asking(Search(builds=ARMS)).starting_arms == ARMS[:2]
