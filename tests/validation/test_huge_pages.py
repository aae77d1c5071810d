"""Moving the large areas of a process to huge pages, on a process that has some."""

import subprocess
import sys

import pytest

from validation import huge_pages
from validation.huge_pages import use_huge_pages

SIZE = 64 * 2**20
FILLED = f"""
import mmap, sys
large = mmap.mmap(-1, {SIZE}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for place in range(0, {SIZE} // 2, 4096):
    large[place] = 1
print("filled", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def process():
    with subprocess.Popen([sys.executable, "-c", FILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"filled\n"
        yield child
        child.stdin.close()


def test_memory_in_use_is_moved_and_the_rest_stays_untouched(process):
    if use_huge_pages(process.pid) == 0:
        pytest.skip("the kernel refuses: it takes Linux 6.1 and CAP_SYS_NICE")
    assert use_huge_pages(process.pid) > 0.9
    used_kb = sum(used_kb for _, _, used_kb, _ in huge_pages._large_areas(process.pid))
    assert SIZE // 2 <= used_kb * 1024 < SIZE // 2 + 8 * 2**20


def test_a_kernel_without_the_call_moves_nothing(process, monkeypatch):
    monkeypatch.setattr(huge_pages, "_PROCESS_MADVISE", 100_000)
    assert use_huge_pages(process.pid) == 0


def test_a_process_that_has_ended_is_reported():
    with subprocess.Popen(["true"]) as child:
        pass
    with pytest.raises(ProcessLookupError):
        use_huge_pages(child.pid)
