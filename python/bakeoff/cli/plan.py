"""`bakeoff plan`: show what a study would run and need, without starting anything."""

import json
from dataclasses import replace
from typing import Annotated

import click
from pydantic import Field

from bakeoff import features
from bakeoff.cli.arguments import Format, FormatOption, Where
from bakeoff.cli.options import Take, command
from bakeoff.cli.printing import console, print_sentence, print_table
from bakeoff.cli.study_request import naming_the_line, request_study
from bakeoff.plan.timing import report_seconds, seconds_with_hosts
from bakeoff.run.forecast import Forecast, forecast
from bakeoff.run.measuring import check_workloads
from bakeoff.run.own_data import with_expected_sizes
from bakeoff.spec.fields import Argument, Option, Sizes
from bakeoff.units import format_bytes, format_duration

Scale = Annotated[str, Option("A size that the study has: demo, small, paper.", "NAME", section="How long")]


@command(
    "bakeoff plan charset-collation --scale demo",
    "bakeoff plan study.yaml --budget 1h",
    most_used=("--scale", "--budget"),
)
def plan(
    study: Annotated[str, Argument("A study file, or the name of one that ships.", "STUDY")],
    sizes: Annotated[Sizes, Take("budget_s", "precision", shown="the study's")],
    where: Annotated[Where, Take("ray", "on")],
    scale: Scale = "",
    hosts: Annotated[
        int | None,
        Field(ge=1, le=10_000),
        Option("Minutes on 1, 2, 4 … N hosts of a cluster.", "N", default="with --ray its nodes", section="Where"),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show what a study would run: arms, cells, loads, minutes, memory and disk. Nothing is fetched or started."""
    nodes = where.nodes()
    if nodes:
        cluster, wanted = features.part("cluster", "nodes"), replace(nodes, hosts=hosts)
        assert cluster, "`Where.nodes` has found it"
        with cluster.connected(wanted.address) as ray:
            hosts = len(cluster.choose(cluster.alive_nodes(ray), wanted))
    request = request_study(study, scale=scale, changes=sizes.given())
    with naming_the_line(request):
        check_workloads(request.study)
        show(forecast(with_expected_sizes(request.study, {}), elsewhere=nodes is not None), output, hosts=hosts)


def show(seen: Forecast, output: Format, *, hosts: int | None = None) -> None:
    """Print what a study would take; with `hosts` also the minutes on 1, 2, 4 … hosts."""
    by_hosts = _by_hosts(seen, hosts) if hosts else {}
    if output is Format.JSON:
        click.echo(json.dumps(_record(seen) | ({"hosts_s": by_hosts} if by_hosts else {}), indent=1))
        return
    _print(seen)
    if by_hosts:
        epochs = f"{_epochs(seen)} epochs, as many as one machine measures in the budget"
        each = [f"{count} in about {format_duration(seconds)}" for count, seconds in by_hosts.items()]
        print_sentence(f"{'Hosts:':8} {epochs}: {', '.join(each)}", indent=9)


def _epochs(seen: Forecast) -> int:
    return max(seen.plan.epochs_min, seen.plan.epochs_expected)


def _by_hosts(seen: Forecast, most: int) -> dict[int, float]:
    """Number of hosts -> wall seconds from loading to verdict."""
    plan = seen.plan
    report_s = report_seconds(len(plan.cells))
    counts = sorted({2**power for power in range(most.bit_length())} | {most})
    load_s, epochs = plan.load_s - report_s, _epochs(seen)
    return {
        count: round(report_s + seconds_with_hosts(count, epochs=epochs, load_s=load_s, epoch_s=plan.epoch_s), 1)
        for count in counts
    }


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
        "budget_needed_s": plan.budget_needed_s,
        "fits": not seen.is_too_small,
    }


def _print(seen: Forecast) -> None:
    plan, share = seen.plan, seen.share
    design = seen.study.design
    console().print(design.question if design and design.question else seen.study.title, style="bold")
    _print_arms(seen)
    for sentence in design.fraction.sentences() if design and design.fraction else ():
        print_sentence(sentence)
    if design and design.excluded:
        print_sentence(f"Combinations left out by where: {design.excluded}.")
    together = "all at once" if share.at_once >= share.servers else f"{share.at_once} at once, always with the baseline"
    memory = format_bytes(share.per_server_bytes * min(share.at_once, share.servers))
    enough = "" if seen.disk_bytes <= seen.disk_free_bytes else ": too little"
    facts = {
        "Cells": f"{len(plan.cells)} ({', '.join(cell.name for cell in plan.cells)})",
        "Loads": f"{seen.loads} of at most {format_bytes(seen.load_bytes)}",
        "Memory": f"{share.servers} servers, {together}; about {memory}, buffer pool "
        f"{format_bytes(share.memory.buffer_pool_bytes)} each unless an arm sets its own",
        "Disk": f"about {format_bytes(seen.disk_bytes)} in {seen.disk_path}, "
        f"{format_bytes(seen.disk_free_bytes)} free{enough}",
        "Time": f"loading and report about {format_duration(plan.load_s)}, at least {plan.epochs_min} epochs of about "
        f"{format_duration(plan.epoch_s)}",
        "Budget": f"{format_duration(plan.budget_s)}{_smallest_budget(seen)}",
    }
    for name, fact in facts.items():
        print_sentence(f"{name + ':':8} {fact}", indent=9)


def _smallest_budget(seen: Forecast) -> str:
    if seen.study.has_running_server:
        return "; a running server is not restarted, so it gets no verdict"
    small = " is too small" if seen.is_too_small else ""
    return f"{small}; a verdict takes about {format_duration(seen.plan.budget_needed_s)} or more"


def _print_arms(seen: Forecast) -> None:
    """Print the arms, without columns that say nothing new."""
    columns: dict[str, list[str]] = {
        "arm": [each.arm.name + (" (baseline)" if index == 0 else "") for index, each in enumerate(seen.arms)],
        "levels": [each.arm.label for each in seen.arms],
        "server": [str(each.arm.server) for each in seen.arms],
        "loads": [each.build for each in seen.arms],
        "settings": [each.settings for each in seen.arms],
        "download": [_download(each.download_bytes) for each in seen.arms],
    }
    if all(str(each.arm.server) in each.arm.label for each in seen.arms):
        del columns["server"]
    if not any(columns["download"]):
        del columns["download"]
    click.echo()
    print_table(list(columns), list(zip(*columns.values(), strict=True)))
    click.echo()
    sentences = [
        ("loads", "Arms with the same letter share their loads."),
        ("settings", "Arms with the same number differ in the client alone."),
    ]
    shared = [sentence for name, sentence in sentences if len(set(columns[name])) < len(seen.arms)]
    print_sentence(" ".join([*shared, "Every arm has a separate server."]))


def _download(bytes_left: int | None) -> str:
    if bytes_left is None:
        return "?"
    return format_bytes(bytes_left) if bytes_left else ""
