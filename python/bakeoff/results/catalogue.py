"""Finding runs: where they lie, which there are, and the one that a person means."""

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bakeoff.errors import ResultsError
from bakeoff.results.directory import RunDirectory, check_format


@dataclass(frozen=True)
class RunSummary:
    """A line of `bakeoff list runs`.

    Attributes:
        epochs: finished ones, voided ones included.
        analysed: an analysis was written, so the run came to its end or was ended by its user.
        problem: why the run cannot be read; empty for a good one.
    """

    name: str
    path: Path
    title: str
    created_at: datetime | None
    epochs: int
    analysed: bool
    problem: str


def runs_root(explicit: Path | None = None) -> Path:
    """Where runs lie: as given, else `$BAKEOFF_RUNS`, else `./bakeoff-runs`."""
    if explicit is not None:
        return explicit
    return Path(os.environ.get("BAKEOFF_RUNS") or "bakeoff-runs")


def open_run(path_or_name: str | Path, root: Path | None = None) -> RunDirectory:
    """The run with this path or name; the beginning of a name will do when only one run has it.

    Raises:
        ResultsError: no such run, more than one, or one that this program cannot read.
    """
    path = Path(path_or_name)
    if not (path / "manifest.json").exists():
        path = _by_name(str(path_or_name), runs_root(root))
    check_format(path)
    return RunDirectory(path)


def list_runs(root: Path | None = None) -> list[RunSummary]:
    """All runs, the newest first; damaged ones and foreign formats are told, not hidden."""
    found = [_summary(path) for path in _run_paths(runs_root(root))]
    return sorted(found, key=lambda run: (run.created_at is not None, run.created_at, run.name), reverse=True)


def _run_paths(root: Path) -> list[Path]:
    return sorted(manifest.parent for manifest in root.glob("[!.]*/manifest.json"))


def _by_name(name: str, root: Path) -> Path:
    paths = _run_paths(root)
    found = [path for path in paths if path.name == name] or [path for path in paths if path.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ResultsError(
            f"run {name!r} could be {', '.join(path.name for path in found)}.", hint="Write more of the name."
        )
    raise ResultsError(
        f"run {name!r} is not there: no such directory, and no run of that name in {root}.",
        hint="See `bakeoff list runs`.",
    )


def _summary(path: Path) -> RunSummary:
    run = RunDirectory(path)
    analysed = (path / "analysis.json").exists()
    try:
        check_format(path)
        manifest = run.manifest()
        return RunSummary(
            path.name, path, manifest.title, manifest.created_at, len(run.finished_epochs()), analysed, ""
        )
    except ResultsError as error:
        return RunSummary(path.name, path, "", None, 0, analysed, error.message)
