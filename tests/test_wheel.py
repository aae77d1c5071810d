"""What `pip install` gives: the wheel outside the repository and without Rust, built from the source distribution."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(["make", "wheel", f"DIST={out}"], cwd=ROOT, check=True, capture_output=True)
    return out


def test_a_fresh_environment_duels_with_the_wheel(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    assert "manylinux" in wheel.name
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    subprocess.run([tmp_path / "venv/bin/pip", "install", "--quiet", wheel], check=True)
    size = subprocess.run(["du", "-sm", tmp_path / "venv"], check=True, capture_output=True, text=True).stdout
    assert int(size.split()[0]) <= 300, size
    env = {"PATH": f"{tmp_path}/venv/bin:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    assert shutil.which("cargo", path=env["PATH"]) is None
    env |= {name: os.environ[name] for name in ("XDG_CACHE_HOME",) if name in os.environ}

    def bakeoff(*arguments):
        ran = subprocess.run(["bakeoff", *arguments], cwd=tmp_path, env=env, capture_output=True, text=True)
        return ran.returncode, ran.stdout + ran.stderr

    assert bakeoff("--version")[0] == 0
    code, said = bakeoff("sysbench", "--version")
    assert (code, said) == (0, "sysbench 1.0.20\n")
    code, said = bakeoff(
        "duel", "mysql:8.0.15", "mysql:8.0.15", "--inject-slowdown", "50%", "--workload", "oltp_point_select",
        "--tables", "1", "--table-size", "10000", "--threads", "2", "--precision", "20%", "--budget", "2m",
        "--fail-on", "slower",
    )  # fmt: skip
    assert (code, "SLOWER" in said) == (1, True), said
    (report,) = tmp_path.glob("bakeoff-runs/*/report.html")
    assert "<svg" in report.read_text()
    licences = list((tmp_path / "venv").glob("lib/python*/site-packages/bakeoff-*.dist-info/licenses/LICENSE-*"))
    assert len(licences) == 2
    assert not list((tmp_path / "venv").glob("lib/python*/site-packages/validation"))
