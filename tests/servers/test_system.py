"""What a machine lacks or denies a server: libraries, symbol versions, AppArmor and SELinux; advice on logs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bakeoff.errors import HostError, ServerError
from bakeoff.servers import install, process
from bakeoff.servers.options import known_options
from bakeoff.servers.paths import make_open_folder
from bakeoff.servers.process import advice, how_to_install
from bakeoff.servers.releases import this_glibc
from bakeoff.spec import parse_server

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def basedir(root, daemon):
    """A basedir whose mysqld is a copy of `daemon`."""
    for name in ("bin", "share/english"):
        make_open_folder(root / name)
    (root / "share/english/errmsg.sys").touch()
    shutil.copy(daemon, root / "bin/mysqld")
    (root / "bin/mysqld").chmod(0o755)
    return root


def script(work, text):
    (work / "script").write_text(f"#!/bin/sh\n{text}\n")
    return basedir(work / "m", work / "script")


def compiled(work, libraries, *, versions=None):
    """A program linked with the named libraries; `versions` are the symbol versions it needs and those it finds."""
    (work / "f.c").write_text("int f(void) { return 0; }\n")
    (work / "main.c").write_text("int f(void); int main(void) { return f(); }\n")

    def library(name, version):
        (work / "map").write_text(f"{version} {{ f; }};\n")
        subprocess.run(
            ["cc", "-shared", "-o", name, "f.c", f"-Wl,-soname,{name},--version-script=map"], cwd=work, check=True
        )

    asked, found = versions or ("NODE_1.0", None)
    for name in libraries:
        library(name, asked)
    linking = ["-Wl,--no-as-needed", f"-Wl,-rpath,{work}"]
    subprocess.run(["cc", "-o", "program", "main.c", *linking, *libraries], cwd=work, check=True)
    for name in libraries:
        (work / name).unlink()
        if found:
            library(name, found)
    return basedir(work / "m", work / "program")


@needs_cc
def test_all_missing_libraries_are_named_with_their_packages(work, monkeypatch):
    monkeypatch.setattr(process, "how_to_install", lambda *libraries: f"Run: get {' '.join(libraries)}")
    root = compiled(work, ["libncurses.so.5", "libaio.so.99"])
    with pytest.raises(HostError, match=r"mysqld needs libncurses.so.5, libaio.so.99, which are missing") as caught:
        install(parse_server(f"path:{root}"))
    assert caught.value.hint == "Run: get libncurses.so.5 libaio.so.99"


@needs_cc
def test_a_symbol_version_missing_on_this_machine_is_named(work):
    root = compiled(work, ["libown.so.1"], versions=("GLIBC_9.10", "GLIBC_9.9"))
    with pytest.raises(HostError, match=r"mysqld needs GLIBC_9.10; libown.so.1 of this machine is older") as caught:
        install(parse_server(f"path:{root}"))
    assert "lower glibc" in caught.value.hint


@pytest.mark.parametrize(
    "complaint",
    [
        "mysqld: error while loading shared libraries: libnuma.so.1: cannot open shared object file: No such file",
        "Error loading shared library libnuma.so.1: No such file or directory (needed by /opt/bin/mysqld)",
    ],
)
def test_a_library_missing_behind_a_wrapper_script_is_named(work, complaint):
    root = script(work, f"echo '{complaint}' >&2; exit 127")
    with pytest.raises(HostError, match=r"needs libnuma.so.1, which is missing here"):
        install(parse_server(f"path:{root}"))


def test_a_binary_for_another_processor_is_an_error(work):
    program = bytearray(Path(shutil.which("true")).read_bytes())
    program[18:20] = b"\x15\x00"  # e_machine: PowerPC
    (work / "program").write_bytes(program)
    with pytest.raises(ServerError, match="Exec format error") as caught:
        install(parse_server(f"path:{basedir(work / 'm', work / 'program')}"))
    assert "another kind of processor" in caught.value.hint


@pytest.mark.parametrize(
    ("manager", "glibc", "libraries", "command"),
    [
        ("apt-get", "2.36", ["libaio.so.1", "libnuma.so.1"], "Run: apt-get install libaio1 libnuma1"),
        (
            "apt-get",
            "2.39",
            ["libaio.so.1", "libnuma.so.1"],
            "Run: apt-get install libaio1t64 libnuma1 && ln -s libaio.so.1t64 "
            "/usr/lib/$(uname -m)-linux-gnu/libaio.so.1",
        ),
        ("apt-get", "2.41", ["libncurses.so.5"], ""),  # Debian 13 has none
        ("dnf", "2.34", ["libncurses.so.5", "libtinfo.so.5"], "Run: dnf install ncurses-compat-libs"),
        ("zypper", "2.38", ["libaio.so.1", "libnuma.so.1"], "Run: zypper install libaio1 libnuma1"),
        ("apk", "2.0", ["libaio.so.1", "libnuma.so.1"], "Run: apk add libaio numactl"),
        ("apt-get", "2.36", ["libaio.so.1", "libicuuc.so.78"], ""),
        ("pacman", "2.40", ["libaio.so.1"], ""),
    ],
)
def test_the_install_command_matches_the_package_manager(monkeypatch, manager, glibc, libraries, command):
    monkeypatch.setattr(process.shutil, "which", lambda name, path: name if name == manager else None)
    monkeypatch.setattr(os, "confstr", lambda _: f"glibc {glibc}")
    assert how_to_install(*libraries) == command


def test_another_c_library_has_no_glibc_version(monkeypatch):
    """musl does not know the name that is asked for."""

    def refuse(_):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(process.shutil, "which", lambda name, path: name if name == "apk" else None)
    monkeypatch.setattr(os, "confstr", refuse)
    assert this_glibc() is None
    assert how_to_install("libaio.so.1") == "Run: apk add libaio"


APPARMOR = (
    '[ 81.2] audit: type=1400 audit(1764451.1:42): apparmor="DENIED" operation="mknod" profile="/usr/sbin/mysqld" '
    'name="/var/cache/x" pid=7 comm="mysqld" requested_mask="c" denied_mask="c" fsuid=112 ouid=112'
)
SELINUX = (
    'type=AVC msg=audit(1764451.1:10): avc:  denied  { write } for  pid=2 comm="mariadbd" name="data" dev="dm-0" '
    "ino=1 scontext=system_u:system_r:mysqld_t:s0 tcontext=unconfined_u:object_r:user_home_t:s0 tclass=dir permissive=0"
)


@pytest.mark.parametrize(
    ("denial", "complaint", "remedy"),
    [
        (APPARMOR, "Can't create directory (OS errno 13 - Permission denied)", "run `aa-complain /usr/sbin/mysqld`"),
        (SELINUX, "InnoDB: Operating system error number 13 in a file operation.", "forbids mysqld_t to write"),
        (SELINUX.replace("mariadbd", "httpd"), "(Errcode: 13)", "look for DENIED (AppArmor) or denied (SELinux)"),
        (APPARMOR, "InnoDB: Cannot allocate memory for the buffer pool", "not enough memory"),  # an old denial
    ],
)
def test_apparmor_and_selinux_denials_are_recognised(tmp_path, monkeypatch, denial, complaint, remedy):
    (tmp_path / "dmesg").write_text(f"#!/bin/sh\necho '{denial}'\n")
    (tmp_path / "dmesg").chmod(0o755)
    monkeypatch.setattr(process, "SYSTEM_PATH", str(tmp_path))
    monkeypatch.setattr(process, "_AUDIT_LOG", tmp_path / "audit.log")
    assert remedy in advice(complaint, tmp_path)
    assert "\n" not in advice(complaint, tmp_path)


def test_a_denial_in_the_audit_log_is_recognised(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "SYSTEM_PATH", str(tmp_path))  # no dmesg
    monkeypatch.setattr(process, "_AUDIT_LOG", tmp_path / "audit.log")
    (tmp_path / "audit.log").write_text(SELINUX)
    assert "semanage permissive -a mysqld_t" in advice("Permission denied", tmp_path)


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("[ERROR] [MY-000067] [Server] unknown variable 'sync-binlog=1'.", "It does not know the option sync_binlog"),
        ("[ERROR] unknown option '--innodb-x'", "It does not know the option innodb_x"),
        (
            "[MY-000077] [Server] mysqld: Error while setting value 'x' to 'innodb_flush_method'.",
            "It refuses the value x of innodb_flush_method",
        ),
        ("Segmentation fault", ""),
    ],
)
def test_an_option_that_a_server_refuses_is_named(tmp_path, line, remedy):
    assert advice(line, tmp_path).startswith(remedy)


HELP = """ --sync-binlog=#  Sync the log.

Variables (--variable-name=value)
--------------------------------- ----------------
sync-binlog                       1

To see what values a running server is using, type
"""


def test_the_options_of_a_binary_are_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = []

    def ask():
        asked.append(1)
        return HELP

    for version, sha256 in (("8.4.99", "a"), ("8.4.99", "a"), ("8.4.99", "b"), ("8.4.98", "a")):
        assert known_options(version, sha256, ask) == {"sync_binlog"}
    assert len(asked) == 3
    for file in (tmp_path / "bakeoff/options").iterdir():
        file.write_text("half wri")
    assert known_options("8.4.99", "a", ask) == {"sync_binlog"}
    assert len(asked) == 4


def test_an_unreadable_help_text_is_not_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert known_options("8.4.99", "a", lambda: "Segmentation fault") == frozenset()
    assert known_options("8.4.99", "a", lambda: HELP) == {"sync_binlog"}
