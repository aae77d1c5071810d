"""What a replay found, read once for all sections."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from bakeoff.replay.answer_rules import DOCUMENT, ROWS_KINDS, Answers, Compared, DigestAnswers
from bakeoff.replay.digests import OTHER, DigestTimes, digest_times
from bakeoff.report.context import Context


@dataclass(frozen=True)
class Query:
    """One digest in one cell on one contender: its times, its answers, or both."""

    cell: str
    contender: str
    digest: str
    text: str
    times: DigestTimes | None
    compared: Compared
    answers: DigestAnswers | None

    @property
    def differs(self) -> tuple[str, ...]:
        kinds = ("errors", *ROWS_KINDS, "columns", "warnings")
        found = [kind for kind in kinds if kind in self.compared.differences]
        return (*found, *(["plan"] if self.compared.plan else []))

    @property
    def word(self) -> str:
        if self.failing_arms:
            return "fails"
        return self.times.word if self.times else ""

    @property
    def failing_arms(self) -> int:
        """Number of the two arms that refused at least half of what was compared."""
        return sum(2 * failed >= max(1, self.compared.executed) for failed in self.compared.failed.values())

    @property
    def is_flagged(self) -> bool:
        return bool(self.differs) or self.word == "SLOWER"


class Replayed:
    """Get it from a context with `context.once(Replayed)`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @cached_property
    def failures(self) -> dict[tuple[str, str, str], Counter[str]]:
        """(cell, digest, error) -> arm -> statements that failed while they were timed."""
        found: dict[tuple[str, str, str], Counter[str]] = {}
        for epoch in self._context.valid_epochs:
            for row in self._context.run.failures(epoch):
                error = f"{row['sql_errno']} {row['message']}"
                found.setdefault((row["cell"], row["operation"], error), Counter())[row["arm"]] += row["count"]
        return found

    @cached_property
    def digests(self) -> tuple[DigestTimes, ...]:
        running = [arm.name for arm in self._context.study.arms if arm.server.is_running]
        analysis = self._context.analysis
        found = digest_times(
            self._context.histograms,
            baseline=analysis.baseline,
            ended=analysis.stopped,
            running=running,
            host_of=self._context.host_of,
            kinds=self._context.kinds if analysis.by_machine else {},
        )
        return tuple(each for each in found if each.contender in analysis.contenders)

    @cached_property
    def answers(self) -> dict[str, Answers]:
        return self._context.run.read(DOCUMENT, dict[str, Answers]) or {}

    @cached_property
    def other_tables(self) -> list[tuple[str, str, str]]:
        """Arm, table, and how the table differs after the writes."""
        by_arm = [pair for answers in self.answers.values() for pair in answers.other_tables.items()]
        return [(arm, table, how) for arm, tables in by_arm for table, how in tables.items()]

    @cached_property
    def by_cell(self) -> dict[str, Answers]:
        scripts = {
            cell.name: self._context.study.workloads[cell.workload_index].script for cell in self._context.cells_planned
        }
        return {cell: self.answers[script] for cell, script in scripts.items() if script in self.answers}

    @cached_property
    def by_place(self) -> dict[tuple[str, str], list[Query]]:
        """Queries by cell and contender."""
        found: dict[tuple[str, str], list[Query]] = {}
        for query in self.queries:
            found.setdefault((query.cell, query.contender), []).append(query)
        return found

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        times = {(each.cell, each.contender, each.digest): each for each in self.digests}
        found = []
        for cell in self._context.cells_planned:
            answers = self.by_cell.get(cell.name)
            judged = answers.digests if answers else {}
            for contender in self._context.analysis.contenders:
                timed = [digest for at, arm, digest in times if (at, arm) == (cell.name, contender)]
                for digest in dict.fromkeys([*timed, *judged]):
                    known = judged.get(digest)
                    text = known.text if known else "all other queries" if digest == OTHER else digest
                    compared = known.compared.get(contender, Compared()) if known else Compared()
                    own = times.get((cell.name, contender, digest))
                    found.append(Query(cell.name, contender, digest, text, own, compared, known))
        return tuple(sorted(found, key=lambda q: (-((q.times and q.times.time_lost) or 0.0), not q.differs, q.text)))
