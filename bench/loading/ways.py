"""The ways of loading that are compared. Each makes sysbench's tables, whole, in an empty database."""

import abc
import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from place import Server
from shape import DATABASE, LoadFailed, Shape

from bakeoff.engine import ArmAddress, Engine
from bakeoff.run.loading import loader_threads

SCRIPT = "oltp_read_only"


class Way(abc.ABC):
    """A way of loading."""

    name: str

    @abc.abstractmethod
    def load(self, server: Server, shape: Shape) -> None:
        """Make the tables.

        Raises:
            LoadFailed, BakeoffError: it ended with an error.
        """


class CommandLine(Way):
    """`sysbench SCRIPT prepare`: the original's program, or the engine under its command `sysbench`."""

    def __init__(self, name: str, program: Sequence[str]) -> None:
        self.name = name
        self._program = list(program)

    def load(self, server: Server, shape: Shape) -> None:
        arguments = [
            *self._program, SCRIPT, f"--mysql-socket={server.instance.socket_path}", "--mysql-user=root",
            f"--mysql-db={DATABASE}", f"--tables={shape.tables}", f"--table-size={shape.table_size}",
            f"--threads={shape.threads}", "prepare",
        ]  # fmt: skip
        done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LoadFailed(f"{self.name} ended with status {done.returncode}: {(done.stdout + done.stderr)[-300:]}")


class Harness(Way):
    """Loads like a study: by the engine's contract, with as many threads as a study takes."""

    name = "harness"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def load(self, server: Server, shape: Shape) -> None:
        address = ArmAddress(
            name="A", socket=str(server.instance.socket_path), host=None, port=None, user="root", password="",
            database=DATABASE, charset="utf8mb4", collation=None,
        )  # fmt: skip
        self._engine.open([address])
        options = {"tables": shape.tables, "table_size": shape.table_size}
        self._engine.command("A", SCRIPT, "prepare", options=options, threads=loader_threads(), seed=1)


class LoadData(Way):
    """The server's limit: LOAD DATA from files that are ready, by so many connections at once, then the indexes.

    The files lie where the server reads them itself, so no client takes CPU from it.
    """

    name = "server"

    def __init__(self, ddl: Sequence[str], files: Sequence[tuple[str, Path]]) -> None:
        self._ddl = ddl
        self._files = files

    def load(self, server: Server, shape: Shape) -> None:
        self._at_once(server, shape.threads, [[sql] for sql in self._ddl])
        loads = [[f"LOAD DATA INFILE '{file}' INTO TABLE {name} (id, k, c, pad)"] for name, file in self._files]
        self._at_once(server, shape.threads, loads)
        indexes = [
            [f"CREATE INDEX k_{number} ON {name}(k)", f"ANALYZE TABLE {name}"]
            for number, name in enumerate(shape.names, 1)
        ]
        self._at_once(server, shape.threads, indexes)

    @staticmethod
    def _at_once(server: Server, threads: int, jobs: Sequence[Sequence[str]]) -> None:
        def run(statements: Sequence[str]) -> None:
            with server.instance.connect(DATABASE) as connection, connection.cursor() as cursor:
                for sql in statements:
                    cursor.execute(sql)

        with ThreadPoolExecutor(max_workers=threads) as pool:
            list(pool.map(run, jobs))


DDL = """CREATE TABLE {name}(
  id INTEGER NOT NULL AUTO_INCREMENT,
  k INTEGER DEFAULT '0' NOT NULL,
  c CHAR(120) DEFAULT '' NOT NULL,
  pad CHAR(60) DEFAULT '' NOT NULL,
  PRIMARY KEY (id)
) ENGINE = innodb"""


def without_the_server(engine_binary: Path, engine: Engine) -> tuple[list[Way], str]:
    """Return all ways except `LoadData`, which needs its files first, and a note on what is left out."""
    ours: list[Way] = [CommandLine("bakeoff", [os.fspath(engine_binary), "sysbench"]), Harness(engine)]
    if not shutil.which("sysbench"):
        return ours, "sysbench is left out: it is not installed (Debian: apt-get install sysbench)"
    return [CommandLine("sysbench", ["sysbench"]), *ours], ""
