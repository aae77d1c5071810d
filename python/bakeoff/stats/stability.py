"""How steady throughput was: from slice to slice within an epoch, and from restart to restart. It decides nothing."""

import polars as pl

STALL = 0.5
"""A slice below that share of its epoch's throughput counts as a stall."""


def stability(slices: pl.LazyFrame) -> pl.DataFrame:
    """A row for each cell and arm.

    Args:
        slices: of the epochs that count.

    Returns:
        Columns cell, arm; slice_cv (standard deviation of a slice's throughput over its epoch's mean, over epochs the
        root of the mean square); slowest (the slowest slice over its epoch's mean); stalled (share of slices below half
        of it); slices (how many); epoch_cv (standard deviation of the epochs' throughput over their mean; null with
        one); longest_ns (the longest event).
    """
    rated = slices.filter(pl.col("busy_ns") > 0).with_columns(
        tps=pl.col("events") * pl.col("connections") / pl.col("busy_ns") * 1e9
    )
    key = ["cell", "arm", "epoch"]
    share = pl.col("tps") / (pl.col("events").sum() / (pl.col("busy_ns") / pl.col("connections")).sum() * 1e9).over(key)
    return (
        rated.with_columns(share=share)
        .group_by(key)
        .agg(
            pl.col("share").std().alias("sd"),
            pl.col("share").min().alias("slowest"),
            (pl.col("share") < STALL).sum().alias("stalls"),
            pl.len().alias("slices"),
            (pl.col("events").sum() / (pl.col("busy_ns") / pl.col("connections")).sum()).alias("rate"),
            pl.col("latency_max_ns").max(),
        )
        .group_by("cell", "arm")
        .agg(
            (pl.col("sd") ** 2).mean().sqrt().alias("slice_cv"),
            pl.col("slowest").min(),
            (pl.col("stalls").sum() / pl.col("slices").sum()).alias("stalled"),
            pl.col("slices").sum(),
            (pl.col("rate").std() / pl.col("rate").mean()).alias("epoch_cv"),
            pl.col("latency_max_ns").max().alias("longest_ns"),
        )
        .sort("cell", "arm")
        .collect(engine="streaming")
    )
