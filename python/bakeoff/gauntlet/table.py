"""The table of target against result, for a terminal and for a document."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bakeoff.gauntlet.journal import Entry, Record
from bakeoff.units import format_duration

_STYLES = {True: "green", False: "bold red", None: "yellow"}


def print_table(record: Record, console: Console) -> None:
    """Print to a console; without colours the words still say everything."""
    table = Table("G", "result", "test and target", "found", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for entry in record.entries:
        result = Text(entry.result, style=_STYLES[entry.passed], no_wrap=True)
        asked = Text.assemble(entry.what, "\n", (entry.target, "dim"))
        table.add_row(Text(entry.test), result, asked, Text(entry.found))
    console.print()
    console.print(table)
    console.print()
    console.print(Text(summary(record)))
    console.print(Text(dateline(record), style="dim"))


def markdown(record: Record) -> str:
    """The same for a document, with the machine, the date and the command."""
    lines = [
        f"{dateline(record)}",
        "",
        f"    {' '.join(record.command)}",
        "",
        "| G | what | target | found | result |",
        "|---|---|---|---|---|",
        *(_row(entry) for entry in record.entries),
        "",
        summary(record),
    ]
    return "\n".join(lines) + "\n"


def summary(record: Record) -> str:
    """How many hold: `12 of 14 hold, 1 FAILED, 1 could not run.` is its form."""
    by = [sum(entry.passed is state for entry in record.entries) for state in (True, False, None)]
    parts = [f"{by[0]} of {len(record.entries)} hold"]
    parts += [f"{by[1]} FAILED"] if by[1] else []
    parts += [f"{by[2]} could not run"] if by[2] else []
    unfinished = "" if record.ended_at else " Not finished: go on with --resume."
    return ", ".join(parts) + "." + unfinished


def dateline(record: Record) -> str:
    """When, with which bakeoff, for how long, on what."""
    host = record.host
    machine = f"{host.cpus_usable} CPUs ({host.cpu_model}), {host.memory_bytes / 2**30:.0f} GiB, {host.system}"
    took = format_duration(sum(entry.seconds for entry in record.entries))
    commit = f" ({record.commit})" if record.commit else ""
    return (
        f"gauntlet --size {record.size}, seed {record.seed}, {record.started_at:%Y-%m-%d %H:%M} UTC, {took}; "
        f"bakeoff {record.bakeoff}{commit}; {machine}"
    )


def _row(entry: Entry) -> str:
    cells = (entry.test, entry.what, entry.target, entry.found, entry.result)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
