"""Estimate the bytes and rows that a study's workloads load: for memory, disk and the buffer pool."""

from collections.abc import Mapping
from pathlib import PurePath

from bakeoff.spec import Data, Origin, ServerSpec, Study, Workload
from bakeoff.spec.dumps import is_url, read_dump
from bakeoff.spec.server import url_database
from bakeoff.spec.study import OptionValue, is_capture

_BYTES_PER_ROW = 250
"""Of an sbtest row in InnoDB: 200 to 260 with both indexes and pages 15/16 full (measured)."""

_C_CHARACTERS, _PAD_CHARACTERS = 119, 59
_BYTES_PER_CHARACTER = {"latin": 1.5, "cyrillic": 2, "japanese": 3, "chinese": 3, "emoji": 4}
"""Of texts in UTF-8; the others take 1. A character set of fewer bytes needs less than is expected."""

_BYTES_PER_WAREHOUSE = 110 * 2**20
"""Of TPC-C with all indexes in InnoDB (docs/tpcc.md)."""

_ROW_BYTES_OF_STUDIES = {"ucs2_vs_utf8": 5_600, "index_charset": 260}
"""Of the scripts that ship with studies: all tables of the script, in utf8 (measured)."""


def workload_bytes(script: str, options: Mapping[str, OptionValue]) -> int:
    """Bytes that a script's `prepare` is expected to load."""
    tables = _number(options.get("tables"), 1)
    if is_tpcc(script):
        return tables * warehouses(options) * _BYTES_PER_WAREHOUSE
    row_bytes = _ROW_BYTES_OF_STUDIES.get(_stem(script)) or _row_bytes(options)
    return tables * _number(options.get("table_size"), 10_000) * row_bytes


def is_tpcc(script: str) -> bool:
    """Whether a script's data is sized in warehouses."""
    return _stem(script).startswith("tpcc")


def warehouses(options: Mapping[str, OptionValue]) -> int:
    """Of one set of TPC-C's tables."""
    return _number(options.get("warehouses"), 0) or _number(options.get("scale"), 10)


def _row_bytes(options: Mapping[str, OptionValue]) -> int:
    """Of an sbtest row with the texts that are asked for."""
    each = _BYTES_PER_CHARACTER.get(str(options.get("content")), 1)
    texts = each * (_number(options.get("text_length"), _C_CHARACTERS) + _PAD_CHARACTERS)
    return int(_BYTES_PER_ROW - _C_CHARACTERS - _PAD_CHARACTERS + texts)


def data_bytes(study: Study, data: Data) -> int:
    """Bytes that one load of an arm with this data is expected to take, all workloads together."""
    if data.source:
        return data.source_bytes if is_url(data.source) else read_dump(data.source).server_bytes
    sizes: dict[str, int] = {}
    for workload in study.workloads:
        if is_capture(workload.script):
            continue
        database = database_of(study, workload)
        loaded = workload_bytes(workload.script, options_of(study, workload, data))
        sizes[database] = max(sizes.get(database, 0), loaded)
    return sum(sizes.values())


def row_count(study: Study, data: Data) -> int | None:
    """Rows of the tables that the first workload asks for on an arm with this data; None: own data."""
    if data.source:
        return None
    options = options_of(study, study.workloads[0], data)
    return _number(options.get("tables"), study.tables) * _number(options.get("table_size"), study.table_size)


def options_of(study: Study, workload: Workload, data: Data) -> dict[str, OptionValue]:
    """Options of a script on one arm: the study's sizes, what the workload says, then what the arm's data says.

    TPC-C has warehouses where the others have tables and rows.
    """
    options: dict[str, OptionValue] = {"tables": study.tables, "table_size": study.table_size}
    return ({} if is_tpcc(workload.script) else options) | dict(workload.options) | dict(data.options)


def database_of(study: Study, workload: Workload) -> str:
    """The study's (`sbtest`) for captures and sysbench's scripts that use the same tables, else the script's own.

    With own data it is the study's for every script.
    """
    if study.baseline.data.source:
        return study.database
    stem = _stem(workload.script)
    if stem.startswith(("oltp_", "select_random_")) or is_capture(workload.script):
        return study.database
    return f"{study.database}_" + "".join(c if c.isalnum() else "_" for c in stem)


def database_on(study: Study, workload: Workload, server: ServerSpec) -> str:
    """As `database_of`, but captured statements on a running server have its URL's, or what was asked for, or none."""
    if server.origin is Origin.URL and is_capture(workload.script):
        return url_database(server.location) or study.capture_database
    return database_of(study, workload)


def _stem(script: str) -> str:
    return PurePath(script).name.removesuffix(".lua")


def _number(value: OptionValue | None, default: int) -> int:
    try:
        return int(float(value)) if value is not None else default
    except ValueError:
        return default
