"""A very large run (10,000 slices in each of 100 cells) takes bounded time and memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_BUILD = """
import json, resource, sys, time
sys.path[:0] = [{tests!r}, {project!r}]
from pathlib import Path
from bakeoff.results import SLICE_SCHEMA
from bakeoff.results.frame import Frame, write_parquet
from synthetic import Truth, duel_study, make_run, slices_of_cell
from plain_analysis import plain_analysis

root = Path({root!r})
study = duel_study(workloads=tuple(f"workload_{{i}}" for i in range(20)), threads=(1, 2, 4, 8, 16), control=False)
run = make_run(root, study, epochs=10, blocks=1)
for epoch in range(10):
    cells = [(f"workload_{{i}}/{{t}}", i, t) for i in range(20) for t in study.threads]
    frames = [
        slices_of_cell(study, Truth(), cell=c, cell_index=i, threads=t, epoch=epoch, blocks=250, slice_ns=100_000_000)
        for c, i, t in cells
    ]
    folder = run.path / f"epochs/{{epoch:03d}}"
    (folder / "SHA256SUMS").unlink()
    (folder / "slices.parquet").write_bytes(write_parquet(Frame.concat(frames), SLICE_SCHEMA))
run.write_json("analysis.json", plain_analysis(run, study))
print(run.path)
"""

_RENDER = """
import json, resource, sys, time
from bakeoff.report import build_view, render_html
from bakeoff.results import open_run
from bakeoff.stats.model import Analysis

begin = time.process_time()
run = open_run({path!r})
view = build_view(run, run.read("analysis.json", Analysis))
text = render_html(view)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
slices = len(run.slices("epoch"))
print(json.dumps([time.process_time() - begin, peak, len(text.encode()), slices]))
"""


def test_a_million_slices_make_a_small_page(tmp_path):
    built = _python(
        _BUILD.format(tests=str(Path(__file__).parent), project=str(Path(__file__).parents[2]), root=str(tmp_path))
    )
    seconds, peak_bytes, page_bytes, slices = json.loads(_python(_RENDER.format(path=built.strip())))
    assert slices == 1_000_000
    assert seconds < 10
    assert peak_bytes < 1e9
    assert page_bytes < 4e6


def _python(code):
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
