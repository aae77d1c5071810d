"""How each kind of workload is checked and measured. The core knows Lua scripts; features add kinds."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from bakeoff import features
from bakeoff.engine import Measurement, Message, declared_by
from bakeoff.errors import SpecError
from bakeoff.plan import Cell, SliceLength
from bakeoff.plan.workloads import kind_of
from bakeoff.results import EpochWriter
from bakeoff.servers import Server
from bakeoff.spec import Arm, Data, Study, Workload

_ERROR_SHARE = 0.01  # errors per event above which an arm measures failing rather than working


class UnreliableCountError(Exception):
    """An arm's statements failed too often, or its server has fewer transactions than the engine counted."""


@dataclass(frozen=True)
class CellRun:
    """One measurement of a cell, warm-up included; everything is by arm name.

    Attributes:
        engines: the storage engine of each arm's tables.
        changes_nothing: a warm-up, which must leave the data as they are.
        rates: events per second last seen, by cell and `reads_only`; kept for the whole run.
        note_once: says a sentence once per run.
    """

    study: Study
    cell: Cell
    slices: SliceLength
    arms: Mapping[str, Arm]
    engines: Mapping[str, str]
    servers: Mapping[str, Server]
    writer: EpochWriter
    rates: MutableMapping[tuple[str, bool], float]
    note_once: Callable[..., None]
    changes_nothing: bool = False

    @property
    def workload(self) -> Workload:
        return self.study.workloads[self.cell.workload_index]

    @property
    def reads_only(self) -> bool:
        return self.changes_nothing or not self.cell.writes


class Measuring:
    """How a kind of workload is measured. This is how Lua scripts are; features override what differs."""

    def declared(self, script: str) -> Message | None:
        """Return the options and commands that a script declares, or None if it is not a script."""
        return declared_by(script)

    def resolved(self, study: Study, workload: Workload) -> Workload:
        """Return the workload with `writes` set, if looking at it tells."""
        return workload

    def check(self, study: Study, workload: Workload) -> None:
        """Raise SpecError unless the workload can be measured as asked."""
        if workload.speed is not None:
            raise SpecError(f"workload {workload.script}: a script has no speed.", hint="Give it a rate.")

    def check_engine(self, workload: Workload, arm: Arm, engine: str) -> None:
        """Raise SpecError unless it can run on tables of this storage engine."""

    def request(self, run: CellRun) -> dict[str, Any] | None:
        """Return the kind's own fields of the engine's `measure`, or None if there is nothing to run."""
        workload = run.workload
        taken = takes(workload.script)
        own = {name: arm_options(arm, run.engines[name], taken) for name, arm in run.arms.items()}
        load: dict[str, Any] = {"model": "closed"}
        if workload.rate_per_s is not None:
            load = {"model": "open", "rate_per_s": workload.rate_per_s, "arrivals": "poisson"}
        return {
            "script": workload.script,
            "options": script_options(run.study, workload, Data()),
            "arm_options": {name: options for name, options in own.items() if options},
            "load": load,
        }

    def begin(self, run: CellRun) -> Callable[[Measurement], None]:
        """Return what to call with the finished measurement; it raises UnreliableCountError if that cannot be used."""
        return lambda measured: check_errors(measured.slices)


SCRIPT = Measuring()


def measuring_of(script: str) -> Measuring:
    """Return how a workload's script is measured."""
    feature = kind_of(script).feature
    module = features.part(feature, "measuring") if feature else None
    measuring: Measuring = module.MEASURING if module else SCRIPT
    return measuring


def resolved(study: Study) -> Study:
    """Return the study with `writes` set for every workload that tells."""
    known = (measuring_of(each.script).resolved(study, each) for each in study.workloads)
    return study.model_copy(update={"workloads": tuple(known)})


def check_errors(slices: Sequence[Message]) -> None:
    """Raise UnreliableCountError if an arm had more than one error per hundred events."""
    events: Counter[str] = Counter()
    errors: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for message in slices:
        events[message["arm"]] += message["events"]
        errors[message["arm"]].update(message["errors"])
    for arm, by_code in errors.items():
        if by_code.total() > _ERROR_SHARE * max(events[arm], 1):
            codes = ", ".join(f"{code} × {count}" for code, count in sorted(by_code.items()))
            raise UnreliableCountError(f"arm {arm}: {by_code.total()} errors in {events[arm]} events ({codes})")


# ---- options of scripts ----------------------------------------------------------------------------------------------


def declares(script: str, kind: str, name: str) -> bool:
    """Whether a script declares an option (`kind` "options") or a command ("commands") of that name."""
    declared = measuring_of(script).declared(script)
    return declared is not None and any(each["name"] == name for each in declared[kind])


def takes(script: str) -> Callable[[str], bool]:
    """Whether a script may be given an option: it declares it, or none at all, like sysbench 0.5's scripts."""
    declared = measuring_of(script).declared(script)
    names = {option["name"] for option in declared["options"]} if declared else set()
    return lambda name: not names or name in names


def script_options(study: Study, workload: Workload, data: Data) -> dict[str, Any]:
    """Return a script's options: the study's tables and sizes, then the workload's options, then the arm's."""
    options: dict[str, Any] = {}
    if declares(workload.script, "options", "table_size"):
        options |= {"tables": study.tables, "table_size": study.table_size}
    options |= _table_options(data)
    taken = takes(workload.script)
    return {name: value for name, value in options.items() if taken(name)} | dict(workload.options) | dict(data.options)


def arm_options(arm: Arm, engine: str, taken: Callable[[str], bool]) -> dict[str, Any]:
    """Return the options that may differ between arms: how tables are made, and the options of the arm's data.

    `engine` is the storage engine of the arm's tables; `taken` says which options the script takes.
    """
    options = {"mysql_storage_engine": engine} | _table_options(arm.data)
    return {name: value for name, value in options.items() if taken(name)} | dict(arm.data.options)


def _table_options(data: Data) -> dict[str, str]:
    options = {"create_table_options": data.declared_table_options} if data.declared_table_options else {}
    if data.column_charset:
        options |= {"column_charset": data.column_charset, "column_collation": data.column_collation or ""}
    return options
