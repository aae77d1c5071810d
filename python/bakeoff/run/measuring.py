"""How each kind of workload is checked and measured. The core knows Lua scripts; features add kinds."""

import difflib
import math
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bakeoff import features
from bakeoff.engine import Measurement, Message, declared_by, describe_workloads
from bakeoff.engine_messages import SliceMessage, Work
from bakeoff.errors import SpecError, within
from bakeoff.plan import Cell, SliceLength
from bakeoff.plan.workloads import database_of, kind_of, options_of, uses_sysbench_tables
from bakeoff.results import EpochWriter
from bakeoff.servers import Server, table_engine
from bakeoff.spec import Arm, Data, Study, Workload
from bakeoff.spec.study import OptionValue
from bakeoff.stats.progress import Listener
from bakeoff.units import NUMBER, parse_scaled

_THROUGHPUT_PERIOD_NS = 500_000_000
_ERROR_SHARE = 0.01  # errors per event above which an arm measures failing rather than working


_OPTIONS = tomllib.loads(Path(__file__).with_name("script_options.toml").read_text("ascii"))
RAND_TYPES: tuple[str, ...] = tuple(_OPTIONS["rand_types"])
# Shape the random numbers of every script: whether a value fits, and what to write instead.
_RAND_NUMBERS: dict[str, tuple[Callable[[float], bool], str]] = {
    "rand_spec_iter": (lambda value: 0 < value <= 10_000, "a whole number from 1 to 10000"),
    "rand_spec_pct": (lambda value: 0 <= value <= 100, "a percentage from 0 to 100"),
    "rand_spec_res": (lambda value: 0 <= value <= 100, "a percentage from 0 to 100"),
    "rand_pareto_h": (lambda value: 0 < value < 1, "a number between 0 and 1"),  # else every key would be the same
    "rand_zipfian_exp": (lambda value: 0 <= value < math.inf, "a number, not below zero"),
}
RAND = ("rand_type", *_RAND_NUMBERS)
# sysbench 0.5 scripts declare no options; sysbench's own options and the table engine are globals to them.
_GLOBALS = ("mysql_", "db_")
ELSEWHERE: dict[str, str] = _OPTIONS["elsewhere"]
_EXPECTED: dict[str, str] = _OPTIONS["expected"]
_LEAVE_OUT = "Leave the setting or the workload out, or give the script that option."
_WHOLE = re.compile(r"\+?\d{1,20}", re.ASCII)
_OFF = ("off", "false", "0", "no")
_OF_TABLES = frozenset(_OPTIONS["of_tables"])
_ENGINE_OPTION = "default_storage_engine"


class UnreliableCountError(Exception):
    """An arm's statements failed too often, or its server has fewer transactions than the engine counted."""


@dataclass(frozen=True)
class CellRun:
    study: Study
    cell: Cell
    slices: SliceLength
    arms: Mapping[str, Arm]
    engines: Mapping[str, str]  # storage engines of the tables
    servers: Mapping[str, Server]
    writer: EpochWriter
    rates: MutableMapping[tuple[str, bool], float]
    note_once: Callable[..., None]  # says a sentence once per run
    changes_nothing: bool = False  # a warm-up

    @property
    def workload(self) -> Workload:
        return self.study.workloads[self.cell.workload_index]

    @property
    def reads_only(self) -> bool:
        return self.changes_nothing or not self.cell.writes


class ThroughputReporter:
    """Reports each arm's throughput about twice a second, from its slices since the last report."""

    def __init__(self, cell: Cell, listener: Listener) -> None:
        self._cell = cell
        self._listener = listener
        self._events: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._reported_ns = 0

    def add_slice(self, message: SliceMessage) -> None:
        arm = message["arm"]
        self._events[arm] += message["events"]
        busy_ns = message["busy_ns"] / max(message["connections"], 1)
        self._seconds[arm] += (message["length_ns"] if self._cell.open_loop else busy_ns) / 1e9
        now_ns = message["start_ns"] + message["length_ns"]
        if now_ns - self._reported_ns < _THROUGHPUT_PERIOD_NS:
            return
        self._reported_ns = now_ns
        for name, seconds in self._seconds.items():
            if seconds > 0:
                self._listener.throughput(self._cell.name, name, self._events[name] / seconds)
        self._events.clear()
        self._seconds.clear()


