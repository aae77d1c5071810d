"""`bakeoff capture` and `bakeoff capture show`: what they print, what they refuse, what they leave."""

import gzip
import json
import lzma
import os
import signal
import subprocess
import time

import pytest

from bakeoff.engine import engine_path

SLOW = """# Time: 2026-11-23T10:00:0{second}.000000Z
# User@Host: shop[shop] @ app.example [10.0.0.1]  Id:     {connection}
# Query_time: 0.00{second}000  Lock_time: 0.000002 Rows_sent: 1  Rows_examined: 10
SET timestamp=1795428000;
{sql};
"""
STATEMENTS = (
    "SELECT * FROM customers WHERE mail = 'ada@example.org'", "SELECT * FROM customers WHERE mail = 'bob@example.org'",
    "BEGIN", "INSERT INTO orders VALUES (4711, 'ada@example.org')", "COMMIT", "SELECT a FROM t WHERE b = ?",
    "CREATE USER shop IDENTIFIED BY 's3cret'", "LOAD DATA LOCAL INFILE 'x' INTO TABLE t",
)  # fmt: skip
LOG = "".join(SLOW.format(second=n, connection=n % 2 + 7, sql=sql) for n, sql in enumerate(STATEMENTS, start=1))


@pytest.fixture
def log(shell):
    path = shell.folder / "slow.log"
    path.write_text(LOG)
    return path


@pytest.mark.parametrize("events", [[], ["--events"]])
def test_the_engine_refuses_a_second_capture(tmp_path, events):
    ran = subprocess.run([engine_path(), "capture", *events, "a", "b"], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "") and "give one capture and no logs" in ran.stderr


def test_a_log_becomes_a_capture_and_is_shown_by_time(inside, shell, log):
    made = inside("capture", "slow.log", "-o", "shop.capture")
    assert made.code == 0, made.err
    assert "8 statements · 7 digests · 2 connections · 1 transaction " in " ".join(made.out.split())
    assert "Capture: shop.capture" in made.out
    shown = inside("capture", "show", "shop.capture", "--format", "json", "--limit", "100")
    totals = json.loads(shown.out)
    times = [each["total_us"] for each in totals["digests"]]
    assert times == sorted(times, reverse=True)
    customers = next(each for each in totals["digests"] if "customers" in each["text"])
    assert (customers["count"], customers["total_us"], customers["max_us"]) == (2, 3000, 2000)
    assert customers["text"] == "SELECT * FROM `customers` WHERE `mail` = ?"
    assert totals["overall"]["not_replayable"] == {"local file": 1, "parameters": 1, "password": 1}


def test_csv_and_json_list_every_digest_text_and_markdown_the_first_20(inside, shell):
    made = (SLOW.format(second=n % 60, connection=7, sql=f"SELECT a FROM t{'x' * n}") for n in range(25))
    (shell.folder / "slow.log").write_text("".join(made))
    assert inside("capture", "slow.log", "-o", "shop.capture", "--limit", "0").code == 0

    def shown(*arguments):
        return inside("capture", "show", "shop.capture", "--format", *arguments).out

    assert [len(shown("csv", *limit).splitlines()) - 1 for limit in ((), ("--limit", "3"))] == [25, 3]
    assert [len(json.loads(shown("json", *limit))["digests"]) for limit in ((), ("--limit", "3"))] == [25, 3]
    assert "20 of 25" in shown("md") and "20 of 25" in shown("text")


@pytest.mark.parametrize("form", ["text", "html", "md", "csv", "json"])
def test_literals_are_shown_only_when_asked_for(form, inside, log):
    assert inside("capture", "slow.log", "-o", "shop.capture", "--limit", "0").code == 0
    hidden = inside("capture", "show", "shop.capture", "--format", form)
    assert (hidden.code, "customers" in hidden.out, "example.org" in hidden.out) == (0, True, False)
    shown = inside("capture", "show", "shop.capture", "--format", form, "--show-literals")
    assert "bob@example.org" in "".join(shown.out.split())
    assert "s3cret" not in shown.out


def test_redacted_captures_hold_no_literal(inside, shell, log):
    assert inside("capture", "--redact", "slow.log", "-o", "shop.capture").code == 0
    lines = subprocess.run(["zstdcat", "shop.capture"], cwd=shell.folder, capture_output=True, check=True).stdout
    assert b"example.org" not in lines
    assert b"app.example" not in lines
    assert b"IDENTIFIED BY '***'" in lines


