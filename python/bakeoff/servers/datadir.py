"""Data directories: made once per server and init options, kept as a template, cloned for each instance.

A template is keyed by what the binary is (its SHA-256) and by the options that count when a directory is made. It is
cleanly stopped, holds only `root@localhost` without a password (reachable over a socket that only we may reach), and
is never started itself.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from bakeoff.errors import ServerError
from bakeoff.servers.docker import prepare
from bakeoff.servers.fetch import Progress, no_progress
from bakeoff.servers.model import Installation
from bakeoff.servers.paths import (
    cache_root,
    locked,
    locked_if_free,
    make_open_folder,
    require_reachable,
    sweep_unfinished,
)
from bakeoff.servers.process import run, server_identity, tail
from bakeoff.servers.unpack import bytes_on_disk, copy_tree, require_space

TEMPLATE_FORMAT = 2  # raise it when a template made by older code must not be used
TEMPLATES_LIMIT_BYTES = 5 * 2**30  # one of every catalogue server takes 3 GiB
_RECENTLY_S = 600.0
_TYPICAL_TEMPLATE_BYTES = 256 * 2**20

_MYSQL_SCRIPTS = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")
_MARIADB_SCRIPTS = (
    "mysql_system_tables.sql", "mariadb_system_tables.sql",
    "mysql_performance_tables.sql", "mariadb_performance_tables.sql",
    "mysql_system_tables_data.sql", "mariadb_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql", "mysql_sys_schema.sql", "mariadb_sys_schema.sql",
)  # fmt: skip


def template(installation: Installation, init_options: Mapping[str, str], progress: Progress = no_progress) -> Path:
    """The template's folder, made if it does not exist yet.

    Raises:
        ServerError: the server could not initialise a data directory; with the end of its log.
        HostError: no room on disk.
    """
    with _locked_template(installation, init_options, progress) as home:
        pass
    prune(home.parent)
    return home


def prune(templates: Path, limit_bytes: int = TEMPLATES_LIMIT_BYTES, unused_s: float = _RECENTLY_S) -> list[Path]:
    """Remove the templates that were wanted longest ago until all others fit into `limit_bytes`.

    Those wanted within `unused_s` stay, for they are likely to be wanted again, and so do those that another bakeoff
    makes or copies just now. A template is made anew in seconds.
    """
    found: list[tuple[float, Path]] = []
    for each in templates.iterdir():
        with suppress(FileNotFoundError):  # another bakeoff may remove them too
            if not each.name.startswith("."):
                found.append((each.stat().st_mtime, each))
    sizes = {each: bytes_on_disk(each) for _, each in found}
    removed: list[Path] = []
    for wanted_at, each in sorted(found):
        if sum(sizes.values()) <= limit_bytes or time.time() - wanted_at < unused_s:
            break
        with locked_if_free(each.name) as free:
            if free:
                shutil.rmtree(each, ignore_errors=True)
                removed.append(each)
                del sizes[each]
    return removed


def clone_template(
    installation: Installation, init_options: Mapping[str, str], target: Path, progress: Progress = no_progress
) -> None:
    """A data directory of one's own at `target`, which must not exist."""
    with _locked_template(installation, init_options, progress) as home:
        copy_tree(home, target, f"a data directory for {installation.name}")
    prune(home.parent)
    (target / "auto.cnf").unlink(missing_ok=True)  # the server's UUID: clones must not share one


def option_arguments(options: Mapping[str, str]) -> list[str]:
    """`{"innodb_page_size": "8k", "skip_ssl": ""}` as `--innodb-page-size=8k --skip-ssl`."""
    return [f"--{name.replace('_', '-')}={value}" if value else _flag(name) for name, value in options.items()]


def _flag(name: str) -> str:
    """A bare flag, or an option whose value is empty on purpose (`--tls-version=`)."""
    return f"--{name.replace('_', '-')}=" if name in EMPTY_VALUES else f"--{name.replace('_', '-')}"


EMPTY_VALUES = frozenset(
    {"tls_version", "admin_tls_version", "sql_mode", "secure_file_priv", "init_connect", "plugin_load"}
)
"""Options for which an empty value means "the empty text" and not "switched on"."""


