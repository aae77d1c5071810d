"""The man page is what the help says, and well-formed."""

import re
import shutil
import subprocess

import pytest

from bakeoff.errors import ExitCode
from tests.cli.test_listing import COMMANDS
from tools.man_page import PAGE, man_page

REQUESTS = {".TH", ".SH", ".SS", ".TP", ".B", ".I", ".nh", ".ad"}


def test_the_page_is_up_to_date():
    assert PAGE.read_text("utf-8") == man_page(), "write it anew: make docs"


def test_every_command_and_exit_code_has_its_place():
    page = man_page()
    headings = re.findall(r"^\.SS bakeoff (\S+)", page, re.MULTILINE)
    assert sorted(set(headings)) == sorted(COMMANDS)
    _, exit_codes = page.split(".SH EXIT STATUS\n")
    assert re.findall(r"^\\fB(\d+)\\fR$", exit_codes, re.MULTILINE) == [str(code.value) for code in ExitCode]
    assert "\\fB\\-\\-budget DURATION\\fR\nWall time from loading to verdict" in page


def test_it_is_well_formed_roff():
    lines = man_page().splitlines()
    assert lines[0].startswith(".TH BAKEOFF 1 ")
    assert [line for line in lines if line.startswith(".SH")][:3] == [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"]
    for line, after in zip(lines, [*lines[1:], ".SH"], strict=True):
        assert not line.startswith((".", "'")) or line.split()[0] in REQUESTS
        assert line.count("\\fB") + line.count("\\fI") == line.count("\\fR"), f"a font is not ended: {line}"
        assert not re.search(r"\\(?![efR&-]|f[BIR])", line), f"an unknown escape: {line}"
        if line == ".TP":
            assert not after.startswith("."), "an item has no term"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_object():
    ran = subprocess.run(
        ["groff", "-man", "-Kutf8", "-Tutf8", "-ww", str(PAGE)], capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    assert "bakeoff duel [OPTIONS] SERVER..." in re.sub(".\x08", "", ran.stdout)
