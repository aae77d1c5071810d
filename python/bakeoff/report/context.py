"""A run's documents and measurements, read once for all sections of its report."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, TypeVar

import polars as pl

from bakeoff.plan import Plan
from bakeoff.report import numbers
from bakeoff.report.view import Footnote, Series
from bakeoff.results import Manifest, Outcome, RunDirectory
from bakeoff.spec import Arm, Study
from bakeoff.stats.estimate import epoch_rates
from bakeoff.stats.model import Analysis, ArmSummary, Comparison, Flag

# Slices are read lazily and kept as bins only, so that a run of a million slices needs little memory. A bin holds sums
# over sums, never every n-th slice.

BINS = 160
"""Points a line, over all epochs together: a chart is 460 pixels wide."""

ByArm = TypeVar("ByArm", bound=Mapping[str, object])

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
    """Throughput and the server's metrics over time, for the cells named."""
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


CONTROL_SLOT = 6
"""Number of the colour and shape that a control has: the palette's grey."""

DETAIL_CELLS = 12
"""Cells whose course over time and whose percentiles get a chart of their own; tables and forest hold all."""


@dataclass(frozen=True)
class Context:
    """A run with its analysis.

    Attributes:
        plan: None when the run ended before it was planned.
        outcomes: of all finished epochs, ascending.
    """

    run: RunDirectory
    analysis: Analysis
    study: Study
    manifest: Manifest
    plan: Plan | None
    outcomes: tuple[Outcome, ...]

    @classmethod
    def read(cls, run: RunDirectory, analysis: Analysis) -> "Context":
        """Read what is small; slices stay on disk.

        Raises:
            ResultsError: a document is missing or damaged.
        """
        context = cls(
            run=run,
            analysis=analysis,
            study=run.study(),
            manifest=run.manifest(),
            plan=run.read("plan.json", Plan),
            outcomes=tuple(run.outcome(epoch) for epoch in run.finished_epochs()),
        )
        context.of_the_study("analysis.json", analysis.named_arms())
        return context

    def of_the_study(self, name: str, by_arm: ByArm) -> ByArm:
        """What a file has for arms of the study.

        Raises:
            ResultsError: it has something for another arm.
        """
        for arm in by_arm:
            if arm not in self.arms:
                raise self.run.damaged(name, f"the study has no arm {arm}")
        return by_arm

    @cached_property
    def slots(self) -> dict[str, int]:
        """Arm name -> number of its colour and shape; the control always has the grey one."""
        free = (slot for slot in count() if slot != CONTROL_SLOT)
        return {arm.name: CONTROL_SLOT if arm.name == self.analysis.control else next(free) for arm in self.study.arms}

    @cached_property
    def arms(self) -> dict[str, Arm]:
        """Arm name -> arm, in the study's order."""
        return {arm.name: arm for arm in self.study.arms}

    @cached_property
    def labels(self) -> dict[str, str]:
        """Arm name -> what a reader calls it; two arms of one label get their names added."""
        texts = [arm.label for arm in self.study.arms]
        return {a.name: a.label if texts.count(a.label) == 1 else f"{a.label} ({a.name})" for a in self.study.arms}

    @cached_property
    def compared_arms(self) -> tuple[str, ...]:
        """Names of the arms without the control, which is another baseline."""
        return tuple(arm for arm in self.arms if arm != self.analysis.control)

    @cached_property
    def cells(self) -> tuple[str, ...]:
        """Cells that were compared, in the analysis's order."""
        return tuple(dict.fromkeys(comparison.cell for comparison in self.analysis.comparisons))

    @cached_property
    def primary(self) -> tuple[Comparison, ...]:
        """Comparisons that the question is about."""
        return tuple(comparison for comparison in self.analysis.comparisons if not comparison.is_control)

    @cached_property
    def detail_cells(self) -> tuple[str, ...]:
        """At most `DETAIL_CELLS` cells, those with the largest differences first chosen, in the usual order."""
        if len(self.cells) <= DETAIL_CELLS:
            return self.cells
        largest = sorted(self.primary, key=lambda comparison: -abs(comparison.estimate.mean))
        chosen = list(dict.fromkeys(comparison.cell for comparison in largest))[:DETAIL_CELLS]
        return tuple(cell for cell in self.cells if cell in chosen)

    @cached_property
    def summaries(self) -> dict[tuple[str, str], ArmSummary]:
        """(cell, arm) -> its summary."""
        return {(summary.cell, summary.arm): summary for summary in self.analysis.arms}

    @cached_property
    def valid_epochs(self) -> tuple[int, ...]:
        """Numbers of the epochs that count."""
        return tuple(outcome.epoch for outcome in self.outcomes if outcome.valid)

    @cached_property
    def _titles(self) -> dict[str, str]:
        comparisons = self.analysis.comparisons
        return {each.cell: f"{each.workload} · {numbers.threads(each.threads)}" for each in comparisons}

    def cell_title(self, cell: str) -> str:
        """`oltp_read_only · 4 threads`; the cell's name when it was not compared."""
        return self._titles.get(cell, cell)

    def arm_series(self, arm: str, x: numbers.Floats, y: numbers.Floats, **fields: Any) -> Series:  # noqa: ANN401
        """A line of a chart with the arm's name and colour; `fields` are the other ones of `Series`."""
        x, y = numbers.rounded(x), numbers.rounded(y)
        return Series(name=self.labels[arm], key=f"arm-{self.slots[arm]}", x=x, y=y, **fields)

    @cached_property
    def _flagged(self) -> dict[Flag, list[Comparison]]:
        """Flag -> comparisons that it was raised for; equal flags once."""
        found: dict[Flag, list[Comparison]] = {}
        for comparison in self.analysis.comparisons:
            for flag in comparison.flags:
                found.setdefault(flag, []).append(comparison)
        return found

    @cached_property
    def footnotes(self) -> tuple[Footnote, ...]:
        """Flags of all comparisons, numbered in order."""
        return tuple(
            Footnote(
                number=number,
                word=flag.kind,
                text=flag.text,
                where=tuple(f"{self.cell_title(each.cell)}, {self.labels[each.contender]}" for each in flagged),
            )
            for number, (flag, flagged) in enumerate(self._flagged.items(), start=1)
        )

    def notes(self, comparison: Comparison) -> tuple[int, ...]:
        """Numbers of a comparison's footnotes."""
        return tuple(
            number
            for number, flagged in enumerate(self._flagged.values(), start=1)
            if any(each is comparison for each in flagged)
        )

    @cached_property
    def slices(self) -> pl.LazyFrame:
        """Slices of the epochs that count."""
        return self.run.scan_slices()

    @cached_property
    def times(self) -> dict[str, CellTimes]:
        """The detailed cells over time."""
        return cell_times(self.slices, self.detail_cells)

    @cached_property
    def epoch_rates(self) -> dict[tuple[str, str], dict[int, float]]:
        """(cell, arm) -> epoch -> events per second."""
        found: dict[tuple[str, str], dict[int, float]] = {}
        for cell, arm, epoch, tps in epoch_rates(self.slices).iter_rows():
            found.setdefault((cell, arm), {})[epoch] = tps
        return found

    @cached_property
    def processors(self) -> pl.DataFrame:
        """Where processor time went in each cell while each arm was loaded (columns: `cpu_shares`)."""
        return cpu_shares(self.slices)

    @cached_property
    def variables(self) -> dict[str, dict[str, str]]:
        """Arm -> its server's global variables in the last epoch that counts."""
        return self.run.variables(self.valid_epochs[-1]) if self.valid_epochs else {}
