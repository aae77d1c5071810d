"""How exactly a replay by the clock begins statements: 10,000 a second from 16 connections, against the fake server.

    python bench/replay/clock.py [SECONDS]       # exit code 1 when the 99th percentile is 1 ms or more

The fake server answers at once, so a response time, which counts from the intended start, is the start's error and one
round trip. The same statements as fast as they go show that round trip.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]  # `validation` is not installed

import record
from bakeoff.engine import Engine
from bakeoff.replay.captures import make_capture
from validation.fake_server import FakeServer

PER_S, CONNECTIONS, LIMIT_US = 10_000, 16, 1_000.0
HEAD = "mysqld, Version: 8.0.33 (x). started with:\nTcp port: 0  Unix socket: x\nTime  Id Command    Argument\n"


def main() -> int:
    """Replay both ways, print and record the results; return 1 if starts are too late."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", metavar="SECONDS", type=int, nargs="?", default=5)
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="folder of the JSON file")
    asked = parser.parse_args()
    rows = replays(asked.seconds)
    by_clock = rows[-1]
    held = by_clock["us"]["0.99"] < LIMIT_US
    content = {"settings": {"seconds": asked.seconds, "per_s": PER_S, "connections": CONNECTIONS}}
    content |= {"limit_us": LIMIT_US, "held": held, "replays": rows}
    print(record.write("replay-clock", content, asked.results))
    print(f"p99 of the start's error: {by_clock['us']['0.99'] / 1e3:.2f} ms, {'below' if held else 'not below'} 1 ms")
    return 0 if held else 1


def replays(seconds: int) -> list[dict[str, Any]]:
    """Make the capture and replay it as fast as it goes, then by the clock: rate, late starts, response times."""
    rows = []
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
        with FakeServer(socket) as server, Engine() as engine:
            engine.open([server.address("A")])
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
                rows.append(row | {"max_us": round(event["max_ns"] / 1e3, 1)})
                print(json.dumps(rows[-1]))
    return rows


if __name__ == "__main__":
    sys.exit(main())
