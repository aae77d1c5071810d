"""`bakeoff audit` on files: its output and exit codes, bad input, the study it writes."""

import gzip
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bakeoff.audit import record
from bakeoff.audit.setups import read_setup
from tests.audit.conftest import FORMATS, write

BASE = {
    "version": "8.0.31", "version_comment": "MySQL Community Server - GPL", "wait_timeout": "28800",
    "innodb_buffer_pool_size": "34359738368", "innodb_adaptive_hash_index": "ON", "performance_schema": "ON",
    "collation_server": "utf8mb4_0900_ai_ci", "have_ssl": "YES", "log_bin": "ON", "max_connections": "151",
}  # fmt: skip
LOG = """sysbench {version} (using bundled LuaJIT 2.1.0-beta3)

Number of threads: {threads}
{series}
    transactions:                        1000   ({tps} per sec.)
    total time:                          {seconds}.0s
         95th percentile:                       43.39
         sum:                               {sum_ms}.00
"""
TABLE = (
    "CREATE TABLE `sbtest1` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4{}\n"
)


def log(tps, rates=(), *, threads=2, busy=0.99, version="1.1.0"):
    seconds = len(rates) or 60
    series = "\n".join(f"[ {at}s ] thds: {threads} tps: {rate:.2f} qps: 1.0" for at, rate in enumerate(rates, 1))
    sum_ms = round(busy * seconds * threads * 1000)
    return LOG.format(version=version, threads=threads, series=series, tps=tps, seconds=seconds, sum_ms=sum_ms)


@pytest.fixture
def make(tmp_path, monkeypatch):
    """`make("a", {setting: value}, **files)`: a folder with a dump of `BASE` and these settings, and other files."""
    monkeypatch.chdir(tmp_path)

    def of(name, changed=(), /, form="tabs", **files):
        rows = [pair for pair in {**BASE, **dict(changed)}.items() if pair[1] is not None]
        write(tmp_path / name, {"variables": rows}, form)
        for file, text in files.items():
            tmp_path.joinpath(name, file.replace("__", ".")).write_text(text, encoding="utf-8")
        return name

    return of


def test_equal_setups_exit_with_0_and_a_difference_with_1_unless_it_is_declared(inside, make):
    make("a"), make("b", form="json_object"), make("c", {"innodb_adaptive_hash_index": "OFF"})
    equal, unequal = inside("audit", "a", "b"), inside("audit", "a", "c")
    assert (equal.code, unequal.code) == (0, 1)
    assert "0 undeclared differences" in equal.out and "1 undeclared difference known to matter" in unequal.out
    assert "innodb_adaptive_hash_index  ON  OFF  replaces descents of the B-tree" in unequal.out
    assert inside("audit", "a", "c", "--declared", "innodb_adaptive_hash_index").code == 0
    assert inside("audit", "a", "c", "--declared", "defaults").code == 1


def test_defaults_of_versions_can_be_declared_together(inside, make):
    make("old"), make("new", {"version": "8.4.3", "innodb_adaptive_hash_index": "OFF", "have_ssl": "DISABLED"})
    ran = inside("audit", "old", "new", "--declared", "defaults", "--format", "json")
    found = json.loads(ran.out)
    assert (ran.code, found["undeclared"]) == (1, ["TLS"])
    assert [each["setting"] for each in found["differences"] if each["by_default"]] == ["innodb_adaptive_hash_index"]


def test_tables_with_other_collations_and_columns_differ(inside, make):
    (
        make("a", variables__sql=TABLE.format("")),
        make("b", b__txt=TABLE.format(" COLLATE=utf8mb4_bin").replace("int", "bigint")),
    )
    found = {
        each["setting"]: each["values"]
        for each in json.loads(inside("audit", "a", "b", "--format", "json").out)["differences"]
    }
    assert found["tables: collation"] == ["utf8mb4_general_ci", "utf8mb4_bin"]
    assert found["table sbtest1"] == ["`id` int NOT NULL", "`id` bigint NOT NULL"]


