"""Layouts found from the files present: trees made up after real packages."""

import pytest

from bakeoff.errors import SpecError
from bakeoff.servers.install import detect


def tree(root, *files):
    for name in files:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    return root


MYSQL_TARBALL = ("bin/mysqld", "share/english/errmsg.sys", "share/charsets/Index.xml", "lib/plugin/x.so")
MARIADB_TARBALL = ("bin/mariadbd", "bin/mysqld", "share/english/errmsg.sys", "lib/plugin/ha_rocksdb.so")


def test_an_official_mysql_tarball_is_detected(tmp_path):
    found = detect(tree(tmp_path, *MYSQL_TARBALL))
    assert found.daemon == tmp_path / "bin/mysqld"
    assert found.plugin_dir == tmp_path / "lib/plugin"
    assert f"--character-sets-dir={tmp_path}/share/charsets" in found.base_options


def test_mariadbd_is_preferred_over_mysqld(tmp_path):
    assert detect(tree(tmp_path, *MARIADB_TARBALL)).daemon.name == "mariadbd"


def test_a_distributions_usr_folder_is_detected(tmp_path):
    found = detect(tree(tmp_path, "sbin/mysqld", "share/mysql/english/errmsg.sys", "lib/mysql/plugin/x.so"))
    assert found.share == tmp_path / "share/mysql"
    assert found.plugin_dir == tmp_path / "lib/mysql/plugin"


def test_a_path_to_the_binary_finds_its_basedir(tmp_path):
    tree(tmp_path, *MYSQL_TARBALL)
    assert detect(tmp_path / "bin/mysqld").basedir == tmp_path


def test_libraries_beside_the_daemon_go_into_its_environment(tmp_path):
    found = detect(tree(tmp_path, "mysqld", "libaio.so.1", "share/english/errmsg.sys"))
    assert found.environment == {"LD_LIBRARY_PATH": str(tmp_path)}
    assert found.basedir == tmp_path


LIB = "lib/x86_64-linux-gnu"


@pytest.mark.parametrize(
    ("files", "loader", "libraries"),
    [
        (
            ("usr/sbin/mysqld", "usr/share/mysql/english/errmsg.sys", f"usr/{LIB}/ld-linux-x86-64.so.2"),
            f"usr/{LIB}/ld-linux-x86-64.so.2",
            [f"usr/{LIB}"],
        ),
        (
            ("usr/sbin/mariadbd", "usr/share/mysql/english/errmsg.sys", f"{LIB}/ld-2.31.so", f"usr/{LIB}/x.so"),
            f"{LIB}/ld-2.31.so",
            [LIB, f"usr/{LIB}"],
        ),
    ],
)
def test_packages_with_a_c_library_run_through_its_loader(tmp_path, files, loader, libraries):
    found = detect(tree(tmp_path, *files))
    assert found.argv[:3] == (
        str(tmp_path / loader),
        "--library-path",
        ":".join(str(tmp_path / each) for each in libraries),
    )
    assert found.argv[3].startswith(str(tmp_path / "usr/sbin"))
    assert found.basedir == tmp_path / "usr"


@pytest.mark.parametrize(
    ("files", "message"),
    [(("README",), "no mysqld or mariadbd"), (("bin/mysqld",), "no share/english/errmsg.sys")],
)
def test_missing_files_are_named(tmp_path, files, message):
    with pytest.raises(SpecError, match=message):
        detect(tree(tmp_path, *files))


def test_a_missing_path_is_an_error(tmp_path):
    with pytest.raises(SpecError, match="does not exist"):
        detect(tmp_path / "nothing")
