"""G10: quantiles are those of an exact sort, and their intervals hold the truth as often as they say."""

import base64
import math
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from bakeoff.gauntlet.model import Check, Finding, Setting, Size
from bakeoff.gauntlet.replay.judged import Count, finding, scaled, seed_of
from bakeoff.gauntlet.replay.method import SOUND, Method
from bakeoff.results import decode_histogram
from bakeoff.stats.comparison import Context
from bakeoff.stats.model import Stop
from bakeoff.stats.simulate import Floats, simulated_study

_QUANTILES = (0.5, 0.95, 0.99)
_ERROR_MAX = 0.001
_TRUTH = math.log(1.03)
_EPOCHS = 8
_REQUESTS = 5000  # an arm and epoch: 50 beyond the 99th percentile, the fewest that are accepted
_START_SD = 0.02  # of an arm's latency from start to start


def quantiles(setting: Setting, method: Method = SOUND, scale: float = 1.0) -> Finding:
    """Compare with an exact sort, then count intervals that hold a known ratio."""
    rng = np.random.default_rng(seed_of(setting, "G10"))
    error = max(_worst_error(np.rint(_latencies(rng, 1, 200_000)[0]).astype(np.int64)) for _ in range(5))
    context = Context(study=simulated_study(), family=1, control=None, ended=Stop.BUDGET, epoch_s=20.0)
    runs = scaled(600, scale)
    held = dict.fromkeys(_QUANTILES, 0)
    for _ in range(runs):
        baseline = _latencies(rng, _EPOCHS, _REQUESTS)
        contender = _latencies(rng, _EPOCHS, _REQUESTS) * math.exp(_TRUTH)
        for quantile in _QUANTILES:
            interval = method.quantile_interval(baseline, contender, quantile, context)
            if interval.low is not None and interval.high is not None:
                held[quantile] += interval.low <= _TRUTH <= interval.high
    counts = [
        Count(f"p{quantile * 100:g} held", hits, runs, at_least=0.93, at_most=0.97) for quantile, hits in held.items()
    ]
    found = finding(counts)
    return Finding(
        found=f"largest error {error:.3%}; {found.found}",
        passed=found.passed and error <= _ERROR_MAX,
        figures={**found.figures, "largest error": error},
    )


def _latencies(rng: np.random.Generator, epochs: int, requests: int) -> Floats:
    """Nanoseconds, about 0.1 ms with a long tail; every start has a level of its own."""
    level = rng.normal(0, _START_SD, (epochs, 1))
    tail = np.where(rng.random((epochs, requests)) < 0.03, rng.exponential(1.0, (epochs, requests)), 0.0)
    return 1e5 * np.exp(level + 0.4 * rng.standard_normal((epochs, requests)) + tail)


def _worst_error(values: NDArray[np.int64]) -> float:
    """Largest relative difference of a decoded histogram's quantiles from those of the sorted values."""
    asked = np.array([0.001, 0.01, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999])
    told = decode_histogram(encode(values)).quantiles(asked)
    exact = np.quantile(values, asked, method="inverted_cdf")
    return float(np.max(np.abs(told - exact) / exact))


def encode(values: NDArray[np.int64]) -> str:
    """HdrHistogram's V2 deflate form of values from 1 ns to an hour, 3 digits: what the engine writes."""
    cells = np.bincount([_cell(value) for value in values.tolist()])
    payload = bytearray()
    empty = 0
    for count in cells.tolist():
        if count == 0:
            empty += 1
            continue
        if empty:
            payload += _zigzag(-empty)
            empty = 0
        payload += _zigzag(count)
    header = struct.pack(">iiiiqqd", 0x1C849313, len(payload), 0, 3, 1, 3_600_000_000_000, 1.0)
    packed = zlib.compress(header + payload)
    return base64.b64encode(struct.pack(">ii", 0x1C849314, len(packed)) + packed).decode("ascii")


def _cell(value: int) -> int:
    """Index of a value: 2048 cells of 1 ns, then 1024 for each doubling."""
    doubling = max(value.bit_length() - 11, 0)
    return doubling * 1024 + (value >> doubling)


def _zigzag(number: int) -> bytes:
    """LEB128 of a ZigZag number."""
    coded = (number << 1) ^ (number >> 63)
    out = bytearray()
    while coded >= 0x80:
        out.append(coded & 0x7F | 0x80)
        coded >>= 7
    out.append(coded)
    return bytes(out)


CHECKS = (
    Check(
        "G10",
        "quantiles against an exact sort, and their intervals",
        "error <= 0.1%; p50, p95, p99 held in 93 to 97%",
        frozenset({Size.REPLAY}),
        quantiles,
    ),
)
