"""Explain verdicts: measure extra epochs with instruments that would disturb the measurement (`RUN/explain/KIND/`)."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import ClassVar

from bakeoff.errors import BakeoffError, ResultsError, SpecError
from bakeoff.explain import off_cpu, perf, statement_plans, waits
from bakeoff.explain.profiles import OFF_CPU, PROFILES
from bakeoff.explain.statement_plans import PLANS
from bakeoff.explain.waits import WAITS
from bakeoff.plan import EpochDraft, Plan, epoch_draft
from bakeoff.plan.epochs import rounds, seed_for
from bakeoff.results import EpochWriter, RunDirectory
from bakeoff.run.epoch import Epoch, Interrupted, Watch, broken_off
from bakeoff.run.epoch_servers import EpochTools
from bakeoff.run.measuring import UnreliableCountError
from bakeoff.spec import Study
from bakeoff.stats.interval import EPOCHS_MIN_PAIRED
from bakeoff.stats.model import Analysis
from bakeoff.stats.progress import Listener
from bakeoff.units import format_duration

BUDGET_SHARE = 0.25  # default time for explaining, on top of the run's budget and as a share of it
_EPOCHS_MAX = 6
# Seconds per arm and cell. With 1,000 samples per CPU second, 1 % of the time is then known to about a seventh.
_ARM_S, _ARM_MIN_S = 5.0, 1.0
_FAILURES_MAX = 2  # in a row, of one kind


@dataclass(frozen=True)
class Kind:
    """One instrument, with its own epochs.

    Attributes:
        hindrance: returns why this machine cannot have it, as a sentence, or nothing.
        prepare: changes the servers of its epochs.
        replays: also useful for a replay.
        spare: left out if the budget cannot hold it besides the others.
    """

    name: str
    watch: Callable[[EpochWriter], Watch]
    hindrance: Callable[[], str] = lambda: ""
    prepare: Callable[[EpochTools], EpochTools] = lambda tools: tools
    epochs: int = _EPOCHS_MAX
    replays: bool = True
    spare: bool = False


KINDS = (
    Kind(PLANS, statement_plans.Plans, statement_plans.hindrance, epochs=1, replays=False),
    Kind(PROFILES, perf.Profiler, lambda: perf.permission().reason),
    Kind(WAITS, waits.Waits, prepare=waits.with_instruments),
    Kind(OFF_CPU, off_cpu.OffCpu, off_cpu.hindrance, spare=True),
)


@dataclass(frozen=True)
class Explaining:
    """What to explain after the verdict, and for how long (a `bakeoff.run.runner.AfterVerdict`).

    `arms` are explained in every cell; None means every comparison that is FASTER or SLOWER. With `only`, nothing else
    is measured.
    """

    budget_s: float
    arms: tuple[str, str] | None = None
    only: bool = False

    command: ClassVar[str] = "bakeoff explain"

    def __call__(self, run: RunDirectory, listener: Listener, load: Callable[[], EpochTools]) -> Analysis:
        """Measure epochs of every kind within the budget, and return the run's analysis unchanged.

        `load` is called if anything is measured; its time is not part of the budget.
        """
        analysis, plan = run.read("analysis.json", Analysis), run.read("plan.json", Plan)
        assert analysis, "a run that ended has an analysis"
        assert plan, "a run that ended has a plan"
        if self.arms:
            asked = run.read("explain/asked.json", list[tuple[str, str]]) or []
            before = [pair for pair in asked if pair != self.arms]
            run.write_json("explain/asked.json", [list(pair) for pair in (*before, self.arms)])
        if arms_of := _arms_of(self, analysis, plan):
            _Explanation(self, run, listener, load, plan, arms_of).run_all()
        return analysis


def asked(budget_s: float | None, *, none: bool, of_s: float) -> Explaining | None:
    """Read `--explain-budget` and `--no-explain` for a run of `of_s` seconds; None means explain nothing."""
    if none and budget_s is not None:
        raise SpecError("--explain-budget and --no-explain contradict each other.", hint="Leave one out.")
    if none:
        return None
    return Explaining(budget_s or BUDGET_SHARE * of_s)


def explained_pairs(analysis: Analysis) -> dict[str, tuple[str, ...]]:
    """Return the contenders that are FASTER or SLOWER, by cell."""
    found: dict[str, list[str]] = {}
    for comparison in analysis.comparisons:
        if not comparison.is_control and comparison.verdict.claims:
            found.setdefault(comparison.cell, []).append(comparison.contender)
    return {cell: tuple(arms) for cell, arms in found.items()}


def require_explainable(explaining: Explaining, run: RunDirectory) -> None:
    """Raise SpecError or ResultsError if nothing in a run can be explained."""
    study = run.study()
    if study.question.adds_arms:
        raise SpecError(
            f"explain: run {run.name} is a bisection, which rarely measures two arms together.",
            hint="Compare the two that matter: bakeoff duel, which explains by itself.",
        )
    if any(run.outcome(epoch).host for epoch in run.finished_epochs()):
        raise ResultsError(
            f"explain: run {run.name} was measured on the nodes of a cluster.",
            hint="Compare its arms on one machine: bakeoff duel, which explains by itself.",
        )
    # A running server gets no verdict, so only `--arms` can name one.
    in_question = [arm for arm in study.arms if arm.name in (explaining.arms or ())]
    if running := [str(arm.server) for arm in in_question if arm.server.is_running]:
        raise SpecError(
            f"explain: running servers are not explained, because nothing of them may be logged or changed: "
            f"{' and '.join(running)}.",
            hint="Compare two servers that bakeoff starts.",
        )
    analysis = run.read("analysis.json", Analysis)
    if analysis is None or run.read("plan.json", Plan) is None:
        raise ResultsError(f"run {run.name} has no verdict yet.", hint=f"Write bakeoff run --resume {run.name}.")
    if not explaining.arms and not explained_pairs(analysis):
        raise SpecError(
            f"explain: no comparison of run {run.name} is FASTER or SLOWER.", hint="Name two arms: --arms A,B."
        )


def _arms_of(explaining: Explaining, analysis: Analysis, plan: Plan) -> dict[str, tuple[str, ...]]:
    if explaining.arms:
        wanted = {cell.name: set(explaining.arms) for cell in plan.cells}
    else:
        wanted = {cell: {analysis.baseline, *arms} for cell, arms in explained_pairs(analysis).items()}
    return {cell: tuple(arm for arm in plan.arms if arm in arms) for cell, arms in wanted.items()}


@dataclass
class _Explanation:
    explaining: Explaining
    run: RunDirectory
    listener: Listener
    load: Callable[[], EpochTools]
    plan: Plan
    arms_of: Mapping[str, tuple[str, ...]]

    def run_all(self) -> None:
        notes = dict(self.run.read("explain/notes.json", dict[str, list[str]]) or {})
        kinds, said = [], set[str]()  # kinds may share a hindrance
        only_replays = all(self.plan.cell(cell).fixed_work for cell in self.arms_of)
        for kind in KINDS:
            if only_replays and not kind.replays:
                continue
            hindrance = kind.hindrance()
            notes[kind.name] = [hindrance] if hindrance and hindrance not in said else []
            said.add(hindrance)
            kinds += [] if hindrance else [kind]
        for sentences in notes.values():
            for sentence in sentences:
                self.listener.note(sentence)
        if kinds:
            self._measure_kinds(kinds, notes)
        self.run.write_json("explain/notes.json", notes)

    def _measure_kinds(self, kinds: list[Kind], notes: dict[str, list[str]]) -> None:
        overhead_s = self._overhead_s()
        turns = sum(map(len, self.arms_of.values()))
        kinds = self._affordable(kinds, notes, overhead_s + turns * _ARM_MIN_S)
        share_s = self.explaining.budget_s / sum(min(kind.epochs, EPOCHS_MIN_PAIRED) for kind in kinds)
        arm_s = min(_ARM_S, max(_ARM_MIN_S, (share_s - overhead_s) / turns))
        expected_s = overhead_s + turns * arm_s
        if self.explaining.budget_s < expected_s:
            needed_s = math.ceil(EPOCHS_MIN_PAIRED * len(kinds) * expected_s)
            needed = format_duration(needed_s)
            self._note(notes, kinds, f"Explaining needs about {needed}: write --explain-budget {needed_s}s.")
            return
        failures = {kind.name: 0 for kind in kinds}
        longest_s: dict[str, float] = {}
        tools, begin = self.load(), time.monotonic()
        # Fewer than three epochs give no interval, so each kind gets three before the next one begins.
        first = [kind for kind in kinds for _ in range(min(kind.epochs, EPOCHS_MIN_PAIRED))]
        more = [kind for turn in range(EPOCHS_MIN_PAIRED, _EPOCHS_MAX) for kind in kinds if turn < kind.epochs]
        for kind in (*first, *more):
            left_s = self.explaining.budget_s - (time.monotonic() - begin)
            if tools.stop.is_set():
                return
            # Slices of writes and of limited storage are longer than expected, in epochs of every kind.
            likely_s = longest_s.get(kind.name, max(longest_s.values(), default=expected_s))
            if failures[kind.name] >= _FAILURES_MAX or left_s < likely_s:
                continue
            begun = time.monotonic()
            reason = self._run_epoch(kind, tools, arm_s)
            longest_s[kind.name] = max(longest_s.get(kind.name, expected_s), time.monotonic() - begun)
            failures[kind.name] = failures[kind.name] + 1 if reason else 0
            if failures[kind.name] >= _FAILURES_MAX:
                self._note(notes, [kind], f"{kind.name} epochs failed: {reason}.")

    def _affordable(self, kinds: list[Kind], notes: dict[str, list[str]], least_s: float) -> list[Kind]:
        """Drop and note the spare kinds if the budget cannot hold them."""
        needed_s = least_s * sum(min(kind.epochs, EPOCHS_MIN_PAIRED) for kind in kinds)
        spare = [kind for kind in kinds if kind.spare]
        if not spare or self.explaining.budget_s >= needed_s or len(spare) == len(kinds):
            return kinds
        self._note(notes, spare, f"No off-CPU data: it needs --explain-budget {math.ceil(needed_s)}s or more.")
        return [kind for kind in kinds if not kind.spare]

    def _note(self, notes: dict[str, list[str]], kinds: Sequence[Kind], sentence: str) -> None:
        self.listener.note(sentence)
        for kind in kinds:
            notes[kind.name].append(sentence)

    def _overhead_s(self) -> float:
        outcomes = [self.run.outcome(epoch) for epoch in self.run.finished_epochs()]
        spent = [each.wall_s - each.measured_s - each.phases_s.get("pilot", 0.0) for each in outcomes]
        return fmean(spent) if spent else self.plan.overhead_s

    def _run_epoch(self, kind: Kind, tools: EpochTools, arm_s: float) -> str:
        """Measure one epoch. Returns why it was discarded, or nothing."""
        directory = self.run.explaining(kind.name)
        number = max(directory.finished_epochs(), default=-1) + 1
        tools = replace(kind.prepare(tools), called=kind.name)
        draft = self._draft(kind, tools.study, number)
        writer = directory.epoch(number, draft.build)
        epoch = Epoch(tools, draft, writer, watch=kind.watch(writer))
        arms = tuple(arm for arm in self.plan.arms if any(arm in each.arms for each in draft.cells))
        reason = ""
        try:
            for together in rounds(arms, at_once=tools.at_once, seed=self.plan.seed, epoch=number):
                with epoch.round(together):
                    epoch.measure_all(lambda _: arm_s, self.plan)
        except Interrupted:
            return "interrupted"
        except (BakeoffError, UnreliableCountError) as error:
            if broken_off(tools.stop):
                return "interrupted"
            reason = str(error).rstrip(".")
            self.listener.note(f"{kind.name} {number} is discarded: {reason}")
        writer.finish(epoch.outcome(discard_reason=reason))
        return reason

    def _draft(self, kind: Kind, study: Study, number: int) -> EpochDraft:
        """Draw orders and seeds that follow from the study's but differ from its epochs'."""
        study = study.model_copy(update={"seed": seed_for(study.seed, "explain", kind.name) % 2**31})
        every = ((cell.name, arm) for cell in self.plan.cells for arm in self.plan.arms)
        others = frozenset((cell, arm) for cell, arm in every if arm not in self.arms_of.get(cell, ()))
        return epoch_draft(self.plan, study, number, settled=others)
