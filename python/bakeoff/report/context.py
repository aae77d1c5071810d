"""What all parts of a view are built from: the run's documents, read once."""

from dataclasses import dataclass
from functools import cached_property
from itertools import count

import polars as pl

from bakeoff.plan import Plan
from bakeoff.report.series import cpu_shares
from bakeoff.results import Manifest, Outcome, RunDirectory
from bakeoff.spec import Arm, Study
from bakeoff.stats.model import Analysis, ArmSummary, Comparison
from bakeoff.stats.rates import epoch_rates

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
        plan = run.plan()
        return cls(
            run=run,
            analysis=analysis,
            study=run.study(),
            manifest=run.manifest(),
            plan=Plan.model_validate(plan) if plan else None,
            outcomes=tuple(run.outcome(epoch) for epoch in run.finished_epochs()),
        )

    @cached_property
    def slots(self) -> dict[str, int]:
        """Arm name -> number of its colour and shape; the control always has the grey one."""
        numbers = (number for number in count() if number != CONTROL_SLOT)
        return {
            arm.name: CONTROL_SLOT if arm.name == self.analysis.control else next(numbers) for arm in self.study.arms
        }

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
    def slices(self) -> pl.LazyFrame:
        """Slices of the epochs that count."""
        return self.run.scan_slices()

    @cached_property
    def epoch_rates(self) -> dict[tuple[str, str], dict[int, float]]:
        """(cell, arm) -> epoch -> events per second."""
        found: dict[tuple[str, str], dict[int, float]] = {}
        for cell, arm, epoch, tps in epoch_rates(self.slices).iter_rows():
            found.setdefault((cell, arm), {})[epoch] = tps
        return found

    @cached_property
    def processors(self) -> pl.DataFrame:
        """Where processor time went in each cell while each arm was loaded (`bakeoff.report.series.cpu_shares`)."""
        return cpu_shares(self.slices)

    @cached_property
    def variables(self) -> dict[str, dict[str, str]]:
        """Arm -> its server's global variables in the last epoch that counts."""
        return self.run.server_json(self.valid_epochs[-1], "variables.json") if self.valid_epochs else {}
