"""Whatever a person does wrong: one clear line, a documented exit code, nothing left behind."""

import os
import signal
import socket
import subprocess
import time

import psutil
import pytest

from bakeoff.cli import start
from tests.conftest import wait_for

SMALL = (
    "--tables", "1", "--table-size", "2000", "--builds", "1", "--threads", "1", "--workload", "oltp_point_select",
    "--warm-up", "1s", "--budget", "40s", "--no-verdict",
)  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "named", "remedy"),
    [
        (["duel", "mysql:8.0.15"], "two servers", "bakeoff duel mysql:5.7 mysql:8.0"),
        (["duel", "mysql:4.1", "mysql:8.0.15"], "4.1", "mysql:5.5.9"),
        (["duel", "mysqll:8.0", "mysql:8.0.15"], "mysqll", "mysql"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15,inodb_doublewrite=0"], "inodb_doublewrite", "innodb_doublewrite"),
        (["duel", "mysql:8.0.15", "mysql 5.7"], "mysql 5.7", "FLAVOUR:VERSION"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--threads", "four"], "four", "--threads 1,4,16"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--budget", "soon"], "soon", "4m"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--warm-up", "long"], "long", "4m"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--precision", "0"], "precision", "1%"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--database", "a`b"], "'a`b'", "sbtest"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--wrkload", "x"], "--wrkload", "--help"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--time=60"], "--time", "written -o NAME=VALUE"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--range-size=5"], "--range-size", "written -o NAME=VALUE"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--workload", "oltp_raed_only"], "oltp_raed_only", "oltp_read_only"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "-o", "range_sise=10"], "range_sise", "range_size"),
        (
            ["duel", "mysql:8.0.15", "mysql:8.0.15", "-o", "rand_tpye=zipfian"],
            "no option rand_tpye",
            "Did you mean rand_type?",
        ),
        (
            ["duel", "mysql:8.0.15", "mysql:8.0.15", "-o", "rand_type=zipfain"],
            "rand_type cannot be 'zipfain'",
            "Did you mean zipfian?",
        ),
        (
            ["duel", "mysql:8.0.15", "mysql:8.0.15", "-o", "mysql_nonsense=3"],
            "no option mysql_nonsense",
            "It has auto_inc",
        ),
        (
            ["duel", "mysql:8.0.15", "mysql:8.0.15", "-o", "db-ps-mode=disable"],
            "no option db_ps_mode",
            "Write --db-ps-mode",
        ),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "-o", "mysql-ssl=on"], "no option mysql_ssl", "Write --mysql-ssl"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "-o", "rand-seed=3"], "no option rand_seed", "Write --seed."),
        (
            ["duel", "mysql:8.0.15", "mysql:8.0.15", "-o", "range_size=abc"],
            "range_size cannot be 'abc'",
            "Write a number",
        ),
        (
            ["duel", "mysql:8.0.15", "mysql:8.0.15", "-o", "skip_trx=maybe"],
            "skip_trx cannot be 'maybe'",
            "Write on or off.",
        ),
        (
            ["duel", "mysql:8.0.15", "mysql:8.0.15", "-o", "range_size=1", "-o", "range-size=2"],
            "range_size is given twice",
            "Leave one out.",
        ),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--warehouses", "1"], "no workload is TPC-C", "-w tpcc"),
        pytest.param(
            ["duel", "mysql:8.0.15", "mysql:8.0.15", "-w", "tpcc", "--warehouses", "1", "-o", "scale=2"],
            "--warehouses and -o scale say the same",
            "Leave one out.",
            marks=pytest.mark.needs("tpcc"),
        ),
        (["duel", "mysql:8.0.15", "path:/nowhere"], "/nowhere", ""),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--transport", "sockets"], "sockets", "socket, tcp"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--mysql-ssl", "bogus"], "bogus", "required"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--tls", "on"], "--mysql-ssl: 'on'", "Write --mysql-ssl required."),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--mysql-ssl", "off"], "--mysql-ssl: 'off'", "--mysql-ssl disabled"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--equivalence", "5"], "--equivalence: '5'", "Did you mean 5%?"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--charset", "utf9"], "utf9", "utf8"),
        (
            ["duel", "mysql:8.0.15", "mysql:8.0.15", "--charset", "utf8mb4", "--collation", "latin1_bin"],
            "latin1_bin",
            "charset",
        ),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--tables", "1001"], "--tables", "1000"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--rate", "0"], "--rate", "--rate 500"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--rate", "inf"], "--rate: inf", "--rate 500"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--rate", "nan"], "--rate: nan", "--rate 500"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--rate", "1e300"], "--rate: 1e+300", "--rate 500"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--threads", "99999999"], "99999999", "10000"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--threads", "1,1"], "twice", "Leave one out"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--threads", "1,01"], "'01' is not", "--threads 1,4,16"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "-w", "tpcc,tpcc"], "twice", "Leave one out"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--budget", "9" * 400], "longer than a year", "4m"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--table-size", "9" * 400], "--table-size", "100k"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--seed", "-1"], "--seed", "--help"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15,env.=x"], "env.=x", "innodb_flush_method=fsync"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15,env.A=\x1b[2J"], "U+001B", "Remove it"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--inject-slowdown", "1e30"], "1e30", "--inject-slowdown 5%"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--inject-slowdown", "nan"], "nan", "--inject-slowdown 5%"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--inject-slowdown", "a lot"], "a lot", "0.5%"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--inject-slowdown", "5"], "'5'", "--inject-slowdown 5%"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--threads", "1-16"], "1-16", "--threads 1,4,16"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--threads", "1..64"], "1..64", "--threads 1,4,16"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--precision", "2"], "'2'", "Did you mean 2%?"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "-w", "q.sql"], "q.sql", "Lua script"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15,jemalloc"], "jemalloc", "env.LD_PRELOAD=libjemalloc.so.2"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15,jemaloc"], "jemaloc", "env.LD_PRELOAD=libjemalloc.so.2"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--fail-on", "rows"], "rows can only be seen", "--fail-on slower"),
        (["mysql:8.0.15", "mysql:8.0.31"], "No such command 'mysql:8.0.15'", "Write bakeoff duel SERVER SERVER."),
        (["list", "workload"], "'workload'", "'workloads'"),
        (["list", "servers", "--format", "yaml"], "'--format': 'yaml' is not one of 'text', 'json'.", "--help"),
        (["duel", "mysql://a:s3cret@h/", "mysql://a:s3cret@h/"], "given twice", "--allow-same"),
        (["duel", "mysql://h/?user=a&password=s3cret", "mysql:8.0"], "takes no parameter but ?socket=", "MYSQL_PWD"),
        (["duel", "mysql://h/?ssl-mode=REQUIRED", "mysql:8.0"], "takes no parameter but ?socket=", "--tls"),
        (["duel", "mysql://a:s3cret@localhost/", "mariadb://b@127.0.0.1:3306/x"], "given twice", "--allow-same"),
        (["duel", "mysql://a@h/?socket=/s", "mysql://a@i:3307/?socket=/s"], "given twice", "--allow-same"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--tabels", "3"], "--tabels", "Try `bakeoff duel --help`"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--budget", "9s"], "too small for a verdict", "--no-verdict"),
        (["duel", "path:/nosuch", "mysql:8.0.15", "--dry-run"], "path /nosuch does not exist", "path:/opt/mysql"),
        (
            ["duel", "mysql://u@h/,log_bin=1", "mysql:8.0.15", "--dry-run"],
            "cannot be given to a running server",
            "Set them on that server",
        ),
        (["duel", "mysql:8.0", "mysql:5.7", "--publish", "--no-control"], "contradict each other", "Leave one out."),
        (["report", "no-such-run"], "there are no runs in", "bakeoff duel"),
        (["report", "latest"], "there are no runs in", "--runs DIR"),
        (["report", "."], ". is not a run directory: it has no manifest.json", "list runs"),
        (["duel", "mysql:8.0.15", "mysql:8.0.15", "--rate", "0"], "--rate: 0 is not between 0 and 1e", "--rate 500"),
        (["report", "latest", "--format", "md", "-O", "."], ". is a folder", "Name a file"),
        (["report", "latest", "--format", "md", "-o", "."], ". is a folder", "Name a file"),
        (["doctor", "--quick", "--server", "mysql:8.0.15"], "--server", "Leave one out"),
        (["doctor", "--quick", "--prove"], "--prove", "Leave one out"),
        (["doctor", "--quick", "--threads", "9"], "--threads", "Leave one out"),
        (["doctor", "--server", "mysql://root:s3cret@db/"], "running server", "mysql:8.0"),
        (["server", "start", "mysql://root:s3cret@db/"], "is running already", ""),
        (["frobnicate"], "frobnicate", "--help"),
        (["list"], "studies, servers", "--help"),
        (["server"], "command", "--help"),
    ],
)
def test_a_typo_is_one_line_and_exit_code_2(shell, inside, arguments, named, remedy):
    ran = inside(*arguments)
    assert ran.code == 2, ran
    assert named in ran.complaint
    assert remedy in ran.complaint
    assert "s3cret" not in ran.out + ran.err
    assert shell.runs == []