class Measuring:
    """How a kind of workload is measured. This is how Lua scripts are; features override what differs."""

    def declared(self, script: str) -> Message | None:
        return declared_by(script)

    def resolved(self, study: Study, workload: Workload) -> Workload:
        """Return the workload with `writes` set, if its file tells."""
        return workload

    def check(self, study: Study, workload: Workload) -> None:
        if workload.speed is not None:
            raise SpecError(f"workload {workload.script}: a script has no speed.", hint="Give it a rate.")

    def check_engine(self, workload: Workload, arm: Arm, engine: str) -> None:
        """Raise SpecError unless it can run on tables of this storage engine."""

    def request(self, run: CellRun) -> Work | None:
        """Return the kind's own fields of the engine's `measure`, or None if there is nothing to run."""
        workload = run.workload
        taken = takes(workload.script)
        own = {name: arm_options(arm, run.engines[name], taken) for name, arm in run.arms.items()}
        load: dict[str, str | float] = {"model": "closed"}
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
    feature = kind_of(script).feature
    module = features.part(feature, "measuring") if feature else None
    measuring: Measuring = module.MEASURING if module else SCRIPT
    return measuring


def resolved(study: Study) -> Study:
    known = (measuring_of(each.script).resolved(study, each) for each in study.workloads)
    return study.model_copy(update={"workloads": tuple(known)})


def check_errors(slices: Sequence[SliceMessage]) -> None:
    events: Counter[str] = Counter()
    errors: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for message in slices:
        events[message["arm"]] += message["events"]
        errors[message["arm"]].update(message["errors"])
    for arm, by_code in errors.items():
        if by_code.total() > _ERROR_SHARE * max(events[arm], 1):
            codes = ", ".join(f"{code} × {count}" for code, count in sorted(by_code.items()))
            raise UnreliableCountError(f"arm {arm}: {by_code.total()} errors in {events[arm]} events ({codes})")


def declares(script: str, kind: str, name: str) -> bool:
    """Whether a script declares an option (`kind` "options") or a command ("commands") of that name."""
    declared = measuring_of(script).declared(script)
    return declared is not None and any(each["name"] == name for each in declared[kind])


def takes(script: str) -> Callable[[str], bool]:
    """Return whether a script takes an option: one it declares, or any if it declares none (sysbench 0.5)."""
    declared = measuring_of(script).declared(script)
    names = {option["name"] for option in declared["options"]} if declared else set()
    return lambda name: not names or name in names


def script_options(study: Study, workload: Workload, data: Data) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if declares(workload.script, "options", "table_size"):
        options |= {"tables": study.tables, "table_size": study.table_size}
    options |= _table_options(data)
    taken = takes(workload.script)
    return {name: value for name, value in options.items() if taken(name)} | dict(workload.options) | dict(data.options)


def arm_options(arm: Arm, engine: str, taken: Callable[[str], bool]) -> dict[str, Any]:
    """Return the options that may differ between arms: how tables are made, and the options of the arm's data."""
    options = {"mysql_storage_engine": engine} | _table_options(arm.data)
    return {name: value for name, value in options.items() if taken(name)} | dict(arm.data.options)


def _table_options(data: Data) -> dict[str, str]:
    options = {"create_table_options": data.declared_table_options} if data.declared_table_options else {}
    if data.column_charset:
        options |= {"column_charset": data.column_charset, "column_collation": data.column_collation or ""}
    return options


def check_workloads(study: Study) -> None:
    """Check that every script is there, loads, can run, and knows the options it is given, before any time is spent."""
    wanted = study.workloads
    for index, workload in enumerate(wanted):
        with within("workloads", index):
            measuring_of(workload.script).check(study, workload)
    places = [index for index, workload in enumerate(wanted) if kind_of(workload.script).fills_tables]
    if not places:
        return
    with within("workloads"):
        descriptions = describe_workloads(wanted[index].script for index in places)
    for index, described in zip(places, descriptions, strict=True):
        with within("workloads", index):
            _check_workload(wanted[index], described, study.arms)
        for arm in study.arms:
            try:
                with within("data"):
                    _check_options(wanted[index], arm.data.options, described, _LEAVE_OUT)
                _check_declared_tables(wanted[index], arm)
                # `settings_of` reads the cnf files; they depend on the version.
                server = arm.server.with_settings(cnf_files=())
                engine = table_engine(server, arm.data)
                measuring_of(wanted[index].script).check_engine(wanted[index], arm, engine)
                _check_table_options(wanted[index], described, arm, engine)
            except SpecError as error:
                error.field = ("arms", arm.name, *error.field) if error.field else ("workloads", index)
                raise
    if not study.baseline.data.source:
        _check_empty_tables(study)
        _check_shared_tables(study, dict(zip(places, descriptions, strict=True)))


