"""What servers waited for in a cell, on a fake server."""

from types import SimpleNamespace

from bakeoff.explain.waits import WAITS_DOCUMENT, CellWaits, Waits

MUTEX = "wait/synch/mutex/innodb/trx_sys_mutex"


class FakeServer:
    """A server that waits 1 µs in every event."""

    installation = SimpleNamespace(family="mysql", version=(8, 0, 15), name="mysql-8.0.15")
    waits = 0

    def status(self):
        return {}

    def query(self, sql, arguments=()):
        return [(MUTEX, 1_000_000 * self.waits)] if "_by_user_" in sql and arguments == ("wait/%",) else []


class Kept:
    """A stand-in for an epoch's writer."""

    def write_server_json(self, arm, name, values):
        assert (arm, name) == ("A", WAITS_DOCUMENT)
        self.cells = {cell: CellWaits(**each) for cell, each in values.items()}


def test_waits_are_divided_by_all_events_between_the_readings():
    """Events outside the connections' windows wait, too."""
    kept, server = Kept(), FakeServer()
    watch = Waits(kept)
    own = {"arm": "A", "events": 50, "outside_events": 5}
    for at in (1, 2):  # rounds of one epoch
        with watch(SimpleNamespace(ours={"A": server}), SimpleNamespace(name="c")) as on_slice:
            on_slice(own)
            on_slice(own)
            on_slice(own | {"arm": "B"})
            server.waits += 110
        found = kept.cells["c"]
        assert found.waits[MUTEX] == 1000 * at * 110 == 1000 * found.events
