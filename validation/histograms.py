"""Encode latencies or counts as HdrHistogram does (V2 deflate form, 3 digits, 1 ns to an hour, base64)."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray


def encode_values(values_ns: NDArray[np.int64]) -> str:
    """Values of at least 1 ns: 2048 cells of 1 ns, then 1024 for each doubling."""
    doublings = np.maximum(np.frexp(values_ns.astype(np.float64))[1] - 11, 0)
    return encode_counts(np.bincount(doublings * 1024 + (values_ns >> doublings)))


def encode_counts(counts: NDArray[np.int64]) -> str:
    """Counts by cell: each count, and each run of empty cells as its negative length, is a ZigZag LEB128 number."""
    filled = np.flatnonzero(counts)
    gaps = np.diff(filled, prepend=-1) - 1
    numbers = np.column_stack([-gaps, counts[filled]]).ravel()
    numbers = numbers[numbers != 0].astype(np.int64)
    coded = (numbers << 1) ^ (numbers >> 63)
    sizes = 1 + sum((coded >> 7 * place != 0).astype(np.int64) for place in range(1, 8))
    starts = np.cumsum(sizes) - sizes
    payload = np.zeros(int(sizes.sum()), dtype=np.uint8)
    for place in range(int(sizes.max(initial=0))):
        long = sizes > place
        more = np.where(sizes[long] > place + 1, 0x80, 0)
        payload[starts[long] + place] = (coded[long] >> 7 * place) & 0x7F | more
    header = struct.pack(">iiiiqqd", 0x1C849313, len(payload), 0, 3, 1, 3_600_000_000_000, 1.0)
    packed = zlib.compress(header + payload.tobytes())
    return base64.b64encode(struct.pack(">ii", 0x1C849314, len(packed)) + packed).decode("ascii")
