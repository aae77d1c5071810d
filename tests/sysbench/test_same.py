"""Every row of docs/reference/sysbench.md that says *same*: original and drop-in get the same input."""

import re
import shlex
from pathlib import Path

import pytest

from tests.sysbench.conftest import Command

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "sysbench.md").read_text(encoding="utf-8")
SAME = set(re.findall(r"^\| `([^`]+)` \| same \|", PAGE, re.MULTILINE))
# Rows that are the same as sysbench's master, but not Debian's package. See test_layout and test_options.
OF_MASTER = {
    "--thread-init-timeout", "--luajit-cmd", "--rand-zipfian-exp", "--mysql-ssl-key", "--mysql-ssl-ca",
    "--mysql-ssl-cert", "sysbench.rand.zipfian", "sysbench.rand.varstring", "con:more_results", "con:next_result",
    "stmt:next_result",
}  # fmt: skip
# The original ends with a signal.
DEADLY = {"con:reconnect"}


def masked(out: str) -> str:
    """Mask measured numbers, the version of LuaJIT, and places within the package's own Lua."""
    out = re.sub(r"\(using \w+ LuaJIT [\w.-]+\)", "(using LuaJIT)", out)
    out = re.sub(r"/usr/share/sysbench/|oltp_common\.lua:\d+: |\[string \"[^\"]+\"\]:\d+: ", "", out)
    out = re.sub(r" *\d+\.\d+", " N", out)
    return re.sub(r"(total number of events: +|events \(avg.*)\d+", r"\1N", out)


def both(ours, original, line, **how):
    arguments = shlex.split(line)
    return ours(*arguments, **how), original(*arguments, **how)


def assert_same(mine, theirs):
    assert (mine.code, masked(mine.err), masked(mine.out)) == (theirs.code, masked(theirs.err), masked(theirs.out))


