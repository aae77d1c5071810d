"""Whether every arm holds the same rows: answers to the same questions, compared.

Arms whose data is meant to differ (rows, content of the texts, options of the scripts) are not compared; arms that
differ in character set, engine, row format or column type are: how rows are stored must not change what they are.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

from bakeoff.spec import Arm, Data, Profile, Study
from bakeoff.stats.model import Flag, Frozen

_STORAGE_OPTIONS = frozenset({"column_type", "column_length", "mysql_storage_engine", "create_table_options"})


class Answer(Frozen):
    """What one server answers.

    Attributes:
        sql: the question, for whoever wants to ask it again.
        answer: the result as text; checksums are of utf8mb4.
        collation: that the order of the rows depends on; only answers of equal collations are compared.
    """

    sql: str
    answer: str
    collation: str | None = None


Answers = Mapping[str, Mapping[str, Answer]]
"""Table -> name of the query -> answer."""


class RowDifference(Frozen):
    """Two arms, or groups of them, that answer differently.

    Attributes:
        arms: answer -> arms that gave it, in the study's order; the first answer is the first arm's.
    """

    table: str
    query: str
    sql: str
    arms: tuple[tuple[str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        """One line without labels."""
        said = "; ".join(f"{', '.join(names)}: {answer}" for answer, names in self.arms)
        return f"table {self.table}, query {self.query}: {said}"


def rows_key(data: Data) -> tuple[tuple[str, object], ...]:
    """What the rows of an arm follow from, besides the seed: arms of equal keys must hold equal rows."""
    return tuple(sorted(pair for pair in data.options if pair[0] not in _STORAGE_OPTIONS))


def row_differences(arms: Sequence[Arm], answers: Mapping[str, Answers]) -> tuple[RowDifference, ...]:
    """Compare the answers of arms.

    Args:
        arms: in the study's order; those without answers are left out.
        answers: by arm name.
    """
    found: list[RowDifference] = []
    for key in dict.fromkeys(rows_key(arm.data) for arm in arms):
        names = [arm.name for arm in arms if rows_key(arm.data) == key and arm.name in answers]
        tables = dict.fromkeys(table for name in names for table in answers[name])
        for table in tables:
            queries = dict.fromkeys(query for name in names for query in answers[name].get(table, {}))
            for query in queries:
                found += _differences(table, query, names, answers)
    return tuple(found)


def _differences(table: str, query: str, names: Sequence[str], answers: Mapping[str, Answers]) -> list[RowDifference]:
    by_collation: dict[str | None, dict[str, list[str]]] = {}
    sql = ""
    for name in names:
        answer = answers[name].get(table, {}).get(query)
        if answer is None and table in answers[name]:
            continue  # a question that this arm's columns do not allow, such as an order
        text = answer.answer if answer else "no such table"
        sql = sql or (answer.sql if answer else "")
        by_collation.setdefault(answer.collation if answer else None, {}).setdefault(text, []).append(name)
    return [
        RowDifference(
            table=table, query=query, sql=sql, arms=tuple((text, tuple(arms)) for text, arms in by_answer.items())
        )
        for by_answer in by_collation.values()
        if len(by_answer) > 1
    ]


# What else differs between two servers: their global variables, sorted into asked for, to be expected, and undeclared.
#
# An undeclared difference is a second experiment mixed into the first. It is listed in the report and flagged; it is for
# the reader to say whether it was meant.


class Origin(StrEnum):
    """Why a setting differs."""

    DECLARED = "declared"  # typed as an option, or follows from the arm's data and connection
    VERSION = "version"  # the binaries differ, and it is not one of the settings that decide throughput by themselves
    UNDECLARED = "undeclared"


class Difference(Frozen):
    """One variable with unequal values; `None`: that server does not know it."""

    variable: str
    baseline: str | None
    contender: str | None
    origin: Origin


# Settings that decide durability, memory, data or the amount of work: unequal, they are a factor in any version.
# fmt: off
_FACTORS = frozenset({
    "autocommit", "binlog_format", "binlog_row_image", "character_set_server", "collation_server",
    "default_storage_engine", "general_log", "innodb_buffer_pool_size", "innodb_default_row_format",
    "innodb_doublewrite", "innodb_file_per_table", "innodb_flush_log_at_trx_commit", "innodb_flush_method",
    "innodb_force_recovery", "innodb_io_capacity", "innodb_io_capacity_max", "innodb_log_file_size",
    "innodb_log_files_in_group", "innodb_page_size", "innodb_redo_log_capacity", "innodb_use_native_aio",
    "key_buffer_size", "log_bin", "long_query_time", "performance_schema", "query_cache_size",
    "query_cache_type", "require_secure_transport", "slow_query_log", "sync_binlog", "thread_handling",
    "transaction_isolation",
})
# fmt: on

# Older names of variables, and those of MariaDB until 11.1: one setting, whatever a server calls it.
_ALIASES = {"tx_isolation": "transaction_isolation", "tx_read_only": "transaction_read_only"}

# What an option may have before its variable's name.
_PREFIXES = re.compile(r"^(loose_)?(skip_|disable_|enable_)?")

# Settings that a server works out from another one unless they are set: they follow from it.
_FOLLOW = {
    "innodb_buffer_pool_size": frozenset({"innodb_buffer_pool_chunk_size", "innodb_buffer_pool_instances"}),
    "innodb_page_size": frozenset({"innodb_log_write_ahead_size"}),
}

# Values that name an instance and change nothing about its speed.
_IDENTITY = re.compile(
    r"^(hostname|port|server_id|server_uuid|pid_file|socket|pseudo_thread_id|timestamp|gtid_.*|last_insert_id|"
    r"rand_seed\d|insert_id|identity|error_count|warning_count|proxy_user|external_user|version.*|wsrep_.*_uuid|admin_port|"
    r"mysqlx_port|mysqlx_socket|mysqlx_ssl_.*|extra_port|report_host|report_port|bind_address|server_id_bits|"
    r"innodb_version|protocol_version|license|lc_messages_dir|character_sets_dir|build_.*|immediate_server_version|"
    r"original_server_version|in_transaction|skip_replication_.*|in_predicate_.*|aria_log_dir_path|feedback_.*)$"
)
# Names of files and directories; lists of the server's own abilities.
_PLACE = re.compile(r"(_dir|dir|_file|_path|_home_dir|_basename|_index|_tmpdir)$")
_PLACE_EXCEPTIONS = frozenset({"innodb_file_per_table", "innodb_data_file_path", "innodb_temp_data_file_path"})

_CHARSET = re.compile(r"^(character_set_|collation_|default_collation_for_)")


def differences(
    baseline: Mapping[str, str], contender: Mapping[str, str], study: Study, arm: Arm
) -> tuple[Difference, ...]:
    """Compare SHOW GLOBAL VARIABLES of two arms; sorted, undeclared ones first, old names under the new ones.

    Args:
        baseline: name -> value, as the server prints them.
        contender: the same of the other server.
        study: its profile and baseline arm tell what was asked for.
        arm: the contender.
    """
    baseline, contender = _by_newest_name(baseline), _by_newest_name(contender)
    declared = _declared(study, arm)
    other_binaries = _binaries(baseline) != _binaries(contender)
    without_effect = _without_effect(baseline, contender)
    found = []
    for name in sorted(baseline.keys() | contender.keys()):
        mine, theirs = baseline.get(name), contender.get(name)
        if _same(mine, theirs) or _is_identity(name) or _are_places(mine, theirs) or name in without_effect:
            continue
        if name.lower() in declared or (_CHARSET.match(name) and "character_set_server" in declared):
            origin = Origin.DECLARED
        elif other_binaries and (
            mine is None or theirs is None or name not in _FACTORS or study.profile is Profile.STOCK
        ):
            origin = Origin.VERSION
        else:
            origin = Origin.UNDECLARED
        found.append(Difference(variable=name, baseline=mine, contender=theirs, origin=origin))
    return tuple(
        sorted(found, key=lambda difference: (list(Origin)[::-1].index(difference.origin), difference.variable))
    )


def undeclared(found: tuple[Difference, ...]) -> dict[str, tuple[str, str]]:
    """The undeclared ones as `Analysis.undeclared` stores them; an absent variable is `(absent)`."""
    return {
        difference.variable: (_shown(difference.baseline), _shown(difference.contender))
        for difference in found
        if difference.origin is Origin.UNDECLARED
    }


def settings_flag(found: Mapping[str, tuple[str, str]]) -> Flag | None:
    """A flag that names the first undeclared differences."""
    if not found:
        return None
    names = ", ".join(list(found)[:4]) + (" …" if len(found) > 4 else "")
    differ = "difference" if len(found) == 1 else "differences"
    return Flag(kind="SETTINGS", text=f"{len(found)} undeclared {differ} ({names}).")


def _by_newest_name(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables without aliases; a server that has both names says the same under each."""
    return {_ALIASES.get(name, name): value for name, value in variables.items()}


