"""The gate as a question: measuring ends once a comparison has failed, and the exit code is for a pipeline."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from bakeoff import spec
from bakeoff.gate import outputs, sections
from bakeoff.gate.rule import Answer, GateQuestion, Sample, answers, as_question
from bakeoff.report.context import Context, Finish
from bakeoff.report.view import Conclusion
from bakeoff.spec import Study
from bakeoff.stats.stopping import ComparisonState, Decision, Progress, decide, family_size


class _Gate:
    record: type[spec.Question] = GateQuestion

    def decide(self, progress: Progress) -> Decision:
        study, family = progress.study, family_size(progress.study, len(progress.plan.cells))

        def failed(states: Sequence[ComparisonState]) -> bool:
            samples = [Sample(state.values, state.stop, state.hosts) for state in states if not state.is_control]
            return Answer.FAIL in answers(samples, limit=study.question.reference, family=family)

        return decide(progress, answered=failed)

    def conclude(self, context: Context) -> Conclusion:
        gate = sections.gate_of(context)
        return Conclusion(
            sections.question(context),
            lead=sections.lead(context),
            table=sections.gate_table(context),
            document=gate,
            key="gate",
            exit_code=outputs.exit_code(as_question(context.study), gate),
        )

    @contextmanager
    def ending(self, study: Study) -> Iterator[Finish]:
        question = as_question(study)
        with outputs.codes_for(bisect=question.bisect), outputs.errors_in(question.junit, question.name):
            outputs.writable(question.junit, "--junit")
            outputs.writable(question.history, "--history")
            yield partial(outputs.write, question)


QUESTION = _Gate()
