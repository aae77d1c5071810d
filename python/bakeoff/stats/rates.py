"""Throughput of every arm in every cell of every epoch: one number each, for what is not a ratio within an epoch."""

import polars as pl

from bakeoff.stats.estimate import with_rates


def epoch_rates(slices: pl.LazyFrame | pl.DataFrame) -> pl.DataFrame:
    """Events per second, sums over sums; arms that completed nothing in an epoch are left out.

    Args:
        slices: of the epochs that count, as in `slices.parquet`.

    Returns:
        Columns cell, arm, epoch, tps; sorted by these.
    """
    needed = ["cell", "arm", "epoch", "events", "busy_ns", "connections", "length_ns"]
    rated = with_rates(slices.lazy().select(needed).collect(engine="streaming"))
    return (
        rated.group_by("cell", "arm", "epoch")
        .agg((pl.col("events").sum() / pl.col("seconds").sum()).alias("tps"))
        .filter(pl.col("tps").is_finite() & (pl.col("tps") > 0))
        .sort("cell", "arm", "epoch")
    )
