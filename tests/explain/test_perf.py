"""perf's output becomes stacks in the slices of the right server; missing permission is explained."""

import os
import shutil
import subprocess
import sys

import pytest

from bakeoff.errors import HostError
from bakeoff.explain import off_cpu, perf
from bakeoff.explain.perf import Recorder, Slices, Window, plain_name, samples_of, without_beginning
from bakeoff.explain.profiles import KERNEL, Function
from tests.conftest import wait_for

TEXT = """\
mysqld  4711/4712 12.000000500:
\tffffffff812 copy_user_generic ([kernel.kallsyms])
\tffffffff811 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
\t    7f00aa __libc_recv (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t    5601aa vio_read(Vio*, unsigned char*, unsigned long) (/opt/my sql/bin/mysqld)
\t    560199 handle_connection (/opt/my sql/bin/mysqld)
\t    7f0001 start_thread (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t    7f0002 clone3 (/usr/lib/x86_64-linux-gnu/libc.so.6)

ib_log writer  4712/4713 13.500000000:
\t    5601ff log_write_up_to (/opt/my sql/bin/mysqld (deleted))
\t    000000 [unknown] ([unknown])

"""


def test_stacks_start_at_the_outermost_function():
    (pid, at, stack), (pid_of_other, later, other) = samples_of(TEXT.splitlines(keepends=True))
    assert (pid, at, pid_of_other, later) == (4711, 12_000_000_500, 4712, 13_500_000_000)
    assert without_beginning(stack) == (
        Function("handle_connection", "mysqld"),
        Function("vio_read", "mysqld"),
        Function("__libc_recv", "libc.so.6"),
        Function("copy_user_generic", KERNEL),
    )
    assert other == (Function("[unknown]", "[unknown]"), Function("log_write_up_to", "mysqld"))
    assert without_beginning(other) is other, "its beginning is missing"


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("row_search_mvcc(unsigned char*, page_cur_mode_t, row_prebuilt_t*)", "row_search_mvcc"),
        ("std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector::push_back"),
        ("Item_func::operator()(int)", "Item_func::operator()"),
        ("operator new(unsigned long)", "operator new"),
        ("std::operator<< <std::char_traits<char> >(x)", "std::operator<<"),
        ("(anonymous namespace)::Reader::next()", "Reader::next"),
        ("finish_task_switch.isra.0", "finish_task_switch"),
        ("fold.constprop.12.cold", "fold"),
        ("memcpy@plt", "memcpy"),
        ("recv@@GLIBC_2.2.5", "recv"),
        ("[unknown]", "[unknown]"),
        ("operator delete[](void*)", "operator delete[]"),
    ],
)
def test_symbol_names_lose_arguments_and_compiler_suffixes(symbol, name):
    assert plain_name(symbol) == name


def test_slice_times_come_from_the_message_with_the_least_delay(monkeypatch):
    slices, now = Slices(20), iter((1_000_000_900, 1_000_001_500, 1_000_002_400))
    monkeypatch.setattr(perf.time, "monotonic_ns", lambda: next(now))
    for start, arm in ((100, "A"), (1_000, "B"), (1_900, "A")):  # ends 400 ns before, 100 ns before, 100 ns before
        slices.add({"arm": arm, "start_ns": start + 20, "load_ns": 400, "events": start - 5, "outside_events": 5})
    assert slices.of("A") == [
        Window(1_000_000_200, 1_000_000_600, 100),
        Window(1_000_002_000, 1_000_002_400, 1_900),
    ]
    assert slices.of("B") == [Window(1_000_001_100, 1_000_001_500, 1_000)]


def test_samples_between_slices_are_left_out():
    fold = perf._Samples()
    stack = (Function("f", "mysqld"),)
    fold.add(
        [(99, stack), (100, stack), (150, stack), (201, stack), (300, stack)],
        [Window(100, 200, 7), Window(300, 400, 5)],
    )
    assert (fold.outside, fold.stacks[stack], fold.events, fold.length_ns) == (2, 3, 12, 200)


@pytest.fixture
def asked_anew():
    perf.permission.cache_clear()
    yield
    perf.permission.cache_clear()


