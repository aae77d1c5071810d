"""How a question is answered: in the report, to programs, and by the exit code."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from bakeoff import features
from bakeoff.report.context import Context
from bakeoff.report.view import Conclusion, ReportView
from bakeoff.results import RunDirectory
from bakeoff.spec import Study
from bakeoff.stats.question import Rule, VerdictRule

Finish = Callable[[RunDirectory, ReportView], None]
"""Write what a question leaves besides the report."""


class Question(Rule, Protocol):
    """A kind of question: `QUESTION` in a feature's `question.py`."""

    def conclude(self, context: Context) -> Conclusion:
        """Conclusion it from a run."""

    def ending(self, study: Study) -> AbstractContextManager[Finish]:
        """Surround measuring and reporting, so that errors end as the question wants.

        Raises:
            SpecError: a file that the question asks for cannot be written.
        """


class VerdictQuestion(VerdictRule):
    """Which arm is faster."""

    def conclude(self, context: Context) -> Conclusion:
        """Leave the answer to the verdicts."""
        design = context.study.design
        if design and design.question:
            return Conclusion(design.question)
        baseline = context.labels[context.analysis.baseline]
        contenders = [context.labels[name] for name in context.analysis.contenders]
        if len(contenders) == 1:
            return Conclusion(f"Is {contenders[0]} faster than {baseline}?")
        return Conclusion(f"Which is faster than {baseline}: {', '.join(contenders[:-1])} or {contenders[-1]}?")

    def ending(self, _study: Study) -> AbstractContextManager[Finish]:
        """Leave nothing besides the report."""
        return nullcontext(lambda _run, _view: None)


def question_of(study: Study) -> Question:
    """Return the kind of question that a study asks."""
    module = features.part(study.question.kind, "question")
    question: Question = module.QUESTION if module else VerdictQuestion()
    return question
