"""The plan of a study (`plan.json`): cells, epochs and rounds, their random orders and seeds.

Nothing here is measured; all follows from the study, its seed and the expected seconds of loading and restarting.
At the end: the bytes and rows that its workloads are expected to load, for memory, disk and the buffer pool.

Every random choice of a run follows from one number. The scheme (version 1): a choice has a path, such as
`("start", 3, "A")`. Its number is the first 53 bits of SHA-256 of the text `bakeoff/1/SEED/start/3/A`; 53 bits are
exact in every JSON reader. A random order sorts items by their numbers. So a choice depends on the study's seed and on
its own path alone: adding a cell or an epoch changes no other choice, and any language can recompute it.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import PurePath

from bakeoff.spec import Data, Frozen, Origin, Placement, ServerSpec, Study, Workload
from bakeoff.spec.dumps import read_dump
from bakeoff.spec.server_name import is_url, url_database
from bakeoff.spec.study import OptionValue, is_capture
from bakeoff.units import parse_scaled

ROUND_BLOCKS = 1_000_000
"""Blocks of round r are numbered from r times this, so that the rounds of an epoch can be distinguished."""

# Bundled scripts whose run only reads. Every other script may write: one that bakeoff does not know is treated as the
# dangerous kind.
READ_ONLY = frozenset({"oltp_point_select", "oltp_read_only", "select_random_points", "select_random_ranges"})


class SliceLength(Frozen):
    """How long one arm is loaded before the next has its turn.

    Attributes:
        slice_ns: counted part of a slice.
        guard_ns: issued but not counted at the start of a slice; at most a tenth of `slice_ns`.
    """

    slice_ns: int
    guard_ns: int


class Cell(Frozen):
    """One workload at one concurrency.

    Attributes:
        name: `oltp_point_select/4`; unique in the study.
        workload: name of the workload, the part before the slash.
        workload_index: its place in `Study.workloads`.
        script: bundled name or path.
        threads: connections of each arm.
        writes: it changes data, or may (a script that bakeoff does not know).
        freeze: the resting server is stopped (SIGSTOP) while the other has its turn.
        placement: where the two threads of every connection run, on all arms alike.
        open_loop: events come at a given rate.
        replay: the workload is a capture, each of whose queries gets a verdict.
        speed: of a capture that is replayed by the clock: captured seconds in a second.
        slices: the length before the pilot, or the one that the pilot chose.
        seconds: wall seconds that all arms together are measured in an epoch; None: the plan's `seconds_per_cell`.
    """

    name: str
    workload: str
    workload_index: int
    script: str
    threads: int
    writes: bool
    freeze: bool
    placement: Placement
    open_loop: bool
    slices: SliceLength
    seconds: float | None = None
    replay: bool = False
    speed: float | None = None

    @property
    def guard_ns(self) -> int:
        """Of every measured slice; a replay has none, since all of its statements count."""
        return 0 if self.replay else self.slices.guard_ns


class CellDraft(Frozen):
    """One cell within an epoch; both seeds go to the engine's `measure` as they are and hold for all arms.

    Attributes:
        arms: those that are measured in it; empty: all.
    """

    cell: str
    order_seed: int
    key_seed: int
    arms: tuple[str, ...] = ()


class Seeds(Frozen):
    """Roots of an epoch's randomness (`outcome.json`)."""

    order: int
    keys: int
    padding: int


class EpochDraft(Frozen):
    """An epoch as drawn.

    Attributes:
        build: which load of the data is restored, counted from 0.
        start_order: arm names, in the order in which their servers start.
        cells: in the order of measuring; those that only read come first.
        padding_bytes: arm -> length of an environment variable that does nothing but move the process's stack.
    """

    epoch: int
    build: int
    start_order: tuple[str, ...]
    cells: tuple[CellDraft, ...]
    padding_bytes: dict[str, int]
    seeds: Seeds

    @property
    def cell_order(self) -> tuple[str, ...]:
        """Names of the cells in the order of measuring."""
        return tuple(draft.cell for draft in self.cells)


