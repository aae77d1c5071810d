"""Child processes, accounts, locks, paths and stale cleanup, without a database server."""

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from bakeoff.errors import HostError, ServerError
from bakeoff.servers import pool as pool_module
from bakeoff.servers import process as process_module
from bakeoff.servers.catalog import flavour_and_version, options_in_help
from bakeoff.servers.datadir import prune
from bakeoff.servers.launch import allowed_files
from bakeoff.servers.paths import (
    OWNER_FILE,
    Owner,
    cache_root,
    locked,
    other_bakeoffs,
    remove_stale,
    remove_unfinished,
    require_reachable,
)
from bakeoff.servers.process import Launch, ProcessId, run, server_identity, spawn, tail
from bakeoff.servers.profile import Settings


@pytest.fixture
def shared(tmp_path_factory):
    """A folder that the servers' account may enter."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="bakeoff-test-", dir="/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def fresh_identity():
    server_identity.cache_clear()
    yield
    server_identity.cache_clear()


def test_a_uid_without_a_passwd_entry_is_accepted(fresh_identity, monkeypatch):
    """Containers can run under an arbitrary uid."""
    monkeypatch.delenv("BAKEOFF_SERVER_USER", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 4_123_456)
    assert server_identity().uid == 4_123_456


def test_a_child_has_no_privileges_no_groups_and_only_its_own_environment(shared):
    done = run(
        Launch(["/bin/sh", "-c", "id -u; id -G; env"], {"ONLY": "this"}, server_identity()),
        cwd=shared,
        log=shared / "out",
    )
    lines = done.stdout.splitlines()
    assert lines[0] == str(server_identity().uid) != "0"
    assert lines[1] == str(server_identity().gid) or os.geteuid() != 0
    assert "ONLY=this" in lines
    assert not [line for line in lines if line.startswith("HOME=")]


def test_a_childs_environment_stays_off_the_command_line(shared, monkeypatch):
    started = []

    class Watched(subprocess.Popen):
        def __init__(self, argv, **more):
            started.append(argv)
            super().__init__(argv, **more)

    monkeypatch.setattr(process_module.subprocess, "Popen", Watched)
    script = "echo $MYSQL_PWD; ls /proc/self/fd | wc -l"
    done = run(
        Launch(["/bin/sh", "-c", script], {"MYSQL_PWD": "geheim"}, server_identity()), cwd=shared, log=shared / "out"
    )
    assert done.stdout.split() == ["geheim", "4"]  # stdin, stdout, stderr, and the folder that ls reads
    assert "geheim" not in " ".join(started[0])


def test_errors_do_not_land_in_the_output(shared):
    done = run(
        Launch(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], {}, server_identity()),
        cwd=shared,
        log=shared / "out",
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_a_missing_program_exits_with_126_and_a_message(shared):
    done = run(Launch(["/nonexistent/mysqld"], {}, server_identity()), cwd=shared, log=shared / "out")
    assert done.returncode == 126
    assert "No such file" in done.stderr


def test_a_restriction_that_the_kernel_refuses_keeps_the_child_from_starting(shared):
    launch = Launch(["/bin/echo", "started"], {}, server_identity(), huge_pages=1 << 10)
    done = run(launch, cwd=shared, log=shared / "out")
    assert (done.returncode, done.stdout) == (126, "")
    assert "prctl(PR_SET_THP_DISABLE)" in done.stderr


def test_a_child_that_takes_too_long_is_killed(shared):
    with pytest.raises(ServerError, match=r"did not end within 0"):
        run(Launch(["/bin/sleep", "60"], {}, server_identity()), cwd=shared, log=shared / "out", limit_s=0.3)
    assert not [each for each in psutil.Process().children() if each.name() == "sleep"]


def test_a_process_is_identified_by_pid_and_start_time(shared):
    child = spawn(Launch(["/bin/sleep", "60"], {}, server_identity()), cwd=shared, log=shared / "log")
    process = ProcessId.of(child.pid)
    assert process.alive()
    assert not ProcessId(process.pid, process.start_ticks + 1).alive()
    child.kill()
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert not process.alive()
    child.wait()
    assert ProcessId.of(child.pid) is None


def test_tail_returns_the_last_lines_of_a_log(tmp_path):
    log = tmp_path / "log"
    log.write_text("\n".join(str(number) for number in range(100_000)))
    assert tail(log, 2) == "99998\n99999"
    assert tail(tmp_path / "none") == ""


@pytest.mark.parametrize(
    ("most", "allowed"),
    [(1024, 1024), (1_048_576, 1_048_576), (1_073_741_816, 1_048_576), (resource.RLIM_INFINITY, 1_048_576)],
)
def test_a_server_may_open_a_million_files_at_most(most, allowed):
    """MySQL 5.5 to 5.7 allocate an array with one entry per allowed file."""
    assert allowed_files(most) == allowed


@pytest.fixture
def own_cache(tmp_path_factory, monkeypatch):
    """A cache whose locks nobody else holds."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def abandoned(root, name, process, servers=(), boot=None):
    folder = root / name
    folder.mkdir()
    owner = Owner(boot or Owner.current(()).boot, process, tuple(servers))
    owner.write(folder)
    return folder


