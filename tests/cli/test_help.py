"""What `--help` says: words that people know, within 80 columns, and no text that is cut."""

import re

import pytest

from bakeoff.cli.main import app

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
def test_a_help_has_no_types_of_python_and_fits_a_terminal(inside, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    ran = inside(*command, "--help")
    assert (ran.code, ran.out.startswith(f"Usage: {' '.join(('bakeoff', *command))} ")) == (0, True), ran
    lines = ran.out.splitlines()
    assert len(lines) > 5
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if line.endswith("...") and not line.startswith("Usage:")] == [], "a text is cut"
    terms = [re.split(" {2,}", line.strip())[0] for line in lines if line.startswith("  ")]
    assert [term for term in [lines[0], *terms] if TYPES.search(term)] == []
    assert [line for line in lines if "<=x" in line or "x>=" in line] == []
    summary = lines[2].strip()
    assert summary[0].isupper() and " " in summary


def test_a_range_and_a_default_are_reported_in_one_bracket(inside, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = inside("doctor", "--help").out
    assert re.search(r"--threads N +Connections in the test run\. \[default: 4; 1 to 10000\]\n", shown)
    assert "\n  SERVER  The baseline first" in inside("duel", "--help").out
    assert inside("duel", "--help").out.startswith("Usage: bakeoff duel [OPTIONS] SERVER...\n")
