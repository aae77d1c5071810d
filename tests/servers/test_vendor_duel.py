"""A complete duel of two releases fetched from stand-ins for their vendors, without Maven and npm.

The binaries are real: those of MySQL 8.0.31, which are made to call themselves MySQL 8.4.31 and Percona Server 8.4.31.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from bakeoff.servers import install
from bakeoff.servers.paths import make_open_folder
from bakeoff.spec import parse_server
from tests.servers.vendor import StandIn, tarball

pytestmark = [pytest.mark.server, pytest.mark.slow]

MYSQL = "mysql-8.4.31-linux-glibc2.17-x86_64-minimal.tar.xz"
PERCONA = "Percona-Server-8.4.31-31-Linux.x86_64.glibc2.17-minimal.tar.gz"
DATA = ("--workload", "oltp_point_select", "--threads", "2", "--tables", "1", "--table-size", "1000", "--warm-up", "1s")


def disguised(work, *changes):
    """Copy MySQL 8.0.31's tree and change what its binary says."""
    tree = work / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(install(parse_server("mysql:8.0.31")).basedir, tree, symlinks=True)
    (tree / "bakeoff-installation.json").unlink()
    binary = (tree / "bin/mysqld").read_bytes()
    for before, after in ((b"8.0.31\0", b"8.4.31\0"), *changes):
        assert before in binary and len(before) == len(after)
        binary = binary.replace(before, after)
    (tree / "bin/mysqld").write_bytes(binary)
    return tree


@pytest.fixture
def vendor():
    stand_in = StandIn()
    yield stand_in
    stand_in.close()


def environment(vendor, work):
    """An empty cache, a catalogue that names the stand-in, and neither Maven nor npm."""
    make_open_folder(work / "config/bakeoff")
    (work / "config/bakeoff/servers.toml").write_text(vendor.catalogue())
    make_open_folder(work / "cache/bakeoff")
    programs = make_open_folder(work / "programs")
    for name in ("mvn", "npm"):
        (programs / name).write_text("#!/bin/sh\necho not needed >&2; exit 1\n")
        (programs / name).chmod(0o755)
    return {
        "XDG_CONFIG_HOME": str(work / "config"),
        "XDG_CACHE_HOME": str(work / "cache"),
        "PATH": f"{programs}:/usr/sbin:/usr/bin:/bin",
    }


def test_make_demos_servers_come_from_the_vendor_if_it_answers(vendor, work, shell):
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    names = re.search(r"duel (mysql:\S+) (mysql:\S+)", makefile).groups()
    for name in names:
        top = f"mysql-{name.removeprefix('mysql:')}-linux-glibc2.17-x86_64-minimal"
        vendor.add("mysql", f"{top}.tar.xz", tarball(install(parse_server(name)).basedir, top))
    env = environment(vendor, work)
    ran = shell.run("server", "install", *names, **env)
    assert ran.code == 0, ran
    listed = json.loads(shell.run("server", "list", "--format", "json", **env).out)
    here = {each["name"]: each["from"] for each in listed if each["installed"]}
    assert here.keys() == set(names)
    assert all(source.startswith("vendor mysql-") for source in here.values())


@pytest.mark.timeout(600)
def test_a_duel_of_two_releases_fetched_from_their_vendors(vendor, work, shell):
    vendor.add("mysql", MYSQL, tarball(disguised(work), MYSQL.removesuffix(".tar.xz")))
    percona = disguised(work, (b"MySQL Community Server - GPL", b"Percona Server (GPL), Rel 31"))
    vendor.add("percona", PERCONA, tarball(percona, PERCONA.removesuffix(".tar.gz")))
    vendor.files["/downloads/mysql/"] = b"<a>mysql-8.4.31-linux</a>"
    vendor.files["/downloads/Percona-Server-8.4/"] = b"<a>Percona-Server-8.4.31-31/</a>"
    env = environment(vendor, work)
    ran = shell.run("duel", "mysql:8.4", "percona:8.4", *DATA, "--budget", "30s", "--no-verdict", limit_s=400, **env)
    assert ran.code == 0, ran
    report = " ".join(shell.run("report", str(shell.runs[-1]), "--format", "md", **env).out.split())
    assert "8.4.31" in report and "Percona Server (GPL)" in report
    assert f"vendor {MYSQL}: MD5 published by 127.0.0.1" in report
    assert f"vendor {PERCONA}: SHA-256 published by 127.0.0.1" in report

    listed = shell.run("server", "list", "-v", **env).out
    assert {line.split()[0] for line in listed.splitlines()} >= {"mysql:8.4.31", "percona:8.4.31-31"}
    assert "SHA-256 published by 127.0.0.1" in listed
