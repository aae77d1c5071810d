"""The commands in README, the tutorial and the how-to pages exist, and so do their options."""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import is_installed

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("bakeoff")
PAGES = [ROOT / "README.md", ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
GROUPS = {
    "capture": ("show", "make"),
    "history": ("add", "annotate", "export", "import", "report", "show"),
    "cluster": ("check",),
    "server": ("install", "list", "rm", "start"),
    "runs": ("prune", "rm"),
    "cache": ("prune",),
}


def commands_of(page):
    blocks = re.findall(r"^```(?:\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("bakeoff ")]


COMMANDS = {str(page.relative_to(ROOT)): commands_of(page) for page in PAGES}


@cache
def options_of(*command):
    ran = subprocess.run([COMMAND, *command, "--help"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, (command, ran.stderr)
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", ran.stdout))


def test_every_kind_of_page_shows_commands():
    shown = {name for name, found in COMMANDS.items() if found}
    assert shown >= {"README.md", "docs/tutorial.md", "docs/how-to/ci.md"}


@pytest.mark.parametrize("page", COMMANDS)
def test_documented_commands_use_only_existing_options(page):
    for words in COMMANDS[page]:
        if words[0] == "sysbench" or not is_installed(words[0]):  # the options of sysbench belong to the script
            continue
        command = words[:1]
        if subcommands := GROUPS.get(words[0]):
            command = words[:2] if words[1] in subcommands else [words[0], "make"]
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert given <= options_of(*command), words
