"""`bakeoff plan`: show what a study would run and need, without starting anything."""

import json
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from bakeoff.cli.arguments import Format, console, format_option, naming_the_line, request_study
from bakeoff.run.arms import check_workloads
from bakeoff.run.forecast import Forecast, forecast
from bakeoff.units import format_bytes, format_duration


def plan(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A study file, or the name of one that ships.")],
    scale: Annotated[str, typer.Option(help="demo, small, paper: a size that the study has.")] = "",
    budget: Annotated[str | None, typer.Option(help="Instead of the study's: 90s, 4m, 1h.")] = None,
    precision: Annotated[str | None, typer.Option(help="Instead of the study's: 1%.")] = None,
    output: Annotated[Format, format_option] = Format.TEXT,
) -> None:
    """Show what a study would run: arms, cells, loads, minutes, memory and disk. Nothing is fetched or started."""
    request = request_study(study, scale=scale, budget=budget, precision=precision)
    with naming_the_line(request):
        check_workloads(request.study.workloads, request.study.arms)
        show(forecast(request.study), output)


def show(seen: Forecast, output: Format) -> None:
    """Print what a study would take."""
    if output is Format.JSON:
        typer.echo(json.dumps(_record(seen), indent=1))
    else:
        _print(seen)


def _record(seen: Forecast) -> dict[str, object]:
    plan, share, design = seen.plan, seen.share, seen.study.design
    return {
        "title": seen.study.title,
        "arms": [
            {
                "name": each.arm.name,
                "label": each.arm.label,
                "server": str(each.arm.server),
                "loads": each.build,
                "settings": each.settings,
                "download_bytes": each.download_bytes,
            }
            for each in seen.arms
        ],
        "fraction": design.fraction.model_dump() if design and design.fraction else None,
        "cells": [cell.name for cell in plan.cells],
        "loads": seen.loads,
        "load_bytes": seen.load_bytes,
        "servers_at_once": share.at_once,
        "buffer_pool_bytes": share.memory.buffer_pool_bytes,
        "memory_bytes": share.per_server_bytes * min(share.at_once, share.servers),
        "disk_bytes": seen.disk_bytes,
        "disk_free_bytes": seen.disk_free_bytes,
        "load_s": round(plan.load_s, 1),
        "epoch_s": round(plan.epoch_s, 1),
        "epochs_min": plan.epochs_min,
        "budget_s": plan.budget_s,
        "budget_needed_s": round(plan.budget_needed_s, 1),
        "fits": plan.fits,
    }


def _print(seen: Forecast) -> None:
    page = console(piped_width=200)
    plan, share = seen.plan, seen.share
    design = seen.study.design
    page.print(design.question if design and design.question else seen.study.title, style="bold")
    table = Table("arm", "levels", "server", "loads", "settings", "download", box=SIMPLE_HEAD)
    for index, each in enumerate(seen.arms):
        left = each.download_bytes
        table.add_row(
            each.arm.name + (" (baseline)" if index == 0 else ""),
            each.arm.label,
            str(each.arm.server),
            each.build,
            each.settings,
            "" if left == 0 else "?" if left is None else format_bytes(left),
        )
    page.print(table)
    page.print(
        "Arms with the same letter share their loads; with the same number they differ in the client alone. Each arm "
        "has a server of its own."
    )
    for sentence in design.fraction.sentences() if design and design.fraction else ():
        page.print(sentence)
    if design and design.excluded:
        page.print(f"Combinations left out by where: {design.excluded}.")
    page.print(f"Cells:   {len(plan.cells)} ({', '.join(cell.name for cell in plan.cells)})")
    page.print(f"Loads:   {seen.loads} of at most {format_bytes(seen.load_bytes)}")
    together = "all at once" if share.at_once >= share.servers else f"{share.at_once} at once, always with the baseline"
    page.print(
        f"Memory:  {share.servers} servers, {together}; about "
        f"{format_bytes(share.per_server_bytes * min(share.at_once, share.servers))}, buffer pool "
        f"{format_bytes(share.memory.buffer_pool_bytes)} each unless an arm sets its own"
    )
    enough = "" if seen.disk_bytes <= seen.disk_free_bytes else ": too little"
    page.print(
        f"Disk:    about {format_bytes(seen.disk_bytes)} in {seen.disk_path}, "
        f"{format_bytes(seen.disk_free_bytes)} free{enough}"
    )
    page.print(
        f"Time:    loading about {format_duration(plan.load_s)}, then at least {plan.epochs_min} epochs of about "
        f"{format_duration(plan.epoch_s)}; budget {format_duration(plan.budget_s)}"
        + ("" if plan.fits else f", about {format_duration(plan.budget_needed_s)} would do")
    )