def test_logs_may_be_compressed_rotated_or_from_standard_input(inside, shell, log):
    half = len(LOG) // 2
    (shell.folder / "a").write_bytes(gzip.compress(LOG[:half].encode()))
    (shell.folder / "b").write_bytes(lzma.compress(LOG[half:].encode()))
    assert inside("capture", "a", "b", "-o", "rotated.capture").code == 0
    piped = subprocess.run(
        [*shell.command, "capture", "-", "-o", "piped.capture"],
        cwd=shell.folder, env=shell.env, input=LOG.encode(), capture_output=True, check=True,
    )  # fmt: skip
    assert b"8 statements" in piped.stdout
    totals = [inside("capture", "show", f"{name}.capture", "--format", "json").out for name in ("rotated", "piped")]
    assert totals[0] == totals[1]


def test_capturing_a_sql_file_says_that_it_has_no_times(inside, shell):
    (shell.folder / "queries.sql").write_text("SELECT 1;\nBEGIN;\nDELIMITER //\nSELECT 2//\n")
    ran = inside("capture", "queries.sql", "-o", "q.capture")
    assert ran.code == 0
    assert "the log has no times" in " ".join(ran.out.split())
    assert "Capture: q.capture" in ran.out


@pytest.mark.parametrize(
    ("arguments", "named", "code"),
    [
        (["capture", "nowhere.log", "-o", "x"], "nowhere.log: cannot be opened", 3),
        (["capture", "letter", "-o", "x"], "Name the format: --format slow, general or sql.", 2),
        (["capture", "empty", "-o", "x"], "the logs are empty", 2),
        (["capture", "slow.log", "-o", "slow.log"], "is one of the logs", 2),
        (["capture", "slow.log", "-o", "/dev/full"], "/dev/full is not a file", 2),
        (["capture", "slow.log", "-o", "/nowhere/x"], "cannot be written", 3),
        (["capture", "slow.log"], "--output", 2),
        (["capture", "mysql://root:s3cret@127.0.0.1:1/", "-o", "x"], "no server answers at 127.0.0.1:1", 3),
        (["capture", "mysql://root:s3cret@h/", "slow.log", "-o", "x"], "a running server is read alone", 2),
        (["capture", "mysql://root:s3cret@h/", "-o", "x", "--format", "slow"], "a running server is read alone", 2),
        (["capture", "mysql://root:s3cret@h:x/", "-o", "x"], "host or port is unclear", 2),
        (["capture", "slow.log", "-o", "x", "--from", "slow-log"], "a log has only one source", 2),
        (["capture", "broken.gz", "-o", "x"], "broken.gz: cannot be read", 3),
        (["capture", "show", "slow.log"], "not a capture", 2),
        (["capture", "show", "nowhere"], "cannot be opened", 3),
        (["capture", "show", "cut"], "incomplete", 2),
        (["capture", "slow.log", "--format", "csv", "-o", "x"], "'csv' is not one of", 2),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(arguments, named, code, inside, shell, log):
    (shell.folder / "letter").write_text("Dear reader")
    (shell.folder / "empty").touch()
    (shell.folder / "broken.gz").write_bytes(gzip.compress(LOG.encode())[:-20])
    assert inside("capture", "slow.log", "-o", "whole").code == 0
    whole = (shell.folder / "whole").read_bytes()
    (shell.folder / "cut").write_bytes(whole[:-3])
    before = sorted(path.name for path in shell.folder.iterdir())
    ran = inside(*arguments)
    assert ran.code == code, ran
    assert named in ran.complaint
    assert "s3cret" not in ran.err
    assert sorted(path.name for path in shell.folder.iterdir()) == before
    assert log.read_text() == LOG


def test_replaying_an_unknown_log_format_suggests_a_capture_command(inside, shell):
    (shell.folder / "letter").write_text("Dear reader")
    ran = inside("replay", "letter", "mysql:8.0.15", "mysql:5.7.22")
    assert ran.code == 2
    assert ran.complaint.endswith("Make a capture of it: bakeoff capture letter --format slow -o shop.capture")


def test_ctrl_c_leaves_nothing(shell):
    os.mkfifo(shell.folder / "endless.log")
    process = shell.start("capture", "endless.log", "-o", "x")
    deadline = time.monotonic() + 60
    while not (shell.folder / "x.partial").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    ran = shell.finish(process, limit_s=30)
    assert (ran.code, ran.complaint) == (130, "bakeoff: interrupted.")
    assert not list(shell.folder.glob("x*"))
