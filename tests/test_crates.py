"""The Rust crates' own tests, run from pytest: the long ones mostly wait, so other tests run beside them."""

import subprocess
from pathlib import Path

import pytest


@pytest.mark.timeout(1200)
def test_the_tests_of_every_crate_pass():
    command = ["cargo", "test", "--quiet", "--workspace", "--", "--test-threads=4"]
    ran = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "test result: ok." in ran.stdout
