"""The same words in the same places as the original, numbers aside; without a server."""

import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

DRY = ("--mysql-dry-run",)


def masked(out: str) -> list[str]:
    """The output with numbers (and blanks around them) as N; lines that repeat their shape come once."""
    lines = []
    for line in out.splitlines():
        line = re.sub(r"^(sysbench [\d.]+) \(using \w+ LuaJIT .*\)$", r"\1", line)
        line = re.sub(r" *(?<![A-Za-z_])\d+(\.\d+)? *", " N ", line)
        if not lines or line != lines[-1] or line.strip() == "":
            lines.append(line)
    return lines


RUNS = {
    "plain": ("sleepy.lua", "--time=1", "run"),
    "intervals": ("sleepy.lua", "--time=2", "--threads=2", "--report-interval=1", "run"),
    "rate": ("sleepy.lua", "--time=2", "--rate=50", "--report-interval=1", "run"),
    "no percentile": ("sleepy.lua", "--time=1", "--percentile=0", "run"),
    "percentile 99": ("sleepy.lua", "--time=2", "--percentile=99", "--report-interval=1", "run"),
    "seed": ("sleepy.lua", "--events=3", "--rand-seed=7", "run"),
    "forced shutdown": ("sleepy.lua", "--sleep-us=5000000", "--time=1", "--forced-shutdown=1", "--threads=3", "run"),
    "cpu": ("cpu", "--time=1", "--threads=2", "run"),
    "cpu help": ("cpu", "help"),
    "with a database": ("oltp_read_write", *DRY, "--time=1", "run"),
    "database intervals": ("oltp_point_select", *DRY, "--time=2", "--report-interval=1", "--rate=20", "run"),
    "database checkpoints": ("oltp_point_select", *DRY, "--time=2", "--report-checkpoints=1", "run"),
    "deprecated names": ("--test=sleepy.lua", "--num-threads=2", "--max-requests=3", "--max-time=4", "run"),
    "deprecated rate": ("sleepy.lua", "--max-requests=3", "--tx-rate=1000", "run"),
    "validate": ("sleepy.lua", "--events=1", "--validate", "run"),
    "quiet": ("sleepy.lua", "--events=1", "--verbosity=0", "run"),
    "info": ("sleepy.lua", "--events=1", "--verbosity=4", "run"),
    "no command": ("sleepy.lua",),
}  # fmt: skip
HISTOGRAM = ("sleepy.lua", "--time=1", "--histogram", "run")
# Runs that mostly wait.
WAITING = [
    *(RUNS[name] for name in ("plain", "intervals", "rate", "no percentile", "percentile 99", "forced shutdown")),
    RUNS["database intervals"], HISTOGRAM,
]  # fmt: skip


@pytest.fixture(scope="module")
def both(ours, original):
    """`both(arguments)`: what the two print, run at the same time; those of `WAITING` are all begun together."""
    with ThreadPoolExecutor(2 * len(WAITING)) as pool:

        def begin(arguments):
            return [pool.submit(command, *arguments) for command in (ours, original)]

        begun = {arguments: begin(arguments) for arguments in WAITING}
        # Asking for the same arguments again runs them again.
        yield lambda arguments: [each.result() for each in begun.pop(arguments, None) or begin(arguments)]


@pytest.mark.parametrize("arguments", RUNS.values(), ids=RUNS.keys())
def test_output_matches_the_original(both, arguments):
    mine, theirs = both(arguments)
    for _ in range(2):
        # Whether the last interval's line comes before the end is a race in both programs, lost on a busy machine.
        if masked(mine.out) == masked(theirs.out):
            break
        mine, theirs = both(arguments)
    assert (mine.code, masked(mine.out)) == (theirs.code, masked(theirs.out))
    assert mine.err == theirs.err


def test_the_histogram_has_the_originals_head_and_rows(both):
    row = re.compile(r"^ *\d+\.\d{3} \|[* ]{40} \d+$")

    def shape(out: str) -> list[str]:
        lines = ["row" if row.match(line) else line for line in out.splitlines()]
        start = lines.index("Latency histogram (values are in milliseconds)")
        end = lines.index("General statistics:")
        return [line for at, line in enumerate(lines[start:end]) if line != "row" or lines[start + at - 1] != "row"]

    mine, theirs = both(HISTOGRAM)
    assert shape(mine.out) == shape(theirs.out)


def test_numbers_stand_in_the_originals_columns(ours, original):
    mine, theirs = (run("oltp_read_only", *DRY, "--time=1", "run") for run in (ours, original))
    for start in ("min:", "avg:", "max:", "95th percentile:", "sum:"):
        assert len(mine.line(start)) == len(theirs.line(start)) == 53
    for start in ("read:", "transactions:", "queries:", "total time:", "events (avg/stddev):", "ignored errors:"):
        columns = [re.search(r"\d", ran.line(start)).start() for ran in (mine, theirs)]
        assert columns[0] == columns[1], start


