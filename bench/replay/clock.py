"""How exactly a replay by the clock begins statements: 10,000 a second from 16 connections, against the fake server.

    python bench/replay/clock.py [SECONDS]

The fake server answers at once, so a response time, which counts from the intended start, is the start's error and one
round trip. The same statements as fast as they go show that round trip.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bakeoff.engine import ArmAddress, Engine, engine_path, make_capture

PER_S, CONNECTIONS = 10_000, 16
HEAD = "mysqld, Version: 8.0.33 (x). started with:\nTcp port: 0  Unix socket: x\nTime  Id Command    Argument\n"


def main() -> None:
    """Make the capture, replay it, print a line."""
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        log, capture, socket = path / "general.log", path / "clock.capture", path / "fake.sock"
        with log.open("w") as out:
            out.write(HEAD)
            for at in range(seconds * PER_S):
                second, rest = divmod(at, PER_S)
                moment = f"{second // 60:02}:{second % 60:02}.{rest * 1_000_000 // PER_S:06}"
                out.write(
                    f"2026-11-23T10:{moment}Z\t    {1 + at % CONNECTIONS} Query\tSELECT c FROM t WHERE id = {at}\n"
                )
        make_capture([str(log)], capture, redact=False, log_format=None, on_progress=lambda _done, _total: None)
        server = subprocess.Popen(
            [engine_path().with_name("bakeoff-fakeserver"), f"--socket={socket}"], stdout=subprocess.PIPE
        )
        try:
            assert server.stdout and b"ready" in server.stdout.readline()
            with Engine() as engine:
                arm = ArmAddress("A", str(socket), None, None, "root", "", "x", "utf8mb4", None, server_pid=server.pid)
                engine.open([arm])
                for speed in (None, 1.0):
                    request = {
                        "cell": "clock", "capture": str(capture), "chunk_events": PER_S * seconds // 2, "speed": speed,
                        "reads_only": True, "threads": CONNECTIONS, "arms": ["A"], "blocks": 1, "slice_ns": 10**9,
                    }  # fmt: skip
                    measured = engine.measure(request)
                    event = next(each for each in measured.histograms if each["operation"] == "event")
                    late = sum(each["late_starts"] for each in measured.slices)
                    length_s = sum(each["length_ns"] for each in measured.slices) / 1e9
                    found = {name: round(ns / 1e3, 1) for name, ns in event["quantiles_ns"].items()}
                    row = {"speed": speed, "per_s": round(event["count"] / length_s), "late": late, "us": found}
                    print(json.dumps(row | {"max_us": round(event["max_ns"] / 1e3, 1)}))
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
