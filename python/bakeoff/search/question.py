"""The first slow build, or the settings that matter, as a question: every epoch measures what tells most about it."""

from contextlib import AbstractContextManager, nullcontext

from bakeoff import spec
from bakeoff.errors import ExitCode
from bakeoff.report.context import Context, Finish
from bakeoff.report.view import Conclusion
from bakeoff.search import sections
from bakeoff.search.bisection import search_decision
from bakeoff.search.model import Search
from bakeoff.spec import Study


class _Search:
    record: type[spec.Question] = Search
    decide = staticmethod(search_decision)

    def conclude(self, context: Context) -> Conclusion:
        found = sections.bisected(context)
        decided = found is not None and found.named is not None
        return Conclusion(
            sections.question(context),
            lead=sections.lead(context),
            table=sections.search_table(context),
            replaces_verdicts=True,
            document=found,
            key="bisection",
            exit_code=None if decided else ExitCode.UNCLEAR,
        )

    def ending(self, _study: Study) -> AbstractContextManager[Finish]:
        return nullcontext(lambda _run, _view: None)


QUESTION = _Search()
