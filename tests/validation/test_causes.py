"""Planted causes on real servers: the report names the right family first, or none where no counter sees the cause."""

import pytest

from validation.causes import CAUSES, plant

pytestmark = pytest.mark.server


def test_a_dropped_index_is_row_access(shell):
    told = plant("dropped index", shell.folder, seed=1)
    assert told.claimed and told.right, told


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name in CAUSES if name != "dropped index"])
def test_a_planted_cause_is_named(name, shell):
    told = plant(name, shell.folder, seed=1)
    assert told.right, told
