"""Find run directories: by path, by name, the newest ones."""

import os
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bakeoff.errors import ResultsError, SpecError
from bakeoff.plan import Plan
from bakeoff.results.directory import RunDirectory, check_format


@dataclass(frozen=True)
class RunSummary:
    """A line of `bakeoff list runs`.

    Attributes:
        epochs: finished ones, discarded ones included.
        analysed: an analysis was written: the run came to its end or was ended by its user.
        created_at: by its manifest, of a run without a sound one by its name; None: neither says.
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


def find_run(path_or_name: str | Path, root: Path | None = None) -> Path:
    """The folder of the run with this path or name; the beginning of a name is enough when only one run has it.

    `latest` is the newest run, `latest-1` the one before it.

    Raises:
        SpecError: no such run, or more than one.
    """
    path = Path(path_or_name)
    if _is_run(path):
        return path
    try:
        return _by_name(str(path_or_name), runs_root(root))
    except SpecError:
        if path.exists():
            hint = "Name a run that `bakeoff list runs` shows, or its folder."
            raise SpecError(f"{path} is no run directory: it has no manifest.json.", hint=hint) from None
        raise


def open_run(path_or_name: str | Path, root: Path | None = None) -> RunDirectory:
    """The run that `find_run` finds.

    Raises:
        SpecError: no such run, or more than one.
        ResultsError: one that this program cannot read.
    """
    path = find_run(path_or_name, root)
    check_format(path)
    return RunDirectory(path)


def list_runs(root: Path | None = None) -> list[RunSummary]:
    """All runs, the newest first; those that cannot be read have their problem."""
    found = [_summary(path) for path in _run_paths(runs_root(root))]
    return sorted(found, key=lambda run: (run.created_at is not None, run.created_at, run.name), reverse=True)


def _run_paths(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("[!.]*") if _is_run(path))


def _is_run(path: Path) -> bool:
    return any(os.path.lexists(path / name) for name in ("manifest.json", "study.json"))


def _by_name(name: str, root: Path) -> Path:
    counted = re.fullmatch(r"latest(?:-(\d{1,6}))?", name)
    paths = _run_paths(root)
    if not paths:
        wanted = "" if counted else f"run {name!r} is not there: "
        raise SpecError(
            f"{wanted}there is no run yet in {root}.",
            hint="Make one with `bakeoff duel`, or name the folder of your runs: --runs DIR.",
        )
    if counted:
        newest, back = list_runs(root), int(counted[1] or 0)
        if back >= len(newest):
            number = "1 run" if len(newest) == 1 else f"{len(newest)} runs"
            raise SpecError(f"run -{back + 1} is not there: {root} holds {number}.", hint="See `bakeoff list runs`.")
        return newest[back].path
    found = [path for path in paths if path.name == name] or [path for path in paths if path.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise SpecError(
            f"run {name!r} could be {', '.join(path.name for path in found)}.", hint="Write more of the name."
        )
    raise SpecError(
        f"run {name!r} is not there: no such directory, and no run of that name in {root}.",
        hint="See `bakeoff list runs`.",
    )


def _summary(path: Path) -> RunSummary:
    run = RunDirectory(path)
    analysed = os.path.lexists(path / "analysis.json")
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
    """When a run began, by the name that bakeoff gave it: all that is left of one without a sound manifest."""
    if not (found := re.search(r"-(\d{8}T\d{6}Z)-[0-9a-f]{4}$", name, re.ASCII)):
        return None
    try:
        return datetime.strptime(found[1], "%Y%m%dT%H%M%S%z")
    except ValueError:  # a 13th month
        return None
