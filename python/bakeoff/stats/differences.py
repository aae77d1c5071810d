"""Find differences between arms that nobody asked for: in their rows, and in the settings of their servers."""

import re
import tomllib
from collections.abc import Mapping, Sequence, Set
from enum import StrEnum
from pathlib import Path

from bakeoff.spec import Arm, Data, Profile, Study
from bakeoff.spec.server_name import stem
from bakeoff.stats.model import Flag, FlagKind, Frozen
from bakeoff.units import shortened

_STORAGE_OPTIONS = frozenset({"column_type", "column_length", "create_table_options"})


class Answer(Frozen):
    """A server's answer to a query of the data check, as text."""

    sql: str
    answer: str
    collation: str | None = None  # decides the order of rows; only answers with equal collations are compared
    columns: tuple[str, ...] | None = None  # only answers over equal columns are compared (JSON differs)


RowAnswers = Mapping[str, Mapping[str, Answer]]  # table -> name of the query -> answer
AllAnswers = dict[str, dict[str, dict[str, Answer]]]  # arm -> its answers, as `rows/N.json` keeps them


class RowDifference(Frozen):
    """A query that arms answer differently; `arms` has each answer with the arms that gave it."""

    table: str
    query: str
    arms: tuple[tuple[str, tuple[str, ...]], ...]

    def text(self, labels: Mapping[str, str]) -> str:
        return " but ".join(f"{answer} on {', '.join(labels[name] for name in names)}" for answer, names in self.arms)


def rows_key(data: Data) -> tuple[tuple[str, object], ...]:
    """Return what determines an arm's rows besides the seed; arms with equal keys must hold equal rows."""
    kept = [pair for pair in data.options if pair[0] not in _STORAGE_OPTIONS]
    return tuple(sorted([*kept, *([("data", data.source)] if data.source else [])]))


def row_differences(arms: Sequence[Arm], answers: Mapping[str, RowAnswers]) -> tuple[RowDifference, ...]:
    found: list[RowDifference] = []
    for key in dict.fromkeys(rows_key(arm.data) for arm in arms):
        names = [arm.name for arm in arms if rows_key(arm.data) == key and arm.name in answers]
        for table in dict.fromkeys(table for name in names for table in answers[name]):
            for query in dict.fromkeys(query for name in names for query in answers[name].get(table, {})):
                found += _query_differences(table, query, names, answers)
    return tuple(found)


def _query_differences(
    table: str, query: str, names: Sequence[str], answers: Mapping[str, RowAnswers]
) -> list[RowDifference]:
    found = {name: answers[name].get(table, {}).get(query) for name in names}
    first = next(answer for answer in found.values() if answer)
    alike: dict[tuple[object, object], dict[str, list[str]]] = {}
    for name, answer in found.items():
        if answer is None and table in answers[name]:
            continue  # this arm's columns do not allow the query, such as an ORDER BY
        text = answer.answer if answer else "no such table"
        key = (answer.collation, answer.columns) if answer else (None, first.columns)
        alike.setdefault(key, {}).setdefault(text, []).append(name)
    groups = [*alike.values()]
    # Row counts can be compared over unequal columns.
    if query == "rows" and len(groups) > 1 and all(len(by_answer) == 1 for by_answer in groups):
        counts: dict[str, list[str]] = {}
        for name, answer in found.items():
            if answer:
                counts.setdefault(answer.answer.partition(",")[0], []).append(name)
        groups.append(counts)
    return [
        RowDifference(table=table, query=query, arms=tuple((text, tuple(arms)) for text, arms in by_answer.items()))
        for by_answer in groups
        if len(by_answer) > 1
    ]


Changes = dict[str, tuple[str, str]]  # variable -> its value at the start of the server, and after a cell was measured

_SET_BY_INNODB = "innodb_thread_sleep_delay"  # adapts to the load if innodb_thread_concurrency is set
_NAMED_MAX, _VALUE_MAX = 4, 60  # variables in a flag, and characters of a value


