"""The report in a terminal: the verdicts, one table, what to be wary of, where the rest is."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bakeoff.report import view as report
from bakeoff.report.view import ForestRow, ReportView, Tone

_STYLES = {
    Tone.FASTER: "bold green",
    Tone.SLOWER: "bold red",
    Tone.EQUAL: "bold",
    Tone.OPEN: "yellow",
    Tone.CONTROL: "dim",
}
_SENTENCES_MAX = 8
_STRIP = 24  # characters of the forest's axis
_WIDE = 112  # columns from which the axis fits beside the numbers


def render_terminal(view: ReportView, console: Console) -> None:
    """Print to the console; without colours the words still say everything."""
    console.print()
    console.print(Text(view.question, style="bold"))
    console.print(Text(view.dateline, style="dim"))
    for status in view.statuses:
        style = "bold red" if status.word == "UNTRUSTED" else "yellow"
        console.print(Text.assemble((status.word, style), f": {status.text}"))
    if len(view.answers) > 1:
        console.print()
        console.print(Text(" ".join(view.lead)))
    console.print()
    console.print(_table(view, wide=console.width >= _WIDE))
    if len(view.answers) <= _SENTENCES_MAX:
        console.print()
        for answer in view.answers:
            notes = "".join(f" [{number}]" for number in answer.notes)
            where = f"{answer.workload}, {answer.threads}: "
            console.print(Text.assemble((where, "dim"), (answer.sentence, _STYLES[answer.tone]), notes))
    for title, table in (("Published and measured", view.published), ("Interactions", view.interactions)):
        if table.rows:
            console.print()
            console.print(Text(title, style="bold"))
            console.print(_grouped(table))
            console.print(Text(table.note, style="dim"))
    for row in view.tpcc.rows:
        arm, tpmc, *_ = row.values
        console.print(Text(f"tpmC, {row.group}, {arm.text}: {tpmc.text} ({tpmc.sub})"))
    for sentence in view.summary:
        console.print(Text(sentence))
    if view.conditions:
        console.print(Text(view.conditions, style="dim"))
    if view.footnotes:
        console.print()
        for note in view.footnotes:
            console.print(Text.assemble(f"[{note.number}] ", (note.word, "bold"), f": {note.text}"))
    console.print()
    console.print(Text(view.attempts, style="dim"))
    if view.wall.note:
        console.print(Text(f"Wall time: {view.wall.note}", style="dim"))
    console.print(Text(f"Report: {view.directory}/report.html"), soft_wrap=True)
    if view.command:
        console.print(Text(f"Again:  {view.command}", style="dim"), soft_wrap=True)


def _table(view: ReportView, *, wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    several = len(view.arms) > 2
    table.add_column("cell", overflow="fold")
    if several:
        table.add_column("contender", overflow="fold")
    if wide:
        table.add_column("slower ◂ 1 ▸ faster", no_wrap=True)
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("95% interval", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    before = ""
    for row in view.forest.rows:
        cells = [Text("" if row.short == before else row.short)]
        if several:
            cells.append(Text(row.contender))
        if wide:
            cells.append(Text(_strip(row, view.forest.one), style=_STYLES[row.tone]))
        marks = "".join(f" [{number}]" for number in row.notes)
        cells += [
            Text(row.ratio, style="bold"),
            Text(row.interval or "none yet"),
            Text(row.verdict + marks, style=_STYLES[row.tone]),
        ]
        table.add_row(*cells)
        before = row.short
    return table


def _grouped(table: report.Table) -> Table:
    """A table of the view, its groups' names once each."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in (table.group_title, *table.columns):
        shown.add_column(Text(name), overflow="fold")
    before = ""
    for row in table.rows:
        values = (f"{value.text} ({value.sub})" if value.sub else value.text for value in row.values)
        shown.add_row(*(Text(cell) for cell in ("" if row.group == before else row.group, *values)))
        before = row.group
    return shown


def _strip(row: ForestRow, one: float) -> str:
    """The forest plot's line in characters: `├──●──┤     │`."""

    def column(place: float) -> int:
        return min(_STRIP - 1, int(place / 100 * _STRIP))

    line = [" "] * _STRIP
    line[column(one)] = "│"
    if row.low is not None and row.high is not None:
        low, high = column(row.low), column(row.high)
        for index in range(low, high + 1):
            line[index] = "┼" if index == column(one) else "─"
        line[low], line[high] = ("◂" if row.cut_left else "├"), ("▸" if row.cut_right else "┤")
    if row.measured:
        line[column(row.point)] = "●"
    return "".join(line)
