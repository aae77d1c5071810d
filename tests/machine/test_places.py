"""Devices, CPUs, huge pages and images: what is requested of the machine, and the error if it is not available."""

import contextlib
import os
import subprocess

import pytest

from bakeoff.errors import HostError
from bakeoff.machine import huge_pages, images, require, undo
from bakeoff.machine.devices import Device, device_counters, device_of
from bakeoff.machine.place import cpus_of, evict, reads_directly
from bakeoff.machine.undo import Undo
from bakeoff.spec.machine import Machine, Storage

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


def fake_disk(root, number, *, partition_of=""):
    """A /sys in which a device number leads to sdb, or to its partition sdb1."""
    disk = root / "devices/sdb"
    place = disk / "sdb1" if partition_of else disk
    place.mkdir(parents=True)
    (disk / "dev").write_text(f"{partition_of or number}\n")
    if partition_of:
        (place / "partition").write_text("1\n")
    (root / "dev/block").mkdir(parents=True)
    (root / f"dev/block/{number}").symlink_to(place)
    return root


def test_a_partition_is_limited_through_its_disk(tmp_path):
    number = tmp_path.stat().st_dev
    sys = fake_disk(tmp_path / "sys", f"{os.major(number)}:{os.minor(number)}", partition_of="8:16")
    assert device_of(tmp_path, sys) == Device(8, 16, "sdb")


def test_tmpfs_cannot_be_limited():
    with pytest.raises(HostError, match="tmpfs, which has no block device"):
        device_of(next(place for place in map(type(images.Path()), ("/dev/shm", "/run")) if place.is_dir()))


def test_counters_are_read_for_one_device(tmp_path):
    line = "   8 16 sdb 100 1 800 50 200 2 1600 70 0 90 120 0 0 0 0 0 0\n"
    (tmp_path / "diskstats").write_text("   8 0 sda 1 1 1 1 1 1 1 1 1 1 1\n" + line)
    found = device_counters(Device(8, 16, "sdb"), tmp_path)
    found.pop("device.elapsed_ms")
    assert found == {
        "device.reads": 100, "device.read_bytes": 800 * 512, "device.read_ms": 50, "device.writes": 200,
        "device.write_bytes": 1600 * 512, "device.write_ms": 70, "device.busy_ms": 90, "device.queue_ms": 120,
    }  # fmt: skip


def fake_cpus(root, monkeypatch, *, cores, threads, unusable=(), offline=()):
    """A /sys whose core c has the CPUs c, c + cores and so on, as the kernel numbers them."""
    online = [cpu for cpu in range(cores * threads) if cpu not in offline]
    for cpu in online:
        place = root / f"devices/system/cpu/cpu{cpu}/topology"
        place.mkdir(parents=True)
        siblings = [str(each) for each in online if each % cores == cpu % cores]
        (place / "thread_siblings_list").write_text(",".join(siblings) + "\n")
    usable = set(online) - set(unusable)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: usable)
    return usable


@pytest.mark.parametrize(
    ("cores", "threads", "unusable", "offline"),
    [
        (2, 2, (), ()),
        (8, 2, (0,), ()),
        (32, 2, range(32, 36), (1, 40)),
        (64, 2, range(16, 64), ()),
        (128, 1, (), (0,)),
        (128, 2, range(128), ()),
        (64, 4, (), (3, 67)),
    ],
)
def test_cpus_are_taken_one_per_core_first(tmp_path, monkeypatch, cores, threads, unusable, offline):
    usable = fake_cpus(tmp_path, monkeypatch, cores=cores, threads=threads, unusable=unusable, offline=offline)
    usable_cores = {cpu % cores for cpu in usable}
    for count in (1, 2, len(usable_cores), len(usable)):
        found = cpus_of(Machine(cpus=count), tmp_path)
        assert len(found) == count
        assert found <= usable
        assert len({cpu % cores for cpu in found}) == min(count, len(usable_cores))


