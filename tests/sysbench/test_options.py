"""Options: both spellings, files, and the original's bugs mended."""

import pytest


def said(ran) -> dict[str, str]:
    """What options.lua printed."""
    return dict(line.split("\t", 1) for line in ran.out.splitlines() if "\t" in line)


def test_a_suffix_scales_a_scripts_number(ours):
    assert said(ours("options.lua", "--table-size=1M", "prepare"))["table_size"] == "1048576"


def test_dashes_and_underscores_are_one(ours):
    assert said(ours("options.lua", "--table_size=7", "--on-flag=off", "--words=x,y", "prepare")) | {
        "mysql_port": ""
    } == {
        "table_size": "7",
        "flag": "false",
        "on_flag": "false",
        "words": "x+y",
        "text": "none",
        "threads": "1",
        "histogram": "false",
        "percentile": "95",
        "mysql_port": "",
    }


@pytest.mark.parametrize(
    ("form", "value"),
    [("", "true"), ("=on", "true"), ("=1", "true"), ("=false", "false"), ("=0", "false")],
)
def test_flags_accept_every_form_of_true_and_false(ours, form, value):
    assert said(ours("options.lua", f"--flag{form}", "prepare"))["flag"] == value


@pytest.mark.parametrize(("given", "value"), [("0", "0"), ("99.9", "99.9"), ("50,95", "50")])
def test_a_script_sees_the_first_percentile(ours, given, value):
    assert said(ours("options.lua", f"--percentile={given}", "prepare"))["percentile"] == value


def test_a_configuration_file_sets_options_that_later_ones_override(ours, tmp_path):
    file = tmp_path / "sysbench.conf"
    file.write_text(
        "# comment\nthreads=3\nhistogram=off\ntable-size = 2K\ntext='a # b'\nflag=on\n"
        "of_another_script=1\nmysql-port=1,2\n"
    )
    values = said(ours(f"--config-file={file}", "options.lua", "prepare"))
    assert values["threads"] == "3"
    assert values["histogram"] == "false"
    assert values["table_size"] == "2048"
    assert values["text"] == "a # b"
    assert values["flag"] == "true"
    assert values["mysql_port"] == "1"
    later = said(ours(f"--config-file={file}", "--threads=5", "--table-size=4", "options.lua", "prepare"))
    assert (later["threads"], later["table_size"]) == ("5", "4")


def test_a_configuration_file_sets_the_option_of_the_cpu_test(ours, tmp_path):
    file = tmp_path / "sysbench.conf"
    file.write_text("cpu-max-prime=77\ntable-size=2K\n")
    run = (f"--config-file={file}", "cpu", "--events=1", "run")
    assert ours(*run).number("Prime numbers limit:") == 77
    assert ours(*run, "--cpu-max-prime=10").number("Prime numbers limit:") == 10
    file.write_text("cpu-max-prime=many\n")
    ran = ours(*run)
    assert (ran.code, ran.err) == (1, "Invalid value for the 'cpu_max_prime' option: 'many'\n")


def test_a_configuration_file_that_is_not_there_ends_the_run(ours):
    ran = ours("--strict", "--config-file=/nowhere/x", "options.lua", "prepare")
    assert ran.code == 1
    assert ran.err.startswith("--config-file /nowhere/x: ")
    assert ran.out == ""


def test_a_script_may_redeclare_our_options_but_not_sysbenchs(ours, tmp_path):
    script = tmp_path / "it.lua"
    script.write_text(
        "sysbench.cmdline.options = { threads = {'its own', 1}, hdr_log = {'its own', 'x'} }\n"
        "function thread_init() print('hdr_log', sysbench.opt.hdr_log) end\nfunction event() end\n"
    )
    ran = ours(str(script), "--threads=3", "--hdr-log=mine", "--events=3", "run")
    assert (said(ran)["hdr_log"], ran.number("Number of threads:")) == ("mine", 3)


