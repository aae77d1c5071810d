"""Decode the `hdr` field of a `histogram` message: HdrHistogram's V2 deflate form in base64.

Source: HdrHistogram's V2 encoding (cookie, length and zlib stream; inside, 40 bytes of header and counts as ZigZag
LEB128, where a negative number is a run of empty cells).
"""

import base64
import binascii
import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bakeoff.errors import ResultsError

_DEFLATED, _PLAIN = 0x1C849314, 0x1C849313
_HEADER = struct.Struct(">iiiiqqd")
_CELLS_MAX = 2**24  # 64 doublings of 5 digits
_BYTES_MAX = 2**25


@dataclass(frozen=True)
class Histogram:
    """Recorded latencies: cells in ascending order, empty ones left out.

    Attributes:
        highest_ns: greatest value that each cell stands for, as HdrHistogram reports quantiles.
        counts: recorded values in each.
    """

    highest_ns: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        """Values recorded."""
        return int(self.counts.sum())

    def quantiles(self, quantiles: NDArray[np.float64]) -> NDArray[np.int64]:
        """Least value, ns, that a share of at least q lies at or below; all zero for an empty histogram."""
        if not self.total:
            return np.zeros(len(quantiles), dtype=np.int64)
        wanted = np.maximum(1, np.ceil(np.asarray(quantiles) * self.total - 1e-9))
        places = np.searchsorted(np.cumsum(self.counts), wanted)
        return self.highest_ns[np.minimum(places, len(self.highest_ns) - 1)]


def decode_histogram(hdr: str, place: str = "a latency histogram") -> Histogram:
    """Read the base64 text of one histogram; `place` names it in the error.

    Raises:
        ResultsError: not such a text, or damaged.
    """
    try:
        raw = base64.b64decode(hdr, validate=True)
        cookie, length = struct.unpack_from(">ii", raw)
        if cookie != _DEFLATED:
            raise ValueError(f"cookie {cookie:#x}")
        unpacking = zlib.decompressobj()
        inside = unpacking.decompress(raw[8 : 8 + length], _BYTES_MAX)
        if not unpacking.eof:
            raise ValueError(f"it ends early, or has more than {_BYTES_MAX} bytes")
        cookie, size, _, digits, lowest, _, _ = _HEADER.unpack_from(inside)
        if cookie != _PLAIN or not 1 <= digits <= 5 or not 1 <= lowest < 2**32:
            raise ValueError(f"inner cookie {cookie:#x}")
        indexes, counts = _cells(inside[_HEADER.size : _HEADER.size + size])
        if len(indexes) and not 0 <= indexes[-1] < _CELLS_MAX:
            raise ValueError(f"cell {indexes[-1]}")
    except (ValueError, OverflowError, struct.error, zlib.error, binascii.Error) as error:
        raise ResultsError(f"{place} cannot be read: {error}.", hint="Restore the file or measure again.") from None
    return Histogram(_highest(indexes, digits, lowest), counts)


def _cells(payload: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indexes and counts of the cells that are not empty."""
    octets = np.frombuffer(payload, dtype=np.uint8).astype(np.int64)
    ends = np.flatnonzero(octets < 0x80)
    starts = np.append(0, ends + 1)[:-1]
    sizes = ends - starts + 1
    if len(octets) != sizes.sum() or np.any(sizes > 8):  # a ninth octet would be a count of 2^55
        raise ValueError("a number does not end")
    place = np.arange(len(octets)) - np.repeat(starts, sizes)
    coded = np.add.reduceat((octets & 0x7F) << (7 * place), starts) if len(octets) else octets
    numbers = (coded >> 1) ^ -(coded & 1)
    steps = np.where(numbers < 0, -numbers, 1)
    if np.any(steps > _CELLS_MAX):
        raise ValueError(f"{steps.max()} empty cells")
    indexes = np.cumsum(steps) - steps
    counted = numbers > 0
    return indexes[counted], numbers[counted]


def _highest(indexes: NDArray[np.int64], digits: int, lowest: int) -> NDArray[np.int64]:
    """Greatest value of each cell: linear cells up to 2 x 10^digits units, then the same number for each doubling."""
    half_magnitude = (2 * 10**digits - 1).bit_length() - 1
    half = 1 << half_magnitude
    unit = lowest.bit_length() - 1
    bucket = (indexes >> half_magnitude) - 1
    sub = (indexes & (half - 1)) + half
    linear = bucket < 0
    sub = np.where(linear, sub - half, sub)
    shift = np.where(linear, 0, bucket) + unit
    highest: NDArray[np.int64] = ((sub + 1) << shift) - 1
    return highest
