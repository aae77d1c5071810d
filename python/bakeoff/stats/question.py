"""How a question steers its measurement. The core's is a verdict; others are in a feature's `question.py`."""

from typing import Protocol

from bakeoff import features, spec
from bakeoff.spec import Study
from bakeoff.stats.stopping import Decision, Progress, decide


class Rule(Protocol):
    """The part of a question that measuring needs; see `bakeoff.report.context` for the rest."""

    @property
    def record(self) -> type[spec.Question]: ...

    def decide(self, progress: Progress) -> Decision:
        """Decide what to do next. The same progress always gives the same decision, so a resumed run can ask again."""


class VerdictRule:
    record: type[spec.Question] = spec.Question

    def decide(self, progress: Progress) -> Decision:
        return decide(progress)


def rule_of(study: Study) -> Rule:
    module = features.part(study.question.kind, "question")
    rule: Rule = module.QUESTION if module else VerdictRule()
    return rule
