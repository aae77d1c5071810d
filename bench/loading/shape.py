"""What is loaded, and into what."""

from dataclasses import dataclass
from pathlib import Path

from place import Server

DATABASE = "sbtest"


@dataclass(frozen=True)
class Shape:
    """Number of tables, rows per table, and threads that load them."""

    tables: int
    table_size: int
    threads: int

    @property
    def rows(self) -> int:
        """Rows in all tables."""
        return self.tables * self.table_size

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(f"sbtest{number + 1}" for number in range(self.tables))

    def __str__(self) -> str:
        tables = "one table" if self.tables == 1 else f"{self.tables} tables"
        return f"{tables} × {self.table_size:,} rows, {self.threads} threads"


@dataclass(frozen=True)
class Loaded:
    """What a load took and left.

    Attributes:
        server_cpu_s: of all the server's threads, its background work in the meantime included.
        bytes_on_disk: allocated for the tables' files.
    """

    seconds: float
    server_cpu_s: float
    bytes_on_disk: int


class LoadFailed(Exception):
    """A way of loading ended with an error, or left other tables than it should."""


def empty(server: Server, charset: str) -> None:
    """Make the database anew, empty."""
    server.instance.query(f"DROP DATABASE IF EXISTS {DATABASE}")
    server.instance.query(f"CREATE DATABASE {DATABASE} CHARACTER SET {charset}")


def require_whole(server: Server, shape: Shape, way: str) -> None:
    """Check that all rows are there, under ids from 1 on, with the index on k.

    Raises:
        LoadFailed: they are not.
    """
    for name in shape.names:
        sql = f"SELECT COUNT(*), MIN(id), MAX(id), COUNT(DISTINCT LENGTH(c)) FROM {DATABASE}.{name}"
        found = tuple(int(value or 0) for value in server.instance.query(sql)[0])
        if found != (shape.table_size, 1, shape.table_size, 1):
            raise LoadFailed(f"{way}: {name} holds {found}: rows, least and largest id, lengths of c.")
        indexes = {str(row[2]) for row in server.instance.query(f"SHOW INDEX FROM {DATABASE}.{name}")}
        if len(indexes) != 2:
            raise LoadFailed(f"{way}: {name} has the indexes {', '.join(sorted(indexes))}, not one on id and one on k.")


def write_files(server: Server, shape: Shape, folder: Path) -> list[tuple[str, Path]]:
    """Write the rows of the tables as files for LOAD DATA: for each thread the same runs of rows, in the order of
    the primary key, that bakeoff's threads load. Returns table and file, in order.
    """
    files = []
    share = -(-shape.rows // shape.threads)
    for index, name in enumerate(shape.names):
        begin = index * shape.table_size
        edges = [at for at in range(0, shape.rows, share) if begin < at < begin + shape.table_size]
        for first, end in zip([begin, *edges], [*edges, begin + shape.table_size], strict=True):
            file = folder / f"{name}-{first - begin}"
            server.instance.query(
                f"SELECT id, k, c, pad FROM {DATABASE}.{name} WHERE id BETWEEN {first - begin + 1} AND {end - begin}"
                f" ORDER BY id INTO OUTFILE '{file}'"
            )
            files.append((name, file))
    return files
