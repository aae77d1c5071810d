"""A run's documents and measurements, read once, and the interface through which features add sections."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import count, takewhile
from typing import Any, Protocol, TypeVar

import numpy as np

from bakeoff import features
from bakeoff.plan import Cell, Plan
from bakeoff.report import numbers
from bakeoff.report.charts import ARM_SLOTS
from bakeoff.report.view import Conclusion, Footnote, RecordList, ReportView, Section, Series, Status
from bakeoff.results import SLICE_SCHEMA, RunDirectory
from bakeoff.results.frame import Frame, quotients
from bakeoff.results.manifest import Host, kinds_of
from bakeoff.spec import Arm, Study
from bakeoff.stats.estimate import epoch_rates
from bakeoff.stats.model import Analysis, ArmSummary, Comparison, Flag
from bakeoff.stats.stopping import Rule, VerdictRule
from bakeoff.units import format_bytes, format_ns

T = TypeVar("T")

CPU_KINDS = ("user", "system", "iowait", "steal", "idle")


def cpu_shares(slices: Frame) -> Frame:
    """Return how all processors were used while each arm was loaded, as shares of 1 (NaN if unknown)."""
    by = slices.by("cell", "arm")
    ticks = {kind: by.sum(slices[f"host_{kind}_ns"]) for kind in CPU_KINDS}
    whole = np.sum([*ticks.values()], axis=0)
    client = by.sum(slices["client_user_ns"] + slices["client_system_ns"])
    server = by.sum(slices["server_cpu_ns"])
    others = np.maximum(ticks["user"] + ticks["system"] - server - client, 0.0)
    parts = ticks | {"server": server, "client": client, "others": others}
    shares = {name: quotients(sums, whole) for name, sums in parts.items()}
    return by.keys.with_columns(**shares, seconds=by.sum(slices["length_ns"]) / 1e9)


CONTROL_SLOT = 6
DETAIL_CELLS = 12
"""Most cells with charts over time and of percentiles; tables and the forest plot show all cells."""


def read_analysis(run: RunDirectory) -> Analysis | None:
    if analysis := run.read("analysis.json", Analysis):
        check_analysis(run, analysis, run.study())
    return analysis


def check_analysis(run: RunDirectory, analysis: Analysis, study: Study) -> None:
    if unknown := [arm for arm in analysis.named_arms() if arm not in {each.name for each in study.arms}]:
        raise run.damaged("analysis.json", f"the study has no arm {unknown[0]}")
    of, there = analysis.epochs_used + len(analysis.discarded), len(run.finished_epochs())
    # The record of measured claims keeps neither the plan nor the epochs of a run.
    whole = (run.path / "plan.json").exists() or (run.path / "epochs").exists()
    if of != there and whole and (run.path / "analysis.json").exists():
        raise run.damaged("analysis.json", f"it is of {of} epochs, and {there} are there with an outcome.json")


_LABEL_PART = " · "


def without_common(*labels: str) -> tuple[str, ...]:
    """Drop the parts that all labels share, and the words that begin a part in all of them (`mysql:`, `utf8mb4_`)."""
    rows = [label.split(_LABEL_PART) for label in labels]
    if len({len(row) for row in rows}) != 1 or len(labels) < 2:
        return labels
    columns = [column for column in zip(*rows, strict=True) if len(set(column)) > 1]
    shorts = tuple(_LABEL_PART.join(row) for row in zip(*map(_without_shared, columns), strict=True))
    return shorts if len(set(shorts)) == len(labels) else labels


def _without_shared(texts: tuple[str, ...]) -> list[str]:
    """Drop the options that all texts share, and their common beginning up to a `:` or `_`.

    Options, paths and URLs are not cut in the middle.
    """
    options = [text.split(",") for text in texts]
    shared = set[str](options[0]).intersection(*options)
    own = [",".join(each for each in row if each not in shared) for row in options]
    kept = own if all(own) else list(texts)
    if any("//" in text for text in kept):
        return kept
    whole = any(mark in text for text in kept for mark in "=/")
    same = takewhile(lambda each: len(set(each)) == 1, zip(*kept, strict=False))
    common = "".join(each[0] for each in same)
    cut = max(common.rfind(end) for end in (":" if whole else ":_")) + 1
    return [text[cut:] for text in kept] if all(len(text) > cut for text in kept) else kept


class Context:
    """A run with its analysis. `samples` maps a digest to a statement with its literals, if they may be shown."""

    def __init__(self, run: RunDirectory, analysis: Analysis, samples: Mapping[str, str] | None = None) -> None:
        self.run = run
        self.analysis = analysis
        self.samples = samples or {}
        self.study = run.study()
        self.manifest = run.manifest()
        self.plan = run.read("plan.json", Plan)
        self.outcomes = tuple(run.outcome(epoch) for epoch in run.finished_epochs())
        self._made: dict[Callable[[Context], Any], Any] = {}
        check_analysis(run, analysis, self.study)

    @cached_property
    def slots(self) -> dict[str, int]:
        free = (slot for slot in count() if slot % ARM_SLOTS != CONTROL_SLOT)
        return {arm.name: CONTROL_SLOT if arm.name == self.analysis.control else next(free) for arm in self.study.arms}

    @cached_property
    def arms(self) -> dict[str, Arm]:
        return {arm.name: arm for arm in self.study.arms}

    @cached_property
    def labels(self) -> dict[str, str]:
        """Arm -> label; equal labels have the arm's name added."""
        texts = [arm.label for arm in self.study.arms]
        return {a.name: a.label if texts.count(a.label) == 1 else f"{a.label} ({a.name})" for a in self.study.arms}

    @cached_property
    def short_labels(self) -> dict[str, str]:
        """Arm -> its label without what all labels share (`8.0.15 · 0900_ai_ci`)."""
        control = self.analysis.control
        names = [name for name in self.arms if name != control]
        shorts = dict(zip(names, without_common(*(self.labels[name] for name in names)), strict=True))
        if control is not None:
            shorts[control] = f"{shorts[self.analysis.baseline]} (control)"
        return shorts

    def with_labels(self, text: str) -> str:
        """Replace arm names (`arm B`) in a text with their labels."""
        names = "|".join(map(re.escape, sorted(self.labels, key=len, reverse=True)))
        return re.sub(rf"\barm ({names})(?![\w'])", lambda found: self.labels[found[1]], text)

    @cached_property
    def compared_arms(self) -> tuple[str, ...]:
        return tuple(arm for arm in self.arms if arm != self.analysis.control)

    @cached_property
    def cells(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(comparison.cell for comparison in self.analysis.comparisons))

    @cached_property
    def primary(self) -> tuple[Comparison, ...]:
        return tuple(comparison for comparison in self.analysis.comparisons if not comparison.is_control)

    @cached_property
    def values(self) -> dict[str, list[float]]:
        """Contender -> log ratios, one per epoch in which both arms completed something. For runs with one cell."""
        return {each.contender: [point.value for point in each.points] for each in self.primary}

    @cached_property
    def detail_cells(self) -> tuple[str, ...]:
        if len(self.cells) <= DETAIL_CELLS:
            return self.cells
        largest = sorted(self.primary, key=lambda comparison: -abs(comparison.estimate.mean))
        chosen = list(dict.fromkeys(comparison.cell for comparison in largest))[:DETAIL_CELLS]
        return tuple(cell for cell in self.cells if cell in chosen)

    @cached_property
    def summaries(self) -> dict[tuple[str, str], ArmSummary]:
        return {(summary.cell, summary.arm): summary for summary in self.analysis.arms}

    def server_cpu_ns(self, cell: str, arm: str) -> float:
        """Return an arm's server CPU per event; 0 if it is not known."""
        summary = self.summaries.get((cell, arm))
        return (summary.server_cpu_ns_per_event if summary else None) or 0.0

    @cached_property
    def valid_epochs(self) -> tuple[int, ...]:
        return tuple(outcome.epoch for outcome in self.outcomes if outcome.valid)

    @cached_property
    def host_of(self) -> dict[int, str]:
        return {outcome.epoch: outcome.host for outcome in self.outcomes if outcome.valid}

    @cached_property
    def machines(self) -> dict[str, Host]:
        """Hosts with a valid epoch; empty for a run on one machine."""
        return {name: host for name, host in self.run.machines().items() if name in self.host_of.values()}

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Host -> kind of machine; empty for a run on one machine."""
        return kinds_of(self.machines)

    @cached_property
    def host(self) -> Host:
        """The machine that measured; in a cluster the first host."""
        return next(iter(self.machines.values()), self.manifest.host)

    @cached_property
    def hosts_and_network(self) -> tuple[str, str] | None:
        """Where client and servers were, and the network between them; None if they shared a machine."""
        network = self.run.network()
        if not self.study.client or not network:
            return None
        return (
            f"client on {self.study.client} ({network.client_address}; {network.client_machine}), servers at "
            f"{network.servers_address}",
            f"round trip {format_ns(network.rtt_ns)}, {format_bytes(network.bytes_per_s)} a second from servers to "
            "client",
        )

    @cached_property
    def _titles(self) -> dict[str, str]:
        comparisons = self.analysis.comparisons
        return {each.cell: f"{each.workload} · {numbers.threads(each.threads)}" for each in comparisons}

    def cell_title(self, cell: str) -> str:
        return self._titles.get(cell, cell)

    @cached_property
    def by_cell(self) -> dict[str, Any]:
        """Fields that put a table's rows under the titles of their cells."""
        return {"group": lambda each: self.cell_title(each.cell), "group_title": "cell"}

    @cached_property
    def by_arm(self) -> dict[str, Any]:
        return self.by_cell | {"slot": lambda each: self.slots[each.arm]}

    def titled(self, cell: str, contender: str, *, short: bool = False) -> str:
        """`oltp_read_only · 4 threads`, with the contender's label if there are several."""
        label = (self.short_labels if short else self.labels)[contender]
        return self.cell_title(cell) + (f" · {label}" if len(self.analysis.contenders) > 1 else "")

    def arm_series(
        self,
        arm: str,
        x: numbers.Floats,
        y: numbers.Floats,
        band: tuple[numbers.Floats, numbers.Floats] = ((), ()),
        **fields: Any,  # noqa: ANN401
    ) -> Series:
        x, y, low, high = map(numbers.rounded, (x, y, *band))
        return Series(name=self.labels[arm], key=f"arm-{self.slots[arm]}", x=x, y=y, low=low, high=high, **fields)

    @cached_property
    def _flagged(self) -> dict[Flag, list[Comparison]]:
        found: dict[Flag, list[Comparison]] = {}
        for comparison in self.analysis.comparisons:
            for flag in comparison.flags:
                found.setdefault(flag, []).append(comparison)
        return found

    @cached_property
    def footnotes(self) -> tuple[Footnote, ...]:
        return tuple(
            Footnote(
                number=number,
                word=flag.kind,
                text=self.with_labels(flag.text),
                where=tuple(f"{self.cell_title(each.cell)}, {self.labels[each.contender]}" for each in flagged),
            )
            for number, (flag, flagged) in enumerate(self._flagged.items(), start=1)
        )

    def notes(self, comparison: Comparison) -> tuple[int, ...]:
        return tuple(
            number
            for number, flagged in enumerate(self._flagged.values(), start=1)
            if any(each is comparison for each in flagged)
        )

    @cached_property
    def slices(self) -> Frame:
        return self.run.slices(*(name for name in SLICE_SCHEMA if name not in ("errors", "threads")))

    @cached_property
    def epoch_rates(self) -> dict[tuple[str, str], dict[int, float]]:
        """(cell, arm) -> epoch -> events per second."""
        return epoch_rates(self.slices)

    @cached_property
    def processors(self) -> Frame:
        return cpu_shares(self.slices)

    @cached_property
    def variables(self) -> dict[str, dict[str, str]]:
        return self.run.newest_variables()

    @cached_property
    def histograms(self) -> dict[int, list[dict[str, Any]]]:
        return {epoch: self.run.histograms(epoch) for epoch in self.valid_epochs}

    @property
    def cells_planned(self) -> tuple[Cell, ...]:
        return self.plan.cells if self.plan else ()

    def once(self, make: Callable[["Context"], T]) -> T:
        """Return `make(self)`, computed once."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]  # type: ignore[no-any-return]


# The seam between the report and features. A feature's `sections.py` exports `SECTIONS`, which `build.py` orders.


class Place(IntEnum):
    """Where a section stands. Within a place the core's sections come first."""

    ANSWER = 1
    CAUSES = 2
    QUERIES = 3
    THROUGHPUT = 4
    LATENCY = 5
    STUDY = 6
    COSTS = 7
    SETUP = 8


