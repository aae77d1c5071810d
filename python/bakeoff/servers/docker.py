"""The command that starts a server: its binary, or for `docker:IMAGE` a container of Docker or Podman.

Only the process is in the container. The instance's folders are mounted at the same paths; the network is the host's.
The container's first process watches its standard input, which ends when bakeoff does: SIGKILL reaches only the client.
"""

import math
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from bakeoff.errors import ServerError
from bakeoff.servers.catalog import Installation, flavour_and_version, options_in_help
from bakeoff.servers.fetch import Progress
from bakeoff.servers.paths import cache_root, locked, make_open_folder, remove_unfinished, unfinished
from bakeoff.servers.process import Launch, last_line, run_as_us, server_identity

_ENGINES = ("docker", "podman")
# Time limits of the engine's commands; _LIMIT_S is for all others.
_LIMITS_S = {"pull": math.inf, "run": 600.0, "create": 600.0, "cp": 600.0}
_LIMIT_S = 60.0
_SHARES = ("/usr/share/mysql", "/usr/share/mariadb", "/usr/local/mysql/share", "/usr/share/percona-server")
# Variables that would affect the engine's client.
_OF_CLIENT = re.compile(
    r"(LD|DOCKER|CONTAINERS?|PODMAN|STORAGE|XDG|SSL_CERT)_|GO[A-Z]+$|(TMPDIR|GLIBC_TUNABLES|NOTIFY_SOCKET)$|"
    r"(HTTPS?|NO|ALL)_PROXY$",
    re.IGNORECASE,
)
_INIT = Path(__file__).with_name("container_init.sh").read_text("ascii")


def prepare(
    installation: Installation,
    options: Sequence[str],
    env: Mapping[str, str],
    folders: Sequence[Path],
    cpus: frozenset[int] | None = None,
    *,
    feeds: bool = False,
) -> Launch:
    """Return how to launch one server process. `folders` are all that it uses; with `feeds` it reads standard input."""
    identity = server_identity()
    argv = (*installation.argv, "--no-defaults", *installation.base_options, *options)
    if not installation.container_image:
        return Launch(argv, env, identity, cpus)
    image = installation.container_image
    engine = find_engine(image)
    name = "-".join(folders[-1].parts[-2:]).lstrip(".")
    run = [engine, "run", "--rm", "--interactive", "--name", name, "--network", "host"]
    run += ["--user", f"{identity.uid}:{identity.gid}"]
    if Path(engine).name == "podman" and os.geteuid() != 0:
        run += ["--userns", "keep-id"]
    run += [part for folder in folders for part in ("--volume", f"{folder}:{folder}")]
    given = {key: value for key, value in env.items() if key not in ("PATH", "HOME")}
    # Values are in the client's environment, because they may be passwords and everyone can see arguments.
    named = {key: value for key, value in given.items() if not _OF_CLIENT.match(key)}
    run += [part for key in given for part in ("--env", key if key in named else f"{key}={given[key]}")]
    if feeds:
        run += ["--entrypoint", argv[0], image, *argv[1:]]
    else:
        run += ["--entrypoint", "/bin/sh", image, "-c", _INIT, "bakeoff", *argv]
    client = replace(identity, switch=False)  # the client runs as we do
    return Launch(tuple(run), os.environ | named, client, None, name)


