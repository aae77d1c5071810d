"""Record the plans of a workload's statements, in an extra epoch with one server's general log on."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from bakeoff import features
from bakeoff.engine_messages import SliceMessage
from bakeoff.explain.waits_and_plans import PLANS_DOCUMENT
from bakeoff.plan import Cell
from bakeoff.results import EpochWriter
from bakeoff.run.epoch_servers import EpochServers

_LOG = "statements.log"


def hindrance() -> str:
    return "" if features.part("replay", "log_plans") else "Plans are not compared: replay is not installed."


class Plans:
    """A `bakeoff.run.epoch.Watch` that records a cell's statements and their plans.

    `plans.json` belongs to each round's last arm, which is in no other round.
    """

    def __init__(self, writer: EpochWriter) -> None:
        self._writer = writer
        self._found: defaultdict[str, dict[str, Any]] = defaultdict(dict)

    @contextlib.contextmanager
    def __call__(self, servers: EpochServers, cell: Cell) -> Iterator[Callable[[SliceMessage], None]]:
        """Have the first arm's server log its statements meanwhile, then explain them on every arm."""
        replay = features.part("replay", "log_plans")
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