class DifferenceOrigin(StrEnum):
    DECLARED = "declared"  # typed as an option, or a consequence of the arm's data
    VERSION = "version"  # the binaries differ, and the setting is not one of the `factors`
    UNDECLARED = "undeclared"


class Difference(Frozen):
    variable: str
    baseline: str | None
    contender: str | None
    origin: DifferenceOrigin


_VARIABLES = tomllib.loads(Path(__file__).with_name("variables.toml").read_text("utf-8"))
_ALIASES: dict[str, str] = _VARIABLES["aliases"]
_DERIVED: dict[str, str] = _VARIABLES["derived"]
BY_RELEASE: list[str] = _VARIABLES["by_release"]
_IDENTITY = re.compile("|".join(_VARIABLES["identity"]))
REDO = ("innodb_redo_log_capacity", "innodb_log_file_size", "innodb_log_files_in_group")
_REDO_DEFAULTS = ("104857600", "50331648", "2")
_CHARSET = re.compile(r"^(character_set_|collation_|default_collation_for_)")


def differences(
    baseline: Mapping[str, str], contender: Mapping[str, str], study: Study, arm: Arm
) -> tuple[Difference, ...]:
    """Compare SHOW GLOBAL VARIABLES of the baseline's server and of `arm`, undeclared differences first."""
    found = []
    unlike = unequal(baseline, contender)
    declared = _declared(study, arm, by_newest_name(baseline).keys() | by_newest_name(contender).keys())
    other_binaries = any(baseline.get(name, "") != contender.get(name, "") for name in ("version", "version_comment"))
    for name, (mine, theirs) in unlike.items():
        follows = any(re.fullmatch(_DERIVED[cause], name.lower()) for cause in declared & _DERIVED.keys())
        if name.lower() in declared or follows or (_CHARSET.match(name) and "character_set_server" in declared):
            origin = DifferenceOrigin.DECLARED
        elif other_binaries and (
            mine is None or theirs is None or name not in _VARIABLES["factors"] or study.profile is Profile.STOCK
        ):
            origin = DifferenceOrigin.VERSION
        else:
            origin = DifferenceOrigin.UNDECLARED
        found.append(Difference(variable=name, baseline=mine, contender=theirs, origin=origin))
    order = list(DifferenceOrigin)[::-1]
    return tuple(sorted(found, key=lambda difference: order.index(difference.origin)))


