"""Fixtures of the first hour: a terminal of 80 columns, and its screen without what changes from run to run."""

import re

import pytest

from tests.first_hour.terminal import COLUMNS, type_inside, type_line

COPIED = (
    "Report: ",
    "More: ",
    "Again: ",
    "<folder>",
    "mysql-8.0.15-",
    "runs/",
    "bakeoff report ",
)  # paths, names of runs and commands to be copied


@pytest.fixture
def typed(shell):
    """`typed(line)`: type a line and return what is seen.

    With `empty` the cache holds no servers; with `inside` the command runs in the test's process.
    """
    env = {name: value for name, value in shell.env.items() if name not in ("NO_COLOR", "COLUMNS")}
    env |= {"TERM": "xterm-256color"}

    def type_it(line, *, empty=False, inside=False, **how):
        cache = {"XDG_CACHE_HOME": str(shell.folder / "empty")} if empty else {}
        if inside:
            seen = type_inside(line, folder=shell.folder, env=env | cache)
        else:
            seen = type_line(line, command=shell.command, folder=shell.folder, env=env | cache, **how)
        assert "Traceback" not in seen.raw
        return seen

    return type_it


@pytest.fixture
def walked(typed, shell, snapshot):
    """`walked(*lines)`: type all lines and compare the screen with the snapshot."""

    def walk(*lines, **how):
        transcript = ""
        for line in lines:
            seen = typed(line, **how)
            assert too_wide(seen, shell) == []
            transcript += f"$ {line}\n{without_chance(seen, shell)}\n[{seen.code}]\n\n"
        assert transcript == snapshot

    return walk


def too_wide(seen, shell):
    lines = seen.screen.replace(str(shell.folder), "<folder>").splitlines()
    return [line for line in lines if len(line) > COLUMNS and not line.startswith(COPIED)]


def without_chance(seen, shell):
    """The screen without what changes from run to run."""
    text = seen.screen.replace(str(shell.folder), "<folder>")
    text = re.sub(r"\n {9}(?=\S)", " ", text)  # where a line is broken depends on the numbers in it
    text = re.sub(r"bakeoff \d+\.\d+\.\d+\S*", "bakeoff <version>", text)
    text = re.sub(r"-\d{8}T\d{6}Z-[0-9a-f]{4}", "-<time>-<random>", text)
    text = re.sub(r"Installed: .*", "Installed: <servers>", text)
    text = re.sub(r"cannot be reached \([^)]*\)", "cannot be reached (<reason>)", text)
    return re.sub(r"\b[\d.]+ [kMGT]?B\b", "<size>", text)
