"""A real server with every kind of limit, and cleanup after a bakeoff that was killed."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from bakeoff.errors import BakeoffError, ServerError
from bakeoff.machine import require
from bakeoff.run.restart import start_cold
from bakeoff.servers import ServerMemory, ServerPool, install, settings_for
from bakeoff.servers.paths import work_root
from bakeoff.spec import Data, Profile, parse_server

pytestmark = pytest.mark.server

LIMITED = "mysql:8.0.15,storage.iops=2000,file_system=ext4,memory=1G,cpus=1,thp=never"


@pytest.fixture
def work():
    try:
        require([parse_server(LIMITED).machine], Path("/"))
    except BakeoffError as error:
        pytest.skip(error.message)
    folder = work_root() / f"test-{os.getpid()}"
    folder.mkdir(parents=True)
    yield folder
    folder.rmdir()


def created(pool, text):
    spec = parse_server(text)
    installation = install(spec)
    memory = ServerMemory(buffer_pool_bytes=64 << 20, redo_bytes=32 << 20)
    settings = settings_for(installation, spec, Profile.MATCHED, Data(), memory, connections=8)
    return pool.create("A", installation, settings, machine=spec.machine)


def test_a_servers_limits_take_effect_and_survive_a_restart(work):
    with ServerPool(work) as pool:
        pool.prepare([parse_server(LIMITED).machine])
        server = created(pool, LIMITED)
        assert server.home.is_mount()
        server.start()
        folders = server.place.group.folders
        assert server.place.limit_storage(server.datadir, server.variables(), "innodb") == ""
        before = server.place.counters()
        for again in (False, True):
            if again:
                start_cold(server)
            process = psutil.Process(server.pid)
            assert len(process.cpu_affinity()) == 1
            assert "THP_enabled:\t0" in Path(f"/proc/{server.pid}/status").read_text()
            assert all(str(server.pid) in (each / "cgroup.procs").read_text().split() for each in folders)
        assert server.place.counters()["storage.reads"] > before["storage.reads"]  # cold: it read its files again
        server.remove()
        assert not any(each.exists() for each in folders)
        assert not server.home.exists() and not server.home.with_name(f"{server.home.name}.img").exists()


def test_a_server_that_is_killed_at_its_memory_limit_is_told_from_a_crash(work):
    with ServerPool(work) as pool:
        history = "performance_schema_events_statements_history_long_size=500000"  # about 1 GB, written at the start
        server = created(pool, f"mysql:8.0.15,memory=128M,performance_schema=ON,{history}")
        with pytest.raises(ServerError, match="status -9 while starting") as error:
            server.start()
        assert "killed at its memory limit" in error.value.hint


@pytest.mark.slow
def test_servers_that_use_the_page_cache_get_a_memory_limit(work):
    with ServerPool(work) as pool:
        server = created(pool, "mysql:8.0.15,storage.iops=2000,innodb_flush_method=fsync")
        server.start()
        assert "memory is limited" in server.place.limit_storage(server.datadir, server.variables(), "innodb")
        assert server.query("SELECT 1") == [(1,)]
        limits = {
            (folder / name).read_text().strip()
            for folder in server.place.group.folders
            for name in ("memory.limit_in_bytes", "memory.max")
            if (folder / name).exists()
        }
        assert limits & {str((64 + 8 + 400) << 20)}


KILLED = """
    import sys, time
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    from test_servers import LIMITED, created
    from bakeoff.servers import ServerPool
    with ServerPool(Path(sys.argv[1])) as pool:
        server = created(pool, LIMITED)
        server.start()
        print(server.pid, server.home, *server.place.group.folders, flush=True)
        time.sleep(600)
"""


def test_the_next_bakeoff_cleans_up_servers_mounts_and_groups(work):
    here = str(Path(__file__).parent)
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(work), here], stdout=subprocess.PIPE, text=True
    )
    pid, home, *groups = child.stdout.readline().split()
    assert Path(home).is_mount()
    child.send_signal(signal.SIGKILL)
    child.wait()
    with ServerPool(work):
        assert not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE
        assert not Path(home).exists()
        assert not any(Path(each).exists() for each in groups)


@pytest.mark.slow
def test_a_data_dir_holds_the_data_and_is_left_empty(work):
    other = work / "elsewhere"
    other.mkdir(mode=0o755)
    with ServerPool(work) as pool:
        server = created(pool, f"mysql:8.0.15,data_dir={other}")
        assert server.datadir.is_relative_to(other)
        server.start()
    assert list(other.iterdir()) == []
    other.rmdir()


@pytest.mark.slow
def test_a_full_image_is_a_one_line_error(work, monkeypatch):
    monkeypatch.setattr("bakeoff.machine.images.SPARE_BYTES", 16 << 20)
    with ServerPool(work) as pool:
        with pytest.raises(BakeoffError, match="No space left on device") as error:
            created(pool, "mysql:8.0.15,file_system=ext4")
        assert "\n" not in error.value.message
        assert not [each for each in pool.work.iterdir() if each.name != "owner.json" and each.name != "undo.json"]
