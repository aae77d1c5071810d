"""The values that the server room hands out: binaries, settings, snapshots, gates, accounts."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bakeoff.servers.catalog import Version


@dataclass(frozen=True)
class Installation:
    """Binaries on this machine that can be started: what `install` returns.

    Attributes:
        name: `mysql-8.0.15`; what the binary says it is, not what was asked for.
        flavour: `mysql`, `mariadb` or `percona`.
        version: of the binary, `(8, 0, 15)`.
        version_text: as the binary prints it (`10.11.19-MariaDB-0+deb12u1`).
        basedir: folder that `--basedir` names.
        argv: the mysqld command, through its own loader where the host's C library is too old for it.
        base_options: `--lc-messages-dir` and the like, the same for init and start.
        share: folder of the system table scripts.
        plugin_dir: folder of plugins, or None.
        init: `initialize` (MySQL 5.7.6 on) or `bootstrap` (SQL scripts on standard input).
        environment: what the binary needs (`LD_LIBRARY_PATH`).
        sha256: of the mysqld binary; distinguishes builds of one version.
        known_options: every option that this binary knows, names with underscores; empty when it could not be asked.
        engines: storage engines that can be had, lower case (`innodb`, `rocksdb`).
        own_loader: runs through an ELF loader of its own, not the host's.
        container_image: image that it runs in, for `docker:`; empty otherwise.
    """

    name: str
    flavour: str
    version: Version
    version_text: str
    basedir: Path
    argv: tuple[str, ...]
    base_options: tuple[str, ...]
    share: Path
    plugin_dir: Path | None
    init: str
    environment: Mapping[str, str]
    sha256: str
    known_options: frozenset[str] = frozenset()
    engines: frozenset[str] = frozenset({"innodb", "myisam"})
    own_loader: bool = False
    container_image: str = ""

    @property
    def family(self) -> str:
        """`mysql` (Percona Server too) or `mariadb`: which set of options and defaults applies."""
        return "mariadb" if self.flavour == "mariadb" else "mysql"


@dataclass(frozen=True)
class ServerMemory:
    """Memory that every arm of a study is given.

    Attributes:
        buffer_pool_bytes: of InnoDB (or the block cache of MyRocks).
        redo_bytes: of the redo log, all files together.
    """

    buffer_pool_bytes: int
    redo_bytes: int = 256 * 2**20


@dataclass(frozen=True)
class Settings:
    """How one server is to be started.

    Attributes:
        options: mysqld options in order, names with underscores; an empty value is a bare flag.
        init_options: those that must be given when the data directory is made; they key the template.
        declared: names that the user asked for, as opposed to what a profile set.
        notes: what was translated or left out, each with its reason, for the report.
    """

    options: Mapping[str, str]
    init_options: Mapping[str, str] = field(default_factory=dict)
    declared: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """A copy of a cleanly stopped data directory.

    Attributes:
        path: the copy; belongs to the `ServerPool` that made it.
        installation_name: what it was made with; another version must not start on it.
        bytes_on_disk: allocated, not apparent, size.
    """

    label: str
    path: Path
    installation_name: str
    bytes_on_disk: int


@dataclass(frozen=True)
class Warmth:
    """What `gates.warm` saw.

    Attributes:
        warm: the last pass over every index read nothing from disk; None for engines without such a counter.
        pages_read: InnoDB pages that the first pass had to read.
        waited_s: all passes together.
    """

    warm: bool | None
    pages_read: int
    waited_s: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gates:
    """State before measuring, as docs/results.md has it in `outcome.json`; None: this server has no such thing."""

    buffer_pool_warm: bool | None
    history_list_length: int | None
    dirty_pages: int | None
    waited_s: float
    notes: tuple[str, ...] = ()

    def as_record(self) -> dict[str, Any]:
        """The JSON object of `outcome.json.gates[ARM]`."""
        return asdict(self) | {"notes": list(self.notes)}


@dataclass(frozen=True)
class Account:
    """Who the client logs in as. The password is made here and kept in memory only."""

    user: str
    password: str = field(default="", repr=False)