def test_options_that_the_server_ignored_are_named(inside, make):
    cnf = (
        "[mysqld]\ninnodb_buffer_pool_size = 33G\nskip-log-bin\n[mysqld-5.7]\nperformance_schema=OFF\n!include /x.cnf\n"
    )
    make("a", my__cnf=cnf), make("b")
    out = inside("audit", "a", "b").out
    assert "innodb_buffer_pool_size=33G: the server has 34359738368" in out
    assert "skip_log_bin: the server has ON" in out
    assert "my.cnf:6: !include /x.cnf was not followed" in out
    assert "performance_schema=OFF" not in out


@pytest.mark.parametrize(
    ("version", "read"),
    [
        ("8.0.31", ["mysqld", "mysqld-8.0"]),
        ("10.11.6-MariaDB", ["mysqld", "mariadb", "galera", "mariadb-10.11"]),
        ("11.4.2-MariaDB", ["mysqld", "mariadb", "galera", "mariadb-11"]),
        (None, ["mysqld", "mariadb", "galera"]),
    ],
)
def test_only_the_groups_that_the_server_reads_count(make, version, read):
    groups = ("mysqld", "mysqld-1", "mysqld-8.0", "mariadb", "galera", "mariadb-10.1", "mariadb-10.11", "mariadb-11")
    make("a", {"version": version}, my__cnf="".join(f"[{each}]\nx_{each}=1\n" for each in groups))
    options = read_setup("a").options
    assert [each for each in groups if f"x_{each}".replace("-", "_") in options] == read


