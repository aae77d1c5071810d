"""From a spec to binaries: tarballs, paths, broken binaries, and what the cache keeps and removes."""

import json
import subprocess
import sys
import tarfile

import pytest

from bakeoff.errors import ServerError, SpecError
from bakeoff.servers import (
    ServerMemory,
    ServerPool,
    datadir,
    free_cache,
    install,
    installed,
    known_servers,
    remove,
    settings_for,
)
from bakeoff.servers.datadir import clone_template, locked_template
from bakeoff.servers.install import RECORD, lacking
from bakeoff.servers.paths import cache_root, locked_if_free, make_open_folder
from bakeoff.spec import Data, Profile, parse_server


@pytest.fixture
def cache(work, monkeypatch):
    """An empty cache that servers may enter."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(work / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(work / "config"))
    return make_open_folder(work / "cache/bakeoff")


def fake_server(root, script):
    for name in ("bin", "share/english", "share/charsets"):
        make_open_folder(root / name)
    (root / "share/english/errmsg.sys").touch()
    daemon = root / "bin/mysqld"
    daemon.write_text(f"#!/bin/sh\n{script}\n")
    daemon.chmod(0o755)
    return root


VERSION = "echo 'mysqld  Ver 5.7.99 for Linux on x86_64 (MySQL Community Server (GPL))'"


def test_missing_libaio_and_libnuma_are_reported(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda name: (_ for _ in ()).throw(OSError(name)))
    assert [error.message.split()[3] for error in lacking()] == ["libaio.so.1,", "libnuma.so.1,"]


def test_a_crashing_binary_is_a_one_line_error(work):
    root = fake_server(work / "m", "echo 'Illegal instruction' >&2; exit 132")
    with pytest.raises(ServerError, match=r"does not run .*Illegal instruction") as caught:
        install(parse_server(f"path:{root}"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("complaint", "remedy"),
    [
        ("OS errno 28 - No space left on device", "The disk of {folder} is full: free some space"),
        ("io_setup() failed with EAGAIN", "raise fs.aio-max-nr"),
        ("Invalid value for --default-authentication-plugin", "refuses the value of default_authentication_plugin"),
        ("Segmentation fault", "Its files may be incomplete: `bakeoff server rm {name}`, then try again"),
    ],
)
def test_a_server_that_does_not_initialise_says_what_to_do(cache, work, complaint, remedy):
    script = f"[ $1 = --no-defaults ] && [ $2 = --version ] && {VERSION} && exit 0\necho '{complaint}' >&2; exit 1"
    file = tar(fake_server(work / "m", script), work / "m.tar.gz")
    installation = install(parse_server(f"tarball:{file}"))
    with pytest.raises(ServerError, match="could not initialise a data directory") as caught:
        clone_template(installation, {}, work / "data")
    assert remedy.format(folder=cache / "templates", name=installation.basedir.name) in caught.value.hint
    assert complaint in caught.value.log_tail


def test_server_rm_is_not_suggested_for_a_server_outside_the_cache(cache, work):
    script = f"[ $1 = --no-defaults ] && [ $2 = --version ] && {VERSION} && exit 0\nexit 1"
    installation = install(parse_server(f"path:{fake_server(work / 'm', script)}"))
    with pytest.raises(ServerError, match="could not initialise a data directory") as caught:
        clone_template(installation, {}, work / "data")
    assert caught.value.hint == "Its files may be incomplete."


def test_a_folder_without_a_server_is_refused(work):
    with pytest.raises(SpecError, match="no mysqld or mariadbd found"):
        install(parse_server(f"path:{work}"))


def test_a_running_server_is_not_installed():
    with pytest.raises(SpecError, match="not installed"):
        install(parse_server("mysql://root@localhost/"))


def tar(root, file):
    with tarfile.open(file, "w:gz") as archive:
        archive.add(root, "mysql-5.7.99-linux-glibc2.12-x86_64")
    return file


def test_a_tarball_is_unpacked_once_and_keyed_by_its_content(cache, work):
    file = tar(fake_server(work / "m", VERSION), work / "m.tar.gz")
    first = install(parse_server(f"tarball:{file}"))
    assert (first.name, first.flavour, first.initialises) == ("mysql-5.7.99", "mysql", True)
    record = json.loads((first.basedir / RECORD).read_text())
    assert record["files"].keys() == {"m.tar.gz"}
    assert install(parse_server(f"tarball:{file}")).basedir == first.basedir
    changed = tar(fake_server(work / "n", f"{VERSION} # another"), work / "m.tar.gz")
    assert install(parse_server(f"tarball:{changed}")).basedir != first.basedir
    name = first.basedir.name
    assert name in installed()
    templates = [make_open_folder(cache / f"templates/{each}-0123abcd") for each in ("mysql-5.7.99", "mysql-5.7.9")]
    assert remove(name) > 0
    assert name not in installed()
    assert [each.exists() for each in templates] == [False, True]
    with pytest.raises(SpecError, match="not in the cache"):
        remove(name)


USER = """
import sys
from bakeoff.servers import install
from bakeoff.spec import parse_server
install(parse_server(sys.argv[1]))
print("installed", flush=True)
sys.stdin.read()
"""


def test_a_server_in_use_by_another_bakeoff_is_not_removed(cache, work):
    spec = f"tarball:{tar(fake_server(work / 'm', VERSION), work / 'm.tar.gz')}"
    home = install(parse_server(spec)).basedir
    with subprocess.Popen(
        [sys.executable, "-c", USER, spec], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as user:
        assert user.stdout.readline() == "installed\n"
        with pytest.raises(ServerError, match="a running bakeoff uses it"):
            remove(home.name)
        free = tar(fake_server(work / "n", f"{VERSION} # another"), work / "n.tar.gz")
        other = install(parse_server(f"tarball:{free}")).basedir
        free_cache(servers=True)
        assert ((home / "bin/mysqld").exists(), other.exists()) == (True, False)
        user.kill()
    assert remove(home.name) > 0


def test_installed_servers_with_names_of_their_own_are_not_taken_for_releases(cache):
    for name in ("mysql-patched", "mysql-8.0.15-patched", "mysql-8.4.99", "percona-8.0.99-1"):
        make_open_folder(cache / "servers" / name)
        (cache / "servers" / name / RECORD).write_text("{}")
    names = {entry.name for entry in known_servers()}
    assert {"mysql-8.4.99", "percona-8.0.99-1"} <= names
    assert not [name for name in names if "patched" in name]


def test_the_next_install_removes_half_unpacked_files(cache, work):
    file = tar(fake_server(work / "m", VERSION), work / "m.tar.gz")
    home = install(parse_server(f"tarball:{file}")).basedir
    remove(home.name)
    (home.parent / f".{home.name}.abcd1234/tree").mkdir(parents=True)
    install(parse_server(f"tarball:{file}"))
    assert list(home.parent.iterdir()) == [home]


INITIALISES = """
for word in "$@"; do case $word in
  --datadir=*) data=${word#*=};;
  --initialize-insecure) mkdir "$data" && echo data > "$data/ibdata1";;