def _check_empty_tables(study: Study) -> None:
    """Refuse `oltp_insert` without auto_inc beside another script: its `prepare` leaves the tables empty."""
    for index, workload in enumerate(study.workloads):
        if workload.script != "oltp_insert":
            continue
        options = [dict(options_of(study, workload, arm.data)) for arm in study.arms]
        if all(_normal(each.get("auto_inc", True), "bool") == "on" for each in options):
            continue
        for other in study.workloads:
            if other.script != workload.script and database_of(study, other) == database_of(study, workload):
                raise SpecError(
                    f"workload oltp_insert: with auto_inc off it needs empty tables, but {other.script} shares them.",
                    hint="Leave auto_inc out, or measure it in a separate run.",
                    field=("workloads", index),
                )


def _check_shared_tables(study: Study, described: Mapping[int, Message]) -> None:
    fills: dict[str, int] = {}
    filled = [arm for arm in study.arms if not arm.server.is_running]
    of_factors = {option for arm in filled for option, _ in arm.data.options}  # override a workload's own
    for index in described:
        workload = study.workloads[index]
        filler = fills.setdefault(database_of(study, workload), index)
        first = study.workloads[filler]
        with within("workloads", index):
            if filled and first.script != workload.script and not uses_sysbench_tables(workload):
                raise SpecError(
                    f"workload {workload.script}: it would find the tables of {first.script}.",
                    hint="A script's database is called after its file, so rename one of the two.",
                )
            for arm in filled:
                asked, made = (
                    kind_of(each.script).sizes(options_of(study, each, arm.data)) for each in (workload, first)
                )
                for option, wanted in asked.items():
                    if wanted > made[option]:
                        hint = "Put the workload that asks for most first."
                        raise _other_tables(workload, first, option, (wanted, made[option]), hint)
            own, others = (_of_tables(study.workloads[each], described[each]) for each in (index, filler))
            for option in sorted((own.keys() & others) - of_factors) if filled else ():
                if own[option] != others[option]:
                    hint = f"Give both the same, or compare the two by a factor script.{option}."
                    raise _other_tables(workload, first, option, (own[option], others[option]), hint)


def _other_tables(
    workload: Workload, first: Workload, option: str, values: tuple[object, object], hint: str
) -> SpecError:
    asked, found = values
    finds = f"it asks for {option}={asked}, but would find {found}"
    return SpecError(
        f"workload {workload.script}: {finds}: {first.script} comes first and makes its tables.", hint=hint
    )


def _of_tables(workload: Workload, described: Message) -> dict[str, str]:
    values = {each["name"]: each["default"] for each in described["options"] if each["name"] in _OF_TABLES}
    values |= {name: value for name, value in workload.options if name in values}
    kinds = {each["name"]: each["type"] for each in described["options"]}
    return {name: _normal(value, kinds[name]) for name, value in values.items()}


def _normal(value: OptionValue, kind: str) -> str:
    text = str(value).lower()
    if kind == "bool":
        return "off" if text in _OFF else "on"
    number = parse_scaled(text)
    return text if number is None else f"{number:g}"


def _check_workload(workload: Workload, described: Message, arms: Sequence[Arm]) -> None:
    name = f"workload {workload.script}"
    if not described["runs"]:
        raise SpecError(f"{name}: it has no event() function, so it cannot be run.")
    fills = any(each["name"] == "prepare" for each in described["commands"]) or uses_sysbench_tables(workload)
    if not fills and any(not arm.data.source and not arm.server.is_running for arm in arms):
        raise SpecError(
            f"{name}: it has no prepare() function, so it has no tables.",
            hint='Give it one; require("oltp_common") makes sysbench\'s tables, and --data DUMP loads your own.',
        )
    _check_options(workload, workload.options, described)