RUN = "sleepy.lua --events=1 --time=0 --sleep-us=1"
# One case per line. Each general option has a usual value, no value, a wrong one and one out of range,
# as far as the original survives that.
LINES = f"""
{RUN} run --thread-stack-size=128K --debug
{RUN} run --threads=x
{RUN} run --threads=
{RUN} run --threads
{RUN} run --threads=0
sleepy.lua --sleep-us=300000 --time=1 --events run
{RUN} run --events=1.5
{RUN} run --time=-1
{RUN} run --time=
{RUN} run --forced-shutdown=off
{RUN} run --forced-shutdown=3 --time=2
{RUN} run --forced-shutdown --time=2
{RUN} run --forced-shutdown=1s
{RUN} run --thread-stack-size=abc
{RUN} run --thread-stack-size=0
{RUN} run --report-interval=1
{RUN} run --report-interval=x
{RUN} run --report-checkpoints=3,2
{RUN} run --report-checkpoints=a
{RUN} run --report-checkpoints=-1
{RUN} run --rate=1000
{RUN} run --rate=x
{RUN} run --debug=off --validate=on
{RUN} run --debug=maybe
{RUN} run --validate=
{RUN} run --nope=1 --validate=maybe
{RUN} run --validate=maybe --nope=1
{RUN} run --zzz=1 --aaa=2 --mmm
{RUN} run --config-file=
{RUN} run --config-file=/nowhere
{RUN} run --config-file
{RUN} run --
{RUN} run more
{RUN} run --tx-rate=1000
{RUN} run --max-requests=2 --events=1
{RUN} run --max-time=0 --max-requests=0 --num-threads=1
{RUN} run --num-threads=2 --threads=1 --max-time=3
{RUN} run --num-threads=0
{RUN} run --verbosity=0 --num-threads=2 --max-time=3
{RUN} run --verbosity=0
{RUN} run --verbosity=1
{RUN} run --verbosity=4
{RUN} run --verbosity=5
{RUN} run --verbosity=9
{RUN} run --verbosity=256
{RUN} run --verbosity=-1
{RUN} run --verbosity=x
--test=sleepy.lua --sleep-us=1 --events=1 run
--test=sleepy.lua
--test= run
{RUN} run --rand-type=uniform --rand-seed=7
{RUN} run --rand-type=gaussian --rand-spec-iter=2
{RUN} run --rand-type=special --rand-spec-pct=5 --rand-spec-res=50
{RUN} run --rand-type=pareto --rand-pareto-h=0.3
{RUN} run --rand-type=nope
{RUN} run --rand-spec-iter=x
{RUN} run --rand-spec-iter=0
{RUN} run --rand-spec-pct=101
{RUN} run --rand-spec-res=-1
{RUN} run --rand-pareto-h=x
{RUN} run --rand-seed=x
{RUN} run --percentile=99
{RUN} run --percentile=0
{RUN} run --percentile=x
{RUN} run --percentile=101
{RUN} run --percentile
{RUN} run --histogram=maybe
{RUN} run --histogram --percentile=0
{RUN} run --db-driver=nope --db-ps-mode=nope --db-debug=on
{RUN} run --mysql-host=a,b --mysql-port=x,1 --mysql-socket= --mysql-user --mysql-password --mysql-db=x
{RUN} run --mysql-password
{RUN} run --mysql-ssl=maybe
{RUN} run --mysql-ssl=on --mysql-debug=off --mysql-dry-run=off
{RUN} run --mysql-dry-run=maybe
{RUN} run --mysql-ignore-errors=abc,1
{RUN} run --mysql-ssl-cipher= --mysql-compression=off --pgsql-host=x --pgsql-port=1 --pgsql-user=x --pgsql-db=x
--version
--version=on --threads=2
--help=maybe
--debug=maybe
--debug=maybe no_such_script run
-h
cpu
cpu help
cpu prepare
cpu cleanup
cpu bogus
cpu run more
cpu --events=1 --time=0 run
cpu --events=2 --time=0 --cpu-max-prime=100 --threads=2 run
cpu --cpu-max-prime=0 run
cpu --cpu-max-prime=x run
cpu --cpu-max-prime run
cpu --zzz=1 --aaa=2 run
cpu --rate=2000000000 --time=1 run
sleepy.lua
sleepy.lua prepare
sleepy.lua cleanup
sleepy.lua bogus
sleepy.lua help
./sleepy.lua help
sleepy help
sleepy --events=1 run
sleepy.lua --sleep-us=abc --events=1 run
sleepy.lua --sleep-us --events=1 run
no_such_script
no_such_script run
no_such_script help
run
oltp_point_select
oltp_point_select bogus
oltp_point_select --mysql-dry-run --events=1 --time=0 run
oltp_read_only --mysql-dry-run --range-size=abc --tables=2 --events=3 --time=0 run
oltp_point_select --mysql-dry-run --tables=0 --events=1 run
oltp_point_select --db-driver=nope cleanup
oltp_point_select --db-driver=nope --events=1 run
oltp_point_select --db-ps-mode=nope cleanup
oltp_point_select --mysql-host= cleanup
options.lua help
options.lua prepare
options.lua --table-size=abc prepare
options.lua --table-size=5x prepare
options.lua --table-size prepare
options.lua --table_size=1e3 prepare
options.lua --table-size=0x10 prepare
options.lua --words=a,,b prepare
options.lua --words prepare
options.lua --text prepare
options.lua --text= prepare
options.lua --flag --on-flag=off prepare
options.lua --flag=1 --on-flag=false prepare
options.lua --flag=maybe prepare
options.lua --flag=YES prepare
options.lua --flag= prepare
commands.lua help
commands.lua count
commands.lua bogus
"""


@pytest.mark.parametrize("line", LINES.strip().splitlines())
def test_command_lines_behave_like_the_original(ours, original, line):
    assert_same(*both(ours, original, line))


# One case per line. Both streams are compared as one, so warnings, errors and answers come in the same order.
ORDER = """
--max-requests=1 --test=sleepy.lua --sleep-us=1 run
--tx-rate=1000 --max-time=3 --max-requests=1 --num-threads=2 --test=sleepy.lua --sleep-us=1 run
--test=sleepy.lua --num-threads=2 --max-requests=3 --version
--test=sleepy.lua --num-threads=2 --max-requests=3 --verbosity=9 run
--rate=x --test=sleepy.lua run
--rate=x sleepy.lua run more
--version --threads=x
--version --threads=0 --verbosity=9
--version sleepy.lua run more
--test=nope --num-threads=3 run
--test=sleepy.lua --num-threads=3 --nope=9 run
--test=sleepy.lua --max-requests=3 --threads=0 run
--num-threads=2 --max-requests=3 --max-time=2 --tx-rate=4 --forced-shutdown=abc sleepy.lua run
--num-threads=2 --max-requests=3 --max-time=2 --tx-rate=4 --thread-stack-size=0 --rand-type=nope sleepy.lua run
--num-threads=2 --max-requests=3 --max-time=2 --tx-rate=4 --rand-type=nope --report-checkpoints=a sleepy.lua run
--num-threads=2 --max-requests=3 --max-time=2 --tx-rate=4 --report-checkpoints=a --percentile=400 sleepy.lua run
--num-threads=2 --max-requests=3 --max-time=2 --tx-rate=4 --percentile=400 sleepy.lua run
--num-threads=2 --time=0 --tx-rate=4 sleepy.lua cleanup
--max-requests=-3 --time=0 --tx-rate=4 sleepy.lua cleanup
--time=0 --thread-stack-size=0 --tx-rate=4 sleepy.lua run
--time=0 --max-time=3 --tx-rate=4 sleepy.lua cleanup
"""


