"""Servers in containers, with a stand-in for the engine's client that runs the "container" on this machine."""

import os
import stat
import subprocess
import sys
import textwrap

import psutil
import pytest

from bakeoff.errors import HostError, ServerError
from bakeoff.machine import Place
from bakeoff.servers import Instance, ServerMemory, ServerPool, datadir, docker, install, settings_for
from bakeoff.servers.catalog import Installation
from bakeoff.servers.fetch import no_progress
from bakeoff.servers.profile import Settings
from bakeoff.spec import Data, Profile, parse_server

STAND_IN = """
#!{python}
# Understands only the docker commands that bakeoff uses; images are folders of unpacked servers.
import json, os, signal, subprocess, sys
from pathlib import Path
state, image_root = Path({state!r}), Path({root!r})
word, *rest = sys.argv[1:]
with (state / "calls").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
def command():
    args, options = list(rest), {{}}
    while args[0].startswith("--"):
        name = args.pop(0)
        if name not in ("--rm", "--interactive"):
            options.setdefault(name, []).append(args.pop(0))
    return args, options
if word == "version":
    print("24.0.0")
elif word == "image":
    if rest[-1] != "test/mysql:5.7": sys.exit("Error: No such image: " + rest[-1])
    print("sha256:" + "ab" * 32)
elif word == "pull":
    sys.exit("Error response from daemon: pull access denied for " + rest[-1])
elif word == "run":
    (image, *arguments), options = command()
    entry = options["--entrypoint"][0]
    user = options.get("--user", ["65534:65534"])[0].split(":")
    env = {{"PATH": f"{{image_root}}/bin:/usr/bin:/bin"}}
    given = [each if "=" in each else f"{{each}}={{os.environ[each]}}" for each in options.get("--env", [])]
    with (state / "environment").open("a") as environment:
        environment.write(json.dumps(given) + "\\n")
    env |= dict(each.split("=", 1) for each in given)
    def become():
        if os.geteuid() == 0:
            os.setgroups([]); os.setgid(int(user[1])); os.setuid(int(user[0]))
    child = subprocess.Popen([entry, *arguments], env=env, preexec_fn=become)
    name = options.get("--name", [None])[0]
    if name: (state / name).write_text(str(child.pid))
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    sys.exit(child.wait())
elif word == "inspect":
    print((state / rest[-1]).read_text())
elif word == "rm":
    file = state / rest[-1]
    if file.exists():
        import psutil
        try:
            first = psutil.Process(int(file.read_text()))
            inside = [*first.children(recursive=True), first]
            for each in inside: each.kill()
            psutil.wait_procs(inside, 10)
        except psutil.Error: pass
"""