def test_neighbouring_cpus_of_one_core_are_recognised(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    for cpu, siblings in enumerate(("0-1", "0-1", "2,3", "2,3")):
        place = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(siblings + "\n")
    assert cpus_of(Machine(cpus=2), tmp_path) == {0, 2}
    assert cpus_of(Machine(cpus=3), tmp_path) == {0, 1, 2}
    assert cpus_of(Machine(), tmp_path) is None
    with pytest.raises(HostError, match="5 requested, but only 4 are usable"):
        cpus_of(Machine(cpus=5), tmp_path)


@pytest.mark.parametrize(
    ("variables", "engine", "direct"),
    [
        ({"innodb_flush_method": "O_DIRECT"}, "innodb", True),
        ({"innodb_flush_method": "O_DIRECT_NO_FSYNC"}, "innodb", True),
        ({"innodb_flush_method": "fsync"}, "innodb", False),
        ({"innodb_data_file_buffering": "OFF"}, "innodb", True),
        ({"innodb_flush_method": "O_DIRECT"}, "myisam", False),
        ({"innodb_flush_method": "O_DIRECT"}, "rocksdb", False),
        ({"rocksdb_use_direct_reads": "ON"}, "rocksdb", True),
    ],
)
def test_direct_reads_depend_on_engine_and_options(variables, engine, direct):
    assert reads_directly(variables, engine) is direct


def test_the_machine_gets_the_highest_requested_huge_page_mode(tmp_path):
    file = tmp_path / "enabled"
    file.write_text("always [madvise] never\n")
    record = Undo(tmp_path)
    assert huge_pages.raise_machine(["", "never"], record, file) == "madvise"
    assert huge_pages.mode_now(file) == "madvise"
    assert huge_pages.raise_machine(["never", "always", ""], record, file) == "madvise"
    assert file.read_text() == "always"
    assert '["huge pages", "madvise", ""]' in (tmp_path / "undo.json").read_text()


def test_a_server_is_restricted_below_the_machines_huge_page_mode(tmp_path):
    file = tmp_path / "enabled"
    file.write_text("[always] madvise never")
    assert [huge_pages.restriction(mode, file) for mode in ("always", "madvise", "never", "")] == [None, 2, 0, None]
    file.write_text("always [madvise] never")
    assert [huge_pages.restriction(mode, file) for mode in ("madvise", "never")] == [None, 0]


def test_an_arm_without_a_huge_page_mode_needs_the_machines(tmp_path, monkeypatch):
    file = tmp_path / "enabled"
    file.write_text("always [madvise] never")
    monkeypatch.setattr(huge_pages, "_knows_advised", lambda: False)
    with pytest.raises(HostError, match=r"takes Linux 6\.18"):
        huge_pages.require(["", "always"], file)
    huge_pages.require(["never", "always"], file)
    huge_pages.require(["", "never"], file)
    huge_pages.require(["always"], file)
    file.write_text("always madvise [never]")
    huge_pages.require(["", "always"], file)


def test_missing_huge_pages_are_an_error(tmp_path):
    with pytest.raises(HostError, match="no transparent huge pages"):
        huge_pages.require(["never"], tmp_path / "none")
    huge_pages.require([""], tmp_path / "none")


def test_a_missing_data_dir_is_an_error(tmp_path):
    with pytest.raises(HostError, match="not a folder that bakeoff may write to"):
        require([Machine(data_dir=str(tmp_path / "none"))], tmp_path)


def test_latency_without_the_delay_target_is_refused(tmp_path):
    with pytest.raises(HostError, match="no device-mapper target `delay`"):
        images.require_delay(tmp_path)


def test_missing_loop_devices_and_mkfs_are_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(images.shutil, "which", lambda *_, **__: "/sbin/mkfs.xfs")
    with pytest.raises(HostError, match="no loop devices") as error:
        images.require("xfs", dev=tmp_path)
    assert "container" in error.value.hint
    monkeypatch.setattr(images.shutil, "which", lambda *_, **__: None)
    with pytest.raises(HostError, match=r"mkfs.xfs is not installed") as error:
        images.require("xfs", dev=tmp_path)
    assert error.value.hint == "Run: apt-get install xfsprogs"


def test_an_unknown_file_system_is_an_error_even_without_modprobe(tmp_path, monkeypatch):
    (tmp_path / "filesystems").write_text("\text4\n")
    (tmp_path / "loop-control").touch()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(images.shutil, "which", lambda name, **_: None if name == "modprobe" else f"/sbin/{name}")
    with pytest.raises(HostError, match="file_system xfs: this kernel does not know it"):
        images.require("xfs", proc=tmp_path, dev=tmp_path)


def test_system_programs_are_found_without_sbin_in_path(tmp_path, monkeypatch):
    """As for root after `su` on Debian."""
    searched = []

    def run(command, *, env, **_):
        searched.append((command[0], env["PATH"]))
        return subprocess.CompletedProcess(command, 0, "delay\n", "")

    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(images.subprocess, "run", run)
    monkeypatch.setattr(images.shutil, "which", lambda name, path: f"/usr/sbin/{name}" if "sbin" in path else None)
    monkeypatch.setattr(images, "attached", lambda _: contextlib.nullcontext("/dev/loop7"))
    monkeypatch.setattr(images, "mount", lambda *_: None)
    (tmp_path / "mapper").mkdir()
    (tmp_path / "mapper/control").touch()
    images.require_delay(tmp_path)
    home = tmp_path / "001"
    images.mount_image(home, "ext4", size_bytes=1, latency_ms=5, undo=Undo(tmp_path), name="x")
    assert searched == [(name, "/usr/bin:/bin:/usr/sbin:/sbin") for name in ("dmsetup", "dmsetup", "mkfs.ext4")]


def test_a_delay_is_a_device_below_the_file_system(tmp_path, monkeypatch):
    commands = []

    def run(command, **_):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(images.subprocess, "run", run)
    monkeypatch.setattr(images, "attached", lambda _: contextlib.nullcontext("/dev/loop7"))
    monkeypatch.setattr(images, "mount", lambda *mounted: commands.append(mounted))
    home = tmp_path / "pool-abcd" / "001"
    home.mkdir(parents=True)
    images.mount_image(home, "ext4", size_bytes=1, latency_ms=5, undo=Undo(tmp_path), name="bakeoff-abcd-001")
    delayed = "/dev/mapper/bakeoff-abcd-001"
    assert commands[0] == ("dmsetup", "create", "bakeoff-abcd-001", "--table", "0 2048 delay /dev/loop7 0 5")
    assert (commands[1][0], commands[1][-1]) == ("mkfs.ext4", delayed)
    assert commands[2] == (delayed, home, "ext4")


def loops():
    return subprocess.run(["losetup", "--list", "--noheadings"], capture_output=True, text=True, check=False).stdout


@as_root
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_an_image_is_mounted_and_leaves_nothing(tmp_path, kind):
    try:
        images.require(kind)
    except HostError as error:
        pytest.skip(error.message)
    home = tmp_path / "001"
    home.mkdir()
    try:
        images.mount_image(home, kind, size_bytes=400 << 20, latency_ms=0, undo=Undo(tmp_path), name="bakeoff-abcd-001")
        assert home.is_mount()
        assert device_of(home).name.startswith("loop")
        assert f"{tmp_path}/" in loops()
        (home / "file").write_bytes(os.urandom(1 << 20))
        with pytest.raises(OSError, match="No space left"), (home / "full").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 1 << 30)
    finally:
        undo(tmp_path)  # as the next bakeoff does after a kill
    assert not home.is_mount()
    assert not (tmp_path / "001.img").exists()
    assert f"{tmp_path}/" not in loops()


@as_root
def test_a_failed_mkfs_is_a_one_line_error_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(images._MKFS, "ext4", ("mkfs.ext4", "-b", "7"))
    home = tmp_path / "001"
    home.mkdir()
    with pytest.raises(HostError, match=r"file_system ext4 could not be made: mkfs.ext4: .*") as error:
        images.mount_image(home, "ext4", size_bytes=1, latency_ms=0, undo=Undo(tmp_path), name="bakeoff-abcd-001")
    assert "\n" not in str(error.value)
    undo(tmp_path)
    assert f"{tmp_path}/" not in loops()


def test_evicted_files_keep_their_content(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_bytes(b"x" * 10_000)
    evict(tmp_path)
    assert (tmp_path / "a/b").read_bytes() == b"x" * 10_000


def test_storage_limits_are_described_in_words():
    assert (
        str(Storage(read_iops=3000, write_iops=3000, read_bandwidth=125 << 20)) == "3,000 IOPS each way, 131 MB/s read"
    )
    assert str(Storage(read_iops=10, latency_ms=2)) == "10 IOPS read, 2 ms more a request"