esac; done
"""


def test_a_template_is_locked_while_it_is_copied(cache, work, monkeypatch):
    found = install(parse_server(f"path:{fake_server(work / 'm', INITIALISES + VERSION)}"))
    with locked_template(found, {}) as kept:
        pass
    half_made = kept.parent / f".{kept.name}.abcd1234"
    half_made.mkdir()
    copying = []

    def copy(source, target, _what_for):
        with locked_if_free(source.name) as free:
            copying.append((source, free))
        target.mkdir()

    monkeypatch.setattr(datadir, "copy_tree", copy)
    clone_template(found, {}, work / "clone")
    assert copying == [(kept, False)]
    assert list(kept.parent.iterdir()) == [kept]


def test_two_addresses_that_end_in_the_same_name_are_two_servers(cache, work):
    builds = [work / "101/mysql.tar.gz", work / "102/mysql.tar.gz"]
    for build in builds:
        build.parent.mkdir()
        tar(fake_server(work / f"of-{build.parent.name}", f"{VERSION} # {build.parent.name}"), build)
    one, other = (install(parse_server(f"tarball:{build.as_uri()}")) for build in builds)
    assert one.basedir != other.basedir
    assert one.sha256 != other.sha256
    assert one.basedir.is_dir()
    assert install(parse_server(f"tarball:{builds[0].as_uri()}")).sha256 == one.sha256


def test_a_tarball_without_a_server_leaves_nothing(cache, work):
    (work / "x").mkdir()
    (work / "x/README").write_text("nothing")
    file = tar(work / "x", work / "x.tar.gz")
    with pytest.raises(SpecError, match="no complete MySQL"):
        install(parse_server(f"tarball:{file}"))
    assert list((cache / "servers").iterdir()) == []


def own_entry(version, source):
    fields = f'name = "mysql-{version}"\nflavour = "mysql"\nversion = "{version}"\nsource = {{ {source} }}\n'
    return f"format = 1\n[[server]]\n{fields}"


def test_a_user_entry_with_a_wrong_checksum_is_refused(cache, work):
    file = tar(fake_server(work / "m", VERSION), work / "m.tar.gz")
    catalog = work / "config/bakeoff/servers.toml"
    catalog.parent.mkdir(parents=True)
    entry = own_entry("5.7.99", f'url = "{file.as_uri()}"')
    catalog.write_text(f'{entry}sha256 = "{"0" * 64}"\n')
    with pytest.raises(ServerError, match="SHA-256"):
        install(parse_server("mysql:5.7.99"))
    assert list((cache / "servers").iterdir()) == []
    catalog.write_text(entry)
    assert install(parse_server("mysql:5.7.99")).name == "mysql-5.7.99"


def test_a_source_that_holds_another_version_is_refused(cache, work):
    file = tar(fake_server(work / "m", VERSION), work / "m.tar.gz")
    catalog = work / "config/bakeoff/servers.toml"
    catalog.parent.mkdir(parents=True)
    catalog.write_text(own_entry("5.7.50", f'tarball = "{file}"'))
    with pytest.raises(ServerError, match=r"now holds 5\.7\.99"):
        install(parse_server("mysql:5.7.50"))


@pytest.mark.server
def test_a_tarball_and_a_path_install_the_same_server(work, request):
    catalogued = install(parse_server("mysql:5.7.22"))
    with tarfile.open(work / "m.tar.xz", "w:xz", preset=0) as archive:
        archive.add(catalogued.basedir, "mysql-5.7.22-linux-glibc2.12-x86_64")
    found = install(parse_server(f"tarball:{work / 'm.tar.xz'}"))
    request.addfinalizer(lambda: remove(found.basedir.name))
    assert found.sha256 == catalogued.sha256
    by_path = install(parse_server(f"path:{found.basedir / 'bin/mysqld'}"))
    assert by_path.base_options == found.base_options
    spec = parse_server(f"tarball:{work / 'm.tar.xz'},innodb_io_capacity=500")
    with ServerPool(work / "pool") as pool:
        settings = settings_for(found, spec, Profile.MATCHED, Data(), ServerMemory(64 << 20, 32 << 20), connections=4)
        server = pool.create("A", found, settings)
        server.start()
        assert server.variables()["innodb_io_capacity"] == "500"


def test_nothing_in_the_cache_names_a_registry():
    for record in (cache_root() / "servers").glob(f"*/{RECORD}"):
        assert "://" not in record.read_text(), record
