"""Planted causes on real servers: the report names the right family first, and the setting among three.

One cause of each kind of evidence; `validation suite --size full --only G25` plants them all, many times.
"""

import pytest

from validation.causes import plant

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", ["dropped index", "log flush", "sort spill", "query cache"])
def test_a_planted_cause_is_named(name, shell):
    reported = plant(name, shell.folder / "cause", seed=1)
    assert reported.claimed and reported.right, reported


def test_the_setting_that_was_planted_is_named(shell):
    reported = plant("log flush", shell.folder / "cause", seed=1, attribute=True)
    assert reported.claimed and reported.setting_right, reported