def test_owner_files_of_older_versions_can_be_read(tmp_path):
    written = '{"boot": "b", "process": [7, 70], "servers": [[8, 80], [9, 90]]}'
    (tmp_path / OWNER_FILE).write_text(written)
    found = Owner.read(tmp_path)
    assert found == Owner("b", ProcessId(7, 70), (ProcessId(8, 80), ProcessId(9, 90)))
    assert json.loads(json.dumps(asdict(found))) == json.loads(written) | {"kept_for": ""}
    for damaged in ("", "[]", '{"boot": "b"}', '{"boot": "b", "process": [7], "servers": []}'):
        (tmp_path / OWNER_FILE).write_text(damaged)
        assert Owner.read(tmp_path) is None
    assert Owner.read(tmp_path / "nowhere") is None


def test_only_folders_of_dead_owners_are_removed(tmp_path):
    me = ProcessId.of(os.getpid())
    dead = ProcessId(me.pid, me.start_ticks + 1)
    gone = abandoned(tmp_path, "bakeoff-00000001", dead)
    before_boot = abandoned(tmp_path, "pool-00000002", me, boot="another boot")
    mine = abandoned(tmp_path, "bakeoff-00000003", me)
    other_name = abandoned(tmp_path, "something-00000004", dead)
    just_made = tmp_path / "pool-00000005"
    just_made.mkdir()
    old = tmp_path / "pool-00000006"
    old.mkdir()
    os.utime(old, (time.time() - 7200,) * 2)
    target = tmp_path / "target"
    target.mkdir()
    (target / OWNER_FILE).write_text((gone / OWNER_FILE).read_text())
    (tmp_path / "pool-00000007").symlink_to(target)
    link = tmp_path / "pool-00000007"
    remove_stale(tmp_path)
    assert set(tmp_path.iterdir()) == {mine, other_name, just_made, target, link}
    assert not {gone, before_boot, old} & set(tmp_path.iterdir())


def test_a_locked_folder_stays_even_if_its_owner_seems_dead(own_cache, tmp_path):
    """An owner from another boot, or with another process id, seems dead."""
    folder = abandoned(tmp_path, "pool-00000001", ProcessId.of(os.getpid()), boot="another machine's")
    hold = "import sys; from bakeoff.servers.paths import share; share('pool-00000001'); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        owner.stdout.readline()
        remove_stale(tmp_path)
        assert folder.exists()
        owner.kill()
    remove_stale(tmp_path)
    assert not folder.exists()
    assert not list((own_cache / "bakeoff" / "locks").glob("pool-*")), "and its lock's file goes with it"


def test_cleanup_kills_servers_that_outlived_their_bakeoff_and_no_others(tmp_path):
    me = ProcessId.of(os.getpid())
    dead = ProcessId(me.pid, me.start_ticks + 1)
    children = [subprocess.Popen(["/bin/sleep", "60"]) for _ in range(2)]
    left, reused = (ProcessId.of(child.pid) for child in children)
    abandoned(tmp_path, "pool-00000001", dead, [left, ProcessId(reused.pid, reused.start_ticks + 5)])
    remove_stale(tmp_path)
    assert children[0].wait(5) == -9
    assert children[1].poll() is None
    children[1].kill()
    children[1].wait()


