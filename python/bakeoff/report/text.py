"""Print a report in a terminal: verdicts, the forest plot, and the tables that matter most."""

from itertools import compress

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from bakeoff.report.markdown import marks, value_text
from bakeoff.report.view import Prose, ReportView, Table, Tone

_STYLES = {
    Tone.FASTER: "bold green",
    Tone.SLOWER: "bold red",
    Tone.EQUAL: "bold",
    Tone.OPEN: "yellow",
    Tone.CONTROL: "dim",
}
_SENTENCES_MAX = 8


def render_terminal(view: ReportView, console: Console) -> None:
    console.print()
    console.print(Text(view.question, style="bold"))
    console.print(Text(view.dateline, style="dim"))
    for status in view.statuses:
        style = "bold red" if status.word == "UNTRUSTED" else "yellow"
        console.print(Text.assemble((status.word, style), f": {status.text}"))
    if view.says_more:
        console.print()
        console.print(Text(" ".join(view.summary)))
    if view.forest.rows:
        console.print()
        console.print(_forest_table(view))
    if len(view.verdicts) <= _SENTENCES_MAX:
        console.print()
        for verdict in view.verdicts:
            where = f"{verdict.workload}, {verdict.threads}: "
            console.print(
                Text.assemble((where, "dim"), (verdict.sentence, _STYLES[verdict.tone]), marks(verdict.notes))
            )
    for section in (inner for outer in view.sections for inner in outer.sections() if inner.in_terminal):
        console.print()
        console.print(Text(section.title, style="bold"))
        for part in section.parts:
            if isinstance(part, Prose) and not part.small:
                console.print(Text(part.text))
            elif isinstance(part, Table):
                console.print(_grouped(part))
                console.print(Text(part.note, style="dim"))
    for sentence in (*view.key_figures, *view.means):
        console.print(Text(sentence))
    if view.conditions:
        console.print(Text(view.conditions, style="dim"))
    if view.footnotes:
        console.print()
        for note in view.footnotes:
            console.print(Text.assemble(f"[{note.number}] ", (note.word, "bold"), f": {note.text}"))
    console.print()
    for line in view.effort:
        console.print(Text(line, style="dim"))
    if view.directory:
        console.print(Text(f"Report: {view.directory}/report.html"), soft_wrap=True)
    if view.command:
        console.print(Text(f"Again:  {view.command}", style="dim"), soft_wrap=True)


def _forest_table(view: ReportView) -> RichTable:
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    several = len(view.arms) > 2
    table.add_column("cell", overflow="fold")
    if several:
        table.add_column("contender", overflow="fold")
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("95% interval", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    before = ""
    for row in view.forest.rows:
        cells = [Text("" if row.short == before else row.short)]
        if several:
            cells.append(Text(row.contender))
        cells += [
            Text(row.ratio, style="bold"),
            Text(row.interval or "none yet"),
            Text(row.verdict + marks(row.notes), style=_STYLES[row.tone]),
        ]
        table.add_row(*cells)
        before = row.short
    return table


def _grouped(table: Table) -> RichTable:
    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    kept = [name not in table.wide for name in table.columns]
    for name in (table.group_title, *compress(table.columns, kept)):
        shown.add_column(Text(name), overflow="fold")
    before = ""
    for row in table.rows:
        group = "" if row.group == before else row.group
        shown.add_row(*(Text(cell) for cell in (group, *map(value_text, compress(row.values, kept)))))
        before = row.group
    return shown