@pytest.mark.parametrize("line", ORDER.strip().splitlines())
def test_warnings_and_errors_come_in_the_originals_order(ours, original, line):
    joined = [Command("sh", "-c", 'exec "$@" 2>&1', "sh", *command.words) for command in (ours, original)]
    assert_same(*both(*joined, line))


SCRIPTS = {
    "body": "error('x')",
    "body table": "error({})",
    "syntax": "function x(",
    "no event": "x = 1",
    "event": "function event() error('x') end",
    "init": "function init() error('x') end function event() end",
    "thread_init": "function thread_init() error('x') end function event() end",
    "thread_done": "function thread_done() error('x') end function event() end",
    "done": "function done() error('x') end function event() end",
    "prepare": "function prepare() error('x') end",
    "life": """
        for _, name in ipairs{"init", "thread_init", "event", "thread_done", "done", "prepare", "cleanup", "help"} do
          _G[name] = function() print(name, sysbench.tid, sysbench.cmdline.command, thread_id) end
        end""",
    "globals": """
        print(sysbench.cmdline.script_path, test, mysql_table_engine)
        print(sysbench.cmdline.argv[0] ~= nil, #sysbench.cmdline.argv)
        function prepare() print(type(sysbench.version), sysbench.error.NONE, sysbench.error.RESTART_EVENT) end""",
    "defaults": """
        sysbench.cmdline.options = { ["dash-opt"] = {"D", 1}, b = {"B", nil, sysbench.cmdline.ARG_BOOL}, d = {"I", 0.5},
          i = {"I", nil, sysbench.cmdline.ARG_INT}, z = {"Z", nil, sysbench.cmdline.ARG_SIZE}, s = {"S"}, e = {"", ""},
          l = {"L", nil, sysbench.cmdline.ARG_LIST}, f = {"F", nil, sysbench.cmdline.ARG_FILE}, t = {"t", true} }
        function prepare()
          for _, k in ipairs{"dash_opt", "dash-opt", "b", "d", "i", "z", "s", "e", "l", "f", "t"} do
            print(k, type(sysbench.opt[k]), type(sysbench.opt[k]) == "table" and #sysbench.opt[k] or sysbench.opt[k])
          end
        end""",
    "ours": """
        sysbench.cmdline.options = { strict = {"s", false}, json = {"j", "x"} }
        function prepare() print(sysbench.opt.strict, sysbench.opt.json) end""",
    "own help": """
        sysbench.cmdline.options = { a = {"b", 1} }
        function help() print("before") sysbench.cmdline.print_test_options() print("after") end""",
    "options number": "sysbench.cmdline.options = 5",
    "option number": "sysbench.cmdline.options = {a = 5}",
    "option empty": "sysbench.cmdline.options = {a = {}}",
    "option function": "sysbench.cmdline.options = {a = {'x', print}}",
    "option words": "sysbench.cmdline.options = {a = {{}, 1}}",
    "option list": "sysbench.cmdline.options = {a = {'x', {1, {}}}}",
    "unique": """
        function prepare()
          for _, most in ipairs{1000000000, 4294967295} do
            local seen, count = {}, 0
            for _ = 1, 100000 do
              local number = sb_rand_uniq(1, most)
              count = count + (seen[number] and 0 or 1)
              seen[number] = true
            end
            print(most, count)
          end
        end""",
    "random": """
        function prepare()
          local rand = sysbench.rand
          for _, name in ipairs{"uniform", "pareto"} do
            local least, most = 1e9, 0
            for _ = 1, 3000 do
              local number = rand[name](5, 8)
              least, most = math.min(least, number), math.max(most, number)
            end
            print(name, least, most)
          end
          print(rand.uniform_double() < 1, type(rand.uniform_uint64()), #rand.string("##-@@"), rand.string("a-b"))
          print(type(rand.unique()), rand.default(3, 3))
        end""",
    "histogram": """
        function prepare()
          local h = sysbench.histogram.new(10, 1, 100)
          for i = 1, 99 do h:update(i) end
          h:print()
        end""",
    "driver": """
        function prepare()
          print(pcall(sysbench.sql.driver, "x"))
          print(sysbench.sql.driver():name())
          sysbench.sql.driver("x")
        end""",
    "commands": """
        sysbench.cmdline.commands = { foo = { function() print("foo") end } }
        function prepare()
          local cmdline = sysbench.cmdline
          print(cmdline.command_defined("foo"), cmdline.command_parallel("foo"), cmdline.command_defined("bar"))
          print((cmdline.call_command("foo")), type(cmdline.read_cmdline_options), type(sysbench.report_default))
          print(sysbench.version, sysbench.version_string)
        end""",
    "types": """
        function prepare()
          for _, map in ipairs{sysbench.sql.type, sysbench.sql.error} do
            local names = {}
            for name, number in pairs(map) do names[#names + 1] = name .. "=" .. tonumber(number) end
            table.sort(names)
            print(table.concat(names, " "))
          end
        end""",
}


