"""docs/ci: the files are valid, their commands run, and docs/reference/gate.md says what they do."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "gate.md").read_text(encoding="utf-8")
SMALL = {"WORKLOADS": "oltp_point_select", "MAX_SLOWDOWN": "40%", "BUDGET": "4m"}
SERVER = "mysql:8.0.15"
INSTALL = 'pip install "$BAKEOFF"'


def load(name):
    return YAML(typ="safe").load((DOCS / "how-to" / "ci" / name).read_text(encoding="utf-8"))


def github_job():
    return load("github-gate.yml")["jobs"]["gate"]


@pytest.fixture
def commands(shell):
    """A folder in PATH with `bakeoff`, as pip would install it, and `gh`, which keeps its arguments."""
    folder = shell.folder / "bin"
    folder.mkdir()
    (folder / "bakeoff").write_text(f'#!/bin/sh\nexec {sys.executable} -m bakeoff.cli.start "$@"\n')
    (folder / "gh").write_text(
        '#!/bin/sh\necho "$*" >> "$GH_LOG"\ncase "$*" in *--paginate*) echo "$GH_FOUND";; esac\n'
    )
    for each in folder.iterdir():
        each.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "GH_LOG": str(shell.folder / "gh.log"), "GH_FOUND": ""}


def run_lines(shell, text, env):
    """Run the lines as a CI system does: in bash, which stops at the first error."""
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", text], cwd=shell.folder, env=shell.env | env, capture_output=True, text=True
    )


def test_every_file_is_named_on_the_page_and_no_input_is_pasted_into_a_command():
    for path in sorted((DOCS / "how-to" / "ci").iterdir()):
        assert f"ci/{path.name}" in PAGE
        for job in load(path.name).get("jobs", {}).values():
            for step in job["steps"]:
                pasted = re.findall(r"\$\{\{ *([\w.]+) *\}\}", step.get("run", ""))
                assert set(pasted) <= {"github.event.number"}, "whoever names an input could run a command"


def test_every_workflow_input_is_used():
    job = github_job()
    # The plain parser of YAML 1.2 keeps `on` as text.
    inputs = load("github-gate.yml")["on"]["workflow_call"]["inputs"]
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(job)))
    assert used == set(inputs)
    variables = set(re.findall(r"\$([A-Z_]+)", " ".join(step.get("run", "") for step in job["steps"])))
    assert variables == set(job["env"])


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.timeout(600)
def test_the_commands_of_the_github_workflow_run(shell, commands):
    job = github_job()
    values = SMALL | {"BASELINE": SERVER, "CONTENDER": f"{SERVER},max_connections=151", "BAKEOFF": "bakeoff"}
    values["OPTIONS"] = "--threads 2 --tables 1 --table-size 1000"
    assert set(values) == set(job["env"])
    (shell.folder / "builds").mkdir()
    subprocess.run(["tar", "-cf", "builds.tar", "builds"], cwd=shell.folder, check=True)
    summary = shell.folder / "summary.md"
    env = values | commands | {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    ran = [step["run"].replace("${{ github.event.number }}", "17") for step in job["steps"] if "run" in step]
    assert ran.count(INSTALL) == 1
    for text in ran:
        done = run_lines(shell, text.replace(INSTALL, "true"), env)
        assert done.returncode in ((0, 3) if "doctor" in text else (0,)), (text, done.stdout, done.stderr)
    kept = {path.name for path in (shell.folder / "gate").iterdir()}
    assert kept == {"gate.md", "report.html", "gate.xml", "pull-request"}
    assert summary.read_text().startswith("<!-- bakeoff:gate:gate -->\n# bakeoff gate: passed")
    assert (shell.folder / "gate" / "pull-request").read_text() == "17\n"


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_commands_of_the_gitlab_job_run(shell, commands):
    job = load("gitlab-gate.yml")["performance"]
    assert job["allow_failure"] == {"exit_codes": [6]}
    values = {"BASELINE": SERVER, "CONTENDER": f"{SERVER},max_connections=151"}
    assert set(job["variables"]) == {*values, "BAKEOFF"}
    small = {"2%": "40%", "10m": "4m --threads 2 --tables 1 --table-size 1000"}
    for text in job["script"]:
        if text == INSTALL:
            continue
        text = re.sub("oltp_point_select,[a-z_,]*", "oltp_point_select", text)
        for large, little in small.items():
            text = text.replace(f" {large}", f" {little}")
        done = run_lines(shell, text, values | commands)
        assert done.returncode in ((0, 3) if "doctor" in text else (0,)), (text, done.stdout, done.stderr)
    assert ElementTree.parse(shell.folder / job["artifacts"]["reports"]["junit"]).getroot().tag == "testsuites"
    assert all((shell.folder / path).is_dir() for path in job["artifacts"]["paths"])


@pytest.mark.parametrize(
    ("number", "marker", "found", "does"),
    [
        ("17", "<!-- bakeoff:gate:gate -->", "", "--method POST repos/o/r/issues/17/comments --field body=@gate.md"),
        ("17", "<!-- bakeoff:gate:gate -->", "99", "--method PATCH repos/o/r/issues/comments/99 --field body=@gate.md"),
        ("17; rm", "<!-- bakeoff:gate:gate -->", "", None),
        ("17", '<!-- bakeoff:gate:x"))|. -->', "", None),
    ],
)
def test_the_pull_request_comment_is_created_once_and_then_updated(shell, commands, number, marker, found, does):
    (job,) = load("github-comment.yml")["jobs"].values()
    (text,) = [step["run"] for step in job["steps"] if step["name"].startswith("Comment")]
    (shell.folder / "pull-request").write_text(f"{number}\n")
    (shell.folder / "gate.md").write_text(f"{marker}\n# passed\n")
    done = run_lines(shell, text, commands | {"REPOSITORY": "o/r", "GH_FOUND": found})
    log = shell.folder / "gh.log"
    if does is None:
        assert done.returncode != 0 and not log.exists()
    else:
        assert done.returncode == 0, done.stderr
        assert log.read_text().splitlines()[-1] == f"api {does}"