def _declared(study: Study, arm: Arm) -> frozenset[str]:
    names = {name.lower() for each in (study.baseline, arm) for name, _ in each.server.options}
    names |= {_PREFIXES.sub("", name) for name in names}
    names |= {_ALIASES[name] for name in names & _ALIASES.keys()}
    mine, theirs = study.baseline.data, arm.data
    # A character set that the data names on both sides overrules the servers' own.
    if (mine.charset, mine.collation) != (theirs.charset, theirs.collation) or (mine.charset and theirs.charset):
        names |= {"character_set_server", "collation_server"}
    if mine.engine.lower() != theirs.engine.lower():  # each engine is given the memory in its own kind of cache
        names |= {"innodb_buffer_pool_size", "key_buffer_size", "default_storage_engine"}
    return frozenset(names).union(*(_FOLLOW[name] for name in names & _FOLLOW.keys()))


def _without_effect(baseline: Mapping[str, str], contender: Mapping[str, str]) -> frozenset[str]:
    """Settings that differ to no effect: of a log that is off, or redo of the same size in other files."""
    names: set[str] = set()
    if all(_same(each.get("log_bin"), "OFF") for each in (baseline, contender)):
        names |= {"binlog_format", "binlog_row_image", "sync_binlog"}
    sizes = {_redo_bytes(baseline), _redo_bytes(contender)}
    if len(sizes) == 1 and None not in sizes:
        names |= {"innodb_log_file_size", "innodb_log_files_in_group", "innodb_redo_log_capacity"}
    return frozenset(names)


