"""What the command line prints: within 80 columns on a terminal, one line a row and countable fields in a pipe."""

import re
import unicodedata

import pytest
from synthetic import Truth, duel_study, make_run

from bakeoff.cli import server
from bakeoff.cli.printing import print_sentence, print_table

LISTS = (
    ("list", "servers"), ("list", "workloads"), ("list", "workloads", "oltp_read_only"), ("list", "workloads", "tpcc"),
    ("list", "studies"), ("list", "runs"),
)  # fmt: skip
TWINS = ("duel", "mysql:8.0.15", "mysql:8.0.15,innodb_flush_method=fsync,innodb_flush_log_at_trx_commit=2")
SENTENCES = (
    ("doctor", "--quick"), ("report", "latest", "--format", "text", "-O", "-"), ("plan", "charset-collation"),
    ("plan", "version-ladder"),
    (*TWINS, "--dry-run", "-w", "oltp_read_only,oltp_write_only,oltp_point_select", "--threads", "1,4,16,64"),
    ("runs", "prune", "--keep", "9"),
)  # fmt: skip
COMPARED = [
    pytest.param(words, marks=pytest.mark.needs("history"))
    for words in (("compare", "latest-1", "latest"), ("compare", "latest-1", "latest", "latest-2"))
]
COPIED = ("Report: ", "Again:  ", "run ", "ok       engine:")  # lines with a path or command to be copied


def plain(text):
    """Return the lines without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for name in ("first", "second", "third"):
        make_run(root, duel_study(labels=("mysql:5.7.22", TWINS[2])), Truth(), epochs=6, blocks=4, name=name)
    return root


@pytest.fixture
def printed(root, inside, monkeypatch):
    """`printed(*arguments)`: lines on standard output, for a terminal of 80 columns if `terminal`."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("BAKEOFF_RUNS", str(root))

    def lines(*arguments, terminal):
        monkeypatch.setenv("TTY_COMPATIBLE", "1" if terminal else "0")
        ran = inside(*arguments)
        assert ran.code == 0, ran
        return plain(ran.out)

    return lines


@pytest.mark.parametrize("arguments", [*LISTS, *SENTENCES, *COMPARED], ids=" ".join)
def test_a_terminal_of_80_columns_is_wide_enough(printed, arguments):
    lines = printed(*arguments, terminal=True)
    assert [line for line in lines if len(line) > 80 and not line.startswith(COPIED)] == []
    assert not any("…" in line for line in lines), "a text is cut"


@pytest.mark.parametrize("arguments", LISTS, ids=" ".join)
def test_a_pipe_gets_one_line_a_row(printed, arguments):
    heading, *rows = printed(*arguments, terminal=False)
    columns = heading.split()
    starts = [heading.index(column) for column in columns]
    assert len(rows) > 2 and len(columns) > 1
    for row in rows:
        assert row == row.strip()
        assert all(row[at] != " " and not row[at - 2 : at].strip() for at in starts), "columns are not aligned"


@pytest.mark.parametrize("arguments", [*LISTS, *SENTENCES, *COMPARED], ids=" ".join)
def test_a_pipe_gets_no_control_characters(printed, arguments):
    lines = printed(*arguments, terminal=False)
    assert not [line for line in lines for letter in line if unicodedata.category(letter) == "Cc"]
    if arguments[0] not in ("report", "duel"):  # a report and its rules are for reading
        assert not any("─" in line for line in lines)


def test_downloads_show_no_progress_bar_in_a_pipe(capfd, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    with server._Downloads() as downloads:
        downloads.see("mysql:8.0.15", 5, 10)
        downloads.say("ready")
    assert capfd.readouterr().out == "ready\n"


def test_long_names_are_wrapped_not_truncated(capfd, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "80")
    print_table(("name", "what"), [("name-" + "x" * 90, "something that takes its room, too")])
    lines = plain(capfd.readouterr().out)
    assert (max(map(len, lines)), "".join(lines).count("x")) == (80, 90)


def test_a_number_stays_with_its_unit(capfd, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "30")
    print_sentence("ok       disk: about 60.5 GB free, in 12 min", indent=9)
    assert plain(capfd.readouterr().out) == ["ok       disk: about 60.5 GB", "         free, in 12 min"]
    print_sentence("ok       disk: about 101060.5 GB free", indent=9)
    assert plain(capfd.readouterr().out) == ["ok       disk: about", "         101060.5 GB free"]


def test_errors_are_wrapped_on_a_terminal_and_one_line_in_a_pipe(inside, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    slip = ("plan", "x" * 90 + "/charset-colation")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    on_terminal = inside(*slip).err.splitlines()
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    (in_pipe,) = inside(*slip).err.splitlines()
    assert len(in_pipe) > 160
    assert [line for line in on_terminal if len(line) > 80 and "x" * 90 not in line] == []
    assert "x" * 90 in "".join(on_terminal), "a path is broken"
    assert [line[:9] for line in on_terminal[1:]] == [" " * 9] * (len(on_terminal) - 1)
    assert " ".join(line.strip() for line in on_terminal) == in_pipe
