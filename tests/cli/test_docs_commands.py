"""The commands in README, the tutorial and the how-to pages exist, with the options that they are given."""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("bakeoff")
PAGES = [ROOT / "README.md", ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
SUBCOMMANDS = {
    "show",
    "add",
    "annotate",
    "report",
    "import",
    "export",
    "check",
    "list",
    "install",
    "start",
    "rm",
    "prune",
}
GROUPS = ("history", "capture", "cluster", "server", "runs", "cache")


def commands_of(page):
    blocks = re.findall(r"^```(?:\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("bakeoff ")]


COMMANDS = [(page.name, words) for page in PAGES for words in commands_of(page)]


@cache
def options_of(*command):
    ran = subprocess.run([COMMAND, *command, "--help"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, (command, ran.stderr)
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", ran.stdout))


def test_every_kind_of_page_shows_commands():
    assert {name for name, _ in COMMANDS} >= {"README.md", "tutorial.md", "upgrade.md", "ci.md"}


@pytest.mark.parametrize(
    ("page", "words"), COMMANDS, ids=lambda each: " ".join(each) if isinstance(each, list) else each
)
def test_a_command_of_the_docs_has_its_options(page, words):
    if words[0] == "sysbench":
        pytest.skip("sysbench's options belong to the script")
    command = words[:1]
    if subcommands := GROUPS.get(words[0]):
        command = words[:2] if words[1] in subcommands else [words[0], "make"]
    given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert given <= options_of(*command)