def test_a_missing_preload_is_found_before_anything_is_loaded(shell, inside):
    ran = inside("duel", "mysql:8.0.15", "mysql:8.0.15,env.LD_PRELOAD=libnone.so.1", "--dry-run")
    assert (ran.code, "LD_PRELOAD=libnone.so.1: no such library" in ran.complaint) == (3, True)
    assert shell.runs == []


def test_the_exit_code_reaches_the_shell(shell):
    ran = shell.run("duel", "mysql:8.0.15")
    assert ran.code == 2
    assert "two servers" in ran.complaint


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["list", "workloads"], 0),
        (["list", "workloads", "--format", "json"], 0),
        (["duel", "mysql:8.0.15"], 2),
        (["duel", "--budgte", "5m"], 2),
    ],
)
def test_a_closed_output_pipe_does_not_change_the_exit_code(shell, arguments, code):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        gone = subprocess.run([*shell.command, *arguments], env=shell.env, stdout=writer, stderr=writer, timeout=60)
        heard = subprocess.run(
            [*shell.command, *arguments], env=shell.env, stdout=writer, stderr=subprocess.PIPE, timeout=60
        )
    finally:
        os.close(writer)
    assert (gone.returncode, heard.returncode, heard.stderr == b"") == (code, code, code == 0)