REFUSED = {
    "unknown option": ("sleepy.lua", "--no-such-option=1", "run"),
    "unknown command": ("sleepy.lua", "bogus"),
    "command not there": ("sleepy.lua", "prepare"),
    "cpu prepare": ("cpu", "prepare"),
    "no such script": ("no_such_script", "run"),
    "a word too many": ("cpu", "run", "more"),
    "no threads": ("sleepy.lua", "--threads=0", "run"),
    "not a number": ("sleepy.lua", "--threads=x", "run"),
    "a fraction": ("sleepy.lua", "--time=1.5", "run"),
    "percentile": ("sleepy.lua", "--percentile=200", "run"),
    "distribution": ("sleepy.lua", "--rand-type=foo", "run"),
    "shutdown": ("sleepy.lua", "--forced-shutdown=1s", "run"),
    "checkpoint": ("sleepy.lua", "--report-checkpoints=a", "run"),
    "histogram of nothing": ("sleepy.lua", "--histogram", "--percentile=0", "run"),
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED.keys())
def test_usage_errors_match_the_original(ours, original, arguments):
    mine, theirs = ours(*arguments), original(*arguments)
    assert mine.code == theirs.code == 1
    assert (mine.err, masked(mine.out)) == (theirs.err, masked(theirs.out))


SCRIPTS_THAT_FAIL = {
    "event": "function event() error('boom') end",
    "init": "function init() error('boom') end function event() end",
    "thread_init": "function thread_init() error('boom') end function event() end",
    "syntax": "function x(",
    "no event": "x = 1",
}


@pytest.mark.parametrize("text", SCRIPTS_THAT_FAIL.values(), ids=SCRIPTS_THAT_FAIL.keys())
def test_a_script_that_fails_is_reported_in_the_originals_words(ours, original, tmp_path, text):
    (tmp_path / "broken.lua").write_text(text + "\n")
    mine, theirs = (run("broken.lua", "--time=1", "run", cwd=tmp_path) for run in (ours, original))
    assert (mine.code, masked(mine.out)) == (theirs.code, masked(theirs.out))
    assert mine.code == 1


def test_version_matches_the_original(ours, original):
    assert ours("--version").out == original("--version").out == "sysbench 1.0.20\n"


def test_dialect_1_1_has_the_layout_of_the_master_branch(ours):
    ran = ours("sleepy.lua", "--time=1", "--dialect=1.1", "run")
    lines = ran.out.splitlines()
    at = lines.index("Throughput:")
    assert lines[0].startswith("sysbench 1.1.0 (using ")
    assert re.fullmatch(r"    events/s \(eps\):                      \d+\.\d{4}", lines[at + 1])
    assert re.fullmatch(r"    time elapsed:                        1\.\d{4}s", lines[at + 2])
    assert re.fullmatch(r"    total number of events:              \d+", lines[at + 3])
    assert "General statistics:" not in lines


def test_thread_init_timeout_exits_2(ours):
    script = (
        "ffi.cdef('int usleep(unsigned int);') function thread_init() ffi.C.usleep(60000000) end function event() end"
    )
    ran = ours("/dev/stdin", "--thread-init-timeout=1", "--threads=2", "run", stdin=script)
    assert ran.code == 2
    assert "FATAL: Worker threads failed to initialize within 1 seconds!" in ran.out


def test_equal_messages_are_reported_once_with_a_count(ours):
    ran = ours("sleepy.lua", "--threads=4", "--time=1", "--verbosity=4", "run")
    lines = ran.out.splitlines()
    at = lines.index("Time limit exceeded, exiting...")
    assert lines[at + 1] == "(last message repeated 3 times)"


def test_unsupported_features_are_a_one_line_error(ours):
    for arguments in (
        ("memory", "run"),
        ("fileio", "prepare"),
        ("threads", "run"),
        ("mutex", "run"),
        ("oltp_read_only", "--db-driver=pgsql", "run"),
        ("oltp_read_only", "--mysql-compression=on", "run"),
        ("oltp_read_only", "--mysql-ssl-cipher=AES128-SHA", "run"),
    ):
        ran = ours(*arguments, PATH="/nowhere")
        complaints = [line for line in (ran.out + ran.err).splitlines() if "not supported" in line]
        assert ran.code == 1, arguments
        assert len(complaints) == 1, arguments


def test_a_closed_output_pipe_ends_the_run(ours):
    command = [*ours.words, "cpu", "--time=60", "--report-interval=1", "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=30) == -signal.SIGPIPE