def installation(image: str, progress: Progress) -> Installation:
    engine = find_engine(image)
    if _call(engine, "image", "inspect", image).returncode != 0:
        progress(f"pulling {image}", 0, 0)
        pulled = _call(engine, "pull", "--quiet", image, watch=lambda: progress(f"pulling {image}", 0, 0))
        _must(pulled, image, "could not be pulled")
    inspected = _call(engine, "image", "inspect", "--format", "{{.Id}}", image)
    digest = _must(inspected, image, "could not be inspected").strip()
    daemons = _inside(engine, image, "command -v mariadbd || command -v mysqld")
    daemon = _must(daemons, image, "holds neither mysqld nor mariadbd").strip()
    said = _inside(engine, image, f"{daemon} --no-defaults --version")
    flavour, text = flavour_and_version(_must(said, image, "does not run its server"))
    described = _inside(engine, image, f"{daemon} --no-defaults --verbose --help 2>/dev/null")
    plugins = re.search(r"^plugin-dir\s+(\S+)", described.stdout, re.MULTILINE)
    library = shlex.quote(f"{plugins[1]}/ha_rocksdb.so") if plugins else ""
    has_myrocks = bool(library) and _inside(engine, image, f"test -e {library}").returncode == 0
    found = Installation(
        flavour=flavour,
        version_text=text,
        basedir=Path("/usr"),
        argv=(daemon,),
        share=Path("/nonexistent"),
        sha256=digest.removeprefix("sha256:"),
        known_options=options_in_help(described.stdout),
        engines=frozenset({"innodb", "myisam"} | ({"rocksdb"} if has_myrocks else set())),
        container_image=image,
    )
    return found if found.initialises else replace(found, share=_copy_share(engine, image, digest))


def find_engine(image: str) -> str:
    said: list[str] = []
    for name in _ENGINES:
        program = shutil.which(name)
        if program is None:
            said.append(f"{name} is not installed")
            continue
        answer = _call(program, "version", "--format", "{{.Server.Version}}")
        if answer.returncode == 0:
            return program
        said.append(f"{name} says: {last_line(answer.stderr)}")
    raise ServerError(
        f"docker:{image} needs a container engine, and none answers ({'; '.join(said)}).",
        hint="Start one, or choose another kind of server.",
    )


def server_pid(found: Installation, name: str) -> int | None:
    engine = find_engine(found.container_image)
    answer = _call(engine, "inspect", "--format", "{{.State.Pid}}", name)
    if answer.returncode != 0 or not answer.stdout.strip().isdigit():
        return None
    try:
        children = psutil.Process(int(answer.stdout)).children()
    except psutil.Error:
        return None
    return next((child.pid for child in children if re.search("mysqld|mariadbd", " ".join(child.cmdline()))), None)


def kill(found: Installation, name: str) -> None:
    _call(find_engine(found.container_image), "rm", "--force", name)


def _copy_share(engine: str, image: str, digest: str) -> Path:
    name = "docker-" + re.sub(r"\W", "", digest.removeprefix("sha256:"))[:16]
    home = make_open_folder(cache_root() / "servers") / name
    remove_unfinished(home.parent)
    with locked(name):
        if home.exists():
            return home
        container = _must(_call(engine, "create", image), image, "could not be opened").strip()
        try:
            with unfinished(home.parent, name) as folder:
                for share in _SHARES:
                    copied = _call(engine, "cp", f"{container}:{share}", f"{folder}/share")
                    if copied.returncode == 0 and any((folder / "share").glob("*system_tables.sql")):
                        (folder / "share").rename(home)
                        return home
        finally:
            _call(engine, "rm", "--force", container)
    raise ServerError(f"docker:{image} holds no system table scripts (looked in {', '.join(_SHARES)}).")


def _inside(engine: str, image: str, script: str) -> "subprocess.CompletedProcess[str]":
    return _call(engine, "run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", image, "-c", script)


def _call(engine: str, *arguments: str, watch: Callable[[], None] = lambda: None) -> "subprocess.CompletedProcess[str]":
    command, limit_s = [engine, *arguments], _LIMITS_S.get(arguments[0], _LIMIT_S)
    try:
        return run_as_us(command, watch=watch, limit_s=limit_s)
    except ServerError as error:
        return subprocess.CompletedProcess(command, 1, "", error.message)


def _must(answer: "subprocess.CompletedProcess[str]", image: str, failure: str) -> str:
    if answer.returncode != 0:
        raise ServerError(f"docker:{image} {failure}: {last_line(answer.stderr)}")
    return answer.stdout
