"""What servers waited for in a cell, of a server that is none."""

from types import SimpleNamespace

import pytest

from bakeoff.plan import Cell, SliceLength
from bakeoff.run.waits import Waits
from bakeoff.spec import Placement
from bakeoff.stats.waits_and_plans import WAITS_DOCUMENT, CellWaits

MUTEX = "wait/synch/mutex/innodb/trx_sys_mutex"
MS = 1_000_000


class FakeServer:
    """Has waited once in every event; its own count of statements is one an event, or does not move."""

    pid = -1  # of no process
    installation = SimpleNamespace(family="mysql", version=(8, 0, 15), name="mysql-8.0.15")

    def __init__(self, *, questions):
        self.waits = self.statements = 0
        self._counts_questions = questions

    def run(self, events):
        self.waits += events
        self.statements += events * self._counts_questions

    def status(self):
        return {"Questions": str(self.statements)}

    def query(self, sql, arguments=()):
        return [(MUTEX, self.waits, 1000 * self.waits)] if "_by_user_" in sql and arguments == ("wait/%",) else []


class Kept:
    """In place of an epoch's writer."""

    def write_server_json(self, arm, name, values):
        assert (arm, name) == ("A", WAITS_DOCUMENT)
        self.cells = {cell: CellWaits(**each) for cell, each in values.items()}


def a_cell(replay):
    return Cell(
        name="c", workload="c", workload_index=0, script="c", threads=1, writes=False, freeze=False,
        placement=Placement.PAIRED, open_loop=False, replay=replay,
        slices=SliceLength(slice_ns=50 * MS, guard_ns=5 * MS),
    )  # fmt: skip


@pytest.mark.parametrize("questions", [False, True])
@pytest.mark.parametrize(("replay", "events"), [(False, 110), (True, 100)])
def test_an_events_waits_are_those_of_all_events_between_the_readings(replay, events, questions):
    """The engine counts those of the slices alone; of a replay these are all."""
    kept, server = Kept(), FakeServer(questions=questions)
    watch = Waits(kept)
    cell = a_cell(replay)
    own = {"arm": "A", "length_ns": 50 * MS, "events": 50, "reads": 50, "writes": 0, "other": 0}
    for at in (1, 2):  # rounds of one epoch
        with watch(SimpleNamespace(ours={"A": server}), cell) as on_slice:
            on_slice(own)
            on_slice(own)
            on_slice(own | {"arm": "B"})
            server.run(events)
        found = kept.cells["c"]
        assert found.waits[MUTEX].count == at * events
        assert found.waits[MUTEX].count / found.events == pytest.approx(1.0)
