"""The catalogue: how names are resolved, what a user may add, and errors for unknown names."""

from pathlib import Path

import pytest

from bakeoff.errors import SpecError
from bakeoff.servers.catalog import Catalog
from bakeoff.servers.releases import known_releases, parse_range, parse_version, release_of
from bakeoff.spec import parse_server

OWN = """
format = 1
[[server]]
name = "percona-8.0.36"
flavour = "percona"
version = "8.0.36"
source = { path = "/opt/percona" }
packing = "none"
[[server]]
name = "mysql-8.0.15"
flavour = "mysql"
version = "8.0.15"
source = { url = "https://example.invalid/mysql.tar.xz" }
sha256 = "00"
"""


@pytest.fixture(autouse=True)
def no_user_catalog(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("mysql:8.0.15", "mysql-8.0.15"),
        ("mysql:8.0", "mysql-8.0.31"),  # 51 MB; 8.0.33 is 554 MB
        ("mysql:5.5", "mysql-5.5.34"),
        ("mysql:5.7", "mysql-5.7.22"),
        ("mysql:5", "mysql-5.7.22"),
        ("mysql", "mysql-9.7.4"),
        ("mariadb:10.1", "mariadb-10.1.23"),  # and not 10.11
        ("mariadb:10", "mariadb-10.11.19"),
        ("mariadb", "mariadb-11.8.9"),
    ],
)
def test_without_the_vendor_a_prefix_picks_the_newest_small_registry_build(typed, found):
    assert Catalog.load().resolve(parse_server(typed)).name == found


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("mysql:8.0.15", "mysql-8.0.15"),
        ("mysql:8.0", "mysql-8.0.44"),
        ("mysql:5.7", "mysql-5.7.44"),
        ("mysql:8.4", "mysql-8.4.8"),
        ("mysql:lts", "mysql-9.7.4"),
        ("mysql:latest", "mysql-9.7.4"),
        ("percona", "percona-8.4.4-4"),
        ("percona:8.4.3", "percona-8.4.3-3"),
        ("percona:8.4.4-4", "percona-8.4.4-4"),
        ("percona:8.4.9-9", "percona-8.4.9-9"),
        ("mariadb:lts", "mariadb-11.8.9"),
        ("mysql:8.4.19", "mysql-8.4.19"),  # in no list
        ("mysql:26.7", "mysql-26.7.0"),
        ("mysql:26.12.1", "mysql-26.12.1"),
    ],
)
def test_with_the_vendor_a_prefix_picks_the_newest_known_release(typed, found):
    assert Catalog.load().resolve(parse_server(typed), vendor_answers=True).name == found


def test_a_release_that_the_vendor_lists_is_known():
    listed = ("8.4.31", "26.7.1", "3.23.58")  # no pattern covers the last
    catalog = Catalog.load()
    assert catalog.resolve(parse_server("mysql:8.4"), more=listed, vendor_answers=True).name == "mysql-8.4.31"
    assert catalog.resolve(parse_server("mysql"), more=listed, vendor_answers=True).name == "mysql-26.7.1"
    assert catalog.resolve(parse_server("mysql:lts"), more=listed, vendor_answers=True).name == "mysql-9.7.4"


@pytest.mark.parametrize(("typed", "found"), [("mysql", "mysql-9.7.4"), ("mysql:8.0", "mysql-8.0.44")])
def test_only_arm_builds_are_found_on_arm(monkeypatch, typed, found):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    catalog = Catalog.load()
    assert catalog.resolve(parse_server(typed), vendor_answers=True).name == found
    with pytest.raises(SpecError, match="names no file for aarch64"):
        catalog.resolve(parse_server("mysql:5.7"))


ADDRESSES = [line.split() for line in Path(__file__).with_name("vendor_addresses.txt").read_text().splitlines()]
NOT_THE_VENDORS = "https://raw.githubusercontent.com/datacharmer/mysql-docker-minimal/"  # packed anew by dbdeployer


def test_the_patterns_give_every_known_address():
    catalog, missing = Catalog.load(), []
    for flavour, arch, variant, address in ADDRESSES:
        release = release_of(address)
        offered = (
            catalog.vendor_of(flavour).offered(release.version, full=variant == "full", arch=arch) if release else ()
        )
        if not any(address in file.addresses for file in offered):
            missing.append(address)
    assert len(ADDRESSES) == 124
    assert len(missing) == 8
    assert all(address.startswith(NOT_THE_VENDORS) for address in missing)


def test_the_patterns_cover_every_listed_file():
    catalog = Catalog.load()
    for release in known_releases():
        offered = [
            file.file
            for full in (False, True)
            for arch in ("x86_64", "aarch64")
            for file in catalog.vendor_of(release.flavour).offered(release.version, full=full, arch=arch)
        ]
        assert release.file in offered if release.file else offered, release


def test_builds_for_a_newer_c_library_are_not_offered(monkeypatch):
    vendor = Catalog.load().vendor_of("percona")
    monkeypatch.setattr("bakeoff.servers.releases.this_glibc", lambda: (2, 28))
    names = [file.file for file in vendor.offered("8.4.9-9", arch="x86_64")]
    assert names[0] == "Percona-Server-8.4.9-9-Linux.x86_64.glibc2.28-minimal.tar.gz"
    assert not any("glibc2.3" in name for name in names)