@pytest.mark.parametrize("name", ["table-size", "words", "text"])
def test_strict_refuses_options_without_a_value(ours, name):
    ran = ours("options.lua", f"--{name}", "--strict", "prepare")
    assert (ran.code, ran.err) == (1, f"option --{name} needs a value: --{name}=VALUE\n")


def test_the_seed_repeats_a_run(ours):
    script = (
        "function prepare() for i = 1, 5 do print(sysbench.rand.default(1, 1e6), sysbench.rand.string('@#')) end end"
    )

    def drawn(seed):
        return ours("/dev/stdin", f"--rand-seed={seed}", "prepare", stdin=script).out

    assert drawn(7) == drawn(7) != drawn(8)


def test_a_script_sees_the_seed_that_was_given(either):
    script = "function event() print('seed', sysbench.opt.rand_seed, rand_seed) end"
    assert "seed\t0\t0\n" in either(script).out
    assert "seed\t-5\t-5\n" in either(script, "--rand-seed=-5").out


def test_help_of_a_script_shows_its_options(ours):
    out = ours("options.lua", "help").out
    assert "options.lua options:" in out
    assert "  --table_size=N     Rows [10]" in out
    assert "  --words=[LIST,...] " in out and "[a,b]" in out


@pytest.fixture(params=["ours", "original"])
def either(request, tmp_path):
    """`either(script, *options)`: that script run once without a server, by our sysbench and by the original."""
    command = request.getfixturevalue(request.param)

    def run(script, *options):
        (tmp_path / "x.lua").write_text(script)
        return command("./x.lua", "--events=1", "--mysql-dry-run", *options, "run", cwd=tmp_path)

    return run


def test_scripts_that_declare_nothing_have_the_general_options_as_globals(either):
    script = """
        function thread_init() print('is', mysql_db, threads, type(num_threads), time, mysql_ssl, mine) end
        function event() end
        mine = 5
    """
    assert "is\tshop\t1\tnumber\t10\tfalse\t5\n" in either(script, "--mysql-db=shop").out


def test_a_scripts_own_option_overrides_one_of_the_master_branch(either):
    script = """
        sysbench.cmdline.options = { warmup_time = {'own', 7} }
        function init() print('is', sysbench.opt.warmup_time, mysql_db) end
        function event() end
    """
    out = either(script, "--warmup-time=2").out
    assert "is\t2\tnil\n" in out and "Warming up" not in out


def test_endless_runs_are_warned_about_and_config_files_need_not_be_utf8(either, tmp_path):
    (tmp_path / "x.cfg").write_bytes(b"# gr\xfc\xdfe\ntime=0\n")
    warning = "WARNING: Both event and time limits are disabled, running an endless test"
    script = "function event() os.exit(0) end"  # else it would not end
    assert either(script, "--config-file=x.cfg", "--events=0").out.splitlines()[0] == warning
    assert warning not in either(script, "--config-file=x.cfg").out


def test_luajits_compiler_can_be_switched_off(ours):
    script = "function prepare() print('jit', (jit.status())) end"
    assert said(ours("/dev/stdin", "prepare", stdin=script))["jit"] == "true"
    assert said(ours("/dev/stdin", "--luajit-cmd=off", "prepare", stdin=script))["jit"] == "false"
    assert ours("/dev/stdin", "--luajit-cmd=v", "prepare", stdin=script).code == 1


def test_the_engine_called_sysbench_acts_as_sysbench(ours, tmp_path):
    from bakeoff.engine import engine_path

    link = tmp_path / "sysbench"
    link.symlink_to(engine_path())
    assert type(ours)(str(link))("--version").out == "sysbench 1.0.20\n"


def test_bakeoff_hands_every_argument_over(ours, shell):
    help_text = shell.run("sysbench", "--help")
    assert (help_text.code, help_text.out) == (0, ours("--help").out)
    ran = shell.run("sysbench", "cpu", "--cpu-max-prime=10", "--events=2", "run")
    assert ran.code == 0
    assert "total number of events:              2" in ran.out
    assert shell.run("sysbench", "no_such_script", "run").code == 1
