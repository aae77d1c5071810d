"""Find run directories: by path, by name, or the newest ones."""

import os
import re
import shlex
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bakeoff.errors import ResultsError, SpecError
from bakeoff.files import from_here
from bakeoff.plan import Plan
from bakeoff.results.directory import RunDirectory, check_format


@dataclass(frozen=True)
class RunSummary:
    """A line of `bakeoff list runs`. A damaged run has a `problem`, and its date from its name."""

    name: str
    path: Path
    title: str
    created_at: datetime | None
    epochs: int
    analysed: bool
    problem: str


def runs_root(explicit: Path | None = None) -> Path:
    if explicit is not None:
        return explicit
    return Path(os.environ.get("BAKEOFF_RUNS") or "bakeoff-runs")


def run_argument(run: str | Path) -> str:
    """Return what a command line needs to find this run: its name in the default folder, else its path."""
    path = Path(run)
    return shlex.quote(path.name if path.parent == runs_root() else from_here(str(path)))


def find_run(path_or_name: str | Path, root: Path | None = None) -> Path:
    """Return the directory of the run with this path, name or beginning of a name; `latest-1` is the last but one."""
    path = Path(path_or_name)
    if _is_run(path):
        return path
    try:
        return _by_name(str(path_or_name), runs_root(root))
    except SpecError:
        if path.exists():
            hint = "Name a run that `bakeoff list runs` shows, or its directory."
            raise SpecError(f"{path} is not a run directory: it has no manifest.json.", hint=hint) from None
        raise


def open_run(path_or_name: str | Path, root: Path | None = None) -> RunDirectory:
    """Open the run that `find_run` finds; raise `ResultsError` if it is damaged or of another format."""
    path = find_run(path_or_name, root)
    check_format(path)
    return RunDirectory(path)


def list_runs(root: Path | None = None) -> list[RunSummary]:
    found = [_summary(path) for path in _run_paths(runs_root(root))]
    return sorted(found, key=lambda run: (run.created_at is not None, run.created_at, run.name), reverse=True)


def _run_paths(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("[!.]*") if _is_run(path))


def _is_run(path: Path) -> bool:
    return any((path / name).exists() for name in ("manifest.json", "study.json"))


def _by_name(name: str, root: Path) -> Path:
    counted = re.fullmatch(r"latest(?:-(\d{1,6}))?", name)
    paths = _run_paths(root)
    if not paths:
        raise SpecError(
            f"run {name!r} not found: there are no runs in {root} yet.",
            hint="Make one with `bakeoff duel`, or name the directory of your runs: --runs DIR.",
        )
    if counted:
        newest, back = list_runs(root), int(counted[1] or 0)
        if back >= len(newest):
            number = "1 run" if len(newest) == 1 else f"{len(newest)} runs"
            raise SpecError(f"{name} not found: {root} has {number}.", hint="See `bakeoff list runs`.")
        return newest[back].path
    found = [path for path in paths if path.name == name] or [path for path in paths if path.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(path.name for path in found)
        raise SpecError(f"run {name!r} could be {names}.", hint="Write more of the name.")
    message = f"run {name!r} not found: no such directory, and no run of that name in {root}."
    raise SpecError(message, hint="See `bakeoff list runs`.")


def _summary(path: Path) -> RunSummary:
    run = RunDirectory(path)
    analysed = (path / "analysis.json").exists()
    created_at = _time_in_name(path.name)
    try:
        check_format(path)
        manifest = run.manifest()
        created_at = manifest.created_at
        run.study()
        run.read("plan.json", Plan)
        run.read_json("analysis.json")
        epochs = [run.outcome(epoch) for epoch in run.finished_epochs()]
        return RunSummary(path.name, path, manifest.title, created_at, len(epochs), analysed, "")
    except ResultsError as error:
        return RunSummary(path.name, path, "", created_at, 0, analysed, error.message)


def _time_in_name(name: str) -> datetime | None:
    """Return the start time in a run's name, so that `runs prune` does not take a damaged run for an old one."""
    found = re.search(r"-(\d{8}T\d{6}Z)-[0-9a-f]{4}$", name)
    try:
        return datetime.strptime(found[1], "%Y%m%dT%H%M%S%z") if found else None
    except ValueError:  # a 13th month
        return None
