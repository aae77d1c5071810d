"""A small data frame on numpy arrays, with grouping and Parquet files."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import arro3.core
import arro3.io
import numpy as np
from arro3.core import Array, DataType
from numpy.typing import ArrayLike, NDArray

Column = NDArray[Any]

Schema = Mapping[str, str]  # column -> `int32`, `int64`, `float64` or `string`

_TYPES = {"int32": DataType.int32(), "int64": DataType.int64(), "float64": DataType.float64()}
_BATCH_ROWS = 65_536
_SMALL = 2**24


class Frame:
    """Immutable named columns of equal length.

    Texts are columns of objects. Unknown numbers (null in a file) are NaN, so integers with gaps are float64, exact up
    to 2**53. `Groups` ignores NaN and returns NaN where nothing is known.
    """

    def __init__(self, columns: Mapping[str, ArrayLike]) -> None:
        self._columns = {name: _column(values) for name, values in columns.items()}
        self._ranks: dict[str, NDArray[np.int64]] = {}

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]], schema: Schema) -> "Frame":
        """Build a frame with the columns of the schema; a missing or None value is unknown."""
        return cls({name: _typed([row.get(name) for row in rows], kind) for name, kind in schema.items()})

    @classmethod
    def concat(cls, frames: Sequence["Frame"]) -> "Frame":
        """Stack one or more frames; a column that one of them lacks is NaN there."""
        names = dict.fromkeys(name for frame in frames for name in frame.columns)
        return cls({name: np.concatenate([frame.get(name, np.nan) for frame in frames]) for name in names})

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._columns)

    def __len__(self) -> int:
        return next(iter(self._columns.values())).size if self._columns else 0

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def get(self, name: str, default: object) -> Column:
        return self._columns[name] if name in self._columns else _column(default, len(self))

    def rows(self, which: Column | slice) -> "Frame":
        """Return the rows where a boolean column is true, or those that an integer column numbers, in its order."""
        return Frame({name: column[which] for name, column in self._columns.items()})

    def select(self, *names: str) -> "Frame":
        return Frame({name: self._columns[name] for name in names})

    def with_columns(self, **columns: ArrayLike) -> "Frame":
        """Add or replace columns; a single value is repeated in all rows."""
        return Frame(self._columns | {name: _column(values, len(self)) for name, values in columns.items()})

    def sort(self, *names: str) -> "Frame":
        columns = [self._ranked(name) if self[name].dtype == object else self[name] for name in reversed(names)]
        return self.rows(np.lexsort(columns))

    def by(self, *names: str) -> "Groups":
        """Group by these columns; by none, all rows are one group."""
        ids = np.zeros(len(self), dtype=np.int64)
        for name in names:
            ranks = self._ranked(name)
            ids = ids * (ranks.max(initial=0) + 1) + ranks
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        begins = np.ones(ids.size, dtype=bool)
        np.not_equal(ids[1:], ids[:-1], out=begins[1:])
        first = order[begins]
        numbers = np.empty_like(first)
        numbers[np.argsort(first)] = np.arange(first.size)
        ids[order] = numbers[np.cumsum(begins) - 1]
        return Groups(self, self.select(*names).rows(np.sort(first)), ids)

    def _ranked(self, name: str) -> NDArray[np.int64]:
        if name not in self._ranks:
            self._ranks[name] = _ranks(self[name])
        return self._ranks[name]

    def records(self) -> list[dict[str, Any]]:
        return [
            dict(zip(self.columns, row, strict=True))
            for row in zip(*(column.tolist() for column in self._columns.values()), strict=True)
        ]


class Groups:
    """Rows that agree in some columns, in the order in which the groups first appear.

    `keys` has one row per group, `ids` each row's group: `groups.sum(values)[groups.ids]` is the sum of each row's
    group.
    """

    def __init__(self, frame: Frame, keys: Frame, ids: NDArray[np.int64]) -> None:
        self._frame = frame
        self.keys = keys
        self.ids = ids
        self.order = np.argsort(ids, kind="stable")
        self.count = np.bincount(ids)
        self._starts = np.cumsum(self.count) - self.count

    def sum(self, values: Column) -> Column:
        if values.dtype.kind != "f":
            return self._reduced(np.add, values.astype(np.int64))
        known = ~np.isnan(values)
        sums = self._reduced(np.add, np.where(known, values, 0.0))
        return sums if known.all() else np.where(self.sum(known) > 0, sums, np.nan)

    def mean(self, values: Column) -> Column:
        return quotients(self.sum(values), self.sum(~np.isnan(values)))

    def std(self, values: Column) -> Column:
        return np.sqrt(
            quotients(self.sum((values - self.mean(values)[self.ids]) ** 2), self.sum(~np.isnan(values)) - 1)
        )

    def median(self, values: Column) -> Column:
        ordered = values[np.lexsort((values, self.ids))]  # NaN last
        known = self.sum(~np.isnan(values))
        low, high = self._starts + np.maximum(known - 1, 0) // 2, self._starts + known // 2
        middle: Column = (ordered[low] + ordered[high]) / 2
        return middle

    def min(self, values: Column) -> Column:
        return self._reduced(np.fmin, values)

    def max(self, values: Column) -> Column:
        return self._reduced(np.fmax, values)

    def rank(self, values: Column) -> Column:
        ranks = np.empty_like(self.order)
        ranks[np.lexsort((values, self.ids))] = np.arange(self.ids.size) - np.repeat(self._starts, self.count)
        return ranks

    def split(self, values: Column) -> list[Column]:
        return np.split(values[self.order], self._starts[1:]) if self.count.size else []

    def by_key(self, values: Column | Sequence[Any]) -> dict[Any, Any]:
        """Map each group's key (a tuple for several columns) to its entry in `values`."""
        names = [column.tolist() for column in (self.keys[name] for name in self.keys.columns)]
        keys = names[0] if len(names) == 1 else zip(*names, strict=True)
        return dict(zip(keys, values.tolist() if isinstance(values, np.ndarray) else values, strict=True))

    def frames(self) -> dict[Any, Frame]:
        return self.by_key([self._frame.rows(rows) for rows in self.split(np.arange(self.ids.size))])

    def _reduced(self, operation: np.ufunc, values: Column) -> Column:
        reduced: Column = operation.reduceat(values[self.order], self._starts)
        return reduced


