"""A version with unknown options: a script that claims to be 8.4.99, wrapped around the 8.0.15 binary."""

import shutil

import pytest

from bakeoff.errors import ServerError
from bakeoff.results import open_run
from bakeoff.servers import install
from bakeoff.servers.paths import make_open_folder
from bakeoff.spec import parse_server
from tests.servers.vendor import tarball

pytestmark = pytest.mark.server

SCRIPT = """#!/bin/sh
case " $* " in
  *" --version "*) echo "mysqld  Ver 8.4.99 for Linux on x86_64 (MySQL Community Server - GPL)"; exit 0;;
  *" --help "*) echo asked >> {log}; {daemon} "$@" | sed 's/innodb-doublewrite /removed-in-8-4-99 /'; exit 0;;
  *" --innodb-doublewrite"*) echo "[ERROR] [MY-000067] [Server] unknown variable 'innodb-doublewrite=1'." >&2; exit 1;;
  *" --{refused}"*) echo "[ERROR] [MY-000067] [Server] unknown variable '{refused}=1'." >&2; exit 1;;
esac
exec {daemon} "$@"
"""


@pytest.fixture
def future(work):
    """`future(refused)`: the server's basedir. It refuses to start with this option although its help lists it."""

    def build(refused="nothing"):
        real = install(parse_server("mysql:8.0.15"))
        root = make_open_folder(work / "future")
        make_open_folder(root / "bin")
        shutil.copytree(real.share, root / "share")
        log = work / "help.log"
        log.touch()
        log.chmod(0o666)
        (root / "bin/mysqld").write_text(SCRIPT.format(daemon=real.daemon, log=log, refused=refused))
        (root / "bin/mysqld").chmod(0o755)
        return root

    return build


def test_an_unknown_version_starts_without_the_options_it_removed(future, make, work):
    root = future()
    server = make(f"path:{root}")
    assert server.installation.name == "mysql-8.4.99"
    assert "removed_in_8_4_99" in server.installation.known_options
    assert [note for note in server.settings.notes if "left out" in note] == [
        "innodb_doublewrite=1 was left out: mysql-8.4.99 has no such option"
    ]
    server.start()
    assert server.query("SELECT 1") == [(1,)]
    server.stop()
    assert install(parse_server(f"path:{root}")).known_options == server.installation.known_options
    assert (work / "help.log").read_text() == "asked\n"


def test_an_unknown_version_is_fetched_by_its_series(future, make, work, monkeypatch):
    top = "mysql-8.4.99-linux-glibc2.17-x86_64-minimal"
    mirror = make_open_folder(work / "mirror")
    (mirror / f"{top}.tar.xz").write_bytes(tarball(future(), top, "w:xz"))
    monkeypatch.setenv("BAKEOFF_MIRROR", str(mirror))
    monkeypatch.setenv("XDG_CACHE_HOME", str(make_open_folder(work / "cache")))
    server = make("mysql:8.4")
    assert server.installation.name == "mysql-8.4.99"
    server.start()
    assert server.query("SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    ("refused", "option", "what"),
    [
        ("sync-binlog", "sync_binlog", "ended with status 1 while starting"),
        ("innodb-page-size", "innodb_page_size", "could not initialise a data directory"),
    ],
)
def test_an_option_that_an_unknown_version_refuses_is_named(future, make, refused, option, what):
    root = future(refused)
    with pytest.raises(ServerError, match=what) as caught:
        make(f"path:{root},innodb_page_size=8k").start()
    assert caught.value.hint == f"It does not know the option {option}: leave it out, or write loose_{option}."


@pytest.mark.slow
def test_an_unknown_version_can_be_measured(future, shell):
    root = future()
    small = ["--tables", "1", "--table-size", "1000", "--threads", "1", "--workload", "oltp_point_select"]
    ran = shell.run(
        "duel", f"path:{root}", "mysql:8.0.15", *small, "--budget", "30s", "--quiet", "--no-verdict", limit_s=600
    )
    assert ran.code == 0, ran
    (path,) = shell.runs
    run = open_run(path)
    assert "8.4.99" in (path / "report.html").read_text()
    assert all(data.valid for data in run.load_epochs())