@pytest.mark.parametrize("command", ["prepare", "run", "help", "cleanup", ""])
@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_scripts_behave_like_the_original(ours, original, tmp_path, text, command):
    (tmp_path / "it.lua").write_text(text + "\n")
    line = f"./it.lua --events=1 --time=0 {'--strict --json=a' if 'strict' in text else ''} {command}"
    assert_same(*both(ours, original, line, cwd=tmp_path))


@pytest.mark.parametrize("command", ["prepare", "run", "help", "bogus", ""])
def test_only_the_body_of_a_script_from_standard_input_runs(ours, original, command):
    text = "print('body') function prepare() print('prepared') end function event() end"
    assert_same(*both(ours, original, f"- --events=1 {command}", stdin=text))


FILES = {
    "usual": "threads=2\n# c\nrand-seed=5\n",
    "wrong": "threads=abc\n",
    "odd lines": "threads=2\nno value\n[section]\nnope=1\n",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_configuration_files_behave_like_the_original(ours, original, tmp_path, text):
    file = tmp_path / "sysbench.conf"
    file.write_text(text)
    assert_same(*both(ours, original, f"--config-file={file} options.lua prepare"))


def test_help_has_the_originals_form(ours, original):
    mine, theirs = both(ours, original, "--help --threads=x")
    assert mine.code == theirs.code == 0
    headings = [line for line in theirs.out.splitlines() if re.match(r"\S", line) and "pgsql" not in line]
    own = [line for line in mine.out.splitlines() if re.match(r"\S", line)]
    rest = iter(own)
    assert all(heading in rest for heading in headings), own
    # Name and form of each option, and its default, as far as both have it.
    forms = [
        dict(re.findall(r"^  (--[a-z-]+)(\[?=\S+|\[=on\|off\])?", ran.out, re.MULTILINE)) for ran in (mine, theirs)
    ]
    better = {"--percentile", "--mysql-ssl"}
    shared = [name for name in forms[1] if not name.startswith("--pgsql") and name not in better]
    assert {name: forms[0][name] for name in shared} == {name: forms[1][name] for name in shared}


def test_json_reports_match_the_original_line_by_line(ours, original, tmp_path):
    (tmp_path / "it.lua").write_text(
        "ffi.cdef('int usleep(unsigned int);') function event() ffi.C.usleep(1000) end\n"
        "sysbench.hooks.report_intermediate = sysbench.report_json\n"
    )
    reports = []
    for ran in both(ours, original, "it.lua --time=3 --report-interval=1 run", cwd=tmp_path):
        text = re.search(r"^\[\n.*?^\]$", ran.out, re.DOTALL | re.MULTILINE).group()
        # The original sometimes misses the interval that ends with the run, now and then after its comma.
        text = re.sub(r"  },\n+\]", "  }\n]", text)
        reports.append(list(dict.fromkeys(re.sub(r" *\d+(\.\d+)?", "N", text).splitlines())))
    assert reports[0] == reports[1]
    assert "  }," in reports[0]


CONNECTED = {
    "legacy": """
        function prepare()
          db_query("CREATE TABLE legacy (id INT)")
          db_bulk_insert_init("INSERT INTO legacy VALUES") db_bulk_insert_next("(1)") db_bulk_insert_done()
          db_disconnect()
          db_query("DROP TABLE legacy")
        end
        function event() db_query("SELECT 1") end""",
    "results": """
        function prepare()
          local con = sysbench.sql.driver():connect()
          con:query("CREATE TABLE t7 (id INT)")
          print(con:query("UPDATE t7 SET id = 1"), con:query("SELECT 1"), con:query_row("UPDATE t7 SET id = 1"))
          print((con:bulk_insert_init("INSERT INTO t7 VALUES")))
          print((con:bulk_insert_next("(1)")), (con:bulk_insert_done()))
          print(con:query_row("SELECT id, NULL, 'x' FROM t7"))
          print(con:query_row("SELECT 1 FROM t7 WHERE 0"))
          local rs = con:query("SELECT 1 UNION SELECT 2")
          print(rs.nrows, rs.nfields, rs:fetch_row()[1], rs:fetch_row()[1], rs:fetch_row(), (rs:free()))
          for _, text in ipairs{"UPDATE t7 SET id = 2", "INSERT INTO t7 VALUES (5)", "SELECT 1", "BEGIN", "COMMIT"} do
            print(con:prepare(text):execute())
          end
          print(con:check_error(con:query("SELECT 1"), "SELECT 1"))
          local st = con:prepare("SELECT ?")
          local word = st:bind_create(sysbench.sql.type.CHAR, 10)
          st:bind_param(word) word:set_rand_str("##") print(st:execute()) st:close()
          st = con:prepare("INSERT INTO t7 VALUES (?)")
          local param = st:bind_create(sysbench.sql.type.INT)
          st:bind_param(param) param:set(3) print(st:execute())
          con:query("DROP TABLE t7")
          print(con:disconnect(), con:disconnect())
        end""",
    "binds through C": """
        function prepare()
          local con = sysbench.sql.driver():connect()
          con:query("CREATE TABLE t8 (id INT AUTO_INCREMENT PRIMARY KEY, n DOUBLE, c VARCHAR(20))")
          local function insert(column, kind, c_type, values, max_len, length)
            local text = "INSERT INTO t8 (" .. column .. ") VALUES (?)"
            local st = ffi.C.db_prepare(con, text, #text)
            local bind, buffer = ffi.new("sql_bind[1]"), ffi.new(c_type, values)
            local data_len = length and ffi.new("unsigned long[1]", length)
            bind[0].type, bind[0].buffer, bind[0].max_len, bind[0].data_len = kind, buffer, max_len or 0, data_len
            print(ffi.C.db_bind_param(st, bind, 1))
            ffi.C.db_execute(st)
          end
          local types = sysbench.sql.type
          insert("n", types.TINYINT, "int8_t[16]", { -7, 1 })
          insert("n", types.SMALLINT, "int16_t[8]", { -700, 1 })
          insert("n", types.INT, "int32_t[4]", { -70000, 1 })
          insert("n", types.BIGINT, "int64_t[2]", { -7000000000, 1 })
          insert("n", types.FLOAT, "float[4]", { 0.25, 1 })
          insert("n", types.DOUBLE, "double[2]", { 0.125, 1 })
          if sysbench.opt.db_ps_mode ~= "disable" then -- then the original sends all of the buffer
            insert("c", types.VARCHAR, "char[8]", "abcdefg", 5)
            insert("c", types.VARCHAR, "char[8]", "abcdefg", 5, 3)
            insert("c", types.VARCHAR, "char[8]", "abcdefg", 0, 4)
          end
          local rs = con:query("SELECT IFNULL(n, c) FROM t8 ORDER BY id")
          for _ = 1, rs.nrows do print(rs:fetch_row()[1]) end
          con:query("DROP TABLE t8")
        end""",
    "prepare fails": "function prepare() sysbench.sql.driver():connect():prepare('SELEC 1') end",
    "prepare fails in a thread": """
        function thread_init() sysbench.sql.driver():connect():prepare("SELECT nope") end
        function event() end""",
    "query fails": """
        function thread_init() con = sysbench.sql.driver():connect() end
        function event() con:query("SELECT * FROM nope") end""",
    "execute fails": """
        function thread_init()
          local con = sysbench.sql.driver():connect()
          con:query("CREATE TEMPORARY TABLE u (a INT PRIMARY KEY)")
          st = con:prepare("INSERT INTO u VALUES (1)")
          st:execute()
        end
        function event() st:execute() end""",
    "bulk insert fails": """
        function thread_init()
          con = sysbench.sql.driver():connect()
          con:query("CREATE TEMPORARY TABLE u (a INT PRIMARY KEY)")
        end
        function event()
          con:bulk_insert_init("INSERT INTO u VALUES")
          con:bulk_insert_next("(1),(1)")
          con:bulk_insert_done()
        end""",
    "connection is lost": """
        function thread_init()
          con, other = sysbench.sql.driver():connect(), sysbench.sql.driver():connect()
          other:query("KILL " .. con:query_row("SELECT CONNECTION_ID()"))
        end
        function event() con:query("SELECT 1") end""",
    "an ignored error": """
        function thread_init() con = sysbench.sql.driver():connect() end
        function event()
          n = (n or 0) + 1
          if n < 3 then con:query("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213") end
          con:query("SELECT 1")
        end""",
    "hooks": """
        function sysbench.hooks.sql_error_ignorable(err) print(err.sql_errno, err.sql_state) return true end
        function sysbench.hooks.before_restart_event(err) print("again", err.sql_errno) end
        function thread_init() con = sysbench.sql.driver():connect() end
        function event()
          n = (n or 0) + 1
          if n == 1 then con:query("SIGNAL SQLSTATE '45000'") end
        end""",
}


@pytest.mark.server
@pytest.mark.parametrize("mode", ["auto", "disable"])
@pytest.mark.parametrize("name", CONNECTED)
def test_scripts_that_connect_behave_like_the_original(ours, original, server, tmp_path, name, mode):
    (tmp_path / "it.lua").write_text(CONNECTED[name] + "\n")
    options = shlex.join((*server.options, f"--db-ps-mode={mode}"))
    for command in [word for word in ("prepare", "run") if word in CONNECTED[name] or "event" in CONNECTED[name]]:
        assert_same(*both(ours, original, f"it.lua {options} --events=3 --time=0 {command}", cwd=tmp_path))


CONNECT = "function prepare() sysbench.sql.driver():connect() end thread_init = prepare function event() end\n"
ADDRESSES = """
--mysql-host=no.such.host.invalid
--mysql-socket=/nowhere.sock
--mysql-host=127.0.0.1 --mysql-port=1
--mysql-host=127.0.0.1 --mysql-port=x
--mysql-host=127.0.0.1 --mysql-port=0
--mysql-host=
--mysql-host=localhost --db-ps-mode=nope
{socket} --mysql-db=nope
{socket} --mysql-user=nobody_here --mysql-password=x
"""


@pytest.mark.server
@pytest.mark.parametrize("address", ADDRESSES.strip().splitlines())
@pytest.mark.parametrize("command", ["prepare", "run"])
def test_connection_errors_match_the_original(ours, original, lasting_server, tmp_path, address, command):
    (tmp_path / "it.lua").write_text(CONNECT)
    line = address.format(socket=f"--mysql-socket={lasting_server.socket} --mysql-user=root")
    assert_same(*both(ours, original, f"it.lua {line} {command}", cwd=tmp_path))


def test_unsupported_features_are_passed_to_the_original(ours, original, tmp_path):
    """A sysbench elsewhere on the path is executed; one that comes back to us is not executed again."""
    for line in (
        "memory --memory-total-size=1K run",
        "fileio help",
        "mutex help",
        "threads",
        "--db-driver=pgsql oltp_insert help",
    ):
        assert_same(*both(ours, original, line))
    (tmp_path / "sysbench").write_text(f'#!/bin/sh\nexec {shlex.join(ours.words)} "$@"\n')
    (tmp_path / "sysbench").chmod(0o755)
    for path in (str(tmp_path), "/nowhere"):
        ran = ours("memory", "run", PATH=path, limit_s=20)
        assert (ran.code, ran.out.count("not supported")) == (1, 1)


def test_every_row_is_compared():
    """Options and API names marked *same* appear in a case of these files."""
    cases = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    cases += "".join(file.read_text() for file in Path(__file__).parent.glob("scripts/*.lua"))
    missing = []
    for name in sorted(SAME - OF_MASTER - DEADLY):
        method = re.sub(r"^\w+:", ":", name).removeprefix("sysbench.rand.").removeprefix("sysbench.")
        if name not in cases and method not in cases:
            missing.append(name)
    assert missing == []
