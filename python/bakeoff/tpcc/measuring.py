"""Measure TPC-C: refuse what would make its counts meaningless, and check the counts against the server's own."""

from collections.abc import Callable, Mapping
from typing import Any

from bakeoff.engine import Measurement
from bakeoff.errors import SpecError
from bakeoff.plan.workloads import database_of
from bakeoff.run.measuring import CellRun, Measuring, UnreliableCountError, script_options
from bakeoff.servers import Server
from bakeoff.spec import Arm, Study, Workload
from bakeoff.tpcc.results import ServerCounts, missing_on_server
from bakeoff.tpcc.workload import BUNDLED

_WAITS = ("keying_time", "think_time")
_OFF = ("off", "false", "0", "no")
_WITHOUT_TRANSACTIONS = frozenset({"myisam", "memory", "heap", "archive", "csv", "aria", "merge", "mrg_myisam"})


class TpccMeasuring(Measuring):
    """Scripts that only share the bundled TPC-C's name are measured like any other script."""

    def check(self, study: Study, workload: Workload) -> None:
        """Refuse keying and think times: such terminals do next to nothing in slices of seconds."""
        super().check(study, workload)
        given = [*workload.options, *(option for arm in study.arms for option in arm.data.options)]
        waits = [option for option, value in given if option in _WAITS and str(value).lower() not in _OFF]
        if workload.script == BUNDLED and waits:
            raise SpecError(
                f"workload tpcc: {waits[0]} needs minutes without a break, and arms take turns in slices of seconds.",
                hint="Leave it out here, or measure each server alone: bakeoff sysbench tpcc --mysql-socket=… "
                "--scale=… --threads=… --keying-time --think-time --time=1200 run. Efficiency is reported there.",
            )

    def check_engine(self, workload: Workload, arm: Arm, engine: str) -> None:
        """Refuse tables without transactions, which would keep half of a rolled-back New-Order."""
        if workload.script == BUNDLED and engine in _WITHOUT_TRANSACTIONS and not arm.data.source:
            own = arm.data.engine.lower() == engine
            raise SpecError(
                f"workload tpcc: tables of {engine} have no transactions, so rolled-back orders leave inconsistent "
                "data.",
                hint="Take another engine or workload.",
                field=("data", "engine") if own else ("server", "options", "default_storage_engine"),
            )

    def begin(self, run: CellRun) -> Callable[[Measurement], None]:
        check_errors = super().begin(run)
        if run.workload.script != BUNDLED:
            return check_errors
        before = _read_all(run)

        def end(measured: Measurement) -> None:
            check_errors(measured)
            wrong = []
            for arm, after in _read_all(run).items():
                reading = {"before": before[arm].model_dump(), "after": after.model_dump()}
                run.writer.add_server_reading(arm, "data-check.json", run.cell.name, reading)
                own = [each for each in measured.histograms if each["arm"] == arm]
                if missing := missing_on_server(own, before[arm], after):
                    wrong.append(f"arm {arm}, {run.cell.name}: {missing}")
            if wrong:
                raise UnreliableCountError("; ".join(wrong))

        return end


MEASURING = TpccMeasuring()


def _read_all(run: CellRun) -> dict[str, ServerCounts]:
    database = database_of(run.study, run.workload)
    return {
        name: read_counts(run.servers[name], database, script_options(run.study, run.workload, arm.data))
        for name, arm in run.arms.items()
    }


def read_counts(server: Server, database: str, options: Mapping[str, Any]) -> ServerCounts:
    sets = int(options.get("tables") or 1)
    plain = sets == 1 and options.get("table_suffix", "auto") == "auto"
    districts = ["district"] if plain else [f"district{number}" for number in range(1, sets + 1)]
    sums = " + ".join(f"(SELECT SUM(d_next_o_id) FROM `{database}`.{table})" for table in districts)
    status = server.status()
    return ServerCounts(
        next_order_ids=int(server.query(f"SELECT {sums}")[0][0]),
        commits=int(status["Com_commit"]),
        rollbacks=int(status["Com_rollback"]),
    )
