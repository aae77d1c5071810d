"""What `--help` says: words that people know, within 80 columns, and no text that is cut."""

import re
import shlex

import click
import pytest

from bakeoff.cli.main import app
from bakeoff.spec import parse_server

TYPES = re.compile(r"<|\blist\[|(?<=[A-Za-z] )(str|int|float|path|bool|int range|choice)$|[{}]|<=x")


def commands(command, context, name):
    """The words of every command, those of groups included."""
    yield name
    for each in getattr(command, "list_commands", lambda _: ())(context):
        below = command.get_command(context, each)
        yield from commands(below, below.make_context(each, [], parent=context, resilient_parsing=True), (*name, each))


def every_command():
    top = app()
    found = commands(top, top.make_context("bakeoff", [], resilient_parsing=True), ())
    return [name for name in found if name != ("sysbench",)]


@pytest.mark.parametrize("command", every_command(), ids=" ".join)
def test_help_shows_no_python_types_and_fits_a_terminal(inside, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    ran = inside(*command, "--help")
    assert (ran.code, ran.out.startswith(f"Usage: {' '.join(('bakeoff', *command))} ")) == (0, True), ran
    lines = ran.out.splitlines()
    assert len(lines) > 5
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if line.endswith("-")] == [], "a word is broken"
    assert [line for line in lines if line.endswith("...") and not line.startswith("Usage:")] == [], "a text is cut"
    terms = [re.split(" {2,}", line.strip())[0] for line in lines if line.startswith("  ")]
    assert [term for term in [lines[0], *terms] if TYPES.search(term)] == []
    assert [line for line in lines if "<=x" in line or "x>=" in line] == []
    summary = lines[2].strip()
    assert summary[0].isupper() and " " in summary


def examples_of(text):
    block = re.search(r"^Examples:\n((?:  .+\n)+)", text, re.MULTILINE)
    assert block, text
    return [line.strip() for line in block[1].splitlines()]


def parse(words):
    """Parse a command line as the shell would hand it over. Returns its command and arguments; raises UsageError."""
    command, name, context = app(), "bakeoff", None
    while isinstance(command, click.Group):
        context = command.make_context(name, words, parent=context)
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
    return command, command.make_context(name, words, parent=context).params


@pytest.mark.parametrize("command", every_command(), ids=" ".join)
def test_help_begins_with_examples_that_parse(inside, command):
    text = inside(*command, "--help").out
    examples = examples_of(text)
    assert 1 <= len(examples) <= 3
    headings = re.findall(r"^(\w.*):$", text, re.MULTILINE)
    assert headings[0] == "Examples"
    for example in examples:
        words = shlex.split(example.partition(" > ")[0])
        assert words[: 1 + len(command)] == ["bakeoff", *command] or command == ("capture", "make")
        _, values = parse(words[1:])
        assert values
        for server in re.findall(r"(?<= )(?:mysql|mariadb|path):\S+", example):
            assert parse_server(server)


def test_long_help_has_panels_with_the_five_most_used_options_first(inside):
    panels = ["What is compared", "Workload", "Data", "How long", "Where", "Output"]
    for name, titles in {"duel": panels, "run": [each for each in panels if each != "Data"]}.items():
        text = inside(name, "--help").out
        assert re.findall(r"^(\w.*):$", text, re.MULTILINE) == ["Examples", "Arguments", "Most used", *titles]
        first = re.search(r"^Most used:\n(.+?)\n\n", text, re.MULTILINE | re.DOTALL)
        assert first
        assert len(re.findall(r"^  -", first[1], re.MULTILINE)) == 5
    assert re.findall(r"^(\w.*):$", inside("report", "--help").out, re.MULTILINE) == [
        "Examples",
        "Arguments",
        "Options",
    ]


def test_a_range_and_a_default_are_reported_in_one_bracket(inside, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = inside("doctor", "--help").out
    assert re.search(r"--threads N +Connections in the test run\. \[default: 4; 1 to 10000\]\n", shown)
    assert "\n  SERVER  The baseline first" in inside("duel", "--help").out
    assert inside("duel", "--help").out.startswith("Usage: bakeoff duel [OPTIONS] SERVER...\n")
