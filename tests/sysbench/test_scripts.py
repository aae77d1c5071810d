"""Scripts in the styles that people write, unmodified, on a real server: by us and by the original."""

import json
import re

import pytest

pytestmark = pytest.mark.server


@pytest.fixture(params=["ours", "original"])
def command(request):
    return request.getfixturevalue(request.param)


def test_a_fork_of_oltp_common_runs_with_its_own_options(command, server):
    mine = (*server.options, "--threads=2", "--table-size=40", "--tenants=red,blue", "--label=it''s")
    ran = command("fork_run.lua", *mine, "prepare")
    assert ran.code == 0, ran.out
    # The threads of the original print into each other's lines.
    assert sorted(re.findall("loaded (?:red|blue)", ran.out)) == ["loaded blue", "loaded red"]
    assert server.sql("SELECT COUNT(*), SUM(n), MAX(label) FROM t_blue") == [["40", "1640", "it's"]]
    ran = command("fork_run.lua", *mine, "--strict", "--events=30", "--time=0", "run")
    assert ran.code == 0, ran.out
    # A prepared read, a checked read and an update that changes a row (or, behind the last row, none).
    assert (ran.number("read:"), ran.number("write:") + ran.number("other:")) == (60, 30)
    ran = command("fork_run.lua", *mine, "--strict=off", "--events=30", "--time=0", "run")
    assert ran.number("read:") == 30
    assert command("fork_run.lua", *mine, "cleanup").code == 0


def test_a_tpcc_script_with_ffi_runs(command, server):
    assert command("tpcc_style.lua", *server.options, "prepare").code == 0
    run = ("--events=40", "--time=0", "--threads=2", "--rollbacks=4")
    ran = command("tpcc_style.lua", *server.options, *run, "run")
    assert ran.code == 0, ran.out
    # Each worker rolls back every fourth of its orders: 40 events, however they are shared out.
    counted = ran.number("ignored errors:")
    orders = int(server.sql("SELECT COUNT(*) FROM orders_s")[0][0])
    assert 8 <= counted <= 10
    assert orders == 40 - counted
    assert ran.number("read:") == 40
    assert command("tpcc_style.lua", *server.options, "cleanup").code == 0


def test_a_hook_replaces_the_intermediate_lines(command, server):
    command("tpcc_style.lua", *server.options, "prepare")
    ran = command("tpcc_style.lua", *server.options, "--time=2", "--report-interval=1", "run")
    line = r"^\[ \ds \] thds: \d tps: \d+\.\d\d err/s \d+\.\d\d"
    if "bakeoff" in command.words[0]:
        assert len(re.findall(line + "$", ran.out, re.MULTILINE)) == ran.out.count("[ ") == 2
    else:
        # The original sometimes misses the interval that ends with the run, or prints on behind it.
        assert re.search(line, ran.out, re.MULTILINE)
    command("tpcc_style.lua", *server.options, "cleanup")


def test_custom_commands_run_in_parallel(command):
    ran = command("commands.lua", "--threads=3", "--size=9", "fill")
    assert ran.code == 0
    assert sorted(re.findall(r"fill \d of 3, size 9", ran.out)) == [
        f"fill {thread} of 3, size 9" for thread in range(3)
    ]
    assert "Initializing worker threads..." in ran.out
    alone = command("commands.lua", "--size=4", "fill")
    assert re.findall("fill .*", alone.out) == ["fill 0 of 1, size 4"]
    assert "count 5" in command("commands.lua", "--size=5", "--threads=3", "count").out
    assert "plain prepare, command prepare" in command("commands.lua", "prepare").out
    helped = command("commands.lua", "help")
    assert "commands.lua: fill and count" in helped.out
    assert re.search(r"--fail_in=N +Thread that fails \[-1\]", helped.out)


def test_a_failed_parallel_command_is_a_failure(ours, original):
    arguments = ("commands.lua", "--threads=3", "--fail-in=1", "fill")
    assert original(*arguments).code == 0, "the original's bug, which is mended here"
    ran = ours(*arguments)
    assert ran.code == 1
    assert "thread 1 was asked to fail" in ran.out


def test_the_legacy_api_works(command, server):
    mine = (*server.options, "--legacy-rows=60")
    assert command("--test=legacy.lua", *mine, "prepare").code == 0
    assert server.sql("SELECT COUNT(*) FROM legacy_t") == [["60"]]
    ran = command("legacy.lua", *mine, "--max-requests=30", "--num-threads=2", "run")
    assert ran.code == 0, ran.out
    assert (ran.number("read:"), ran.number("write:")) == (30, 30)
    assert command("legacy.lua", *mine, "cleanup").code == 0


def test_hooks_print_json_reports(command, ours, server):
    ran = command("hooks.lua", *server.options, "--time=2", "--report-interval=1", "run")
    assert ran.code == 0, ran.out
    arrays = re.findall(r"^\[\n.*?^\]$", ran.out, re.DOTALL | re.MULTILINE)
    if command.words != ours.words:
        # The original sometimes misses the interval that ends with the run, or prints only the comma before it.
        arrays = [re.sub(r",\n+\]$", "\n]", array) for array in arrays]
    intermediate, cumulative = [json.loads(array) for array in arrays]
    assert [report["time"] for report in intermediate] in ([1, 2], [1])
    assert intermediate[0]["tps"] > 0 and intermediate[0]["errors"] > 0
    assert cumulative[0]["threads"] == 0
    assert cumulative[0]["qps"]["reads"] == pytest.approx(cumulative[0]["qps"]["total"])


def test_an_error_that_is_not_ignored_ends_the_run(command, server, tmp_path):
    (tmp_path / "broken.lua").write_text(
        "function thread_init() con = sysbench.sql.driver():connect() end\n"
        "function event() con:query('SELECT * FROM no_such_table') end\n"
    )
    ran = command("broken.lua", *server.options, "run", cwd=tmp_path)
    assert ran.code == 1
    words = "mysql_drv_query() returned error 1146 (Table 'sysbench_drop_in.no_such_table' doesn't exist) for query"
    assert f"FATAL: {words} 'SELECT * FROM no_such_table'" in ran.out
    assert "FATAL: `thread_run' function failed: broken.lua:2: SQL error, errno = 1146, state = '42S02'" in ran.out


def test_a_refused_account_is_reported_in_the_originals_words(command, server):
    ran = command("hooks.lua", f"--mysql-socket={server.socket}", "--mysql-user=nobody_here", "run")
    assert ran.code == 1
    assert f"FATAL: unable to connect to MySQL server on socket '{server.socket}', aborting..." in ran.out
    assert "FATAL: error 1045: Access denied for user 'nobody_here'@'localhost' (using password: NO)" in ran.out
    assert "FATAL: `thread_init' function failed: hooks.lua:6: " in ran.out
    assert "FATAL: Thread initialization failed!" in ran.out


@pytest.mark.parametrize("name", ["prepare", "prewarm", "run", "cleanup"])
def test_replaced_globals_of_oltp_common_are_called_as_by_the_original(ours, original, name):
    arguments = ("replaced.lua", "--mysql-dry-run", "--tables=2", "--table-size=3", "--events=1", "--time=0", name)
    said = r"^(?:global .*|\w+ calls \w+)$"
    mine, theirs = (set(re.findall(said, command(*arguments).out, re.MULTILINE)) for command in (ours, original))
    assert theirs - mine == set()
    assert {line for line in mine - theirs if " calls " in line} == set()
