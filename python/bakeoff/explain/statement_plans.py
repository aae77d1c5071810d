"""Record the plans of a workload's statements, in an extra epoch with one server's general log on."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pydantic import ConfigDict

from bakeoff import features
from bakeoff.engine_messages import SliceMessage
from bakeoff.plan import Cell
from bakeoff.results import EpochWriter
from bakeoff.run.epoch_servers import EpochServers
from bakeoff.stats.model import Frozen

PLANS = "plans"  # kind of the explaining epochs in which plans are recorded
PLANS_DOCUMENT = "plans.json"  # document of one arm of each round in such an epoch: cell -> `CellPlans`
_LOG = "statements.log"


class StatementPlans(Frozen):
    """How the arms run one statement of the workload; a plan has one line per table.

    `differs` has the arms whose plan is not that of the first arm that has one. `rows_read` is per execution, empty for
    writes.
    """

    model_config = ConfigDict(extra="ignore")  # older files also have `analyzed`

    text: str
    plans: dict[str, tuple[str, ...]]
    differs: tuple[str, ...] = ()
    rows_read: dict[str, float] = {}


class CellPlans(Frozen):
    """The statements of a cell by digest, the most frequent first, and how often each was seen."""

    statements: dict[str, StatementPlans]
    counts: dict[str, int]


class PlanDifferences(NamedTuple):
    """Statements that both arms explain, those of them with another plan, and how many one arm cannot explain."""

    compared: tuple[StatementPlans, ...]
    other: tuple[StatementPlans, ...]
    left: int


def plan_differences(found: Sequence[CellPlans], baseline: str, contender: str) -> PlanDifferences | None:
    """Compare the plans of the last record that has both arms; None if there is none."""
    arms = {baseline, contender}
    known = [each for each in found if all(arms <= own.plans.keys() for own in each.statements.values())]
    if not known:
        return None
    recorded = known[-1].statements.values()
    compared = tuple(each for each in recorded if each.plans[baseline] and each.plans[contender])
    other = tuple(each for each in compared if _differ(each, baseline, contender))
    return PlanDifferences(compared, other, len(recorded) - len(compared))


def _differ(plans: StatementPlans, baseline: str, contender: str) -> bool:
    """Whether two arms have different plans. `differs` is relative to the first arm that has a plan."""
    others = (baseline in plans.differs, contender in plans.differs)
    return others[0] != others[1] or (all(others) and plans.plans[baseline] != plans.plans[contender])


def hindrance() -> str:
    return "" if features.part("replay", "answers") else "Plans are not compared: replay is not installed."


class Plans:
    """A `bakeoff.run.epoch.Watch` that keeps plans of a cell in `plans.json` of each round's last arm."""

    def __init__(self, writer: EpochWriter) -> None:
        self._writer = writer
        self._found: defaultdict[str, dict[str, Any]] = defaultdict(dict)

    @contextlib.contextmanager
    def __call__(self, servers: EpochServers, cell: Cell) -> Iterator[Callable[[SliceMessage], None]]:
        replay = features.part("replay", "answers")
        if cell.fixed_work or not replay:
            yield lambda _message: None
            return
        # In the study's order, not in the order of starting: plans are compared with the first arm's.
        arms = [setup.arm.name for setup in servers.setups]
        ours = {arm: servers.ours[arm] for arm in arms if arm in servers.ours}
        first, last_arm = next(iter(ours.values())), arms[-1]
        log = first.home / _LOG
        first.query("SET GLOBAL log_output='FILE'")
        first.query("SET GLOBAL general_log_file=%s", (str(log),))
        first.query("SET GLOBAL general_log=1")
        try:
            yield lambda _message: None
        finally:
            first.query("SET GLOBAL general_log=0")
        self._found[last_arm][cell.name] = replay.plans_of(log, ours)
        self._writer.write_server_json(last_arm, PLANS_DOCUMENT, self._found[last_arm])
        log.unlink(missing_ok=True)