def test_a_missing_perf_is_reported(asked_anew, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert perf.permission().reason == ("No profiles and no off-CPU data: perf is not installed (Debian: linux-perf).")


def test_a_missing_permission_to_profile_is_explained(asked_anew, monkeypatch, tmp_path):
    program = tmp_path / "perf"
    program.write_text(
        "#!/bin/sh\necho 'Error:' >&2\necho 'Access to performance monitoring is limited.' >&2\nexit 255\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(perf, "_PARANOID", tmp_path / "paranoid")
    (tmp_path / "paranoid").write_text("4\n")
    assert "kernel.perf_event_paranoid is 4" in perf.permission().reason
    perf.permission.cache_clear()
    (tmp_path / "paranoid").write_text("1\n")
    assert "Access to performance monitoring is limited" in perf.permission().reason


@pytest.mark.parametrize("script", ["echo line; exec >&-; exec sleep 60", "exec sleep 60"])
def test_a_perf_that_hangs_is_an_error(monkeypatch, tmp_path, script):
    program = tmp_path / "perf"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(perf, "_READ_S", 0.5)
    monkeypatch.setattr(perf, "_FOLD_S", 0.2)
    recorder = Recorder({"A": 1}, tmp_path, (), whole=False)
    with pytest.raises(HostError, match="perf failed"), recorder.text() as lines:
        list(lines)


@pytest.mark.parametrize(("refused", "event"), [("--all-cpus", "cpu-clock"), ("--all-cpus*|*:k", "cpu-clock:u")])
def test_permission_to_sample_only_user_code_is_detected(asked_anew, monkeypatch, tmp_path, refused, event):
    """This perf refuses the whole machine and the kernel; asked for both it silently gives user code only."""
    program = tmp_path / "perf"
    program.write_text(f'#!/bin/sh\ncase "$*" in *{refused}*) exit 1;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert perf.permission() == perf.Permission("", event, whole=False)


def test_probing_perf_leaves_nothing_in_the_home_directory(asked_anew, monkeypatch, tmp_path):
    """perf copies every program that it sees to ~/.debug unless told not to."""
    if shutil.which("perf") is None:
        pytest.skip("needs perf")
    monkeypatch.setenv("HOME", str(tmp_path))
    for asked in (off_cpu._reason, off_cpu._buffer):
        asked.cache_clear()
        asked()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("most", "full"), [("64K", True), ("64M", False)])
def test_a_full_recording_is_detected(tmp_path, most, full):
    if perf.permission().reason:
        pytest.skip(perf.permission().reason)
    data = tmp_path / "samples"
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        sampling = ("--event", "cpu-clock:u", "--count", "100003", "-g", "--max-size", most)
        try:
            with perf.Recorder({"A": busy.pid}, tmp_path, sampling, whole=False) as recorder:
                ended = recorder._running.poll
                wait_for(lambda: ended() is not None if full else data.stat().st_size > 64 * 1024)
                recorder.end()
                assert recorder.full is full
        finally:
            busy.kill()


WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""Root as in a container: without CAP_PERFMON, and without a right to processes of other accounts."""


def without_rights(program, *arguments):
    ran = subprocess.run(
        [*WITHOUT_RIGHTS, sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.fixture
def needs_rights_to_lose():
    if shutil.which("perf") is None or shutil.which("setpriv") is None or os.geteuid() != 0:
        pytest.skip("needs perf, setpriv and root")
    if int(perf._PARANOID.read_text()) < 2:
        pytest.skip("kernel.perf_event_paranoid lets everybody sample the kernel")


def test_root_without_capabilities_sees_user_code_only_and_says_so(needs_rights_to_lose):
    said = without_rights(
        "from bakeoff.explain import off_cpu, perf; print(perf.permission().event, '|', off_cpu.hindrance())"
    )
    event, _, why = said.partition(" | ")
    if event:
        assert event == "cpu-clock:u" and why.startswith("No off-CPU data: kernel.perf_event_paranoid")
    else:
        assert "perf may not profile here (kernel.perf_event_paranoid is" in why


def test_a_server_that_may_not_be_profiled_is_a_one_line_error(needs_rights_to_lose, tmp_path):
    sleeping = subprocess.Popen(["setpriv", "--reuid=65534", "--clear-groups", "sleep", "60"])
    try:
        said = without_rights(
            "import sys\nfrom pathlib import Path\nfrom bakeoff.errors import HostError\n"
            "from bakeoff.explain.perf import Recorder\n"
            "try:\n"
            "    with Recorder({'A': int(sys.argv[1])}, Path(sys.argv[2]), ('--event', 'cpu-clock:u'), whole=False):\n"
            "        print('it may')\n"
            "except HostError as error:\n    print(error)",
            str(sleeping.pid), str(tmp_path),
        )  # fmt: skip
    finally:
        sleeping.kill()
        sleeping.wait()
    assert said.startswith("perf failed: ") and "\n" not in said and "limited" in said.lower(), said