def test_two_my_cnf_files_are_compared_by_what_they_set(inside, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("a.cnf").write_text("[mysqld]\ninnodb_flush_log_at_trx_commit=2\nkey_buffer_size=16M\n")
    tmp_path.joinpath("b.cnf").write_text("[mysqld]\nkey-buffer-size=16777216\n[client]\nuser=x\n")
    ran = inside("audit", "a.cnf", "b.cnf")
    assert ran.code == 1
    assert "innodb_flush_log_at_trx_commit  2      (absent)" in ran.out


@pytest.mark.parametrize(
    ("rates", "busy", "said"),
    [
        ([100 + at for at in range(60)], 0.99, "the warm-up had not ended"),
        ([160 - at for at in range(60)], 0.99, "a trend"),
        ([80] * 4 + [100, 101] * 28, 0.99, "a warm-up is part of its mean"),
        ([100, 101] * 20 + [3] + [100, 101] * 10, 0.99, "fell below half of its median once, first at 41 s"),
        ([100, 101] * 30, 0.6, "spent 40% of their time outside events: the client was the bottleneck"),
        ([100, 101] * 30, 0.99, None),
    ],
)
def test_flaws_of_a_log_are_named(inside, make, rates, busy, said):
    make("a", oltp_read_only__log=log(100, rates, busy=busy)), make("b", oltp_read_only__log=log(120))
    out = inside("audit", "a", "b").out
    lines = [line for line in out.splitlines() if "a: oltp_read_only.log:" in line]
    assert [said in line for line in lines] == [True] if said else lines == [], out


def test_single_runs_have_no_interval_and_repeated_ones_do(inside, make):
    runs = {f"oltp_read_only_{at}__log": log(100 + at) for at in range(4)}
    make("a", oltp_read_only_1__log=log(100)), make("b", oltp_read_only_1__log=log(112, version="1.0.20"))
    single = inside("audit", "a", "b").out
    assert "oltp_read_only/2: b over a is 1.12× (1 and 1 run, too few for an interval)" in single
    assert "One run a cell shows no difference" in single
    assert "sysbench 1.0 ignores --mysql-ssl=off" in single
    make("c", **runs), make("d", **{name: text.replace("(10", "(20") for name, text in runs.items()})
    repeated = inside("audit", "c", "d").out
    assert re.search(r"oltp_read_only/2: d over c is 1.99× \(4 and 4 runs, 1.9\d to 2.0\d\)", repeated), repeated
    assert "One run a cell" not in repeated


def test_different_threads_and_run_lengths_are_differences(inside, make):
    make("a", x__log=log(100, [100] * 60)), make("b", x__log=log(100, [100] * 90, threads=8))
    found = json.loads(inside("audit", "a", "b", "--format", "json").out)
    values = {each["setting"]: each["values"] for each in found["differences"]}
    assert values == {"runs: seconds": ["60", "90"], "runs: threads": ["2", "8"]}


def test_a_log_with_intervals_is_not_another_setting(inside, make):
    make("a", x__log=log(100, [100] * 60)), make("b", x__log=log(100)), make("c")
    found = json.loads(inside("audit", "a", "b", "--format", "json").out)
    assert found["differences"] == []
    for setups in (("a", "b"), ("a", "c")):
        assert "trends, stalls and the end of the warm-up: log with" in " ".join(inside("audit", *setups).out.split())


def test_hammerdb_logs_are_read(inside, make):
    text = "Vuser 1:2 Active Virtual Users configured\nVuser 1:System achieved {} NOPM from 46113 MySQL TPM\n"
    make("a", one__log=text.format(20000)), make("b", one__log=text.format(25000))
    assert "TPROC-C/2: b over a is 1.25×" in inside("audit", "a", "b").out


def test_a_hammerdb_run_whose_users_all_failed_has_no_result(inside, make):
    make("a"), make("b", one__log="Vuser 1:System achieved 0 NOPM from 0 MySQL TPM\n")
    ran = inside("audit", "a", "b")
    assert (ran.code, "b: one.log: a log without its result" in ran.out) == (0, True)


def test_every_bad_file_is_listed_in_one_line_and_ignored(inside, make, tmp_path):
    make("a"), make("b")
    folder = tmp_path / "b"
    folder.joinpath("binary.txt").write_bytes(b"\0\1\2" * 100)
    folder.joinpath("dump.gz").write_bytes(gzip.compress(b"version\t8.0\n" * 50))
    folder.joinpath("empty.txt").touch()
    folder.joinpath("prose.txt").write_text("No dump at all.\n")
    folder.joinpath("run.log").write_text(log(100)[:60])
    folder.joinpath("hammer.log").write_text("Vuser 1:Beginning rampup time of 2 minutes\n")
    folder.joinpath("table.sql").write_text("CREATE TABLE `t` (\n  `id` int\n")
    folder.joinpath("pt.txt").write_text("# Percona Toolkit System Summary Report ###\n  Kernel | 6\n")
    os.mkfifo(folder / "pipe")
    with folder.joinpath("huge.txt").open("wb") as file:
        file.truncate(65 << 20)
    for form in ("tabular", "vertical", "json_object", "json_lines", "comma"):
        text = FORMATS[form]([("version", "8.0.31"), ("wait_timeout", "12345")])
        folder.joinpath(f"cut-{form}.txt").write_text(text[: text.rindex("wait_timeout") + 16])
    tabs = FORMATS["tabs"]([("version", "8.0.31"), ("wait_timeout", "12345")])
    folder.joinpath("cut-tabs.txt").write_text(tabs[: tabs.rindex("wait_timeout") + 6])
    ran = inside("audit", "a", "b", "--format", "json")
    assert ran.code == 0, ran
    lines = json.loads(ran.out)["texts"]["Not read"]
    names = sorted(each.name for each in folder.iterdir() if each.name != "variables.txt")
    assert sorted(line.split(": ")[1] for line in lines) == names
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a"], "two or more different setups"),
        (["a", "a"], "two or more different setups"),
        (["a", "nowhere"], "nowhere does not exist"),
        (["a", "nothing"], "nothing in nothing can be read: it is empty"),
        (["a", "bad"], "nothing in bad can be read: x.bin: a binary file"),
        (["a", "b", "-o", "b"], "b is a folder"),
        (["a", "b", "-o", "settle.yaml"], "no difference that a study could vary"),
        (["a", "mysql://root@127.0.0.1:1/"], "no server answers at 127.0.0.1:1"),
    ],
)
def test_bad_arguments_are_a_one_line_error(inside, make, tmp_path, arguments, said):
    make("a"), make("b")
    tmp_path.joinpath("nothing").mkdir()
    tmp_path.joinpath("bad").mkdir()
    tmp_path.joinpath("bad", "x.bin").write_bytes(b"\0")
    ran = inside("audit", *arguments)
    assert ran.code in (2, 3), ran
    assert said in ran.complaint


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    ["a" + "\n" * 2_000_000, "| Variable_name | Value |\n| a  |" + " " * 2_000_000, "sysbench 1\n" + " \n" * 1_000_000],
)
def test_a_file_of_blanks_does_not_take_long(inside, make, text):
    make("a"), make("b", blanks__txt=text)
    assert "b: blanks.txt: " in inside("audit", "a", "b").out


