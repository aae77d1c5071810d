"""Releases fetched from stand-ins for the vendors: names, sources in order, checks, and everything that goes wrong."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bakeoff.cli import main
from bakeoff.errors import HostError, ServerError, SpecError
from bakeoff.servers import install, installed, remove
from bakeoff.servers.catalog import Catalog
from bakeoff.servers.fetch import NOTICE
from bakeoff.servers.install import RECORD, find_entry
from bakeoff.servers.paths import make_open_folder
from bakeoff.spec import parse_server
from tests.servers.vendor import Signer, StandIn, fake_server, tarball

MYSQL = "mysql-{}-linux-glibc2.17-x86_64-minimal.tar.xz"
MYSQL_FULL = "mysql-{}-linux-glibc2.28-x86_64.tar.xz"
PERCONA = "Percona-Server-{}-Linux.x86_64.glibc{}-minimal.tar.gz"
MARIADB = "mariadb-{}-linux-systemd-x86_64.tar.gz"
NOISE = random.Random(1).randbytes(600_000)  # does not compress, so that a tarball has several pieces


@pytest.fixture(autouse=True)
def on_x86(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("bakeoff.servers.releases.this_glibc", lambda: (2, 36))
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "ALL_PROXY", "BAKEOFF_MIRROR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def vendor(work, monkeypatch):
    """A stand-in and a user catalogue that names it, with no registry client on the PATH."""
    stand_in = StandIn()
    monkeypatch.setenv("XDG_CACHE_HOME", str(work / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(work / "config"))
    make_open_folder(work / "cache/bakeoff")
    programs = make_open_folder(work / "programs")
    for name in ("sh", "env", "gpg", "cat", "sleep", "echo"):
        for folder in ("/usr/bin", "/bin"):
            if not (programs / name).exists() and Path(folder, name).exists():
                (programs / name).symlink_to(Path(folder, name))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr("bakeoff.servers.fetch._told", set())
    monkeypatch.setattr("bakeoff.servers.fetch.transfer.ANSWER_S", 1.0)
    make_open_folder(work / "config/bakeoff")
    write_catalogue(stand_in, work)
    yield stand_in
    stand_in.close()


def write_catalogue(stand_in, work):
    (work / "config/bakeoff/servers.toml").write_text(stand_in.catalogue())


@pytest.fixture(scope="session")
def tarballs(tmp_path_factory):
    """Make small tarballs, each once: `tarballs("mysql", "8.4.6")`."""
    made = {}

    def make(flavour, version, more=NOISE):
        if (flavour, version, more) not in made:
            root = fake_server(tmp_path_factory.mktemp("fake") / "tree", (flavour, version), more)
            name = {"mysql": MYSQL.format(version), "mariadb": MARIADB.format(version)}.get(
                flavour, PERCONA.format(version, "2.35")
            )
            mode = "w:xz" if name.endswith("xz") else "w:gz"
            made[flavour, version, more] = tarball(root, name.partition(".tar")[0], mode)
        return made[flavour, version, more]

    return make


def record(work, name):
    return json.loads((work / "cache/bakeoff/servers" / name / RECORD).read_text())


def nothing_installed(work):
    folder = work / "cache/bakeoff/servers"
    return not folder.exists() or list(folder.iterdir()) == []


def test_a_listed_release_is_checked_against_the_listed_md5(vendor, work, tarballs):
    vendor.add("mysql", MYSQL.format("8.4.8"), tarballs("mysql", "8.4.8"), published=False)
    vendor.files["/downloads/mysql/"] = b"<a>mysql-8.4.8-linux</a> <a>mysql-9.5.0-linux</a>"
    # The listed MD5 of 8.4.8 is that of the real tarball.
    with pytest.raises(ServerError, match=r"8\.4\.8.* has MD5 .*expected .*\(in bakeoff's list\)"):
        install(parse_server("mysql:8.4"))
    assert nothing_installed(work)


def test_an_unlisted_release_is_checked_against_the_published_md5(vendor, work, tarballs):
    vendor.add("mysql", MYSQL.format("8.4.99"), tarballs("mysql", "8.4.99"))
    vendor.files["/downloads/mysql/"] = b"<a>mysql-8.4.99-linux</a>"
    found = install(parse_server("mysql:lts"))
    assert found.name == "mysql-8.4.99"
    assert record(work, found.name)["source"] == f"vendor {MYSQL.format('8.4.99')}"
    assert record(work, found.name)["checked"].startswith("MD5 published by 127.0.0.1; no signature")
    assert "MD5 published" in found.provenance
    asked = len(vendor.requests)
    assert install(parse_server("mysql:8.4")).sha256 == found.sha256
    assert len(vendor.requests) == asked  # it is here
    assert not (work / "cache/bakeoff/downloads/mysql-8.4.99").exists()


def test_an_archived_release_is_found_after_a_404_and_a_redirect(vendor, work, tarballs):
    path = vendor.add("mysql", MYSQL.format("8.4.90"), tarballs("mysql", "8.4.90"), archived=True)
    vendor.files["/cdn/file"] = vendor.files.pop(path)
    vendor.redirect[path] = "/cdn/file"
    assert install(parse_server("mysql:8.4.90")).name == "mysql-8.4.90"
    asked = [path for path, _ in vendor.requests]
    assert asked[0] == f"/get/Downloads/MySQL-8.4/{MYSQL.format('8.4.90')}"
    assert asked[1:3] == [path, "/cdn/file"]


def test_percona_for_the_c_library_at_hand_with_a_published_sha256(vendor, work, tarballs):
    name = PERCONA.format("8.4.77-77", "2.17")
    vendor.add("percona", name, tarballs("percona", "8.4.77-77"))
    vendor.files["/downloads/Percona-Server-8.4/"] = b"<a>Percona-Server-8.4.77-77/</a>"
    found = install(parse_server("percona:8.4"))
    assert (found.flavour, found.name) == ("percona", "percona-8.4.77")
    assert record(work, "percona-8.4.77-77")["checked"] == "SHA-256 published by 127.0.0.1"


def test_mariadb_is_checked_against_the_folders_checksum_list(vendor, work, tarballs):
    vendor.add("mariadb", MARIADB.format("11.8.77"), tarballs("mariadb", "11.8.77"))
    vendor.files["/rest-api/mariadb/11.8/"] = b'{"releases": {"11.8.77": {}, "11.8.9": {}}}'
    assert install(parse_server("mariadb:11.8")).name == "mariadb-11.8.77"
    assert record(work, "mariadb-11.8.77")["checked"] == "SHA-256 published by 127.0.0.1"


@pytest.mark.parametrize(
    ("typed", "found"), [("mariadb:12.4", "mariadb-12.4.3"), ("percona:8.4.78", "percona-8.4.78-3")]
)
def test_a_series_or_release_known_only_to_the_vendor_is_found(vendor, typed, found):
    with pytest.raises(SpecError, match=r"is not known|second number"):
        find_entry(parse_server(typed))
    vendor.files["/rest-api/mariadb/12.4/"] = b'{"releases": {"12.4.2": {}, "12.4.3": {}}}'
    vendor.files["/downloads/Percona-Server-8.4/"] = b"<a>Percona-Server-8.4.78-3/</a>"
    assert find_entry(parse_server(typed)).name == found


def test_the_full_tarball_replaces_the_minimal_one(vendor, work, tarballs):
    vendor.add("mysql", MYSQL.format("8.4.99"), tarballs("mysql", "8.4.99"))
    vendor.add("mysql", MYSQL_FULL.format("8.4.99"), tarballs("mysql", "8.4.99", NOISE[:1000]))
    spec = parse_server("mysql:8.4.99")
    install(spec)
    install(spec, full=True)
    assert record(work, "mysql-8.4.99")["source"] == f"vendor {MYSQL_FULL.format('8.4.99')}"
    asked = len(vendor.requests)
    install(spec)
    install(spec, full=True)
    assert len(vendor.requests) == asked


def test_a_nonexistent_release_error_names_the_release_and_the_host(vendor, work):
    with pytest.raises(ServerError, match=r"no mysql-8\.4\.98 for x86_64 at 127\.0\.0\.1") as caught:
        install(parse_server("mysql:8.4.98"))
    assert "\n" not in str(caught.value)
    assert nothing_installed(work)


# ---- checks --------------------------------------------------------------------------------------------------------


def test_a_wrong_checksum_is_refused_and_the_file_kept_aside(vendor, work, tarballs):
    name = PERCONA.format("8.4.77-77", "2.35")
    path = vendor.add("percona", name, tarballs("percona", "8.4.77-77"))
    vendor.files[f"{path}.sha256sum"] = f"{'1' * 64}  {name}\n".encode()
    with pytest.raises(ServerError, match=r"has SHA-256 .*expected 1111111111111111… \(published by") as caught:
        install(parse_server("percona:8.4.77-77"))
    assert nothing_installed(work)
    assert (work / "cache/bakeoff/refused" / name).read_bytes() == tarballs("percona", "8.4.77-77")
    assert "refused" in caught.value.hint
    vendor.files[f"{path}.sha256sum"] = b"no checksum at all\n"
    assert install(parse_server("percona:8.4.77-77")).name == "percona-8.4.77"


def test_a_first_download_is_recorded_and_a_different_one_is_refused(vendor, work, tarballs):
    name = MARIADB.format("11.8.77")
    path = vendor.add("mariadb", name, tarballs("mariadb", "11.8.77"), published=False)
    install(parse_server("mariadb:11.8.77"))
    assert "was recorded" in record(work, "mariadb-11.8.77")["checked"]
    remove("mariadb-11.8.77")
    vendor.files[path] = tarballs("mariadb", "11.8.77", NOISE[:99])
    with pytest.raises(ServerError, match=r"\(recorded at the first download\)"):
        install(parse_server("mariadb:11.8.77"))
    assert nothing_installed(work)
    vendor.files[path] = tarballs("mariadb", "11.8.77")
    install(parse_server("mariadb:11.8.77"))
    assert record(work, "mariadb-11.8.77")["checked"] == "SHA-256 recorded at the first download"


@pytest.fixture(scope="session")
def signers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpg")
    try:
        made = [Signer(folder / name) for name in ("good", "other")]
    except FileNotFoundError:
        pytest.skip("gpg is not installed")
    yield made
    for each in made:
        each.close()


def signed(vendor, work, tarballs, signer, known):
    vendor.keys, vendor.key_file = [known.fingerprint], f"{vendor.site}/key"
    vendor.files["/key"] = known.public
    write_catalogue(vendor, work)
    return vendor.add("mysql", MYSQL.format("8.4.99"), tarballs("mysql", "8.4.99"), signer=signer)


def test_a_signature_is_checked_with_the_md5(vendor, work, tarballs, signers):
    good, _ = signers
    signed(vendor, work, tarballs, good, good)
    install(parse_server("mysql:8.4.99"))
    checked = record(work, "mysql-8.4.99")["checked"]
    assert checked == f"MD5 published by 127.0.0.1; OpenPGP signature by {good.fingerprint}"


def test_a_signature_of_another_file_is_refused(vendor, work, tarballs, signers):
    good, _ = signers
    path = signed(vendor, work, tarballs, good, good)
    vendor.files[f"{path}.asc"] = good.sign(b"another file")
    with pytest.raises(ServerError, match="does not match its OpenPGP signature"):
        install(parse_server("mysql:8.4.99"))
    assert nothing_installed(work)


def test_a_signature_by_an_unknown_key_is_ignored(vendor, work, tarballs, signers):
    good, other = signers
    signed(vendor, work, tarballs, other, good)
    install(parse_server("mysql:8.4.99"))
    assert "signature not checked" in record(work, "mysql-8.4.99")["checked"]


def test_without_gpg_only_the_md5_is_checked(vendor, work, tarballs, signers):
    good, _ = signers
    signed(vendor, work, tarballs, good, good)
    (work / "programs/gpg").unlink()
    install(parse_server("mysql:8.4.99"))
    assert record(work, "mysql-8.4.99")["checked"].endswith("signature not checked, because gpg is not installed")


def test_a_redirect_away_from_https_is_not_followed(vendor, work, tarballs):
    path = vendor.add("mysql", MYSQL.format("8.4.99"), tarballs("mysql", "8.4.99"))
    vendor.redirect[path] = "http://mirror.invalid/file"
    with pytest.raises(ServerError, match=r"mirror\.invalid: redirected to http://, which is not protected"):
        install(parse_server("mysql:8.4.99"))


# ---- sources -------------------------------------------------------------------------------------------------------


def notices(spec):
    said = []
    try:
        found = install(parse_server(spec), lambda what, _done, total: said.append(what) if total == NOTICE else None)
    except ServerError as error:
        return said, error
    return said, found


def test_a_registry_is_asked_only_if_the_vendor_does_not_answer(vendor, work, tarballs):
    script = '#!/bin/sh\nfor a in "$@"; do case $a in -DoutputDirectory=*) echo jar > "${a#*=}/c.jar";; esac; done\n'
    (work / "programs/mvn").write_text(script)
    (work / "programs/mvn").chmod(0o755)
    vendor.close()
    began = time.monotonic()
    said, error = notices("mysql:8.0.15")
    assert time.monotonic() - began < 5
    assert len(said) == 1
    assert "127.0.0.1 cannot be reached" in said[0]
    assert "c.jar has SHA-256" in error.message  # what Maven gave is not what is listed


def test_a_silent_vendor_is_skipped_and_remembered(vendor, work, tarballs):
    vendor.silent = True
    began = time.monotonic()
    said, error = notices("mysql:8.0.15")
    assert 1 <= time.monotonic() - began < 5
    assert "no answer" in said[0]
    assert "mvn is not installed" in error.message
    asked = len(vendor.requests)
    notices("mysql:8.0.15")
    assert len(vendor.requests) == asked


def test_a_mirror_folder_comes_before_the_vendor(vendor, work, tarballs, monkeypatch):
    mirror = make_open_folder(work / "mirror")
    (mirror / MYSQL.format("8.4.97")).write_bytes(tarballs("mysql", "8.4.97"))
    monkeypatch.setenv("BAKEOFF_MIRROR", str(mirror))
    assert find_entry(parse_server("mysql:8.4")).version == "8.4.97"
    found = install(parse_server("mysql:8.4"))
    assert found.name == "mysql-8.4.97"
    assert vendor.requests == []
    assert record(work, "mysql-8.4.97")["source"] == f"mirror {MYSQL.format('8.4.97')}"
    assert (mirror / MYSQL.format("8.4.97")).exists()


def test_a_mirror_address_comes_last(vendor, work, tarballs, monkeypatch):
    vendor.files[f"/own/{MYSQL.format('8.4.97')}"] = tarballs("mysql", "8.4.97")
    monkeypatch.setenv("BAKEOFF_MIRROR", f"{vendor.site}/own/")
    assert install(parse_server("mysql:8.4.97")).name == "mysql-8.4.97"
    assert vendor.requests[-1][0] == f"/own/{MYSQL.format('8.4.97')}"


@pytest.mark.parametrize(
    ("mirror", "message"),
    [("/nowhere", "no such folder"), ("http://mirror.invalid/x", "BAKEOFF_MIRROR: http:// is not protected")],
)
def test_an_unusable_mirror_is_an_error(vendor, monkeypatch, mirror, message):
    monkeypatch.setenv("BAKEOFF_MIRROR", mirror)
    with pytest.raises(SpecError, match=message):
        install(parse_server("mysql:8.4.97"))


def test_the_user_s_own_server_comes_from_its_source_alone(vendor, work, tarballs):
    text = (
        vendor.catalogue()
        + f"[[server]]\nflavour = 'mysql'\nversion = '8.4.99'\nsource = {{ tarball = '{work}/x.tar.xz' }}\n"
    )
    (work / "config/bakeoff/servers.toml").write_text(text)
    (work / "x.tar.xz").write_bytes(tarballs("mysql", "8.4.99"))
    install(parse_server("mysql:8.4.99"))
    assert vendor.requests == []
    assert record(work, "mysql-8.4.99")["checked"] == "a file of your own"


# ---- what goes wrong -----------------------------------------------------------------------------------------------


def test_a_broken_transfer_is_resumed(vendor, work, tarballs):
    vendor.add("mysql", MYSQL.format("8.4.99"), tarballs("mysql", "8.4.99"))
    vendor.break_after = [100_000, 300_000]
    install(parse_server("mysql:8.4.99"))
    ranges = [asked for path, asked in vendor.requests if path.endswith(".xz")]
    assert ranges[0] == ""
    assert len(ranges) == 3
    assert [int(each[6:-1]) for each in ranges[1:]] == sorted(int(each[6:-1]) for each in ranges[1:])


def test_a_download_that_always_breaks_off_is_a_one_line_error(vendor, work, tarballs):
    vendor.add("mysql", MYSQL.format("8.4.99"), tarballs("mysql", "8.4.99"))
    vendor.break_after = [100_000] * 20
    with pytest.raises(ServerError, match=r"broke off after 100000 of \d+ bytes") as caught:
        install(parse_server("mysql:8.4.99"))
    assert "\n" not in str(caught.value)
    assert nothing_installed(work)


def test_a_busy_server_is_asked_again(vendor, work, tarballs):
    vendor.add("mysql", MYSQL.format("8.4.99"), tarballs("mysql", "8.4.99"))
    vendor.busy = 2
    install(parse_server("mysql:8.4.99"))
    vendor.busy = 100
    with pytest.raises(ServerError, match=r"mysql-8\.4\.98 could not be fetched: 127\.0\.0\.1 answers with status 503"):
        install(parse_server("mysql:8.4.98"))


def test_a_full_disk_is_an_error(vendor, work, tarballs, tmp_path):
    vendor.add("mysql", MYSQL.format("8.4.99"), tarballs("mysql", "8.4.99"))
    small = make_open_folder(work / "cache/bakeoff/downloads")
    if subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "size=256k", "none", small], check=False).returncode:
        pytest.skip("may not mount a small file system here")
    try:
        with pytest.raises(HostError, match=rf"the disk of {small}/mysql-8\.4\.99 is full: .* to download, .* free"):
            install(parse_server("mysql:8.4.99"))
    finally:
        subprocess.run(["/bin/umount", small], check=True)
    assert nothing_installed(work)


def test_no_network_at_all_names_every_source(vendor, work):
    vendor.close()
    _, error = notices("mysql:8.0.15")
    assert "127.0.0.1 cannot be reached" in error.message
    assert "mvn is not installed" in error.message
    assert "\n" not in str(error)
    assert nothing_installed(work)


def test_a_build_that_lacks_a_library_is_not_downloaded_again(vendor, work, tarballs):
    name = MYSQL.format("8.4.99")
    root = fake_server(work / "tree", ("mysql", "8.4.99"), NOISE)
    (root / "bin/mysqld").write_text("#!/bin/sh\necho 'libaio.so.1 => not found'; exit 127\n")
    path = vendor.add("mysql", name, tarball(root, "mysql-8.4.99", "w:xz"))
    for _ in range(2):
        with pytest.raises((ServerError, HostError)):
            install(parse_server("mysql:8.4.99"))
    assert [asked for asked, _ in vendor.requests].count(path) == 1
    assert nothing_installed(work)


def test_registry_builds_are_not_used_on_arm(vendor, monkeypatch):
    monkeypatch.setattr("bakeoff.servers.releases.platform.machine", lambda: "aarch64")
    with pytest.raises(ServerError, match=r"no mysql-8\.0\.33 for aarch64") as caught:
        install(parse_server("mysql:8.0.33"))
    assert "mvn" not in caught.value.message


def test_https_through_a_proxy(vendor, work, tarballs, monkeypatch):
    secure, proxy = StandIn(certificate=work), StandIn()
    (work / "config/bakeoff/servers.toml").write_text(secure.catalogue())
    secure.add("mysql", MYSQL.format("8.4.99"), tarballs("mysql", "8.4.99"))
    monkeypatch.setenv("SSL_CERT_FILE", str(work / "certificate.pem"))
    monkeypatch.setenv("HTTPS_PROXY", proxy.site)
    install(parse_server("mysql:8.4.99"))
    assert {asked for asked, _ in proxy.requests} == {secure.site.removeprefix("https://")}
    assert record(work, "mysql-8.4.99")["checked"].startswith("MD5 published by localhost")
    proxy.close()
    remove("mysql-8.4.99")
    with pytest.raises(ServerError, match="localhost cannot be reached"):
        install(parse_server("mysql:8.4.99"))
    secure.close()


def child(*names):
    return subprocess.Popen(
        [Path(sys.executable).with_name("bakeoff"), "server", "install", *names],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_two_bakeoffs_fetch_a_release_once(vendor, work, tarballs):
    path = vendor.add("mysql", MYSQL.format("8.4.99"), tarballs("mysql", "8.4.99"))
    vendor.pause_s = 0.05
    both = [child("mysql:8.4.99") for _ in range(2)]
    answers = [each.communicate(timeout=120) for each in both]
    assert [each.returncode for each in both] == [0, 0], answers
    assert all("mysql-8.4.99" in output for output, _ in answers)
    assert [asked for asked, _ in vendor.requests].count(path) == 1


def test_an_interrupted_download_leaves_nothing_installed_and_is_resumed(vendor, work, tarballs):
    path = vendor.add("mysql", MYSQL.format("8.4.99"), tarballs("mysql", "8.4.99"))
    vendor.pause_s = 0.5
    running = child("mysql:8.4.99")
    part = work / "cache/bakeoff/downloads/mysql-8.4.99" / f"{MYSQL.format('8.4.99')}.part"
    end = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size > 0):
        assert time.monotonic() < end
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130, errors
    assert "Traceback" not in errors
    assert nothing_installed(work)
    vendor.pause_s = 0
    install(parse_server("mysql:8.4.99"))
    assert [asked for each, asked in vendor.requests if each == path][1].startswith("bytes=")
    assert list(installed()) == ["mysql-8.4.99"]


def test_the_catalogue_has_the_vendors_of_the_stand_in():
    assert set(Catalog.load().vendors) == {"mysql", "percona", "mariadb"}


# ---- the command ---------------------------------------------------------------------------------------------------


def test_the_command_installs_from_a_mirror_and_lists_how_it_was_checked(vendor, work, tarballs, capsys, monkeypatch):
    monkeypatch.setenv("BAKEOFF_MIRROR", "")  # the command sets it; monkeypatch restores it
    monkeypatch.setenv("COLUMNS", "200")
    mirror = make_open_folder(work / "mirror")
    (mirror / MYSQL_FULL.format("8.4.97")).write_bytes(tarballs("mysql", "8.4.97"))
    assert main.run(["server", "install", "mysql:8.4", "--full", "--mirror", str(mirror)]) == 0
    assert "mysql-8.4.97 (8.4.97) is ready" in capsys.readouterr().out
    assert main.run(["server", "list", "-v"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("mysql:8.4.97"))
    assert f"mirror {MYSQL_FULL.format('8.4.97')}" in line
    assert "nothing to check it by; its SHA-256 was recorded" in line
    assert main.run(["server", "install", "mysql:8.4.96"]) == 3
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1 and f"{mirror} has no tarball of mysql-8.4.96" in error
