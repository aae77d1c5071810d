"""One database of a real server, and what the TPC-C tests ask of it."""

from dataclasses import dataclass

from bakeoff.engine import ArmAddress, Engine
from bakeoff.errors import EngineError
from bakeoff.servers import Instance, ServerMemory

SMALL = ServerMemory(buffer_pool_bytes=256 << 20, redo_bytes=256 << 20)


@dataclass(frozen=True)
class Shop:
    """One database of a server, and the engine's way to it."""

    engine: Engine
    instance: Instance
    database: str = "tpcc"

    def __post_init__(self):
        self.sql(f"CREATE DATABASE IF NOT EXISTS {self.database}")

    def open(self, *, prepare_mode="server"):
        address = ArmAddress(
            name="A",
            socket=str(self.instance.socket_path),
            host=None,
            port=None,
            user="root",
            password="",
            database=self.database,
            charset="utf8" if self.instance.version_string.startswith("5.5") else "utf8mb4",
            collation=None,
            prepare_mode=prepare_mode,
        )
        self.engine.open([address])

    def command(self, name, *, threads=4, seed=7, **options):
        """Run a command; returns its progress as {label: (done, total)}."""
        seen = {}
        self.engine.command(
            "A", "tpcc", name, options={"scale": 1} | options, threads=threads, seed=seed,
            on_progress=lambda label, done, total: seen.update({label: (done, total)}),
        )  # fmt: skip
        return seen

    def failed_conditions(self, **options):
        """Return the numbers of the conditions that do not hold."""
        try:
            self.command("check", threads=1, **options)
        except EngineError as error:
            assert error.code == "script_error"
            named = str(error).split("condition(s) ")[1].split(" do not")[0]
            return {int(each.rsplit(".", 1)[1]) for each in named.split(", ")}
        return set()

    def run(self, *, seconds=2.0, slice_ns=1_000_000_000, threads=4, **options):
        """Measure a cell without a guard. One thread counts all transactions, several all but the last."""
        return self.engine.measure(
            {
                "cell": "tpcc/4", "script": "tpcc", "options": {"scale": 1} | options, "arm_options": {},
                "threads": threads, "arms": ["A"], "seconds": seconds, "blocks": None, "slice_ns": slice_ns,
                "guard_ns": 0, "order_seed": 1, "key_seed": 3, "load": {"model": "closed"}, "freeze": False,
            }
        )  # fmt: skip

    def uncounted_orders(self, **options):
        """Return a cell's uncounted new orders, all transactions outside windows, and counts by operation."""
        orders = "SELECT SUM(d_next_o_id) FROM district"
        before = self.number(orders)
        measured = self.run(**options)
        counts = {each["operation"]: each["count"] for each in measured.histograms}
        committed = counts["new_order"] - counts.get("new_order.rollback", 0)
        return self.number(orders) - before - committed, sum(each["outside_events"] for each in measured.slices), counts

    def sql(self, *statements):
        """Run statements; returns the rows of the last one."""
        connection = self.instance.connect()
        try:
            with connection.cursor() as cursor:
                if self.database and not statements[0].startswith("CREATE DATABASE"):
                    cursor.execute(f"USE {self.database}")
                for statement in statements:
                    cursor.execute(statement)
                rows = cursor.fetchall()
            connection.commit()
            return rows
        finally:
            connection.close()

    def number(self, query):
        """Return the only number that a query answers."""
        return int(self.sql(query)[0][0])