def test_a_dump_of_another_version_in_a_folder_is_not_used(inside, make, tmp_path):
    make("a"), make("b")
    write(tmp_path / "b", {"variables2": [*{**BASE, "version": "5.7.22"}.items()]}, "comma")
    out = inside("audit", "a", "b").out
    assert "b: variables2.txt: a dump of version 5.7.22 beside one of 8.0.31" in out


def test_settings_missing_from_a_truncated_dump_are_not_differences(inside, make):
    make("a"), make("b", {"wait_timeout": None, "performance_schema": None})
    ran = inside("audit", "a", "b")
    assert ran.code == 0
    assert "settings of b: performance_schema" in ran.out


def test_the_study_varies_what_differs_and_can_be_planned(inside, make, tmp_path):
    changed = {"innodb_adaptive_hash_index": "OFF", "collation_server": "utf8mb4_bin", "have_ssl": "DISABLED"}
    make("a", oltp_point_select__log=log(100, threads=4))
    make("b", {**changed, "innodb_buffer_pool_size": "17179869184"}, oltp_point_select__log=log(90, threads=4))
    assert inside("audit", "a", "b", "-o", "settle.yaml").code == 1
    document = YAML(typ="safe").load(tmp_path.joinpath("settle.yaml"))
    assert document["factors"] == {
        "buffer_pool": ["512M", "256M"],
        "tls": ["required", "disabled"],
        "option.innodb_adaptive_hash_index": ["ON", "OFF"],
        "collation": ["utf8mb4_0900_ai_ci", "utf8mb4_bin"],
    }
    assert (document["workloads"], document["threads"]) == (["oltp_point_select"], [4])
    assert document["settings"] == {"option.performance_schema": "ON", "option.log_bin": "ON"}
    planned = inside("plan", "settle.yaml", "--format", "json")
    assert planned.code == 0, planned
    assert len(json.loads(planned.out)["arms"]) == 16


def test_a_level_that_a_server_lacks_is_left_out(inside, make, tmp_path):
    make("a", {"version": "5.7.22", "collation_server": "latin1_swedish_ci"}), make("b")
    assert inside("audit", "a", "b", "-o", "settle.yaml").code == 1
    document = YAML(typ="safe").load(tmp_path.joinpath("settle.yaml"))
    assert {"not": {"server": "mysql:5.7.22", "collation": "utf8mb4_0900_ai_ci"}} in document["where"]
    assert inside("plan", "settle.yaml").code == 0


@pytest.mark.parametrize("form", ["text", "md", "json"])
def test_every_format_shows_the_differences(inside, make, form):
    make("a"), make("b", {"log_bin": "OFF"})
    out = inside("audit", "a", "b", "--format", form).out
    assert "log_bin" in out and "the binary log writes every change twice" in out
    assert out.startswith({"text": "\nSetups", "md": "\n## Setups\n", "json": "{\n"}[form])


def test_the_how_to_page_shows_what_is_printed(inside, make, monkeypatch, tmp_path):
    kept = Path("docs", "record", "reconcile-2026")
    shutil.copytree(Path(__file__).parents[2] / kept, tmp_path / kept.name)
    monkeypatch.setattr(record, "FOLDERS", (tmp_path,))
    page = Path(__file__).parents[2].joinpath("docs", "how-to", "audit.md").read_text(encoding="utf-8")
    shown = re.search(r"It prints, among other things:\n\n```\n(.*?)```", page, re.DOTALL)[1]
    rates = [95 + at / 5 for at in range(60)]
    make("old", {"version": "8.0.45"}, oltp_read_only__log=log(100, rates))
    new = {"version": "8.4.8", "have_ssl": None, "tls_version": "", "innodb_adaptive_hash_index": "OFF"}
    make("new", new, oltp_read_only__log=log(112, [111, 113] * 30))
    lines = inside("audit", "old/", "new/").out.splitlines()
    assert [line for line in shown.splitlines() if line not in lines] == [], "\n".join(lines)
