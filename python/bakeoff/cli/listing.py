"""`bakeoff list` lists studies, servers, workloads and runs; `bakeoff runs` and `bakeoff cache` delete."""

import json
import re
import shutil
from collections import Counter
from datetime import UTC, datetime
from enum import StrEnum
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import click
from pydantic import Field

from bakeoff import features
from bakeoff.cli.arguments import Format, FormatOption, Runs
from bakeoff.cli.commands import Group
from bakeoff.cli.options import command
from bakeoff.cli.printing import console, print_table
from bakeoff.engine import describe_workloads
from bakeoff.errors import ResultsError, SpecError
from bakeoff.plan.workloads import microbenchmarks, named_workloads
from bakeoff.results import RunDirectory, RunSummary, find_run, list_runs, runs_root
from bakeoff.run.kept_loads import delete_kept, kept_bytes
from bakeoff.servers import Entry, free_cache, how_checked, is_installed, known_servers
from bakeoff.servers.paths import allocated_bytes, bytes_on_disk, cache_root
from bakeoff.spec.fields import Argument, Option
from bakeoff.spec.study_file import read_study, shipped_studies
from bakeoff.stats.model import Analysis
from bakeoff.units import format_bytes, format_duration


class Kind(StrEnum):
    STUDIES = "studies"
    SERVERS = "servers"
    WORKLOADS = "workloads"
    RUNS = "runs"


@command("bakeoff list servers", "bakeoff list workloads oltp_read_only")
def list_things(
    kind: Annotated[Kind, Argument("studies, servers, workloads or runs.", "KIND")],
    name: Annotated[str | None, Argument("One workload, or a Lua file: its options.", "WORKLOAD")] = None,
    runs: Runs = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """List studies that ship, servers that can be had by name, workloads (or one workload's options), or runs."""
    print_list(kind, output, name=name, runs=runs)


def print_list(
    kind: Kind, output: Format, *, name: str | None = None, runs: Path | None = None, verbose: bool = False
) -> None:
    if name is not None and kind is not Kind.WORKLOADS:
        raise SpecError(f"list {kind} takes no name.", hint=f"Try `bakeoff list {kind}`.")
    listers = {Kind.STUDIES: _studies, Kind.SERVERS: _servers, Kind.WORKLOADS: _workloads}
    rows = _options(name) if name is not None else _runs(runs) if kind is Kind.RUNS else listers[kind]()
    if kind is Kind.SERVERS and verbose:
        rows = [row for row in rows if row["installed"]]
    if output is Format.JSON:
        click.echo(json.dumps(rows, indent=1))
        return
    if not rows:
        click.echo(f"no {kind} yet" if name is None else f"{name} declares no options")
        return
    if console().is_terminal and kind is Kind.RUNS:
        rows = [_short_run(place, row) for place, row in enumerate(rows)]
    elif console().is_terminal and kind is Kind.SERVERS and not verbose:
        rows = [row | {"from": re.sub(r"(debian \w+|\w+).*", r"\1", row["from"])} for row in rows]
    columns = [column for column in rows[0] if column != "options" and (verbose or column != "checked")]
    print_table(columns, [[_cell(row[column]) for column in columns] for row in rows])


def _cell(value: Any) -> str:  # noqa: ANN401 — whatever JSON holds
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list):
        return ",".join(value)
    return "" if value is None else str(value)


def _short_run(before: int, run: dict[str, Any]) -> dict[str, Any]:
    """Shorten a run's row for a terminal; `latest-1` replaces its name (`bakeoff report latest-1`)."""
    started = datetime.fromisoformat(run["started"]) if run["started"] else None
    return {
        "run": f"latest-{before}" if before else "latest",
        "age": _age((datetime.now(UTC) - started).total_seconds()) if started else "",
        "epochs": run["epochs"],
        "size": run["size"],
        "verdict": run["verdict"] or run["state"],
        "question": run["question"] or run["name"],
    }


def _age(seconds: float) -> str:
    return f"{seconds / 86400:.0f} d" if seconds > 2 * 86400 else " ".join(format_duration(seconds).split()[:2])


def _studies() -> list[dict[str, Any]]:
    rows = []
    for name, path in shipped_studies().items():
        loaded = read_study(path)
        rows.append({"name": name, "scales": " ".join(loaded.form.scales), "question": loaded.form.question})
    return rows


def _sources(entry: Entry) -> list[str]:
    return ["vendor"] * (not entry.own) + [str(entry.source)] * (entry.source is not None)


def _servers() -> list[dict[str, Any]]:
    return [
        {
            "name": f"{entry.flavour}:{entry.version}",
            "installed": "yes" if is_installed(entry) else "",
            "download": format_bytes(entry.download_bytes) if entry.download_bytes else "",
            "from": how_checked(entry)[0] or ", else ".join(_sources(entry)),
            "checked": how_checked(entry)[1],
        }
        for entry in known_servers()
    ]


def _workloads() -> list[dict[str, Any]]:
    scripts = [
        {
            "name": workload["name"],
            "event": _first_sentence(workload["name"]),
            "options": {option["name"]: option["default"] for option in workload["options"]},
        }
        for workload in describe_workloads()
    ]
    named = [
        {
            "name": name,
            "event": " ".join(["micro:", each.script, *(f"{option}={value}" for option, value in each.options)]),
            "options": dict(each.options),
        }
        for name, each in microbenchmarks().items()
    ]
    return scripts + named


