"""`bakeoff cluster check`: describes the nodes of a Ray cluster and compares them."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Annotated, Any

import click

from bakeoff.cli.arguments import Format, FormatOption
from bakeoff.cli.commands import Group
from bakeoff.cli.options import command
from bakeoff.cli.printing import print_sentence, print_table
from bakeoff.cluster import nodes, worker
from bakeoff.cluster.nodes import RUNNING
from bakeoff.errors import BakeoffError, ExitCode
from bakeoff.spec.fields import Argument
from bakeoff.units import format_bytes

app = Group(help="Look at the nodes of a Ray cluster.")

_LOOK_S = 5.0
_DAEMONS_SHARE = 0.01  # of one CPU: what a measured host should lose to Ray at most
_CLOCK_S = 1.0


@dataclass
class _Checked:
    """A node, the offset of its clock from ours, its daemons' shares of one CPU, and why it cannot take part."""

    node: nodes.Node
    clock_s: float = 0.0
    daemons: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""


@command("bakeoff cluster check", "bakeoff cluster check ray://head.example:10001", into=app)
def check(
    address: Annotated[str, Argument("HOST:PORT, ray://HOST:PORT or local. [default: as --ray]", "ADDRESS")] = RUNNING,
    output: FormatOption = Format.TEXT,
) -> int:
    """Describe each node and say whether the nodes are alike. Takes five seconds to watch Ray's own daemons.

    The exit code is 3 if a node cannot take part, 1 if nodes differ.
    """
    with nodes.connected(address) as ray:
        checked = _check(ray)
    answered = [each.node for each in checked if each.node.facts]  # the others are listed as problems
    alike = nodes.differences(answered)
    burning = [
        f"{each.node.name}: Ray's daemons take {sum(each.daemons.values()):.1%} of a CPU"
        for each in checked
        if each.node.may_measure and sum(each.daemons.values()) > _DAEMONS_SHARE
    ]
    late = [
        f"{each.node.name}: its clock is off by {each.clock_s:+.1f} s"
        for each in checked
        if abs(each.clock_s) > _CLOCK_S
    ]
    problems = [each.problem for each in checked if each.problem]
    print_them = _print_json if output is Format.JSON else _print
    print_them(checked, alike, [*burning, *late], problems)
    return ExitCode.NOT_READY if problems else ExitCode.DIFFERENCE if alike else ExitCode.DONE


def _check(ray: ModuleType) -> list[_Checked]:
    checked = [_Checked(node) for node in nodes.alive_nodes(ray)]
    for each in checked:
        try:
            nodes.ask_facts(ray, [each.node])  # also waits for a Python process to start; the next answer does not
            begin = time.time()
            (each.node,) = nodes.ask_facts(ray, [each.node])
            each.clock_s = each.node.facts["time_s"] - (begin + time.time()) / 2
            nodes.require_same_programs([each.node])
        except BakeoffError as error:
            each.problem = str(error)
    task = ray.remote(max_retries=0)(worker.rest_and_measure_daemons)
    answered = [each for each in checked if each.node.facts]
    watching = [task.options(**nodes.on_node(ray, each.node)).remote(_LOOK_S) for each in answered]
    for each, answer in zip(answered, watching, strict=True):
        try:
            each.daemons = nodes.get(ray, each.node.name, answer, what="its daemons could not be watched")
        except BakeoffError as error:
            each.problem = each.problem or str(error)
    return checked


def _row(each: _Checked) -> dict[str, Any]:
    facts = each.node.facts
    host = facts["host"]
    return {
        "node": each.node.name,
        "cpu_model": host["cpu_model"],
        "cpus": host["cpus_usable"],
        "memory_bytes": host["memory_bytes"],
        "kernel": host["kernel"],
        "clock_s": round(each.clock_s, 3),
        "bakeoff": facts["bakeoff"],
        "commit": facts["commit"],
        "engine": facts["engine"].get("engine", ""),
        "daemons_cpu_share": {name: round(share, 4) for name, share in each.daemons.items()},
    }


def _print_json(checked: list[_Checked], alike: list[str], notes: list[str], problems: list[str]) -> None:
    rows = [_row(each) for each in checked if each.node.facts]
    click.echo(json.dumps({"nodes": rows, "differences": alike, "notes": notes, "problems": problems}, indent=1))


def _print(checked: list[_Checked], alike: list[str], notes: list[str], problems: list[str]) -> None:
    rows = [
        [
            row["node"],
            row["cpu_model"],
            str(row["cpus"]),
            format_bytes(row["memory_bytes"]),
            row["kernel"],
            f"{row['clock_s'] * 1000:+.0f} ms",
            f"{row['bakeoff']}, {row['engine']}",
            f"{sum(row['daemons_cpu_share'].values()):.1%}",
        ]
        for row in (_row(each) for each in checked if each.node.facts)
    ]
    if rows:
        print_table(["node", "CPU", "CPUs", "memory", "kernel", "clock", "bakeoff, engine", "daemons"], rows)
    for text in problems:
        print_sentence(f"PROBLEM  {text}", indent=9)
    if len(rows) > 1 and not alike:
        print_sentence("The nodes are alike: one interval may combine them.")
    for text in alike:
        print_sentence(f"The nodes are not alike: {text}.")
    for text in notes:
        print_sentence(f"note  {text}.", indent=6)
