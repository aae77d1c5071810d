"""`bakeoff list`: studies, servers, workloads, runs."""

import json
import re
from collections import Counter
from enum import StrEnum
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from bakeoff.cli.arguments import Format, Runs, console, format_option
from bakeoff.engine import describe_workloads
from bakeoff.errors import ResultsError, SpecError
from bakeoff.results import RunDirectory, RunSummary, list_runs
from bakeoff.servers import Catalog, is_installed
from bakeoff.spec.study_file import read_study, shipped_studies
from bakeoff.stats.model import Analysis
from bakeoff.units import format_bytes


class Kind(StrEnum):
    """What can be listed."""

    STUDIES = "studies"
    SERVERS = "servers"
    WORKLOADS = "workloads"
    RUNS = "runs"


def list_things(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    name: Annotated[str | None, typer.Argument(help="One workload (or a Lua file): its options.")] = None,
    runs: Runs = None,
    output: Annotated[Format, format_option] = Format.TEXT,
) -> None:
    """List studies that ship, servers that can be had by name, workloads (or one workload's options), or runs."""
    if name is not None and kind is not Kind.WORKLOADS:
        raise SpecError(f"list {kind} takes no name.", hint=f"Try `bakeoff list {kind}`.")
    listers = {Kind.STUDIES: _studies, Kind.SERVERS: _servers, Kind.WORKLOADS: _workloads}
    rows = _options(name) if name is not None else _runs(runs) if kind is Kind.RUNS else listers[kind]()
    if output is Format.JSON:
        typer.echo(json.dumps(rows, indent=1))
        return
    rows = [{column: value for column, value in row.items() if column != "options"} for row in rows]
    if not rows:
        typer.echo(f"no {kind} yet")
        return
    table = Table(*rows[0], box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    console(piped_width=400).print(table)  # one line a row, for grep and awk


def _cell(value: Any) -> str:  # noqa: ANN401 — whatever JSON holds
    if isinstance(value, dict):
        return " ".join(f"{name}={_cell(default)}" for name, default in value.items())
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


def _studies() -> list[dict[str, Any]]:
    rows = []
    for name, path in shipped_studies().items():
        loaded = read_study(path)
        rows.append({"name": name, "question": loaded.form.question, "scales": " ".join(loaded.form.scales)})
    return rows


def _servers() -> list[dict[str, Any]]:
    return [
        {
            "name": f"{entry.flavour}:{entry.version}",
            "installed": "yes" if is_installed(entry) else "",
            "download": format_bytes(entry.download_bytes),
            "from": str(entry.source),
        }
        for entry in Catalog.load().entries
    ]


def _workloads() -> list[dict[str, Any]]:
    return [
        {
            "name": workload["name"],
            "an event": _first_sentence(workload["name"]),
            "options": {option["name"]: option["default"] for option in workload["options"]},
        }
        for workload in describe_workloads()
    ]


def _first_sentence(workload: str) -> str:
    """What the comment at the head of a bundled script begins with."""
    lines = (files("bakeoff") / "workloads" / f"{workload}.lua").read_text(encoding="utf-8").splitlines()
    comment = " ".join(line.removeprefix("-- ") for line in takewhile(lambda line: line.startswith("--"), lines))
    return re.split(r"[.:] ", comment, maxsplit=1)[0].rstrip(".")


def _options(script: str) -> list[dict[str, Any]]:
    (described,) = describe_workloads([script])
    return [
        {"option": option["name"], "default": option["default"], "description": option["description"]}
        for option in described["options"]
    ]


def _verdict(run: RunSummary) -> str:
    """`FASTER`, `2 SLOWER, 1 INCONCLUSIVE`: how often each verdict was given."""
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
            "question": run.title,
            "started": run.created_at.isoformat(timespec="minutes") if run.created_at else None,
            "epochs": run.epochs,
            "verdict": _verdict(run) if run.analysed and not run.problem else "",
            "size": format_bytes(sum(path.lstat().st_size for path in run.path.rglob("*"))),
            "state": run.problem or ("complete" if run.analysed else "broken off"),
        }
        for run in list_runs(root)
    ]
