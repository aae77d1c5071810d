"""Planted causes on real servers: the report names the right family first."""

import pytest

from validation.causes import CAUSES, plant

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", CAUSES)
def test_a_planted_cause_is_named(name, shell):
    told = plant(name, shell.folder / "cause", seed=1)
    assert told.claimed and told.right, told
