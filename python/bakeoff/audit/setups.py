"""Read one setup from its files, or from a running server. What cannot be read is listed and not used."""

import csv
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

from bakeoff.audit.dumps import Damaged, Table, named_values, split_status, summary, tables
from bakeoff.errors import SpecError
from bakeoff.servers.client import RemoteServer
from bakeoff.servers.cnf import server_groups
from bakeoff.servers.releases import Version, parse_version
from bakeoff.spec.cnf_lines import parse_option
from bakeoff.spec.server_name import is_negated, is_url, joined, parse_server, url_database, url_password
from bakeoff.stats.differences import changes, changes_text, variable_of
from bakeoff.tool_logs import LoggedRun, hammerdb_runs, sysbench_runs
from bakeoff.units import parse_bytes

_BYTES_MAX = 64 * 2**20
_FILES_MAX = 1000
_TABLES_MAX = 200  # of a running server
_HAS_GROUP = re.compile(r"^ *\[(?:mysqld|mariadbd?|server|client-server|galera)(?:-\d+(?:\.\d+)?)?\]", re.MULTILINE)
WORKLOADS = sorted(each.name[:-4] for each in files("bakeoff.workloads").iterdir() if each.name.endswith(".lua"))


@dataclass
class Setup:
    """What is known of one setup.

    `options` are those of its my.cnf files; with `options_only` nothing else is known of the server. `problems` has a
    line for each file that was not used, `notes` what a reader must know of the others.
    """

    name: str
    variables: dict[str, str] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    runs: list[LoggedRun] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: int = 0
    options_only: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the dump is complete: dumps are in alphabetical order, so one with both of these was not cut."""
        return "version" in self.variables and "wait_timeout" in self.variables

    @property
    def version_text(self) -> str:
        return " ".join(self.variables.get(name, "") for name in ("version", "version_comment")).strip()

    @property
    def version(self) -> Version:
        return parse_version(self.version_text) if re.match(r"\d", self.version_text) else ()

    @property
    def family(self) -> str:
        return "mariadb" if "mariadb" in self.version_text.lower() else "mysql"


def read_setup(named: str) -> Setup:
    """Read a folder, a file or the URL of a running server; SpecError if it holds nothing that can be read."""
    if is_url(named):
        return _running(named)
    path, setup, summarised = Path(named), Setup(named.rstrip("/") or named), dict[str, str]()
    if not path.exists():
        raise SpecError(f"audit: {named} does not exist.", hint="Name a folder, a file or mysql://user@host/.")
    for file in _files(path, setup):
        shown = str(file.relative_to(path)) if path.is_dir() else file.name
        try:
            if not _read_into(setup, _text(file), shown, summarised):
                raise Damaged("no dump, log or my.cnf in a known format")
            setup.files += 1
        except (Damaged, csv.Error, OSError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else problem
            setup.problems.append(f"{setup.name}: {shown}: {why}")
    setup.variables = setup.variables or summarised
    if not setup.variables and setup.options:
        setup.variables, setup.options_only = dict(as_variables(setup.options)), True
    if not setup.files:
        why = setup.problems[0].partition(": ")[2] if setup.problems else "it is empty"
        raise SpecError(f"audit: nothing in {named} can be read: {why}.", hint="See docs/how-to/audit.md.")
    return setup


def _files(path: Path, setup: Setup) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(Path(folder, name) for folder, _, names in os.walk(path) for name in names if name[0] != ".")
    if len(found) > _FILES_MAX:
        setup.problems.append(f"{setup.name}: only the first {_FILES_MAX} of {len(found)} files were read")
    # Some groups of a my.cnf are for certain versions, so read the version first.
    return sorted(found[:_FILES_MAX], key=lambda file: file.suffix in (".cnf", ".ini"))


def _text(file: Path) -> str:
    if not file.is_file():
        raise Damaged("not a regular file")
    if (size := file.stat().st_size) > _BYTES_MAX:
        raise Damaged(f"{size / 2**20:.0f} MB are too large for a dump or a log")
    content = file.read_bytes()
    is_utf_16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))  # PowerShell's redirection
    if b"\0" in content and not is_utf_16:
        raise Damaged("a binary file")
    text = content.decode("utf-16" if is_utf_16 else "utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.strip():
        raise Damaged("an empty file")
    return text


def _read_into(setup: Setup, text: str, shown: str, summarised: dict[str, str]) -> bool:
    if (found := summary(text)) is not None:
        setup.machine |= found[0]
        summarised |= found[1]
        return True
    runs = [*sysbench_runs(text), *hammerdb_runs(text)]
    if len(runs) < len(re.findall(r"^sysbench \d", text, re.MULTILINE)) or (not runs and "Vuser 1:" in text):
        raise Damaged("a log without its result: it was cut, or the run was stopped")
    if runs:
        workload = next((name for name in WORKLOADS if name in shown.replace("-", "_")), "")
        setup.runs += (replace(run, workload=run.workload or workload, file=shown) for run in runs)
        return True
    if _HAS_GROUP.search(text):
        _read_cnf(setup, text, shown)
        return True
    created, values = tables(text), named_values(text)
    variables, status = split_status(values)
    _add_variables(setup, variables, shown)
    setup.tables |= created
    setup.status |= status
    return bool(created or values)


def _add_variables(setup: Setup, variables: dict[str, str], shown: str) -> None:
    before = setup.variables
    if len({each["version"] for each in (before, variables) if "version" in each}) > 1:
        raise Damaged(f"a dump of version {variables['version']} beside one of {before['version']}")
    shared = before.keys() & variables.keys()
    if moved := changes({n: before[n] for n in shared}, {n: variables[n] for n in shared}):
        setup.notes.append(f"{setup.name}: {shown} is another dump of this server: {changes_text(moved)}")
    setup.variables = variables | before


def _read_cnf(setup: Setup, text: str, shown: str) -> None:
    group, found = "", setup.options
    groups = server_groups(setup.family if setup.version else "mariadb", setup.version)  # unknown: those of both
    for number, line in enumerate((raw.strip() for raw in text.split("\n")), start=1):
        if line.startswith("["):
            group = line[1:].partition("]")[0]
        elif line.startswith("!"):
            setup.notes.append(f"{setup.name}: {shown}:{number}: {line} was not followed; add those files")
        elif line and line[0] not in "#;" and group in groups:
            name, value = parse_option(line)
            found[name] = joined(found.get(name), name, value)


def as_variables(options: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Turn options of a my.cnf into the variables that they set, in the words of SHOW VARIABLES."""
    for name, value in options.items():
        variable, is_size = variable_of(name), re.fullmatch(r"\d{1,15}[kmgtKMGT]", value)
        on = "ON" if not value or variable == "log_bin" else value
        yield variable, "OFF" if is_negated(name) else str(parse_bytes(value)) if is_size else on


def _running(url: str) -> Setup:
    spec = parse_server(url)
    server = RemoteServer(spec, password=url_password(url))
    status = {name.lower(): each for name, each in server.status().items()}
    setup = Setup(str(spec), server.variables(), status, files=1)
    if database := url_database(spec.location):
        for (name,) in server.query("SHOW TABLES", database=database)[:_TABLES_MAX]:
            quoted = str(name).replace("`", "``")
            setup.tables |= tables(str(server.query(f"SHOW CREATE TABLE `{quoted}`", database=database)[0][1]))
    return setup
