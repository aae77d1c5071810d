"""bench/replay/claims.py: what it records after each replay. Real replays need servers and half an hour."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

CLAIMS = Path(__file__).parents[2] / "bench" / "replay" / "claims.py"


def test_each_replay_is_kept_with_machine_commit_and_settings(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("claims", CLAIMS)
    claims = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(claims)
    asked = []

    def replay(folder, arms, *, budget, seed):
        asked.append((budget, seed))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return {"claims": {}, "differing": {}, "spinning": {"verdict": "INCONCLUSIVE"}}

    write = claims.record.write
    monkeypatch.setattr(claims, "replay", replay)
    monkeypatch.setattr(claims.record, "write", lambda name, content, **at: write(name, content, tmp_path, **at))
    monkeypatch.setattr(sys, "argv", ["claims.py", "--equal", "3", "--slowed", "0", "--budget", "1s", "--seed", "7"])
    with pytest.raises(KeyboardInterrupt):
        claims.main()
    (path,) = tmp_path.glob("replay-claims-*.json")
    kept = json.loads(path.read_text())
    assert len(kept["replays"]) == 2 and asked == [("1s", 7), ("1s", 8), ("1s", 9)]
    assert kept["settings"] == {"equal": 3, "slowed": 0, "server": "mysql:8.0.15", "budget": "1s", "seed": 7}
    assert kept["host"]["cpus"] >= 1 and "commit" in kept and kept["date"]