class Pool(pool_module.ServerPool):
    """An open pool in the test's folder. Asserts that snapshots are numbered only under the lock."""

    def __init__(self, root, monkeypatch):
        super().__init__(root)
        self.runtime, self.work = root / "runtime", root / "work"
        for folder in (self.runtime, self.work):
            folder.mkdir()
        monkeypatch.setattr(pool_module, "clone_template", lambda _found, _options, datadir, _progress: datadir.mkdir())

    def __setattr__(self, name, value):
        assert name != "_snapshots" or value == 0 or self._lock.locked()
        super().__setattr__(name, value)

    def make(self):
        installation = SimpleNamespace(name="x", environment={}, container_image="")
        return self.create("A", installation, Settings({}))


def test_a_servers_folder_is_reused_only_once_it_is_deleted(tmp_path, monkeypatch):
    pool = Pool(tmp_path, monkeypatch)
    first, meanwhile, delete = pool.make(), [], shutil.rmtree

    def delete_while_another_is_made(folder, **how):
        meanwhile.append(pool.make())
        delete(folder, **how)

    monkeypatch.setattr(shutil, "rmtree", delete_while_another_is_made)
    first.remove()
    assert [each.home.name for each in (first, *meanwhile, pool.make())] == ["000", "001", "002", "000"]


def test_restoring_a_snapshot_ends_when_the_run_stops(tmp_path, monkeypatch):
    slow = tmp_path / "cp"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr("bakeoff.servers.datadir.shutil.which", lambda _: str(slow))
    pool, installation = Pool(tmp_path, monkeypatch), SimpleNamespace(name="x", environment={}, container_image="")
    threading.Timer(0.3, pool._stop.set).start()
    with pytest.raises(ServerError, match="stopped while data was being restored"):
        pool.create("A", installation, Settings({}), snapshot=pool_module.Snapshot("x", tmp_path / "none", 1))
    assert not [each for each in psutil.Process().children() if each.name() == "sleep"]


def test_snapshots_are_numbered_under_the_pools_lock(tmp_path, monkeypatch):
    pool = Pool(tmp_path, monkeypatch)
    assert [pool.snapshot(pool.make(), "x").path.name for _ in range(2)] == ["001", "002"]


def test_other_bakeoffs_are_known_by_their_folders(tmp_path):
    me = ProcessId.of(os.getpid())
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        abandoned(tmp_path, "bakeoff-00000001", ProcessId.of(child.pid))
        abandoned(tmp_path, "bakeoff-00000002", me)
        abandoned(tmp_path, "bakeoff-00000003", ProcessId(me.pid, me.start_ticks + 1))
        assert other_bakeoffs(tmp_path) == [child.pid]
        child.kill()
    assert other_bakeoffs(tmp_path) == []


def test_cleanup_tolerates_a_folder_that_its_owner_removes(tmp_path, monkeypatch):
    (tmp_path / "pool-00000001").mkdir()
    monkeypatch.setattr(Owner, "read", lambda folder: folder.rmdir())
    remove_stale(tmp_path)


def test_cleanup_tolerates_a_folder_that_another_bakeoff_removes(tmp_path, monkeypatch):
    owner = Owner.read(abandoned(tmp_path, "pool-00000001", ProcessId(os.getpid(), 1), boot="another boot"))
    monkeypatch.setattr(Owner, "read", lambda folder: shutil.rmtree(folder) or owner)
    remove_stale(tmp_path)


