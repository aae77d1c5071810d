"""Data directories: initialised once per server, kept as a template, and copied for each instance.

A template is cleanly stopped, holds only `root@localhost` without a password, and is never started. A copy must behave
like its original when measured: `cp` keeps a sparse file sparse and a fully allocated file allocated, since holes would
cost time during the measurement. Everything is on disk when a copy returns.
"""

import hashlib
import json
import os
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from bakeoff.errors import HostError, ServerError
from bakeoff.files import sync_file_system
from bakeoff.servers import paths
from bakeoff.servers.catalog import Installation
from bakeoff.servers.docker import kill, prepare
from bakeoff.servers.fetch import Progress, no_progress
from bakeoff.servers.options import option_arguments
from bakeoff.servers.process import advice, last_line, run, run_as_us, server_identity, tail

TEMPLATE_FORMAT = 2  # raise it when templates made by older code must not be used
TEMPLATES_LIMIT_BYTES = 5 * 2**30  # one of every catalogue server takes 3 GiB
_RECENTLY_S = 600.0
_PARTS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("server_parts.toml").read_text("utf-8"))


def prune(templates: Path, limit_bytes: int = TEMPLATES_LIMIT_BYTES, unused_s: float = _RECENTLY_S) -> None:
    found: list[tuple[float, Path]] = []
    for each in templates.iterdir():
        with suppress(FileNotFoundError):  # another bakeoff may remove them too
            if not each.name.startswith("."):
                found.append((each.stat().st_mtime, each))
    sizes = {each: paths.bytes_on_disk(each) for _, each in found}
    for used_at, each in sorted(found):
        if sum(sizes.values()) <= limit_bytes or time.time() - used_at < unused_s:
            break
        if paths.remove_if_free(each, each.name):
            del sizes[each]


def clone_template(
    installation: Installation, init_options: Mapping[str, str], target: Path, progress: Progress = no_progress
) -> None:
    with locked_template(installation, init_options, progress) as home:
        copy_tree(home, target, f"a data directory for {installation.name}")
    prune(home.parent)


@contextmanager
def locked_template(
    installation: Installation, init_options: Mapping[str, str], progress: Progress = no_progress
) -> Iterator[Path]:
    name = f"{installation.name}-{_key(installation, init_options)}"
    home = paths.cache_root() / "templates" / name
    paths.remove_unfinished(home.parent)
    waiting = f"waiting for another bakeoff to initialise {installation.name}"
    with paths.locked(name, on_wait=lambda: progress(waiting, 0, 0)):
        if not home.exists():
            progress(f"initialising {installation.name}", 0, 0)
            _initialise(installation, init_options, home)
        os.utime(home)  # time of the last use
        yield home


def _key(installation: Installation, init_options: Mapping[str, str]) -> str:
    basedir, options = str(installation.basedir), sorted(init_options.items())
    content = json.dumps([TEMPLATE_FORMAT, installation.sha256, basedir, options, server_identity().uid])
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _initialise(installation: Installation, init_options: Mapping[str, str], home: Path) -> None:
    identity = server_identity()
    parent = paths.make_open_folder(home.parent)
    paths.require_reachable(parent, identity.uid, identity.gid)
    with paths.unfinished(parent, home.name) as scratch:
        temporary, data, log = scratch / "tmp", scratch / "data", scratch / "init.log"
        temporary.mkdir()
        identity.own(temporary)
        options = [f"--datadir={data}", f"--tmpdir={temporary}", *option_arguments(init_options)]
        script: Path | None = None
        if installation.initialises:
            identity.own(scratch)  # mysqld makes the data directory
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
        try:
            result = run(launch, cwd=scratch, log=log, stdin=script, limit_s=180)
        except BaseException:
            if launch.container:  # only its client was killed
                with suppress(ServerError):
                    kill(installation, launch.container)
            raise
        if result.returncode != 0:
            raise ServerError(
                f"{installation.name} could not initialise a data directory (status {result.returncode}).",
                hint=advice(result.stderr + result.stdout, parent) or _fetch_again(installation),
                log_tail=tail(log.with_name(f"{log.name}.err")) or tail(log),
            )
        data.rename(home)


def _fetch_again(installation: Installation) -> str:
    servers = (paths.cache_root() / "servers").resolve()
    if not installation.basedir.is_relative_to(servers):
        return "Its files may be incomplete."
    name = installation.basedir.relative_to(servers).parts[0]
    return f"Its files may be incomplete: `bakeoff server rm {name}`, then try again."


def _bootstrap_sql(installation: Installation) -> bytes:
    """Join the server's system table scripts, which differ by version, without accounts other than root@localhost."""
    parts = [b"create database if not exists mysql;\nuse mysql;\n"]
    if installation.family == "mariadb":
        parts.append(b"SET @auth_root_socket=NULL;\nSET @skip_auth_anonymous=1;\n")
    scripts = _PARTS[f"{installation.family}_scripts"]
    found = [installation.share / name for name in scripts if (installation.share / name).exists()]
    if not found:
        raise ServerError(
            f"{installation.name} has no system table scripts in {installation.share}.", hint="Name a complete basedir."
        )
    parts += [script.read_bytes() + b"\n" for script in found]
    global_priv = installation.family == "mariadb" and installation.version >= (10, 4)
    accounts = "mysql.global_priv" if global_priv else "mysql.user"
    parts.append(f"DELETE FROM {accounts} WHERE User='' OR (User='root' AND Host<>'localhost');\n".encode())
    return b"".join(parts)


def copy_tree(source: Path, target: Path, what_for: str, *, watch: Callable[[], None] = lambda: None) -> None:
    """Copy the data of a stopped server with owners, modes and times. On failure `target` is removed.

    An exception from `watch` ends the copy.
    """
    try:
        cp = shutil.which("cp") or "/bin/cp"
        command = [cp, "--archive", "--reflink=auto", "--no-target-directory", str(source), str(target)]
        done = run_as_us(command, watch=watch)
        if done.returncode:
            why = f"{what_for}: copying failed: {last_line(done.stderr)}"
            raise HostError(why, hint="Free some space: bakeoff server rm")
        sync_file_system(target)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