def _check_options(
    workload: Workload, options: Iterable[tuple[str, OptionValue]], described: Message, otherwise: str = ""
) -> None:
    """Refuse options that a script does not have and values that do not fit; `otherwise` says what else to do."""
    for option, value in options:
        try:
            if is_unknown(option, described):
                raise SpecError(
                    f"it has no option {option}.", hint=f"{remedy_for(option, described)} {otherwise}".strip()
                )
            check_value(option, value, described)
        except SpecError as error:
            message = f"workload {workload.script}: {error.message}"
            raise SpecError(message, hint=error.hint, field=("options", option)) from None


def _check_declared_tables(workload: Workload, arm: Arm) -> None:
    """Refuse a script option that would override what the study's settings say of the tables."""
    data = arm.data
    charset = data.column_collation or data.column_charset or ""
    by_settings = {
        "create_table_options": data.declared_table_options,
        "column_charset": charset,
        "column_collation": charset,
    }
    for options, place in ((workload.options, ()), (data.options, ("data", "options"))):
        for option, _ in options:
            if declared := by_settings.get(option):
                raise SpecError(
                    f"workload {workload.script}: its option {option} would replace what the study sets ({declared}).",
                    hint="Leave the option out, and say all of it in the settings: table_options, column_charset.",
                    field=(*place, option) if place else (),
                )


def _check_table_options(workload: Workload, described: Message, arm: Arm, engine: str) -> None:
    data, names = arm.data, {option["name"] for option in described["options"]}
    wanted = {
        "create_table_options": data.declared_table_options,
        "column_charset": data.column_charset,
        "column_collation": data.column_collation,
    }
    if engine != dict(arm.server.options).get(_ENGINE_OPTION, Data().engine).lower():  # not the server's default engine
        wanted["mysql_storage_engine"] = f"engine {engine}"
    for option, value in () if data.source else wanted.items():
        if value and option not in names and (names or option.startswith("column_")):
            raise SpecError(
                f"workload {workload.script}: it has no option {option}, so its tables would not be as the study sets "
                f"them ({value}).",
                hint=_LEAVE_OUT,
            )


def is_unknown(option: str, described: Message) -> bool:
    """Whether a script does not have an option, or it is set elsewhere."""
    names = {each["name"] for each in described["options"]}
    return option in ELSEWHERE or not (option in names.union(RAND) or (not names and option.startswith(_GLOBALS)))


def remedy_for(unknown: str, described: Message) -> str:
    if unknown in ELSEWHERE:
        return ELSEWHERE[unknown]
    known = [option["name"] for option in described["options"]]
    if near := difflib.get_close_matches(unknown, [*known, *RAND], n=1):
        return f"Did you mean {near[0]}?"
    return f"It has {', '.join(known)}." if known else ""


def check_value(name: str, value: OptionValue, described: Message) -> None:
    kinds: Mapping[str, str] = {option["name"]: option["type"] for option in described["options"]}
    text = _text(value)
    if name == "rand_type":
        near = difflib.get_close_matches(text.lower(), RAND_TYPES, n=1)
        fits, one_of = text in RAND_TYPES, f"Write one of {', '.join(RAND_TYPES)}."
        expected = f"Did you mean {near[0]}?" if near else one_of
    elif name in _RAND_NUMBERS:
        within_range, words = _RAND_NUMBERS[name]
        form = _WHOLE if name == "rand_spec_iter" else NUMBER
        fits, expected = form.fullmatch(text) is not None and within_range(float(text)), f"Write {words}."
    else:
        kind = kinds.get(name, "string")
        fits, expected = _fits(kind, value), f"Write {_EXPECTED.get(kind, 'a text')}."
    if not fits:
        raise SpecError(f"option {name} cannot be {text!r}.", hint=expected)


def _text(value: OptionValue) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _fits(kind: str, value: OptionValue) -> bool:
    if kind == "bool":
        words = ("", "on", "true", "1", "yes", "off", "false", "0", "no")
        return not isinstance(value, float) and str(value).lower() in words
    if kind not in _EXPECTED:
        return True
    number = parse_scaled(value) if isinstance(value, str) else float(value)
    if number is None or not math.isfinite(number):
        return False
    return kind == "double" or (number.is_integer() and abs(number) < 9.2e18)