@contextmanager
def _locked_template(installation: Installation, init_options: Mapping[str, str], progress: Progress) -> Iterator[Path]:
    """The template's folder, made if it does not exist yet; nobody else copies or removes it inside the block."""
    name = f"{installation.name}-{_key(installation, init_options)}"
    home = cache_root() / "templates" / name
    sweep_unfinished(home.parent)
    with locked(
        name, on_wait=lambda: progress(f"waiting for another bakeoff that initialises {installation.name}", 0, 0)
    ):
        if not home.exists():
            progress(f"initialising {installation.name}", 0, 0)
            _make(installation, init_options, home)
        os.utime(home)  # when it was last wanted
        yield home


def _key(installation: Installation, init_options: Mapping[str, str]) -> str:
    content = json.dumps(
        [
            TEMPLATE_FORMAT,
            installation.sha256,
            str(installation.basedir),
            sorted(init_options.items()),
            server_identity().uid,
        ]
    )
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _make(installation: Installation, init_options: Mapping[str, str], home: Path) -> None:
    identity = server_identity()
    parent = make_open_folder(home.parent)
    require_reachable(parent, identity.uid, identity.gid)
    require_space(parent, _TYPICAL_TEMPLATE_BYTES, f"initialising {installation.name}")
    scratch = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=parent))
    try:
        scratch.chmod(0o755)
        temporary = scratch / "tmp"
        temporary.mkdir()
        data = scratch / "data"
        identity.own(temporary)
        options = [f"--datadir={data}", f"--tmpdir={temporary}", *option_arguments(init_options)]
        log = scratch / "init.log"
        script: Path | None = None
        if installation.init == "initialize":
            identity.own(scratch)  # mysqld makes the data directory itself
            options += ["--secure-file-priv=NULL", "--initialize-insecure"]
        else:
            (data / "mysql").mkdir(parents=True)
            identity.own(data, data / "mysql")
            script = scratch / "bootstrap.sql"
            script.write_bytes(_bootstrap_sql(installation))
            options += ["--bootstrap", "--max-allowed-packet=8M", "--net-buffer-length=16K"]
            options += ["--log-warnings=0", "--enforce-storage-engine="] if installation.family == "mariadb" else []
        env = {"PATH": "/usr/bin:/bin", **installation.environment}
        launch = prepare(installation, options, env, [scratch], feeds=True)
        result = run(launch.argv, launch.identity, env=launch.env, cwd=scratch, log=log, stdin=script, timeout_s=180)
        if result.status != 0:
            raise ServerError(
                f"{installation.name} could not initialise a data directory (status {result.status}).",
                hint=_hint(result.errors + result.output),
                log_tail=tail(log.with_name(f"{log.name}.err")) or tail(log),
            )
        data.rename(home)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _hint(log: str) -> str:
    if "io_setup() failed" in log or "Linux Native AIO" in log:
        return "The kernel's limit of asynchronous I/O requests is used up: raise fs.aio-max-nr, or stop other servers."
    if "No space left" in log or "OS error: 28" in log:
        return "The disk is full."
    return ""


def _bootstrap_sql(installation: Installation) -> bytes:
    """The system tables' own scripts, in order, and no account but root@localhost.

    Scripts that a version does not have are skipped: MariaDB renamed them in 11.x.
    """
    parts = [b"create database if not exists mysql;\nuse mysql;\n"]
    if installation.family == "mariadb":
        parts.append(b"SET @auth_root_socket=NULL;\nSET @skip_auth_anonymous=1;\n")
    scripts = _MARIADB_SCRIPTS if installation.family == "mariadb" else _MYSQL_SCRIPTS
    found = [installation.share / name for name in scripts if (installation.share / name).exists()]
    if not found:
        raise ServerError(
            f"{installation.name} has no system table scripts in {installation.share}.", hint="Name a complete basedir."
        )
    parts += [script.read_bytes() + b"\n" for script in found]
    accounts = (
        "mysql.global_priv" if installation.family == "mariadb" and installation.version >= (10, 4) else "mysql.user"
    )
    parts.append(f"DELETE FROM {accounts} WHERE User='' OR (User='root' AND Host<>'localhost');\n".encode())
    return b"".join(parts)
