"""Slice tables written by hand, for the statistics' tests."""

from bakeoff.results.epoch_data import SLICE_SCHEMA, EpochData
from bakeoff.results.frame import Frame


def slice_row(arm, block, position, *, events, seconds=1.0, cell="oltp_point_select/4", start_s=None, **other):
    """One slice with 4 connections busy for `seconds` each; every other field of the format 0 or as given."""
    start = block * 4 + position if start_s is None else start_s
    row = {
        name: (None if name.startswith("server_") else "{}" if name in ("errors", "threads") else 0)
        for name in SLICE_SCHEMA
        if name not in ("epoch", "build")
    }
    return row | {
        "arm": arm,
        "block": block,
        "position": position,
        "cell": cell,
        "start_ns": int(start * 1e9),
        "length_ns": int(seconds * 1e9),
        "busy_ns": int(seconds * 4e9),
        "connections": 4,
        "events": events,
        **other,
    }


def epoch_of(rows, *, epoch=0, build=0, valid=True, histograms=(), variables=None):
    """An epoch with these slices."""
    slices = Frame.of_rows([{"epoch": epoch, "build": build, **row} for row in rows], SLICE_SCHEMA)
    return EpochData(
        epoch=epoch,
        build=build,
        valid=valid,
        discard_reason="" if valid else "server crashed",
        slices=slices,
        histograms=list(histograms),
        variables=variables or {},
    )


def quads(ratios, *, level=1000, cell="oltp_point_select/4", seconds=1.0):
    """ABBA blocks in which B completes `ratio * level` events a slice and A `level`."""
    return [
        slice_row(
            arm, block, position, events=level if arm == "A" else round(level * ratio), cell=cell, seconds=seconds
        )
        for block, ratio in enumerate(ratios)
        for position, arm in enumerate("ABBA")
    ]
