"""The recorder, on a real server."""

import numpy as np
import pytest

from validation import __main__ as program
from validation.machines import Recorded, Traces


@pytest.mark.server
@pytest.mark.slow
def test_a_recording_can_be_replayed(tmp_path, capsys):
    arguments = ["record", "small", "--restarts", "3", "--seconds", "2", "--threads", "2", "--to", str(tmp_path)]
    assert program.run(arguments) == 0
    assert "small.npz" in capsys.readouterr().out
    recorded = Traces.read(tmp_path / "small.npz")
    assert recorded.events.shape == recorded.taken_us.shape == recorded.reference.shape
    assert recorded.events.shape[0] == recorded.origin.restarts == 3
    assert (recorded.reference.sum(axis=1) * 2 == recorded.events.shape[1]).all()  # in turn
    assert 15_000 < np.median(recorded.taken_us) < 40_000  # slices of 20 ms

    machine = Recorded(str(tmp_path / "small.npz"))
    epoch = machine.epoch(np.random.default_rng(1), number=0, cells=["a", "b"], levels=np.zeros((2, 2)), effect=0.0)
    per_s = epoch.slices["events"].sum() / (epoch.slices["length_ns"].sum() / 1e9)
    recorded_per_s = recorded.events[recorded.reference].sum() / recorded.taken_us[recorded.reference].sum() * 1e6
    assert per_s == pytest.approx(recorded_per_s, rel=0.5)