def quotients(numerators: Column, denominators: Column) -> Column:
    """Divide elementwise; NaN where the denominator is not above 0."""
    positive = np.where(denominators > 0, denominators, np.nan)
    ratios: Column = numerators / positive
    return ratios


def _column(values: object, length: int | None = None) -> Column:
    texts = isinstance(values, list) and bool(values) and isinstance(values[0], str)
    column = np.asarray(values, dtype=object if texts else None)
    column = column.astype(object) if column.dtype.kind == "U" else column
    return column if column.ndim or length is None else np.full(length, column)


def _typed(values: list[Any], kind: str) -> Column:
    if kind == "string":
        return np.array(values, dtype=object)
    return np.array(values, dtype=np.float64 if None in values else kind)


def _ranks(column: Column) -> NDArray[np.int64]:
    if column.dtype.kind == "i" and column.size and np.ptp(column) < _SMALL:
        ranks: NDArray[np.int64] = np.subtract(column, column.min(), dtype=np.int64)
        return ranks
    if column.dtype != object:
        return np.unique(column, return_inverse=True)[1]
    values = column.tolist()
    places = {value: place for place, value in enumerate(sorted(set(values)))}
    return np.fromiter(map(places.__getitem__, values), np.int64, len(values))


def write_parquet(frame: Frame, schema: Schema) -> bytes:
    """Return the columns of the schema as a Parquet file; unknown values are null."""
    texts: dict[str | Sequence[str], bool] = {name: True for name, kind in schema.items() if kind == "string"}
    columns: dict[str, Any] = {name: _arrow(frame[name], kind) for name, kind in schema.items()}
    content = io.BytesIO()
    arro3.io.write_parquet(
        arro3.core.Table.from_pydict(columns),
        content,
        compression="snappy",  # zstd makes smaller files, which take longer to read
        dictionary_enabled=False,  # for numbers it would make the file larger
        column_dictionary_enabled=texts,
        skip_arrow_metadata=True,
    )
    return content.getvalue()


def _arrow(column: Column, kind: str) -> Array:
    if kind == "string":
        return Array(column.tolist(), type=DataType.string())
    if column.dtype.kind != "f":
        return Array.from_numpy(np.ascontiguousarray(column)).cast(_TYPES[kind])
    known = [None if np.isnan(value) else value for value in column.tolist()]
    return Array(known, type=DataType.float64()).cast(_TYPES[kind])


def read_parquet(content: bytes) -> tuple[Frame, dict[str, str]]:
    """Return a Parquet file as a frame, with the type of each column; raise ValueError if it is damaged."""
    try:
        read = arro3.io.read_parquet(content, batch_size=_BATCH_ROWS).read_all()
    except Exception as error:
        raise ValueError(str(error)) from None
    kinds = {name: _kind(name, read.field(name).type) for name in read.column_names}
    return Frame({name: _numpy(read.column(name), kind) for name, kind in kinds.items()}), kinds


def _kind(name: str, of: DataType) -> str:
    if DataType.is_string(of) or DataType.is_large_string(of) or DataType.is_string_view(of):
        return "string"
    for kind, known in _TYPES.items():
        if of == known:
            return kind
    raise ValueError(f"column {name} is of another type or unknown")


def _numpy(column: arro3.core.ChunkedArray, kind: str) -> Column:
    if not column.num_chunks:
        return _typed([], kind)
    if kind == "string":  # equal texts become one object
        if column.null_count:
            raise ValueError("values are missing")
        coded = column.cast(DataType.dictionary(DataType.int32(), DataType.string())).combine_chunks()
        texts: Column = np.array(arro3.core.dictionary_dictionary(coded).to_pylist(), dtype=object)
        return np.take(texts, arro3.core.dictionary_indices(coded).to_numpy())
    return np.array(column.to_pylist(), dtype=np.float64) if column.null_count else column.to_numpy()