def _first_sentence(workload: str) -> str:
    """Return the first sentence of the comment at the head of a bundled script."""
    lines = (files("bakeoff") / "workloads" / f"{workload}.lua").read_text(encoding="utf-8").splitlines()
    comment = " ".join(line.removeprefix("-- ") for line in takewhile(lambda line: line.startswith("--"), lines))
    return re.split(r"[.:] ", comment, maxsplit=1)[0].rstrip(".")


def _options(script: str) -> list[dict[str, Any]]:
    (described,) = describe_workloads([named_workloads(script)[0].script])
    return [
        {"option": option["name"], "default": option["default"], "description": option["description"]}
        for option in described["options"]
    ]


def _verdict(run: RunSummary) -> str:
    """Count the verdicts: `FASTER`, `2 SLOWER, 1 INCONCLUSIVE`."""
    try:
        analysis = RunDirectory(run.path).read("analysis.json", Analysis)
    except ResultsError:
        return ""
    compared = [each for each in analysis.comparisons if not each.is_control] if analysis else []
    words = Counter(" ".join(each.verdict.words) for each in compared)
    return ", ".join(f"{count} {word}" if len(compared) > 1 else word for word, count in words.most_common())


def _runs(root: Path | None) -> list[dict[str, Any]]:
    return [
        {
            "name": run.name,
            "started": run.created_at.isoformat(timespec="minutes") if run.created_at else None,
            "epochs": run.epochs,
            "size": format_bytes(bytes_on_disk(run.path)),
            "verdict": _verdict(run) if run.analysed and not run.problem else "",
            "state": run.problem or ("complete" if run.analysed else "broken off"),
            "question": run.title,
        }
        for run in list_runs(root)
    ]


# ---- delete runs, and prune the server cache -------------------------------------------------------------------------

runs_app = Group(help="Delete runs.")
cache_app = Group(help="Free disk space of the server cache.")


# Text that marks a folder as a run, even a damaged one; many kinds of folders have a manifest.json.
_MARKS = {"manifest.json": b'"bakeoff"', "study.json": b'"arms"'}


@command("bakeoff runs rm latest", into=runs_app, name="rm")
def remove_runs(
    names: Annotated[list[str], Argument("Paths or names; latest is the newest run.", "RUN")], runs: Runs = None
) -> None:
    """Delete runs, with the loads kept for them."""
    if not all(name.strip() for name in names):  # an empty name would match the current folder, or any run
        raise SpecError("runs rm: a name is empty.", hint="See `bakeoff list runs`.")
    paths = list(dict.fromkeys(find_run(name, runs) for name in names))
    for path in paths:
        if not _is_of_bakeoff(path):
            raise SpecError(f"runs rm: {path} is not a run of bakeoff.", hint="See `bakeoff list runs`.")
    _delete(paths)


def _is_of_bakeoff(folder: Path) -> bool:
    return any((folder / file).is_file() and mark in (folder / file).read_bytes() for file, mark in _MARKS.items())


@command("bakeoff runs prune --keep 10", into=runs_app, name="prune")
def prune_runs(
    keep: Annotated[int, Field(ge=0), Option("How many of the newest runs stay.", "N")],
    yes: Annotated[bool, Option("Do not ask.", flags="--yes -y")] = False,
    runs: Runs = None,
) -> None:
    """Delete all but the newest runs.

    Captures that `bakeoff replay` has made go too, unless a run that stays uses them.
    """
    found = [run.path for run in list_runs(runs) if _is_of_bakeoff(run.path)]
    root, kept = runs_root(runs), found[:keep]
    old = found[keep:] + [path for each in features.parts("prune") for path in each.unused(root, kept)]
    for path in () if yes else old:
        click.echo(path)
    if old and not yes and not _agreed("Delete them?"):
        raise SpecError("runs prune: nothing was deleted.", hint="--yes deletes without asking.")
    if not old:
        click.echo(f"nothing to delete; runs that stay: {len(found)}")
    _delete(old)


@command("bakeoff cache prune", "bakeoff cache prune --all", into=cache_app, name="prune")
def prune_cache(
    everything: Annotated[bool, Option("Delete the servers too; they are fetched again.", flags="--all")] = False,
) -> None:
    """Delete what can be made again in seconds.

    These are the servers' fresh data directories, leftovers of killed runs, loads kept for interrupted runs, and data
    taken from running servers (--data mysql://…), without which their runs cannot be resumed.
    """
    before = bytes_on_disk(cache_root())
    free_cache(servers=everything)
    left = bytes_on_disk(cache_root())
    click.echo(f"{format_bytes(max(0, before - left))} freed; {cache_root()} has {format_bytes(left)} left")


def _agreed(question: str) -> bool:
    try:
        return click.confirm(question)
    except click.Abort:  # the end of the input, or Ctrl-C
        click.echo()
        return False


def _delete(paths: list[Path]) -> None:
    for path in paths:
        size = allocated_bytes([path]) if path.is_file() else bytes_on_disk(path)
        if path.is_file():
            if not any(each.delete(path) for each in features.parts("prune")):
                continue
        else:
            run = RunDirectory(path)
            with run.hold():
                size += kept_bytes(run)
                delete_kept(run)
                shutil.rmtree(path)
        click.echo(f"{path.name} deleted, {format_bytes(size)} freed")
