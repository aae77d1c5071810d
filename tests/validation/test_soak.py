"""The soak test looks at its own duel alone."""

import pytest
from synthetic import duel_study, make_run

from bakeoff.errors import ServerError
from validation.soak import soak


def test_an_earlier_run_in_the_folder_is_not_taken_for_that_of_the_duel(tmp_path):
    make_run(tmp_path, duel_study(), epochs=1)
    with pytest.raises(ServerError, match="left no run directory"):
        soak(tmp_path, server="mysql:nonsense", minutes=1, seed=1, report=lambda text: None)
