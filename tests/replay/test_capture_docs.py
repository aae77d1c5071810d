"""docs/reference/capture.md: its commands run, and the file has the lines and fields that it describes."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from bakeoff.replay.capture_view import REASONS
from bakeoff.replay.sections import LEFT_OUT
from tests.replay.test_capture_command import LOG

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "capture.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (bakeoff capture .*)$", PAGE, re.MULTILINE)


@pytest.fixture
def logs(shell):
    for name in ("slow.log", "slow.log.1", "slow.log.2.gz"):
        (shell.folder / name).write_text(LOG)
    (shell.folder / "general.log").write_text("2024-11-06T09:57:35.187996Z\t    7 Query\tSELECT 1\n")


def test_documented_commands_run_in_order(inside, shell, logs):
    assert len(COMMANDS) == 6
    for line in COMMANDS:
        words, _, stdin = line.partition(" < ")
        arguments = shlex.split(words)[1:]
        if not stdin:
            ran = inside(*arguments)
            assert ran.code == 0, (line, ran.err)
            continue
        with (shell.folder / stdin).open() as file:
            command = [*shell.command, *arguments]
            subprocess.run(command, cwd=shell.folder, env=shell.env, stdin=file, capture_output=True, check=True)


def test_both_pages_list_every_reason():
    reasons = re.findall(r"^\| `([a-z ]+)` \|", PAGE.split("## What cannot be replayed")[1].split("\n## ")[0], re.M)
    assert sorted(reasons) == sorted(REASONS)
    replay = (Path(__file__).parents[2] / "docs" / "reference" / "replay.md").read_text(encoding="utf-8")
    for reason, words in REASONS.items():
        assert f"| {words} | `{reason}` |" in replay
    assert all(f"| {words} |" in replay for words in LEFT_OUT.values())


def lines_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_a_capture_file_has_the_documented_lines_and_fields(inside, shell, logs):
    assert inside("capture", "slow.log", "-o", "shop.capture").code == 0
    raw = subprocess.run(
        ["zstdcat", "shop.capture"], cwd=shell.folder, capture_output=True, text=True, check=True
    ).stdout
    described = {line["type"]: line for line in lines_of(PAGE.split("```json\n")[1].split("```")[0])}
    found = lines_of(raw)
    assert [line["type"] for line in found] == ["bakeoff-capture", *["event"] * 8, *["digest"] * 7, "overall"]
    for line in found:
        if line["type"] == "event":
            optional = {"weight", "not_replayable", "sql_base64"}
            assert line.keys() - optional <= described["event"].keys()
        else:
            assert list(line) == list(described[line["type"]]), "fields and their order"
    table = PAGE.split("An event has these fields")[1].split("\n\n")[1]
    assert described["event"].keys() - {"type"} <= set(re.findall(r"`(\w+)`", table))
