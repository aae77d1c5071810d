"""Generate a run directory of a given size without server or engine, for run.py."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "python"), str(ROOT / "tests" / "report")]  # `validation` is not installed

from synthetic import Truth, duel_study, make_run, slices_of_cell

from bakeoff.results import SLICE_SCHEMA, RunDirectory
from bakeoff.results.epoch_data import CHECKSUMS
from bakeoff.results.frame import Frame, write_parquet

_THREADS = (1, 2, 4, 8, 16)
_EPOCHS = 10
_SLICES_PER_BLOCK = 4  # two arms, twice each


def make(folder: Path, *, cells: int, slices_per_cell: int) -> RunDirectory:
    """Make a duel of ten epochs with this many cells and slices in each, without an analysis.

    Raises:
        ValueError: the cells or slices do not divide evenly.
    """
    workloads, rest = divmod(cells, len(_THREADS))
    blocks, more = divmod(slices_per_cell, _EPOCHS * _SLICES_PER_BLOCK)
    if rest or more or not workloads or not blocks:
        step = _EPOCHS * _SLICES_PER_BLOCK
        raise ValueError(f"cells come in multiples of {len(_THREADS)}, slices in multiples of {step}.")
    names = tuple(f"workload_{number}" for number in range(workloads))
    study = duel_study(workloads=names, threads=_THREADS, control=False)
    run = make_run(folder, study, epochs=_EPOCHS, blocks=1)
    for epoch in range(_EPOCHS):
        frames = [
            slices_of_cell(
                study, Truth(), cell=f"{name}/{threads}", cell_index=index % 9, threads=threads, epoch=epoch,
                blocks=blocks, slice_ns=100_000_000,
            )
            for index, name in enumerate(names)
            for threads in _THREADS
        ]  # fmt: skip
        folder = run.path / f"epochs/{epoch:03d}"
        (folder / CHECKSUMS).unlink()
        (folder / "slices.parquet").write_bytes(write_parquet(Frame.concat(frames), SLICE_SCHEMA))
    return run
