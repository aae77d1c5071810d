"""Every benchmark starts as described in bench/README.md, with all its imports available."""

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"


def test_every_benchmark_says_what_its_options_are():
    programs = sorted(path for path in BENCH.glob("*/*.py") if "__main__" in path.read_text("utf-8"))
    assert len(programs) >= 12
    started = {
        path: subprocess.Popen(
            [sys.executable, path, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for path in programs
    }
    said = {str(path.relative_to(BENCH)): (each.communicate()[0], each.returncode) for path, each in started.items()}
    assert {name: out for name, (out, code) in said.items() if code or not out.startswith("usage:")} == {}