def test_a_full_disk_is_a_one_line_error_and_closed_streams_are_ignored(shell):
    def typed(command):
        ran = subprocess.run(
            ["sh", "-c", f'"$@" {command}', "sh", *shell.command, "list", "workloads"],
            env=shell.env, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        return ran.returncode, ran.stderr

    assert typed(">/dev/full") == (3, "bakeoff: the system refused: No space left on device.\n")
    assert typed(">&-") == typed("2>&-") == (0, "")


def test_characters_that_a_terminal_cannot_show_are_escaped(tmp_path):
    with (tmp_path / "terminal").open("w", encoding="ascii") as terminal:
        print("→ größe", file=start._without_broken_pipes(terminal), flush=True)
    assert (tmp_path / "terminal").read_bytes() == b"\\u2192 gr\\xf6\\xdfe\n"


@pytest.mark.server
def test_an_unreachable_url_is_an_error(shell, inside):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ran = inside("duel", f"mysql://root@127.0.0.1:{port}/", "mysql:8.0.15", *SMALL)
    assert ran.code == 3
    assert str(port) in ran.complaint
    assert shell.runs == []


@pytest.mark.server
def test_a_refused_password_is_named_and_never_shown(shell, inside, sandbox):
    ran = inside("duel", f"mysql://root:wr0ng-secret@127.0.0.1:{sandbox['port']}/", "mysql:8.0.15", *SMALL)
    assert ran.code == 3
    assert "refuses user root" in ran.complaint
    assert "wr0ng-secret" not in ran.out + ran.err
    assert shell.runs == []


@pytest.mark.server
def test_a_script_with_a_lua_error_names_file_and_line(shell):
    script = shell.folder / "broken.lua"
    script.write_text("function prepare() end\nfunction event()\n   local x = nil\n   return x.y\nend\n")
    ran = shell.run("duel", "mysql:8.0.15", "mysql:8.0.15", *SMALL, "--workload", str(script))
    assert ran.code == 4
    assert "broken.lua:4" in ran.complaint
    assert shell.runs == []


def test_a_script_without_tables_is_refused_before_anything_is_loaded(inside, shell):
    script = shell.folder / "mine.lua"
    script.write_text("function event() end\n")
    words = ("duel", "mysql:8.0.15", "mysql:8.0.15", "--dry-run", "--workload", str(script))
    ran = inside(*words)
    assert ran.code == 2 and "mine.lua: it has no prepare() function" in ran.complaint
    assert 'require("oltp_common")' in ran.complaint and "--data" in ran.complaint
    script.write_text('require("oltp_common")\nfunction event() end\n')
    assert inside(*words).code == 0


@pytest.mark.server
def test_a_script_that_does_not_parse_names_file_and_line(shell, inside):
    script = shell.folder / "broken.lua"
    script.write_text("function event(\n")
    ran = inside("duel", "mysql:8.0.15", "mysql:8.0.15", *SMALL, "--workload", str(script))
    assert ran.code in (2, 4)
    assert "broken.lua:" in ran.complaint
    assert shell.runs == []


@pytest.mark.slow
@pytest.mark.server
def test_a_server_killed_again_and_again_ends_the_run(shell):
    process = shell.start("duel", "mysql:8.0.15", "mysql:8.0.15", *SMALL, "--precision", "20%")
    kills = 0
    while process.poll() is None and kills < 2:
        begun = list(shell.folder.glob(f"runs/*/epochs/{kills:03d}/servers/B/status-before.json"))
        if begun and kill_one_server(shell):
            kills += 1
        time.sleep(0.2)
    ran = shell.finish(process)
    assert kills == 2, ran
    assert ran.code == 4, ran
    assert "discarded" in ran.complaint


def kill_one_server(shell):
    """SIGKILL a server of this run; False when there is none."""
    for process in psutil.process_iter(["cmdline"]):
        if any(f"--datadir={shell.cache}" in word for word in process.info["cmdline"] or []):
            process.kill()
            return True
    return False


@pytest.mark.server
@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is made by mounting one, which takes root")
def test_a_disk_that_cannot_hold_the_data_is_refused_and_nothing_is_left(shell, inside):
    work = shell.work
    work.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=220m", "tmpfs", str(work)], check=True)
    try:
        ran = inside("duel", "mysql:8.0.15", "mysql:8.0.15", "--table-size", "2m", "--budget", "2m")
    finally:
        subprocess.run(["umount", str(work)], check=True)
    assert ran.code == 3, ran
    assert "disk" in ran.complaint.lower() or "space" in ran.complaint.lower()
    assert shell.runs == []


@pytest.mark.server
def test_ctrl_c_before_the_first_epoch_leaves_nothing(shell):
    process = shell.start("duel", "mysql:8.0.15", "mysql:8.0.15", *SMALL)
    wait_for(lambda: shell.runs, limit_s=60)
    process.send_signal(signal.SIGINT)
    ran = shell.finish(process, limit_s=60)
    assert ran.code == 130, ran
    assert shell.runs == []


@pytest.mark.server
def test_ctrl_c_during_the_first_load_prevents_the_second(shell):
    process = shell.start("duel", "mysql:8.0.15", "mysql:5.7.22", *SMALL, "--table-size", "1m", "--budget", "2m")
    wait_for(lambda: list(shell.folder.glob("cache/bakeoff/work/pool-*/*/data/sbtest/sbtest1.ibd")), limit_s=120)
    process.send_signal(signal.SIGINT)
    ran = shell.finish(process, limit_s=30)
    assert ran.code == 130, ran
    assert "interrupted" in ran.complaint
    assert shell.runs == []


@pytest.mark.server
def test_a_killed_engine_discards_an_epoch_and_ctrl_c_still_writes_the_report(shell):
    process = shell.start("duel", "mysql:8.0.15", "mysql:8.0.15", *SMALL, "--precision", "20%", "--budget", "100s")

    def engines():
        children = psutil.Process(process.pid).children(recursive=True)
        return [child for child in children if "bakeoff-engine" in " ".join(child.cmdline()[:1])]

    begun = "runs/*/epochs/001/servers/B/status-before.json"
    wait_for(lambda: list(shell.folder.glob(begun)) and engines(), limit_s=120)
    engines()[0].kill()
    wait_for(lambda: list(shell.folder.glob("runs/*/epochs/002/outcome.json")), limit_s=120)
    process.send_signal(signal.SIGINT)
    ran = shell.finish(process, limit_s=60)
    assert ran.code == 130
    assert "epoch 1 is discarded for all arms: the engine ended unexpectedly" in ran.err
    assert "ratio" in ran.out
    assert "NOT FINISHED: The run was stopped by hand" in ran.out
    (run,) = shell.runs
    assert (run / "analysis.json").exists()
    assert (run / "report.html").exists()


@pytest.mark.server
def test_a_run_that_ends_early_says_what_it_keeps_and_how_to_go_on(shell):
    process = shell.start("duel", "mysql:8.0.15", "mysql:8.0.15", *SMALL, "--precision", "20%")
    kills = 0
    while process.poll() is None and kills < 2:
        begun = list(shell.folder.glob(f"runs/*/epochs/{kills + 1:03d}/servers/B/status-before.json"))
        if begun and kill_one_server(shell):
            kills += 1
        time.sleep(0.2)
    ran = shell.finish(process)
    (run,) = shell.runs
    assert ran.code == 4, ran
    assert f"Finished epochs are kept: 3; `bakeoff report {run}`" in ran.complaint
    assert f"bakeoff run --resume {run}" in ran.complaint
