"""Handmade epochs of a TPC-C run: slices with a given time, histograms with given latencies."""

import numpy as np

from bakeoff.results import SLICE_SCHEMA
from bakeoff.results.epoch_data import EpochData
from bakeoff.results.frame import Frame
from validation.histograms import encode_values

CELL = "tpcc/4"


def histogram(operation, latencies_ns, *, arm="A", cell=CELL):
    """Make the engine's `histogram` message of these latencies."""
    return {
        "cell": cell,
        "arm": arm,
        "operation": operation,
        "clock": "service",
        "count": len(latencies_ns),
        "mean_ns": sum(latencies_ns) / len(latencies_ns) if latencies_ns else 0.0,
        "min_ns": min(latencies_ns, default=0),
        "max_ns": max(latencies_ns, default=0),
        "quantiles_ns": {},
        "hdr": encode_values(np.array(latencies_ns, dtype=np.int64)),
    }


def epoch_of(counts, *, seconds=30.0, arm="A", epoch=0, latency_ns=2_000_000, valid=True):
    """Make an epoch in which four connections completed `counts` of each operation, in one slice.

    `counts` maps an operation to a number of equal latencies, or to the latencies themselves.
    """
    given = {name: [latency_ns] * of if isinstance(of, int) else of for name, of in counts.items()}
    row = {name: (0 if kind != "string" else "{}") for name, kind in SLICE_SCHEMA.items()}
    row |= {
        "epoch": epoch,
        "arm": arm,
        "cell": CELL,
        "connections": 4,
        "events": sum(len(latencies) for name, latencies in given.items() if "." not in name),
        "length_ns": int(seconds * 1e9),
        "busy_ns": int(seconds * 4e9),
    }
    return EpochData(
        epoch=epoch,
        valid=valid,
        discard_reason="" if valid else "server crashed",
        slices=Frame.of_rows([row], SLICE_SCHEMA),
        histograms=[histogram(name, latencies, arm=arm) for name, latencies in given.items()],
    )
