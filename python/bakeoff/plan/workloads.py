"""What planning needs to know about a workload: its tables, its database, whether it writes.

The core knows Lua scripts. A feature adds a kind with a `WORKLOAD` in its `workload.py` and a `MEASURING` in its
`measuring.py` (`bakeoff.run.measuring`).
"""

import difflib
import math
import tomllib
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import PurePath

from bakeoff import features
from bakeoff.errors import SpecError
from bakeoff.spec import Data, ServerSpec, Study, Workload
from bakeoff.spec.dumps import read_dump
from bakeoff.spec.server_name import check_file_name, is_url, url_database
from bakeoff.spec.study import OptionValue
from bakeoff.units import parse_scaled

# Bundled scripts whose run only reads. bakeoff assumes that every other script writes.
READ_ONLY = frozenset({"oltp_point_select", "oltp_read_only", "select_random_points", "select_random_ranges"})

Options = Mapping[str, OptionValue]
OptionPairs = tuple[tuple[str, OptionValue], ...]

_BYTES_PER_ROW = 250  # an sbtest row in InnoDB: 200 to 260 with both indexes and pages 15/16 full (measured)
_C_CHARACTERS, _PAD_CHARACTERS = 119, 59
# Bytes per character in UTF-8; other contents take 1.
_BYTES_PER_CHARACTER = {"latin": 1.5, "cyrillic": 2, "japanese": 3, "chinese": 3, "emoji": 4}
# Bytes per row of the scripts that ship with studies, all their tables together, in utf8 (measured).
_ROW_BYTES_OF_STUDIES = {"ucs2_vs_utf8": 5_600, "index_charset": 260}


class WorkloadKind:
    """A kind of workload, recognized by its script. This is the core's: a Lua script with sysbench's API.

    Attributes:
        feature: the feature that measures it; empty for the core's own.
        fills_tables: its `prepare` fills its tables. False if it runs on whatever tables it finds.
        fixed_work: every pass runs the same list of events. Its slices then differ in work and have no guard.
        sized_by: which of the study's `tables` and `table_size` its script takes.
    """

    feature = ""
    fills_tables = True
    fixed_work = False
    sized_by: tuple[str, ...] = ("tables", "table_size")

    def owns(self, script: str) -> bool:
        return bool(script)

    def sizes(self, options: Options) -> dict[str, int]:
        return {
            "tables": whole_number(options.get("tables"), 1),
            "table_size": whole_number(options.get("table_size"), 10_000),
        }

    def loaded_bytes(self, script: str, options: Options) -> int:
        """Return the bytes that `prepare` is expected to load."""
        row_bytes = _ROW_BYTES_OF_STUDIES.get(stem(script)) or _row_bytes(options)
        return math.prod(self.sizes(options).values()) * row_bytes

    def small_options(self, script: str) -> OptionPairs:
        """Return the options that keep a duel's data small, unless the user sizes it."""
        return ()


SCRIPT = WorkloadKind()


def kind_of(script: str) -> WorkloadKind:
    kinds: list[WorkloadKind] = [module.WORKLOAD for module in features.parts("workload")]
    return next((kind for kind in kinds if kind.owns(script)), SCRIPT)


@cache
def microbenchmarks() -> dict[str, Workload]:
    """Return the workloads of the set `micro` by name, reads first."""
    text = files("bakeoff").joinpath("workloads", "micro.toml").read_text("utf-8")
    return {
        name: Workload.model_validate(fields | {"name": name, "options": tuple(fields.get("options", {}).items())})
        for name, fields in tomllib.loads(text).items()
    }


def named_workloads(name: str) -> tuple[Workload, ...]:
    """Return the workloads that a name stands for: the set `micro`, one of it, or a script.

    SpecError: a misspelt microbenchmark, or a name that is not UTF-8. The engine reports misspelt scripts.
    """
    check_file_name("workload", name)
    known = microbenchmarks()
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    if near and name not in known and not {"_", "."} & set(name):
        raise SpecError(f"workload {name!r}: no such script or microbenchmark. Did you mean {near[0]}?")
    return tuple(known.values()) if name == "micro" else (known.get(name, Workload(script=name)),)


def writes(workload: Workload) -> bool:
    """Whether a workload changes data: what it declares, else True unless it is one of `READ_ONLY`."""
    return workload.script not in READ_ONLY if workload.writes is None else workload.writes


def workload_names(workloads: tuple[Workload, ...]) -> tuple[str, ...]:
    """Return a unique short name for each: its own name or its file's, with `#2` for the second one."""
    seen: Counter[str] = Counter()
    names = []
    for workload in workloads:
        file = PurePath(workload.script).name
        name = workload.name or file.removesuffix(".lua").removesuffix(".capture") or "script"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return tuple(names)


def database_of(study: Study, workload: Workload) -> str:
    """Return the database of a workload's tables: the study's for own data and sysbench's tables, else a separate one.

    The name is ASCII, because `Instance.data_bytes` finds folders by it.
    """
    shared = uses_sysbench_tables(workload) or not kind_of(workload.script).fills_tables
    if study.baseline.data.source or shared:
        return study.database
    return f"{study.database}_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in stem(workload.script))


def uses_sysbench_tables(workload: Workload) -> bool:
    return stem(workload.script).startswith(("oltp_", "select_random_"))


def database_on(study: Study, workload: Workload, server: ServerSpec) -> str:
    """Like `database_of`, but the URL's database for a workload that finds its tables on a running server."""
    if server.is_running and not kind_of(workload.script).fills_tables:
        return url_database(server.location) or study.capture_database
    return database_of(study, workload)


def data_bytes(study: Study, data: Data) -> int:
    """Return the expected bytes of one load of an arm with this data, all workloads together."""
    if data.source:
        return data.source_bytes if is_url(data.source) else read_dump(data.source).server_bytes
    sizes: dict[str, int] = {}
    for workload in study.workloads:
        database = database_of(study, workload)
        loaded = kind_of(workload.script).loaded_bytes(workload.script, options_of(study, workload, data))
        sizes[database] = max(sizes.get(database, 0), loaded)
    return sum(sizes.values())


def row_count(study: Study, data: Data) -> int | None:
    first = study.workloads[0]
    if data.source or not kind_of(first.script).sized_by:
        return None
    options = options_of(study, first, data)
    tables = whole_number(options.get("tables"), study.tables)
    return tables * whole_number(options.get("table_size"), study.table_size)


def options_of(study: Study, workload: Workload, data: Data) -> dict[str, OptionValue]:
    return sized_options(workload, data, tables=study.tables, table_size=study.table_size)


def sized_options(workload: Workload, data: Data, **sizes: int) -> dict[str, OptionValue]:
    """Like `options_of`, for a study with these `tables` and `table_size`."""
    taken = kind_of(workload.script).sized_by
    return {name: sizes[name] for name in taken} | dict(workload.options) | dict(data.options)


def stem(script: str) -> str:
    return PurePath(script).name.removesuffix(".lua")


def whole_number(value: OptionValue | None, default: int) -> int:
    """Return an option's value as a whole number, or the default if it is not one."""
    number = parse_scaled(value) if isinstance(value, str) else value
    try:
        return int(number) if number is not None else default
    except (ValueError, OverflowError):
        return default


def _row_bytes(options: Options) -> int:
    per_character = _BYTES_PER_CHARACTER.get(str(options.get("content")), 1)
    texts = per_character * (whole_number(options.get("text_length"), _C_CHARACTERS) + _PAD_CHARACTERS)
    return int(_BYTES_PER_ROW - _C_CHARACTERS - _PAD_CHARACTERS + texts)