def unequal(baseline: Mapping[str, str], contender: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Return the variables that can make two servers differ, under their newest names."""
    baseline, contender = by_newest_name(baseline), by_newest_name(contender)
    found = {}
    for name in sorted((baseline.keys() | contender.keys()) - _without_effect(baseline, contender)):
        mine, theirs = baseline.get(name), contender.get(name)
        are_paths = all(value and value.startswith("/") for value in (mine, theirs))
        if not (same_value(mine, theirs) or _is_identity(name) or are_paths):
            found[name] = mine, theirs
    return found


def undeclared(found: tuple[Difference, ...]) -> dict[str, tuple[str, str]]:
    own = (each for each in found if each.origin is DifferenceOrigin.UNDECLARED)
    return {each.variable: (_shown(each.baseline), _shown(each.contender)) for each in own}


def settings_flag(found: Mapping[str, tuple[str, str]]) -> Flag | None:
    if not found:
        return None
    names = ", ".join(list(found)[:4]) + (" …" if len(found) > 4 else "")
    differ = "difference" if len(found) == 1 else "differences"
    return Flag(kind=FlagKind.SETTINGS, text=f"{len(found)} undeclared {differ} ({names}).")


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> Changes:
    """Return the variables of one server that changed between two moments, except those that identify an instance."""
    return {
        name: (_shown(before.get(name)), _shown(after.get(name)))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name) and not _is_identity(name) and name != _SET_BY_INNODB
    }


def changes_text(found: Changes) -> str:
    """Return the first four as `sync_binlog went from 1 to 0, …`."""
    texts = [
        f"{name} went from {shortened(old, _VALUE_MAX) or 'nothing'} to {shortened(new, _VALUE_MAX) or 'nothing'}"
        for name, (old, new) in [*found.items()][:_NAMED_MAX]
    ]
    return ", ".join([*texts, *(["…"] if len(found) > _NAMED_MAX else [])])


def changes_flag(arm: str, found: Changes) -> Flag:
    return Flag(
        kind=FlagKind.SETTINGS,
        text=f"on arm {arm}, while it was measured, {changes_text(found)}: the workload, or another client, set it.",
    )


def variable_of(option: str) -> str:
    """Return the variable that an option sets, by its newest name: `skip_log_bin` sets `log_bin`."""
    name = stem(option)
    return _ALIASES.get(name, name)


def by_newest_name(variables: Mapping[str, str]) -> dict[str, str]:
    return {_ALIASES.get(name, name): value for name, value in variables.items()}


def _declared(study: Study, arm: Arm, variables: Set[str]) -> frozenset[str]:
    servers = [each.server for each in (study.baseline, arm)]
    names = {name.lower() for each in servers for name in (*dict(each.options), *each.cnf_options)}
    names |= {variable_of(name) for name in names}
    # A unique prefix of a name means the option: `key_buffer`.
    longer = [[each for each in variables if each.startswith(name)] for name in names - variables]
    names |= {found[0] for found in longer if len(found) == 1}
    if "innodb_buffer_pool_size" in names:  # given to the cache of an engine that has its own (servers/profile.py)
        names |= {"key_buffer_size", "rocksdb_block_cache_size"}
    mine, theirs = study.baseline.data, arm.data
    # A character set named by the data overrides the servers'.
    if (mine.charset, mine.collation) != (theirs.charset, theirs.collation) or (mine.charset and theirs.charset):
        names |= {"character_set_server", "collation_server"}
    if mine.engine.lower() != theirs.engine.lower():  # each engine has its own cache
        names |= {"innodb_buffer_pool_size", "key_buffer_size", "default_storage_engine"}
    if mine.table_options != theirs.table_options:  # some rows need another file format (servers/profile.py)
        names |= {"innodb_file_format", "innodb_file_format_max", "innodb_file_per_table"}
    return frozenset(names)


def _without_effect(baseline: Mapping[str, str], contender: Mapping[str, str]) -> frozenset[str]:
    names: set[str] = set()
    if all(same_value(each.get("log_bin"), "OFF") for each in (baseline, contender)):
        names |= {"binlog_format", "binlog_row_image", "sync_binlog"}
    size = redo_bytes(baseline)
    if size is not None and size == redo_bytes(contender):
        names |= {*REDO}
    return frozenset(names)


def redo_bytes(variables: Mapping[str, str]) -> int | None:
    """Return the size of the redo log.

    From MySQL 8.0.30 on the older options may set it, and innodb_redo_log_capacity goes on showing its default.
    """
    capacity, size, count = shown = tuple(variables.get(name, "") for name in REDO)
    by_files = not capacity or (size and capacity == _REDO_DEFAULTS[0] and shown != _REDO_DEFAULTS)
    try:
        return int(size) * int(count or "1") if by_files else int(capacity)
    except ValueError:
        return None


def _is_identity(name: str) -> bool:
    return _IDENTITY.fullmatch(name.lower()) is not None


_SWITCH = {"1": "ON", "0": "OFF", "YES": "ON", "NO": "OFF"}


def same_value(mine: str | None, theirs: str | None) -> bool:
    """Whether two values are equal; versions print the same switch as 1, ON or YES."""
    if mine is None or theirs is None:
        return mine is theirs
    left, right = mine.strip().upper(), theirs.strip().upper()
    return left == right or _SWITCH.get(left, left) == _SWITCH.get(right, right)


def _shown(value: str | None) -> str:
    return "(absent)" if value is None else value
