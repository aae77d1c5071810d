"""What perf prints, as stacks in the slices of the right server; and what is said where it may not profile."""

import pytest

from bakeoff.results.profiles import KERNEL, Function
from bakeoff.run import perf
from bakeoff.run.perf import Slices, Window, counters_of, plain_name, samples_of, without_beginning

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


def test_stacks_are_read_from_the_outermost_function_on():
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
def test_names_are_without_arguments_and_what_compilers_append(symbol, name):
    assert plain_name(symbol) == name


def test_slices_lie_where_the_soonest_message_puts_them(monkeypatch):
    slices, now = Slices(), iter((1_000_000_900, 1_000_001_500, 1_000_002_400))
    monkeypatch.setattr(perf.time, "monotonic_ns", lambda: next(now))
    for start, arm in ((100, "A"), (1_000, "B"), (1_900, "A")):  # ends 400 ns before, 100 ns before, 100 ns before
        slices.add({"arm": arm, "start_ns": start, "length_ns": 400, "events": start})
    assert slices.of("A") == [
        Window(1_000_000_200, 1_000_000_600, 100),
        Window(1_000_002_000, 1_000_002_400, 1_900),
    ]
    assert slices.of("B") == [Window(1_000_001_100, 1_000_001_500, 1_000)]


def test_samples_between_slices_are_left_out():
    fold = perf._Fold()
    stack = (Function("f", "mysqld"),)
    fold.add(
        [(99, stack), (100, stack), (150, stack), (201, stack), (300, stack)],
        [Window(100, 200, 7), Window(300, 400, 5)],
    )
    assert (fold.outside, fold.stacks[stack], fold.events, fold.length_ns) == (2, 3, 12, 200)


def test_counters_that_a_machine_does_not_have_are_left_out():
    text = (
        "12345,,instructions:u,100,100.00,,\n<not supported>,,cycles,0,100.00,,\n<not counted>,,cache-misses,0,0.00,,\n"
    )
    assert counters_of(text) == {"instructions": 12345}


@pytest.fixture
def asked_anew():
    perf.permission.cache_clear()
    yield
    perf.permission.cache_clear()


def test_without_perf_it_is_said_in_a_sentence(asked_anew, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert perf.hindrance([]) == (
        "perf is not installed, so profiles and off-CPU time cannot be had (Debian: linux-perf)."
    )


def test_without_permission_it_is_said_why(asked_anew, monkeypatch, tmp_path):
    program = tmp_path / "perf"
    program.write_text(
        "#!/bin/sh\necho 'Error:' >&2\necho 'Access to performance monitoring is limited.' >&2\nexit 255\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(perf, "_PARANOID", tmp_path / "paranoid")
    (tmp_path / "paranoid").write_text("4\n")
    assert "kernel.perf_event_paranoid is 4" in perf.hindrance([])
    perf.permission.cache_clear()
    (tmp_path / "paranoid").write_text("1\n")
    assert "Access to performance monitoring is limited" in perf.hindrance([])


@pytest.mark.parametrize(
    ("user", "paranoid", "event"), [(0, 2, "cpu-clock"), (1000, 1, "cpu-clock"), (1000, 2, "cpu-clock:u")]
)
def test_where_only_user_code_may_be_sampled_it_is_known(asked_anew, monkeypatch, tmp_path, user, paranoid, event):
    """perf refuses the whole machine here, and takes any event of threads."""
    program = tmp_path / "perf"
    program.write_text('#!/bin/sh\ncase "$*" in *--all-cpus*) exit 1;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(perf, "_PARANOID", tmp_path / "paranoid")
    (tmp_path / "paranoid").write_text(f"{paranoid}\n")
    monkeypatch.setattr(perf.os, "geteuid", lambda: user)
    assert perf.permission() == perf.Permission("", event, whole=False, hardware=())
