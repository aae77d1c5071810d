"""Copies of data directories: same content, same holes, same allocation; a failed copy leaves nothing behind."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from bakeoff.errors import HostError
from bakeoff.servers import datadir
from bakeoff.servers.datadir import copy_tree
from bakeoff.servers.paths import bytes_on_disk


@pytest.fixture
def original(tmp_path):
    folder = tmp_path / "data"
    (folder / "db").mkdir(parents=True)
    (folder / "db/t.ibd").write_bytes(os.urandom(300_000))
    (folder / "empty").touch()
    with (folder / "sparse").open("wb") as file:
        file.truncate(8 << 20)
        file.seek(4 << 20)
        file.write(b"in the middle")
    with (folder / "reserved").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 4 << 20)
        file.write(b"at the start")
    (folder / "link").symlink_to("db/t.ibd")
    (folder / "db/t.ibd").chmod(0o640)
    return folder


def test_content_modes_links_and_allocation_are_kept(original, tmp_path):
    copy_tree(original, tmp_path / "copy", "a test")
    for name in ("db/t.ibd", "empty", "sparse", "reserved"):
        before, after = original / name, tmp_path / "copy" / name
        assert after.read_bytes() == before.read_bytes(), name
        assert after.stat().st_mode == before.stat().st_mode
        assert abs(after.stat().st_blocks - before.stat().st_blocks) <= 16, name
    assert (tmp_path / "copy/link").readlink() == (original / "link").readlink()
    assert (tmp_path / "copy/sparse").stat().st_blocks * 512 < 1 << 20
    assert (tmp_path / "copy/reserved").stat().st_blocks * 512 >= 4 << 20


def test_copies_between_file_systems_keep_the_content(original):
    shared_memory = Path("/dev/shm")
    if not os.access(shared_memory, os.W_OK) or shared_memory.stat().st_dev == original.stat().st_dev:
        pytest.skip("there is only one file system here")
    with tempfile.TemporaryDirectory(dir=shared_memory) as folder:
        copy_tree(original, Path(folder) / "copy", "a test")
        copy_tree(Path(folder) / "copy", original.parent / "back", "a test")
    for name in ("db/t.ibd", "empty", "sparse", "reserved"):
        assert (original.parent / "back" / name).read_bytes() == (original / name).read_bytes(), name


def test_a_copy_is_independent(original, tmp_path):
    copy_tree(original, tmp_path / "copy", "a test")
    with (tmp_path / "copy/db/t.ibd").open("r+b") as file:
        file.write(b"changed")
    assert (original / "db/t.ibd").read_bytes()[:7] != b"changed"


def test_a_full_disk_is_an_error_and_leaves_nothing(original, tmp_path, monkeypatch):
    def no_room(argv, **_more):
        (tmp_path / "copy").mkdir()
        return subprocess.CompletedProcess(argv, 1, "", "cp: error writing 't.ibd': No space left on device\n")

    monkeypatch.setattr(datadir, "run_as_us", no_room)
    with pytest.raises(HostError, match=r"a test: copying failed: cp: .* No space left on device"):
        copy_tree(original, tmp_path / "copy", "a test")
    assert not (tmp_path / "copy").exists()


def test_an_interrupt_leaves_nothing(original, tmp_path, monkeypatch):
    def interrupted(*_arguments, **_more):
        (tmp_path / "copy").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(datadir, "run_as_us", interrupted)
    with pytest.raises(KeyboardInterrupt):
        copy_tree(original, tmp_path / "copy", "a test")
    assert not (tmp_path / "copy").exists()


def test_a_vanished_file_counts_as_zero_bytes(original, monkeypatch):
    monkeypatch.setattr(os, "walk", lambda folder: [(str(folder), [], ["reserved", "just gone"])])
    assert bytes_on_disk(original) == 4 << 20


def test_size_on_disk_counts_blocks(original):
    assert 4 << 20 < bytes_on_disk(original) < 6 << 20
