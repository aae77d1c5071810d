"""Control groups, on trees of files in place of the kernel's."""

import json
import os

import pytest

from bakeoff.errors import HostError
from bakeoff.machine import groups, undo
from bakeoff.machine.devices import Device
from bakeoff.machine.groups import Group, find_tree
from bakeoff.machine.undo import Undo
from bakeoff.spec.machine import Storage

DISK = Device(8, 16, "sdb")


def old_tree(root, *controllers):
    for each in controllers:
        (root / each).mkdir(parents=True)
        (root / each / "cgroup.procs").write_text("")
    own = root / "own"
    own.write_text("".join(f"{n}:{each}:/\n" for n, each in enumerate(controllers)))
    return root, own


def new_tree(root, *, at="", enabled="io memory", controllers="io memory cpu"):
    for folder in (root, root / at):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.subtree_control").write_text(enabled)
        (folder / "cgroup.procs").write_text("")
    own = root / "own"
    own.write_text(f"0::/{at}\n")
    return root, own


def test_cgroup_v1_has_a_folder_for_each_controller(tmp_path):
    mount, own = old_tree(tmp_path / "cg", "blkio", "memory")
    group = Group("bakeoff-1", ("io", "memory"), Undo(tmp_path), mount, own)
    group.limit_storage(DISK, Storage(read_iops=1000, write_bandwidth=2 << 20))
    group.limit_memory(1 << 30)
    blkio = mount / "blkio/bakeoff-1"
    assert (blkio / "blkio.throttle.read_iops_device").read_text() == "8:16 1000"
    assert (blkio / "blkio.throttle.write_bps_device").read_text() == "8:16 2097152"
    assert not (blkio / "blkio.throttle.write_iops_device").exists()
    assert (mount / "memory/bakeoff-1/memory.limit_in_bytes").read_text() == str(1 << 30)
    assert group.procs == (str(blkio / "cgroup.procs"), str(mount / "memory/bakeoff-1/cgroup.procs"))


def test_cgroup_v1_counts_only_the_given_device(tmp_path):
    mount, own = old_tree(tmp_path / "cg", "blkio")
    group = Group("g", ("io",), Undo(tmp_path), mount, own)
    (mount / "blkio/g/blkio.throttle.io_serviced").write_text("8:0 Read 9\n8:16 Read 5\n8:16 Write 6\nTotal 20\n")
    (mount / "blkio/g/blkio.throttle.io_service_bytes").write_text("8:16 Read 500\n8:16 Write 600\n")
    assert group.storage_counters(DISK) == {
        "storage.reads": 5, "storage.writes": 6, "storage.read_bytes": 500, "storage.write_bytes": 600
    }  # fmt: skip


def test_cgroup_v2_has_one_folder(tmp_path):
    mount, own = new_tree(tmp_path / "cg", at="service")
    group = Group("bakeoff-1", ("io", "memory"), Undo(tmp_path), mount, own)
    assert group.folders == [mount / "service/bakeoff-1"]
    group.limit_storage(DISK, Storage(read_iops=10, write_iops=20))
    group.limit_memory(1 << 30)
    assert (group.folders[0] / "io.max").read_text() == "8:16 riops=10 wiops=20"
    assert (group.folders[0] / "memory.max").read_text() == str(1 << 30)
    (group.folders[0] / "io.stat").write_text("8:16 rbytes=500 wbytes=600 rios=5 wios=6 dbytes=0 dios=0\n")
    assert group.storage_counters(DISK)["storage.read_bytes"] == 500
    assert not group.killed_at_memory_limit(), "the kernel does not say"
    for kills in (0, 1):
        (group.folders[0] / "memory.events").write_text(f"oom 2\noom_kill {kills}\n")
        assert group.killed_at_memory_limit() == bool(kills)
    assert group.storage_counters(Device(8, 0, "sda"))["storage.reads"] == 0


def test_an_idle_device_without_numbers_in_io_stat_is_counted_as_zero(tmp_path):
    mount, own = new_tree(tmp_path / "cg")
    group = Group("g", ("io",), Undo(tmp_path), mount, own)
    stat = group.folders[0] / "io.stat"
    stat.write_text("8:16\n8:0 rbytes=500 wbytes=600 rios=5 wios=6\n")
    assert set(group.storage_counters(DISK).values()) == {0}
    stat.write_text("7:0 8:16 rbytes=500 wbytes=600 rios=5 wios=6\n")  # Linux 5.14 to 5.18
    assert group.storage_counters(DISK)["storage.reads"] == 5
    assert group.storage_counters(Device(7, 0, "loop0"))["storage.reads"] == 0


def test_cgroup_v2_enables_a_disabled_controller(tmp_path):
    mount, own = new_tree(tmp_path / "cg", enabled="memory")
    assert find_tree("io", mount, own).parent == mount
    assert (mount / "cgroup.subtree_control").read_text() == "+io"


def test_processes_of_a_delegated_group_move_into_a_child_group(tmp_path, monkeypatch):
    """The kernel does not enable controllers for child groups while the parent itself has processes."""
    mount, own = new_tree(tmp_path / "cg", at="user", enabled="")
    (mount / "user/cgroup.procs").write_text("17\n")
    inner = mount / "user/bakeoff-self"

    def add(parent, controller):
        if parent == mount or not (inner / "cgroup.procs").exists():
            raise OSError(16, "busy")
        (parent / "cgroup.subtree_control").write_text(f"+{controller}")

    monkeypatch.setattr(groups, "_add", add)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert find_tree("io", mount, own).parent == mount / "user"
    assert (inner / "cgroup.procs").read_text() == "17"


def test_a_missing_controller_is_an_error(tmp_path):
    mount, own = new_tree(tmp_path / "cg", enabled="", controllers="cpu")
    with pytest.raises(HostError, match="does not have it") as error:
        find_tree("io", mount, own)
    assert "as root" in error.value.hint


def test_missing_control_groups_are_an_error(tmp_path):
    with pytest.raises(HostError, match="no control groups for memory") as error:
        find_tree("memory", tmp_path, tmp_path / "own")
    assert "container" in error.value.hint


def test_a_read_only_tree_is_an_error(tmp_path, monkeypatch):
    """As in a container, where it is mounted read-only."""
    mount, own = old_tree(tmp_path / "cg", "blkio")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(HostError, match=r"may not make a control group for io in .*blkio"):
        find_tree("io", mount, own)


def test_a_containers_group_outside_the_mount_is_ignored(tmp_path):
    mount, own = old_tree(tmp_path / "cg", "memory")
    own.write_text("3:memory:/../../outside\n")
    assert find_tree("memory", mount, own).parent == mount / "memory"


def test_a_group_is_recorded_and_can_be_undone(tmp_path):
    mount, own = old_tree(tmp_path / "cg", "blkio", "memory")
    folder = tmp_path / "pool"
    folder.mkdir()
    group = Group("g", ("io", "memory"), Undo(folder), mount, own)
    assert json.loads((folder / "undo.json").read_text()) == [["group", str(each), "g"] for each in group.folders]
    undo(folder)  # what the next bakeoff does
    assert not any(each.exists() for each in group.folders)


def test_a_removed_group_is_forgotten(tmp_path):
    mount, own = old_tree(tmp_path / "cg", "memory")
    record = Undo(tmp_path)
    group = Group("g", ("memory",), record, mount, own)
    record.take_back("other")
    assert group.folders[0].exists()
    record.take_back("g")
    assert json.loads((tmp_path / "undo.json").read_text()) == []
    assert not group.folders[0].exists()
