"""docs/reference/data.md: its commands are accepted, and its table of collations matches the engine."""

import gzip
import re
import shlex
from pathlib import Path

import pytest
from made_dumps import mydumper
from test_dumps import SHOP

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "data.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (bakeoff .*)$", PAGE, re.MULTILINE)


@pytest.fixture
def files(shell):
    (shell.folder / "shop.sql.gz").write_bytes(gzip.compress(SHOP.read_bytes()))
    (shell.folder / "dumps").mkdir()
    mydumper(shell.folder / "dumps" / "shop")
    (shell.folder / "own.lua").write_text("function event() end\n")


def test_the_commands_on_the_page_are_accepted(inside, files):
    """Checked without servers, with --dry-run. The page's running server does not answer."""
    assert len(COMMANDS) == 4
    for line in COMMANDS:
        words = line.partition(" # ")[0]
        ran = inside(*shlex.split(words)[1:], *([] if "--dry-run" in words else ["--dry-run"]))
        if "mysql://" in words:
            assert (ran.code, "no server answers at db1:3306" in ran.err) == (3, True), ran
        else:
            assert ran.code == 0, (line, ran.err)
            assert "Loads:   4 of at most" in ran.out


def test_collations_are_replaced_as_the_table_says():
    source = (ROOT / "crates" / "engine" / "src" / "dump_sql.rs").read_text(encoding="utf-8")
    arms = re.findall(r'^\s+((?:"\w+"(?: \| )?)+) => "(\w+)",$', source, re.MULTILINE)
    nearest = {name: to for names, to in arms for name in re.findall(r'"(\w+)"', names)}
    assert len(nearest) == 11

    def chain(name):
        while next_one := nearest.get(name) or (name.startswith("utf8mb3_") and name.replace("utf8mb3", "utf8")):
            yield next_one
            name = next_one

    rows = re.findall(r"^\| (`utf8mb\d_\w+`.*?) \| (`.*`) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    for names, loaded in rows:
        for name in re.findall(r"`(\w+)`", names):
            assert list(chain(name)) == re.findall(r"`(\w+)`", loaded), name
