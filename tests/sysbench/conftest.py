"""Runs the drop-in and, where it is installed, the original, side by side."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from bakeoff.engine import engine_path

SCRIPTS = Path(__file__).with_name("scripts")


@dataclass(frozen=True)
class Ran:
    """What a command left."""

    code: int
    out: str
    err: str

    def line(self, start: str) -> str:
        """Return the only line of output that begins with `start`, ignoring blanks."""
        lines = [line for line in self.out.splitlines() if line.strip().startswith(start)]
        assert len(lines) == 1, self.out
        return lines[0]

    def number(self, start: str) -> float:
        """Return the first number after `start`, as awk wrappers read it."""
        return float(self.line(start).split(":", 1)[1].split()[0].rstrip("s"))


class Command:
    """A sysbench: the original or ours."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, *arguments: str, stdin: str = "", limit_s: float = 90, cwd: Path = SCRIPTS, **env: str) -> Ran:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("LUA_", "MYSQL_"))}
        done = subprocess.run(
            [*self.words, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=limit_s,
            cwd=cwd,
            env=clean | env,
        )
        return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def ours():
    """`bakeoff-engine sysbench`."""
    return Command(str(engine_path()), "sysbench")


@pytest.fixture(scope="session")
def original():
    """Debian's sysbench."""
    path = shutil.which("sysbench", path="/usr/bin:/usr/local/bin")
    if not path:
        pytest.skip("Debian's sysbench is not installed (apt-get install sysbench)")
    return Command(path)


class Server:
    """The session's MySQL, with a separate database for these tests."""

    def __init__(self, box: dict[str, object]) -> None:
        self.socket = str(box["socket"])
        self.port = int(str(box["port"]))
        self.pid = int(str(box["pid"]))
        client = shutil.which("mariadb") or shutil.which("mysql")
        assert client, "no mysql client: apt-get install mariadb-client"
        self.client = client
        self.database = "sysbench_drop_in"

    @property
    def options(self) -> tuple[str, ...]:
        """Options that both programs take."""
        return (f"--mysql-socket={self.socket}", "--mysql-user=root", f"--mysql-db={self.database}")

    def sql(self, text: str, database: str = "") -> list[list[str]]:
        """Run SQL; rows as lists of texts."""
        words = [
            self.client,
            "--no-defaults",
            "--user=root",
            f"--socket={self.socket}",
            "--batch",
            "--skip-column-names",
        ]
        done = subprocess.run([*words, "--raw", "-e", text, database or self.database], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def statements_of(self, run) -> list[str]:
        """Return the statements that `run()` executed, with values, from the general log, without the set-up."""
        self.sql("SET GLOBAL log_output='TABLE'; TRUNCATE mysql.general_log; SET GLOBAL general_log=ON")
        try:
            run()
        finally:
            self.sql("SET GLOBAL general_log=OFF")
        log = self.sql(
            "SELECT REPLACE(REPLACE(CONVERT(argument USING utf8mb4), '\\n', ' '), '\\t', ' ') FROM mysql.general_log "
            "WHERE command_type IN ('Query', 'Execute') ORDER BY event_time, thread_id"
        )
        setting_up = re.compile(r"^(SET |SELECT @@character_set|$)|general_log", re.IGNORECASE)
        return [" ".join(row[0].split()) for row in log if not setting_up.search(row[0])]


@pytest.fixture(scope="session")
def lasting_server(sandbox):
    """A real MySQL 8.0.15 that the tests share; its database holds what the test before left."""
    return Server(sandbox)


@pytest.fixture
def server(lasting_server):
    """A real MySQL 8.0.15 with an empty database."""
    database = lasting_server.database
    lasting_server.sql(f"DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}", "mysql")
    return lasting_server
