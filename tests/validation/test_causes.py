"""Planted causes on real servers: the report names the right family first, and the setting among three."""

import pytest

from validation.causes import CAUSES, plant

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", CAUSES)
def test_a_planted_cause_is_named(name, shell):
    told = plant(name, shell.folder / "cause", seed=1)
    assert told.claimed and told.right, told


def test_the_setting_that_was_planted_is_named(shell):
    told = plant("log flush", shell.folder / "cause", seed=1, attribute=True)
    assert told.claimed and told.setting_right, told