def _redo_bytes(variables: Mapping[str, str]) -> int | None:
    """All of a server's redo, in whichever way its version says it."""
    try:
        if "innodb_redo_log_capacity" in variables:
            return int(variables["innodb_redo_log_capacity"])
        return int(variables["innodb_log_file_size"]) * int(variables.get("innodb_log_files_in_group", "1"))
    except (KeyError, ValueError):
        return None


def _binaries(variables: Mapping[str, str]) -> tuple[str, str]:
    return variables.get("version", ""), variables.get("version_comment", "")


def _is_identity(name: str) -> bool:
    lower = name.lower()
    return bool(_IDENTITY.match(lower) or (_PLACE.search(lower) and lower not in _PLACE_EXCEPTIONS))


_SWITCH = {"1": "ON", "0": "OFF", "YES": "ON", "NO": "OFF"}


def _are_places(mine: str | None, theirs: str | None) -> bool:
    """Both values are absolute paths: where things lie, not what they are."""
    return bool(mine and theirs and mine.startswith("/") and theirs.startswith("/"))


def _same(mine: str | None, theirs: str | None) -> bool:
    """Equal values; 1 and ON are, because versions print the same switch either way."""
    if mine is None or theirs is None:
        return mine is theirs
    left, right = mine.strip().upper(), theirs.strip().upper()
    return left == right or _SWITCH.get(left, left) == _SWITCH.get(right, right)


def _shown(value: str | None) -> str:
    return "(absent)" if value is None else value