def _nothing(_: Context) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class SectionSource:
    """A section, and what belongs to it elsewhere in the report.

    `findings`: sentences for the summary; `place` decides if they precede the verdicts'. `statuses`: warnings above
    everything else. `key_figures`: lines for the terminal.
    """

    place: Place
    make: Callable[[Context], Section | None]
    findings: Callable[[Context], Iterable[str]] = _nothing
    statuses: Callable[[Context], Iterable[Status]] = _nothing
    key_figures: Callable[[Context], Iterable[str]] = _nothing
    records: Callable[[Context], RecordList] | None = None


# How a question is answered: in the report, to programs, and by the exit code.

Finish = Callable[[RunDirectory, ReportView], None]


class Question(Rule, Protocol):
    """A kind of question: `QUESTION` in a feature's `question.py`."""

    def conclude(self, context: Context) -> Conclusion:
        """Answer the question for a run."""

    def ending(self, study: Study) -> AbstractContextManager[Finish]:
        """Wrap measuring and reporting, to give errors this question's exit codes and files."""


_NAMED = 3  # contenders that a question names


class VerdictQuestion(VerdictRule):
    def conclude(self, context: Context) -> Conclusion:
        design = context.study.design
        if design and design.question:
            return Conclusion(design.question)
        baseline = context.labels[context.analysis.baseline]
        contenders = [context.labels[name] for name in context.analysis.contenders]
        if len(contenders) == 1:
            return Conclusion(f"Is {contenders[0]} faster than {baseline}?")
        if len(contenders) > _NAMED:
            return Conclusion(f"Which of {len(contenders)} contenders is faster than {baseline}?")
        return Conclusion(f"Which is faster than {baseline}: {', '.join(contenders[:-1])} or {contenders[-1]}?")

    def ending(self, _study: Study) -> AbstractContextManager[Finish]:
        return nullcontext(lambda _run, _view: None)


def question_of(study: Study) -> Question:
    module = features.part(study.question.kind, "question")
    question: Question = module.QUESTION if module else VerdictQuestion()
    return question
