"""The picture of the pool in docs/architecture.md, kept true."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINES_MAX = 600  # beyond, a file wants to be two (design: about 400)
CRATES_ALLOWED = {
    "bakeoff-wire": set(),
    "bakeoff-metrics": set(),
    "bakeoff-script": set(),
    "bakeoff-engine": {"bakeoff-wire", "bakeoff-metrics", "bakeoff-script"},
    "bakeoff-fakeserver": set(),
}


def test_python_rooms_depend_one_way():
    lint_imports = Path(sys.executable).with_name("lint-imports")
    ran = subprocess.run([lint_imports], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_crates_depend_one_way():
    metadata = subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--no-deps", "--offline"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = {
        package["name"]: {
            dependency["name"]
            for dependency in package["dependencies"]
            if dependency["name"].startswith("bakeoff-") and dependency["kind"] is None
        }
        for package in json.loads(metadata.stdout)["packages"]
    }
    for crate, allowed in CRATES_ALLOWED.items():
        assert found[crate] <= allowed, crate


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines()]


def test_files_can_be_read_at_a_sitting():
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in tracked("*.py", "*.rs", "*.lua")
        if path.exists()
    }
    assert lengths
    assert not {name: lines for name, lines in lengths.items() if lines > LINES_MAX}


@pytest.mark.parametrize("name", ["util", "utils", "common", "helpers", "misc"])
def test_there_is_no_drawer(name):
    drawers = [path for path in tracked("python", "crates", "tests") if path.stem == name or path.parent.name == name]
    assert not drawers


def test_no_registry_host_is_named():
    hosts = (
        "pypi.org",
        "files.pythonhosted.org",
        "crates.io/api",
        "registry.npmjs.org",
        "repo1.maven.org",
        "deb.debian.org",
    )
    offenders = [
        path.relative_to(ROOT).as_posix()
        for path in tracked()
        if path.is_file()
        and path.name not in ("Cargo.lock", Path(__file__).name)
        and any(host in path.read_text(encoding="utf-8", errors="ignore") for host in hosts)
    ]
    assert not offenders
