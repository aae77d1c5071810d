"""The run directory: its files and their format, written by rename into place, read as tables (docs/results.md)."""

from bakeoff.redaction import Redactor
from bakeoff.results.directory import RunDirectory, RunSummary, find_run, list_runs, open_run, runs_root
from bakeoff.results.epoch_data import (
    HOST_SCHEMA,
    RSS_PREFIX,
    SLICE_SCHEMA,
    EpochData,
    EpochWriter,
    Histogram,
    Outcome,
    decode_histogram,
)
from bakeoff.results.manifest import FORMAT, FileSystem, Host, Manifest, file_system_of, gather_host

__all__ = [
    "FORMAT", "HOST_SCHEMA", "RSS_PREFIX", "SLICE_SCHEMA", "EpochData", "EpochWriter", "FileSystem", "Histogram",
    "Host", "Manifest", "Outcome", "Redactor", "RunDirectory", "RunSummary", "decode_histogram", "file_system_of",
    "find_run", "gather_host", "list_runs", "open_run", "runs_root",
]  # fmt: skip