def test_what_is_installed_comes_first_within_the_newest_series():
    def found(typed, *here):
        return Catalog.load().resolve(parse_server(typed), lambda entry: entry.name in here).name

    assert found("mysql:8.0", "mysql-8.0.12", "mysql-8.0.15") == "mysql-8.0.15"
    assert found("mysql:8.0", "mysql-8.0.33") == "mysql-8.0.33"
    assert found("mysql:8.0.31", "mysql-8.0.33") == "mysql-8.0.31"
    assert found("mysql", "mysql-8.0.15") == "mysql-9.7.4"


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("mysql:4.1", "mysql:5.0.96"),
        ("mysql:8.0.15-debug", "mysql:8.0.15"),
        ("mariadb:5.1", "mariadb:10.1.23"),
        ("percona:8.4.99", "second number"),
        ("mysqll:8.0", "mysql"),
        ("maria:10.5", "mariadb"),
    ],
)
def test_an_unknown_name_is_a_one_line_error_with_suggestions(typed, message):
    with pytest.raises(SpecError) as caught:
        Catalog.load().resolve(parse_server(typed))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_server_of_the_published_comparisons_is_there():
    names = {entry.name for entry in Catalog.load().entries}
    assert len(names) == 19
    assert {
        "mysql-5.5.9",
        "mysql-5.6.24",
        "mysql-5.7.22",
        "mysql-8.0.33",
        "mysql-9.7.4",
        "mariadb-10.1.23",
        "mariadb-11.8.9",
    } <= names


def test_downloads_of_fixed_sources_have_a_checksum_and_sizes():
    for entry in Catalog.load().entries:
        assert entry.download_bytes > 1_000_000
        assert entry.moving or len(entry.sha256) == 64, entry.name


def test_no_registry_is_named():
    from importlib.resources import files

    text = files("bakeoff.servers").joinpath("catalog.toml").read_text()
    assert "://" not in text.partition("# vendor:")[0]


def test_the_users_file_adds_and_replaces(tmp_path):
    file = tmp_path / "servers.toml"
    file.write_bytes(b"# f\xfcr uns, in Latin-1\n" + OWN.encode())
    catalog = Catalog.load(file)
    assert len(catalog.entries) == 20
    assert catalog.resolve(parse_server("percona:8.0")).source.path == "/opt/percona"
    assert catalog.resolve(parse_server("mysql:8.0.15")).source.kind == "url"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("format = 2", "format: Input should be 1"),
        ("format = 1\n[[server]]\nname = 'x'", "server.0.flavour: Field required"),
        (OWN.replace('"percona"', '"perkona"'), "server.0.flavour: Input should be 'mysql', 'mariadb' or 'percona'"),
        (OWN.replace("packing", "pakking"), "pakking"),
        (OWN.replace("path =", "npm = 'a', path ="), "exactly one of"),
        (OWN.replace('path = "/opt/percona"', "maven = 'com.example:server'"), "maven is group:artifact:version"),
        ("format = = 1", "not TOML"),
        ("format = 1\n[[capability]]\nname = 'x'\nabout = 'y'\nmysql = '8.0'", "capability.0.mysql: "),
        (OWN.replace("[[server]]", "[server]", 1).partition("[[server]]")[0], "server: Input should be"),
        ("format = 1\nserver = ['mysql']", "server.0: Input should be"),
        (OWN.replace('source = { path = "/opt/percona" }', ""), "server percona-8.0.36 has no source"),
        ("format = 1\n[vendor.mysql]\naddresses = ['https://x/{fil}']", "may have only the placeholders version"),
        ("format = 1\n[vendor.mysql]\naddresses = ['https://x/{folder}']", "placeholders version, series, build, file"),
        (
            "format = 1\n[vendor.mysql]\naddresses = []\nchecksums = { sha256 = '{folder}/{file}.sha256' }",
            "may have only the placeholders address, folder",
        ),
        ("format = 1\n[vendor.mysql]\naddresses = []\nlists = ['https://x/{version}']", "the placeholders series"),
        ("format = 1\n[vendor.mysql]\naddresses = []\nlisted = '('", "vendor.mysql.listed: "),
    ],
)
def test_a_bad_file_is_a_one_line_error_with_file_and_place(tmp_path, text, message):
    file = tmp_path / "servers.toml"
    file.write_text(text)
    with pytest.raises(SpecError) as caught:
        Catalog.load(file)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_capabilities_follow_versions():
    catalog = Catalog.load()
    assert catalog.has("collations-0900", "mysql", (8, 0, 12))
    assert not catalog.has("collations-0900", "mysql", (5, 7, 22))
    assert not catalog.has("collations-0900", "mariadb", (10, 11, 19))
    assert catalog.has("collations-0900", "mariadb", (11, 4, 5))
    assert not catalog.has("auth-native", "mysql", (9, 7, 4))


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("5.6.4-", [(5, 6, 4), (9, 7)], [(5, 5, 34), (5, 6, 3)]),
        ("-8.0", [(5, 7, 22)], [(8, 0, 0), (8, 0)]),
        ("5.5.7-9.0", [(5, 5, 7), (8, 4)], [(5, 5, 6), (9, 0)]),
        ("*", [(1,), (99,)], []),
        ("", [], [(1,), (99,)]),
    ],
)
def test_version_ranges_include_their_start_but_not_their_end(text, inside, outside):
    found = parse_range(text)
    assert all(version in found for version in inside)
    assert not any(version in found for version in outside)


def test_versions_are_the_leading_numbers():
    assert parse_version("10.11.19-MariaDB-0+deb12u1") == (10, 11, 19)
    with pytest.raises(ValueError, match="does not start"):
        parse_version("latest")