class Plan(Frozen):
    """A study turned into epochs.

    Attributes:
        seed: the study's; every order and seed follows from it (bakeoff.plan.epochs).
        arms: names, the baseline first.
        builds: loads of the data that the epochs take in turn.
        seconds_per_cell: wall seconds that all arms together are measured in one cell of one epoch, mean over cells.
        turns: how many arms share these seconds: all, and the baseline once more for each round after the first.
        overhead_s: wall seconds of an epoch in which nothing is measured (restore, start, readiness, warm-up, stop).
        load_s: wall seconds before the first epoch and after the last one.
        epochs_min: fewest epochs that give a verdict.
        epochs_expected: how many fit into the budget.
        fits: at least `epochs_min` of them do.
        budget_needed_s: smallest budget with a verdict: `epochs_min` epochs fit, each cell measured its least.
        unpaired: why the connections run free although pairing was wanted; empty when they do not.
        epochs: the first drafts, as declared before measuring; later ones follow by the same rule.
    """

    format: int = 1
    seed: int
    arms: tuple[str, ...]
    builds: int
    cells: tuple[Cell, ...]
    seconds_per_cell: float
    turns: int = 0
    overhead_s: float
    load_s: float
    budget_s: float
    epochs_min: int
    epochs_expected: int
    fits: bool
    budget_needed_s: float
    unpaired: str = ""
    epochs: tuple[EpochDraft, ...]

    def with_arms(self, names: Iterable[str]) -> "Plan":
        """Return the plan with these arms, some of which have joined since it was made."""
        return self.model_copy(update={"arms": tuple(names)})

    @property
    def epoch_s(self) -> float:
        """Expected wall seconds of an epoch with all cells and arms."""
        return self.overhead_s + len(self.cells) * self.seconds_per_cell

    def seconds_of(self, cell: str) -> float:
        """Wall seconds that a cell is measured in an epoch with all arms.

        Raises:
            KeyError: there is no such cell.
        """
        seconds = self.cell(cell).seconds
        return self.seconds_per_cell if seconds is None else seconds

    def arm_seconds(self, cell: str) -> float:
        """Wall seconds that each arm is measured in a cell of an epoch: the same however many arms there still are."""
        return self.seconds_of(cell) / (self.turns or len(self.arms))

    def measuring_seconds(self, arms: Mapping[str, int]) -> float:
        """Expected wall seconds of measuring when only so many arms (baseline included) are measured in these cells."""
        return sum(self.arm_seconds(cell) * self._turns_of(count) for cell, count in arms.items())

    def _turns_of(self, count: int) -> int:
        """`turns` of a cell in which so many arms are left."""
        contenders = len(self.arms) - 1
        in_a_round = math.ceil(contenders / max(1, self.turns - contenders))
        return min(turns(count, at_once=1 + in_a_round), self.turns or count)

    def cell(self, name: str) -> Cell:
        """The cell of that name.

        Raises:
            KeyError: there is none.
        """
        return {cell.name: cell for cell in self.cells}[name]

    def all_free(self, reason: str) -> "Plan":
        """This plan with all connections where the kernel puts them, because they cannot be paired."""
        cells = tuple(cell.model_copy(update={"placement": Placement.FREE}) for cell in self.cells)
        return self.model_copy(update={"cells": cells, "unpaired": reason})

    def with_slices(self, chosen: dict[str, SliceLength]) -> "Plan":
        """This plan with slice lengths by cell name; other cells keep theirs."""
        cells = tuple(
            cell.model_copy(update={"slices": chosen[cell.name]}) if cell.name in chosen else cell
            for cell in self.cells
        )
        return self.model_copy(update={"cells": cells})


def writes(workload: Workload) -> bool:
    """Whether a workload changes data, as it says itself; else False only for the bundled scripts that only read."""
    return workload.script not in READ_ONLY if workload.writes is None else workload.writes


def workload_names(workloads: tuple[Workload, ...]) -> tuple[str, ...]:
    """A short name for each: its own, or the file's without `.lua` and `.capture`, with `#2` where it comes again."""
    seen: Counter[str] = Counter()
    names = []
    for workload in workloads:
        file = PurePath(workload.script).name
        stem = workload.name or file.removesuffix(".lua").removesuffix(".capture") or "script"
        seen[stem] += 1
        names.append(stem if seen[stem] == 1 else f"{stem}#{seen[stem]}")
    return tuple(names)


