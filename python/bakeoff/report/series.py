"""Measurements thinned out to what a chart can show: sums over sums inside each bin, never every n-th slice.

Everything here reads lazily and keeps bins only, so that a run of a million slices needs little memory.
"""

from dataclasses import dataclass

import polars as pl

from bakeoff.results import RSS_PREFIX, RunDirectory

BINS = 160
"""Points a line, over all epochs together: a chart is 460 pixels wide."""

_HOST = ("user", "system", "iowait", "steal", "idle")


@dataclass(frozen=True)
class CellTimes:
    """One cell over time, its epochs joined.

    Attributes:
        boundaries_s: where one epoch ends and the next begins.
        bins: columns arm, epoch, seconds, tps, tps_low, tps_high (slowest and fastest slice), server_cpus (processors
            that the server kept busy), context_switches_per_s, read_bytes_per_s and write_bytes_per_s (the server's, of
            the disk), network_bytes_per_s (between it and the client), rss_bytes, longest_ms (the longest event), and
            shares of all processors: user, system, iowait, steal (null without ticks).
    """

    boundaries_s: tuple[float, ...]
    bins: pl.DataFrame


def cell_times(slices: pl.LazyFrame, cells: tuple[str, ...]) -> dict[str, CellTimes]:
    """Throughput and the server's doings over time, for the cells named."""
    chosen = slices.filter(pl.col("cell").is_in(cells))
    spans = (
        chosen.group_by("cell", "epoch")
        .agg((pl.col("start_ns") + pl.col("length_ns")).max().alias("span_ns"))
        .sort("cell", "epoch")
        .with_columns((pl.col("span_ns").cum_sum() - pl.col("span_ns")).over("cell").alias("offset_ns"))
        .collect(engine="streaming")
    )
    if spans.is_empty():
        return {}
    bins_per_epoch = max(2, BINS // spans["epoch"].n_unique())
    whole = pl.sum_horizontal(f"host_{kind}_ns" for kind in _HOST).sum()
    tps = pl.col("events") * pl.col("connections") / pl.col("busy_ns") * 1e9
    seconds = pl.col("length_ns").sum() / 1e9
    bins = (
        chosen.join(spans.lazy(), on=["cell", "epoch"])
        .filter(pl.col("busy_ns") > 0)
        .with_columns(
            (pl.col("start_ns") * bins_per_epoch // pl.col("span_ns")).alias("bin"),
            (pl.col("offset_ns") + pl.col("start_ns") + pl.col("length_ns") // 2).alias("middle_ns"),
            tps.alias("slice_tps"),
        )
        .group_by("cell", "arm", "epoch", "bin")
        .agg(
            (pl.col("middle_ns").mean() / 1e9).alias("seconds"),
            (pl.col("events").sum() * pl.col("connections").first() / pl.col("busy_ns").sum() * 1e9).alias("tps"),
            pl.col("slice_tps").min().alias("tps_low"),
            pl.col("slice_tps").max().alias("tps_high"),
            (pl.col("server_cpu_ns").sum() / pl.col("length_ns").sum()).alias("server_cpus"),
            (pl.col("context_switches").sum() / seconds).alias("context_switches_per_s"),
            (pl.col("server_read_bytes").sum() / seconds).alias("read_bytes_per_s"),
            (pl.col("server_write_bytes").sum() / seconds).alias("write_bytes_per_s"),
            ((pl.col("sent_bytes").sum() + pl.col("received_bytes").sum()) / seconds).alias("network_bytes_per_s"),
            pl.col("server_rss_bytes").mean().alias("rss_bytes"),
            (pl.col("latency_max_ns").max() / 1e6).alias("longest_ms"),
            *(
                pl.when(whole > 0).then(pl.col(f"host_{kind}_ns").sum() / whole).alias(kind)
                for kind in _HOST
                if kind != "idle"
            ),
        )
        .sort("cell", "arm", "epoch", "bin")
        .collect(engine="streaming")
    )
    found: dict[str, CellTimes] = {}
    for (cell,), part in bins.group_by("cell", maintain_order=True):
        limits = spans.filter(pl.col("cell") == cell)["offset_ns"].to_list()[1:]
        found[str(cell)] = CellTimes(tuple(limit / 1e9 for limit in limits), part)
    return found


def cpu_shares(slices: pl.LazyFrame) -> pl.DataFrame:
    """Where all processors' time went while each arm was loaded, a row for each cell and arm.

    Returns:
        Columns cell, arm; user, system, iowait, steal, idle (shares of 1; null without ticks); server_cpus, client_cpus
        and others_cpus (processors kept busy; others_cpus null when the server was not observed); seconds.
    """
    ticks = {kind: pl.col(f"host_{kind}_ns").sum() for kind in _HOST}
    whole = pl.sum_horizontal(f"host_{kind}_ns" for kind in _HOST).sum()
    length = pl.col("length_ns").sum()
    client = pl.col("client_user_ns").sum() + pl.col("client_system_ns").sum()
    server = pl.col("server_cpu_ns").sum()
    others = ((ticks["user"] + ticks["system"] - server - client) / length).clip(lower_bound=0.0)
    return (
        slices.group_by("cell", "arm")
        .agg(
            *(pl.when(whole > 0).then(sums / whole).otherwise(None).alias(kind) for kind, sums in ticks.items()),
            (server / length).alias("server_cpus"),
            (client / length).alias("client_cpus"),
            pl.when((pl.col("server_cpu_ns").count() > 0) & (whole > 0))
            .then(others)
            .otherwise(None)
            .alias("others_cpus"),
            (length / 1e9).alias("seconds"),
        )
        .collect(engine="streaming")
    )


@dataclass(frozen=True)
class HostTimes:
    """The machine over the whole run, its epochs joined.

    Attributes:
        samples: columns of `host.parquet`, plus `epoch` and `seconds`; at most about `BINS` rows an epoch group.
        arms: those whose resident memory was sampled.
    """

    boundaries_s: tuple[float, ...]
    samples: pl.DataFrame
    arms: tuple[str, ...]


def host_times(run: RunDirectory, epochs: tuple[int, ...]) -> HostTimes | None:
    """The machine's samples of these epochs, averaged into bins; None when there are none."""
    frames: list[pl.DataFrame] = []
    boundaries: list[float] = []
    offset_s = 0.0
    bins_per_epoch = max(2, BINS // max(1, len(epochs)))
    for epoch in epochs:
        samples = run.host_samples(epoch)
        if samples.is_empty():
            continue
        if offset_s > 0:
            boundaries.append(offset_s)
        seconds = pl.col("time_ns") / 1e9
        span_s = float(samples.select(seconds.max()).item())
        step_s = max(span_s / bins_per_epoch, 1e-9)
        frames.append(
            samples.with_columns((seconds / step_s).ceil().alias("bin"))
            .group_by("bin", maintain_order=True)
            .agg(pl.exclude("bin").mean())
            .with_columns((seconds + offset_s).alias("seconds"), pl.lit(epoch).alias("epoch"))
            .drop("bin")
        )
        offset_s += span_s
    if not frames:
        return None
    joined = pl.concat(frames, how="diagonal_relaxed")
    arms = tuple(column.removeprefix(RSS_PREFIX) for column in joined.columns if column.startswith(RSS_PREFIX))
    return HostTimes(tuple(boundaries), joined, arms)