@pytest.fixture
def engine(tmp_path, monkeypatch, work):
    """A `docker` on the PATH whose only image is the catalogue's MySQL 5.7."""
    installed = install(parse_server("mysql:5.7.22"))
    state = work / "engine"
    state.mkdir(mode=0o777)
    state.chmod(0o777)
    client = tmp_path / "docker"
    client.write_text(
        textwrap.dedent(STAND_IN).lstrip().format(python=sys.executable, state=str(state), root=str(installed.basedir))
    )
    client.chmod(client.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return state


@pytest.mark.server
def test_a_container_is_a_server_like_any_other(engine, work):
    spec = parse_server("docker:test/mysql:5.7,innodb_flush_method=fsync")
    found = install(spec)
    assert (found.name, found.container_image) == ("mysql-5.7.22", "test/mysql:5.7")
    assert "innodb_flush_method" in found.known_options
    settings = settings_for(found, spec, Profile.MATCHED, Data(), ServerMemory(64 << 20, 32 << 20), connections=4)
    with ServerPool(work / "pool") as pool:
        server = pool.create("A", found, settings, padding_bytes=10)
        server.start()
        assert server.variables()["innodb_flush_method"] == "fsync"
        assert psutil.Process(server.pid).name() == "mysqld"
        server.query("CREATE DATABASE kept")
        server.stop()
        kept = pool.snapshot(server, "x")
        again = pool.create("B", found, settings, snapshot=kept)
        again.start()
        assert ("kept",) in again.query("SHOW DATABASES")
        pid = again.pid
        again.kill()
        assert not psutil.pid_exists(pid)
        again.start()
    said = (engine / "calls").read_text()
    assert "BAKEOFF_PADDING=xxxxxxxxxx" in (engine / "environment").read_text()
    assert "xxxxxxxxxx" not in said


@pytest.mark.server
def test_a_container_ends_when_its_client_is_killed(engine, work):
    spec = parse_server("docker:test/mysql:5.7")
    found = install(spec)
    settings = settings_for(found, spec, Profile.STOCK, Data(), ServerMemory(64 << 20, 32 << 20), connections=4)
    with ServerPool(work / "pool") as pool:
        server = pool.create("A", found, settings)
        server.start()
        inside = psutil.Process(server.pid)
        server._child.stdin.close()  # as when bakeoff dies
        inside.wait(10)


@pytest.mark.server
def test_a_missing_image_is_an_error(engine):
    with pytest.raises(ServerError, match=r"docker:no/such could not be pulled: .*access denied"):
        install(parse_server("docker:no/such"))


@pytest.mark.parametrize("has", [True, False])
def test_the_myrocks_plugin_of_an_image_is_found(monkeypatch, has):
    def call(_engine, *arguments, **_):
        script, status, said = arguments[-1], 0, "sha256:ab"
        if script.startswith("command"):
            said = "/usr/sbin/mysqld\n"
        elif script.endswith("--version"):
            said = "/usr/sbin/mysqld  Ver 8.0.36-28 for Linux on x86_64 (Percona Server (GPL), Release 28)"
        elif "--help" in script:
            said = "  --plugin-dir=name\n\n----\nplugin-dir     /usr/lib64/mysql/plugin/\n\n"
        elif script.startswith("test"):
            status = 0 if has and script.split()[-1] == "/usr/lib64/mysql/plugin//ha_rocksdb.so" else 1
        return subprocess.CompletedProcess(arguments, status, said, "")

    monkeypatch.setattr(docker, "find_engine", lambda _image: "/usr/bin/docker")
    monkeypatch.setattr(docker, "_call", call)
    found = docker.installation("percona/percona-server:8.0", no_progress)
    assert (found.flavour, "rocksdb" in found.engines) == ("percona", has)
    assert "innodb" in found.engines


@pytest.fixture
def container(tmp_path, monkeypatch):
    monkeypatch.setattr(docker, "find_engine", lambda _image: "/usr/bin/docker")
    return Installation(
        flavour="mysql", version_text="8.0.36", basedir=tmp_path, argv=("mysqld",), share=tmp_path, environment={},
        sha256="", known_options=frozenset(), container_image="mysql:8",
    )  # fmt: skip


def test_container_secrets_stay_off_the_command_line(tmp_path, container):
    env = {"SECRET": "geheim=1", "LD_PRELOAD": "lib.so", "https_proxy": "http://proxy", "HOME": "/x"}
    launch = docker.prepare(container, [], env, [tmp_path])
    given = [launch.argv[place + 1] for place, part in enumerate(launch.argv) if part == "--env"]
    assert given == ["SECRET", "LD_PRELOAD=lib.so", "https_proxy=http://proxy"]
    assert launch.env["SECRET"] == "geheim=1"
    assert "geheim" not in " ".join(launch.argv)
    others = ("LD_PRELOAD", "https_proxy", "HOME")
    assert [launch.env.get(name) for name in others] == [os.environ.get(name) for name in others]


def test_a_container_is_refused_if_its_huge_pages_need_a_restriction(tmp_path, container):
    server = Instance("A", container, Settings({}), (tmp_path, tmp_path), Place(huge_pages=2), 0, lambda _: None)
    with pytest.raises(HostError, match="server A: thp of another arm changes the machine's huge pages"):
        server.start()


def client_that_hangs(folder, monkeypatch, word):
    """A `docker` that answers all but one command at once; returns the file to which it writes its commands."""
    client, calls = folder / "docker", folder / "calls"
    client.write_text(
        f'#!/bin/sh\necho "$@" >> {calls}\ncase $1 in\n'
        f"{word}) echo $$ > {folder}/hangs; exec sleep 300 ;;\nimage) exit 1 ;;\nesac\n"
    )
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return calls


def hangs(folder):
    return psutil.pid_exists(int((folder / "hangs").read_text()))


def test_a_hanging_engine_is_killed_and_reported(tmp_path, monkeypatch):
    client_that_hangs(tmp_path, monkeypatch, "version")
    monkeypatch.setattr(docker, "_LIMIT_S", 0.5)
    with pytest.raises(ServerError, match=r"none answers \(docker says: docker did not end within 0\.5 s\.;"):
        docker.find_engine("mysql:8")
    assert not hangs(tmp_path)


def test_a_pull_has_no_time_limit_and_stops_on_ctrl_c(tmp_path, monkeypatch):
    def progress(*what):
        seen.append(what)
        if len(seen) == 6:  # as once a signal has come
            raise KeyboardInterrupt

    seen = []
    client_that_hangs(tmp_path, monkeypatch, "pull")
    monkeypatch.setattr(docker, "_LIMIT_S", 0.5)
    with pytest.raises(KeyboardInterrupt):
        docker.installation("mysql:8", progress)
    assert seen == [("pulling mysql:8", 0, 0)] * 6
    assert not hangs(tmp_path)


@pytest.mark.parametrize("error", [ServerError("docker did not end within 180 s."), KeyboardInterrupt()])
def test_an_aborted_initialisation_removes_its_container(tmp_path, monkeypatch, work, error):
    def run(launch, **_):
        begun.extend(launch.argv)
        raise error  # its client was ended, and nothing else

    begun = []
    calls = client_that_hangs(tmp_path, monkeypatch, "nothing")
    found = Installation(
        flavour="mysql", version_text="8.0.36", basedir=tmp_path, argv=("mysqld",), share=tmp_path, environment={},
        sha256="", known_options=frozenset(), container_image="mysql:8",
    )  # fmt: skip
    monkeypatch.setattr(datadir, "run", run)
    with pytest.raises(type(error)):
        datadir._initialise(found, {}, work / "templates" / "mysql-8")
    name = begun[begun.index("--name") + 1]
    assert f"rm --force {name}" in calls.read_text().splitlines()
    assert not list((work / "templates").iterdir())


def test_no_usable_engine_is_a_one_line_error(tmp_path, monkeypatch):
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(
        ServerError, match=r"none answers \(docker says: Cannot connect.*; podman is not installed\)"
    ) as caught:
        docker.find_engine("mysql:8")
    assert "\n" not in str(caught.value)
