"""The run directory: its files and format, written by rename, read as tables (docs/reference/results.md)."""

from bakeoff.results.directory import RunDirectory
from bakeoff.results.epoch_data import SLICE_SCHEMA, EpochData, EpochWriter, Outcome, decode_histogram
from bakeoff.results.find import RunSummary, find_run, list_runs, open_run, run_argument, runs_root
from bakeoff.results.manifest import FileSystem, Host, Manifest, gather_host

__all__ = [
    "SLICE_SCHEMA", "EpochData", "EpochWriter", "FileSystem", "Host", "Manifest", "Outcome",
    "RunDirectory", "RunSummary", "decode_histogram", "find_run", "gather_host", "list_runs", "open_run",
    "run_argument", "runs_root",
]  # fmt: skip