def seed_for(seed: int, *path: int | str) -> int:
    """The number of one choice, uniform in [0, 2**53)."""
    text = "/".join(["bakeoff", "1", str(seed), *map(str, path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11


def shuffled(items: Iterable[str], seed: int, *path: int | str) -> tuple[str, ...]:
    """The items in the random order that belongs to `path`; the order in which they come in does not matter."""
    return tuple(sorted(items, key=lambda item: (seed_for(seed, *path, item), item)))


def rounds(arms: tuple[str, ...], *, at_once: int, seed: int, epoch: int) -> tuple[tuple[str, ...], ...]:
    """Which arms run together in each round of an epoch, when the servers do not all fit into memory.

    Every contender is in one round, with the baseline; the groups are drawn anew for every epoch. Rounds are of the
    same size, or of two sizes that differ by one.

    Args:
        arms: the baseline first.
        at_once: how many may run at the same time, 2 or more (1 when there is but one arm).
        seed: the study's.
        epoch: number from 0.
    """
    if len(arms) <= at_once:
        return (arms,)
    contenders = shuffled(arms[1:], seed, "rounds", epoch)
    count = -(-len(contenders) // (at_once - 1))
    least, more = divmod(len(contenders), count)
    ends = [(index + 1) * least + min(index + 1, more) for index in range(count)]
    return tuple((arms[0], *contenders[start:end]) for start, end in pairwise([0, *ends]))


def turns(arms: int, *, at_once: int) -> int:
    """How many arms take turns in a cell of an epoch: all, and the baseline once more for every round but the first."""
    if arms <= at_once:
        return arms
    return arms - 1 + -(-(arms - 1) // (at_once - 1))


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
    each = _ROW_BYTES_OF_STUDIES.get(_stem(script)) or _row_bytes(options)
    return math.prod(table_sizes(script, options).values()) * (_BYTES_PER_WAREHOUSE if is_tpcc(script) else each)


def table_sizes(script: str, options: Mapping[str, OptionValue]) -> dict[str, int]:
    """What a script's `prepare` makes: `tables` (of TPC-C: sets of them) with a `table_size`, or `warehouses`, each."""
    tables = {"tables": _number(options.get("tables"), 1)}
    if is_tpcc(script):
        return tables | {"warehouses": warehouses(options)}
    return tables | {"table_size": _number(options.get("table_size"), 10_000)}


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
    """Rows of the tables that the first workload asks for on an arm with this data; None: own data, or TPC-C's."""
    if data.source or is_tpcc(study.workloads[0].script):
        return None
    options = options_of(study, study.workloads[0], data)
    return _number(options.get("tables"), study.tables) * _number(options.get("table_size"), study.table_size)


def options_of(study: Study, workload: Workload, data: Data) -> dict[str, OptionValue]:
    """Options of a script on one arm: the study's sizes, what the workload says, then what the arm's data says."""
    return sized_options(workload, data, tables=study.tables, table_size=study.table_size)


def sized_options(workload: Workload, data: Data, *, tables: int, table_size: int) -> dict[str, OptionValue]:
    """As `options_of`, for a study of these sizes; TPC-C has warehouses where the others have tables and rows."""
    options: dict[str, OptionValue] = {"tables": tables, "table_size": table_size}
    return ({} if is_tpcc(workload.script) else options) | dict(workload.options) | dict(data.options)


def database_of(study: Study, workload: Workload) -> str:
    """The study's (`sbtest`) for captures and sysbench's scripts that use the same tables, else the script's own.

    With own data it is the study's for every script. It is ASCII: `Instance.data_bytes` finds the folders of such.
    """
    if study.baseline.data.source:
        return study.database
    if uses_sysbench_tables(workload) or is_capture(workload.script):
        return study.database
    return f"{study.database}_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in _stem(workload.script))


def uses_sysbench_tables(workload: Workload) -> bool:
    """Whether a script shares the tables of sysbench's own, which it says by its name."""
    return _stem(workload.script).startswith(("oltp_", "select_random_"))


def database_on(study: Study, workload: Workload, server: ServerSpec) -> str:
    """As `database_of`, but captured statements on a running server have its URL's, or what was asked for, or none."""
    if server.origin is Origin.URL and is_capture(workload.script):
        return url_database(server.location) or study.capture_database
    return database_of(study, workload)


def _stem(script: str) -> str:
    return PurePath(script).name.removesuffix(".lua")


def _number(value: OptionValue | None, default: int) -> int:
    number = parse_scaled(value) if isinstance(value, str) else value
    try:
        return int(number) if number is not None else default
    except (ValueError, OverflowError):
        return default
