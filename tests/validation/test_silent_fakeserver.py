"""A fake server that never says that it is ready is given up, and not left behind."""

import psutil
import pytest

from bakeoff.errors import HostError
from validation import fake_server


def test_a_server_that_never_becomes_ready_is_stopped(tmp_path, monkeypatch):
    silent = tmp_path / "bakeoff-fakeserver"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setenv("BAKEOFF_FAKESERVER", str(silent))
    monkeypatch.setattr(fake_server, "_START_S", 0.2)
    before = set(psutil.Process().children())
    with pytest.raises(HostError, match=r"printed nothing for 0\.2 s"):
        fake_server.FakeServer(tmp_path / "a.sock")
    assert set(psutil.Process().children()) <= before
