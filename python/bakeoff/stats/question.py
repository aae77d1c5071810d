"""How a question steers its measurement: when measuring ends, and which arms the next epoch measures.

The core asks for a verdict (`stats/stopping.py`). A feature whose record is a study's question has a rule of its own,
`QUESTION` in its `question.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bakeoff import features, spec
from bakeoff.plan import Plan
from bakeoff.plan.timing import EpochTime
from bakeoff.spec import Study
from bakeoff.stats.estimate import EpochEstimates
from bakeoff.stats.hosts import Kinds
from bakeoff.stats.resolution import NoiseCard
from bakeoff.stats.stopping import Decision, decide


@dataclass(frozen=True)
class Progress:
    """Where a run stands.

    Attributes:
        history: one entry per valid epoch.
        study: with the arms that have joined so far.
        kinds: kind of machine by host.
        elapsed_s: wall seconds of the budget used, loading included.
        epoch_time: measured in the epochs so far; None before that.
        load_s: mean wall seconds of one load; only for a question that adds arms.
        newest: arms that the newest epoch started, valid or not; likewise.
        aborted: the user ended the run.
    """

    history: Sequence[EpochEstimates]
    study: Study
    plan: Plan
    elapsed_s: float
    kinds: Kinds = field(default_factory=dict)
    epoch_time: EpochTime | None = None
    load_s: float = 0.0
    newest: Sequence[str] = ()
    aborted: bool = False


class Rule(Protocol):
    """The part of a question that measuring needs; see `bakeoff.report.question` for the rest."""

    @property
    def record(self) -> type[spec.Question]:
        """The type of its record in a study."""

    def decide(self, progress: Progress) -> Decision:
        """Decide what to do next. The same progress always gives the same decision, so a resumed run can ask again."""

    def forecast(self, card: NoiseCard, study: Study, plan: Plan) -> str:
        """Say after the pilot what can be told apart on this machine; empty if that is unknown."""


class VerdictRule:
    """Measure until every comparison is precise or decisive."""

    record: type[spec.Question] = spec.Question

    def decide(self, progress: Progress) -> Decision:
        """Apply the stopping rule of docs/method.md."""
        return decide(
            progress.history,
            progress.study,
            progress.plan,
            kinds=progress.kinds,
            elapsed_s=progress.elapsed_s,
            epoch_time=progress.epoch_time,
            aborted=progress.aborted,
        )

    def forecast(self, _card: NoiseCard, _study: Study, _plan: Plan) -> str:
        """Add nothing to the noise card."""
        return ""


def rule_of(study: Study) -> Rule:
    """Return the rule of a study's question."""
    module = features.part(study.question.kind, "question")
    rule: Rule = module.QUESTION if module else VerdictRule()
    return rule