def test_unfinished_folders_are_removed_unless_they_are_locked(own_cache, tmp_path):
    for name in (".mysql-8.0.15.abcd_123", ".mysql-8.0.15-0123abcd.abcd_123", ".other", "mysql-8.0.15"):
        (tmp_path / name).mkdir()
    with locked("mysql-8.0.15"):
        remove_unfinished(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == [".mysql-8.0.15.abcd_123", ".other", "mysql-8.0.15"]
    remove_unfinished(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == [".other", "mysql-8.0.15"]


def test_the_least_recently_used_templates_are_removed(own_cache, tmp_path):
    now = time.time()
    for name, age_s in (("old", 9000), ("older", 10_000), ("new", 10), ("newer", 5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ibdata1").write_bytes(b"x" * 1_000_000)
        os.utime(tmp_path / name, (now - age_s,) * 2)

    def left_after(limit_bytes):
        prune(tmp_path, limit_bytes=limit_bytes, unused_s=600)
        return {each.name for each in tmp_path.iterdir()}

    assert left_after(5_000_000) == {"old", "older", "new", "newer"}
    assert left_after(3_500_000) == {"old", "new", "newer"}
    with locked("old"):  # another bakeoff copies it
        assert left_after(0) == {"old", "new", "newer"}
    (tmp_path / "gone").symlink_to("what another bakeoff just removed")
    assert left_after(0) == {"new", "newer", "gone"}


def test_a_lock_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    script = (
        "import time\nfrom bakeoff.servers.paths import locked\n"
        "with locked('x'):\n print('held', flush=True); time.sleep(0.5)"
    )
    holder = subprocess.Popen(
        ["/usr/bin/env", "python3", "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PATH": f"{Path(os.sys.executable).parent}:/bin"},
    )
    assert holder.stdout.readline() == "held\n"
    waited = []
    with locked("x", on_wait=lambda: waited.append(1)):
        assert holder.wait(5) == 0
    assert waited


def test_the_on_wait_callback_can_abort_the_wait_for_a_lock(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    class Enough(Exception):
        """Raised instead of waiting on."""

    def enough():
        raise Enough

    with locked("x"), pytest.raises(Enough), locked("x", on_wait=enough):
        pass
    with locked("x", on_wait=enough):  # free again
        pass


def test_a_folder_the_server_account_cannot_enter_is_refused(shared):
    closed = shared / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(HostError, match=r"may not enter .*closed") as refused:
        require_reachable(closed, 4242, 4242)
    assert refused.value.hint == f"Run: chmod o+x {closed}"  # the cache is elsewhere


def test_the_cache_follows_xdg(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "bakeoff"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    tmp_path.chmod(0o700)
    expected = Path("/var/cache/bakeoff") if os.geteuid() == 0 else tmp_path / ".cache/bakeoff"
    assert cache_root() == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="only root chooses another account")
@pytest.mark.parametrize(("name", "message"), [("root", "servers never run as"), ("nobody-at-all", "does not exist")])
def test_root_and_unknown_accounts_are_refused(monkeypatch, fresh_identity, name, message):
    monkeypatch.setenv("BAKEOFF_SERVER_USER", name)
    with pytest.raises(HostError, match=message):
        server_identity()


def test_looking_up_the_account_does_not_create_it(monkeypatch, fresh_identity):
    made = []
    monkeypatch.delenv("BAKEOFF_SERVER_USER", raising=False)
    monkeypatch.setattr(process_module.os, "geteuid", lambda: 0)
    monkeypatch.setattr(process_module, "_account", lambda _name: None)
    monkeypatch.setattr(process_module.subprocess, "run", lambda argv, **_more: made.append(argv))
    assert (server_identity(make=False).uid, made) == (-1, [])
    with pytest.raises(HostError):
        server_identity()
    assert [(argv[0], argv[-1]) for argv in made] == [("useradd", "bakeoff")]


def test_an_ordinary_user_does_not_switch_accounts(monkeypatch, fresh_identity):
    monkeypatch.delenv("BAKEOFF_SERVER_USER", raising=False)
    monkeypatch.setattr(process_module.os, "geteuid", lambda: os.getuid() or 65534)
    found = server_identity()
    assert not found.switch
    assert found.uid != 0


@pytest.mark.parametrize(
    ("text", "flavour", "version"),
    [
        ("/x/mysqld  Ver 8.0.15 for linux-glibc2.12 on x86_64 (MySQL Community Server - GPL)", "mysql", "8.0.15"),
        (
            "mariadbd  Ver 11.8.6-MariaDB-0+deb13u1 from Debian for debian-linux-gnu on x86_64 (Debian)",
            "mariadb",
            "11.8.6-MariaDB-0+deb13u1 from Debian",
        ),
        (
            "mysqld  Ver 8.0.36-28 for Linux on x86_64 (Percona Server (GPL), Release 28, Revision 47601f19)",
            "percona",
            "8.0.36-28",
        ),
    ],
)
def test_flavour_and_version_are_parsed_from_the_version_output(text, flavour, version):
    assert flavour_and_version(text) == (flavour, version)


def test_a_debug_build_is_refused():
    with pytest.raises(ServerError, match="debug build"):
        flavour_and_version("mysqld  Ver 5.7.22-debug for linux on x86_64 (Source)")


def test_options_are_read_from_the_help():
    text = (
        "  --plugin-load-add=name \n                      Optional\n  -u, --user=name     Run as\n\n"
        "Variables (--variable-name=value)\n-------- ----\nbig-tables   FALSE\nsocket   /x\n\nTo see what"
    )
    assert options_in_help(text) == {"plugin_load_add", "user", "big_tables", "socket"}
    assert options_in_help("mysqld: error") == frozenset()
