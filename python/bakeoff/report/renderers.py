"""`report.html`: one file that opens from a disk, asks nothing of any network and runs no script.

Labels, logs and server names are untrusted: the template escapes everything, undefined names are errors, and a content
security policy inside the page forbids scripts and requests even if something slipped through.
"""

import csv
import io
import json
import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from bakeoff.report import charts, numbers
from bakeoff.report import view as report
from bakeoff.report.view import ForestRow, Panel, ReportView, Role, Row, Table, Tone, Value
from bakeoff.results import RunDirectory
from bakeoff.results.manifest import bakeoff_version
from bakeoff.stats.model import Analysis

TEMPLATES = Path(__file__).parent / "templates"


def render_html(view: ReportView) -> str:
    """The whole page as text."""
    dashed = frozenset(f"arm-{arm.slot}" for arm in view.arms if arm.role is Role.CONTROL)
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def drawn(panel: Panel) -> Markup:
        # Safe: the drawing library escapes texts in the SVG (tests/report/test_html.py tries to break out of it).
        return Markup(charts.draw(panel, dashed=dashed))

    environment.filters |= {
        "arm_key": lambda slot: charts.css_key(f"arm-{slot}"),
        "arm_shape": _arm_shape,
        "by_group": _by_group,
        "drawn": drawn,
        "has_own_keys": _has_own_keys,
        "percent": numbers.share,
    }
    return environment.get_template("report.html.j2").render(view=view, version=bakeoff_version())


def _by_group(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Neighbouring rows of one group together; rows without a group each alone."""
    return [(group, list(part)) for group, part in groupby(rows, key=lambda row: row.group)]


def _has_own_keys(panel: Panel) -> bool:
    """Whether a panel's lines are no arms, so that it needs a legend of its own."""
    return any(not series.key.startswith("arm-") for series in panel.series)


def _arm_shape(slot: int) -> Markup:
    """The point's shape that an arm has in charts, for its swatch."""
    paint = Markup('<path d="{}" fill="var(--{})"/>')
    return paint.format(charts.LEGEND_SHAPES[slot % charts.ARM_SLOTS], charts.css_key(f"arm-{slot}"))


# The report as Markdown: tables ready for a blog or an issue.

_SPECIAL = re.compile(r"([\\`*\[\]|])")


def render_markdown(view: ReportView) -> str:
    """The whole text; labels and other people's words are escaped."""
    parts = [f"# {_plain(view.question)}", _plain(view.dateline)]
    parts += [f"> **{_plain(status.word)}**: {_plain(status.text)}" for status in view.statuses]
    parts.append("\n".join(_arm_line(view, index) for index in range(len(view.arms))))
    parts.append(_plain(" ".join(view.lead)))
    parts.append("\n".join(_answer_lines(view)))
    parts += [_plain(sentence) for sentence in (*view.summary, view.conditions)]
    parts += ["## Throughput", _markdown_table(view.throughput)]
    if view.scaling.rows:
        parts += ["## Scaling law", _markdown_table(view.scaling), _plain(view.scaling.note)]
    parts += ["## Stability", _markdown_table(view.stability), _plain(view.stability.note)]
    parts += ["## Latency", _plain(view.latency_note), _markdown_table(view.latency)]
    if view.published.rows:
        parts += ["## Published and measured", _markdown_table(view.published), _plain(view.published.note)]
    if view.effects.rows:
        parts += ["## Effects of the factors", _markdown_table(view.effects), _plain(view.effects.note)]
    if view.interactions.rows:
        parts += ["### Interactions", _markdown_table(view.interactions), _plain(view.interactions.note)]
    if view.pairs:
        parts += ["## All pairs", "Each row over each column, in per cent of throughput, slowest first."]
        parts += [_markdown_table(table) for table in view.pairs]
    if view.tpcc.rows:
        parts += ["## TPC-C", _markdown_table(view.tpcc), _plain(view.tpcc.note), _markdown_table(view.tpcc_types)]
    if view.sets.rows:
        parts += ["### The published way beside ours", _markdown_table(view.sets), _plain(view.sets.note)]
    parts += ["## What one event costs", _markdown_table(view.costs), _plain(view.costs.note)]
    if view.sizes.rows:
        parts += ["## Sizes", _markdown_table(view.sizes), _plain(view.sizes.note)]
    parts.append("## Settings")
    parts.append(
        _markdown_table(view.declared) if view.declared.rows else "The study sets nothing differently on any arm."
    )
    if view.undeclared.rows:
        parts += ["Different without being asked for:", _markdown_table(view.undeclared)]
    if view.same_rows.rows:
        parts += ["## Same rows on every arm", _markdown_table(view.same_rows), _plain(view.same_rows.note)]
    parts += ["## Environment", "\n".join(f"- {_row_text(row.values)}" for row in view.environment.rows)]
    parts += ["## Method", "\n".join(f"{number}. {_plain(line)}" for number, line in enumerate(view.method, start=1))]
    parts.append(_plain(view.attempts))
    if view.wall.rows:
        parts += ["### Where the time went", _markdown_table(view.wall), _plain(view.wall.note)]
    if view.discarded.rows:
        parts += ["Discarded epochs:", _markdown_table(view.discarded)]
    if view.command:
        parts += ["## Run it again", f"```sh\n{view.command.replace('```', '')}\n```"]
    if view.footnotes:
        notes = (
            f"[{n.number}] **{_plain(n.word)}**: {_plain(n.text)} ({_plain('; '.join(n.where))})"
            for n in view.footnotes
        )
        parts += ["## Notes", "\n\n".join(notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _arm_line(view: ReportView, index: int) -> str:
    arm = view.arms[index]
    rest = " · ".join(part for part in (arm.version, arm.setup) if part)
    return f"- **{_plain(arm.label)}** ({arm.role.value})" + (f": {_plain(rest)}" if rest else "")


def _answer_lines(view: ReportView) -> list[str]:
    lines = []
    for answer in view.answers:
        marks = "".join(f" [{number}]" for number in answer.notes)
        lines.append(f"- **{_plain(answer.workload)}, {answer.threads}**: {_plain(answer.sentence)}{marks}")
    return lines


def _markdown_table(table: Table) -> str:
    if not table.rows:
        return "n/a"
    grouped = bool(table.group_title)
    heads = [table.group_title, *table.columns] if grouped else list(table.columns)
    texts = 1 + grouped
    marks = ["---" if table.all_text or index < texts else "---:" for index in range(len(heads))]
    lines = [_line(heads), _line(marks, escape=False)]
    before = None
    for row in table.rows:
        group = [] if not grouped else ["" if row.group == before else row.group]
        before = row.group
        lines.append(_line([*group, *(f"{v.text} ({v.sub})" if v.sub else v.text for v in row.values)]))
    return "\n".join(lines)


def _row_text(values: tuple[Value, ...]) -> str:
    return ": ".join(_plain(value.text) for value in values)


def _line(cells: list[str], *, escape: bool = True) -> str:
    return "| " + " | ".join(_plain(cell) if escape else cell for cell in cells) + " |"


def _plain(text: str) -> str:
    """Escape what Markdown or HTML would take for markup; a line break becomes a space."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


# The report in a terminal: the verdicts, one table, what to be wary of, where the rest is.

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
    console.print(_terminal_table(view, wide=console.width >= _WIDE))
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


def _terminal_table(view: ReportView, *, wide: bool) -> RichTable:
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
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


def _grouped(table: report.Table) -> RichTable:
    """A table of the view, its groups' names once each."""
    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
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


# The report for programs: CSV (one row a comparison, unrounded) and JSON.

_FOR_PEOPLE = frozenset(
    {
        "forest", "throughput", "threads_panels", "scaling_panels", "time_panels", "jitter_panels", "warm_up_panels",
        "epoch_panels", "percentile_panels", "arm_panels", "host_panels", "pilot_panels", "cpu_bars", "latency",
        "costs", "method", "documents", "other_settings", "records",
    }
)  # fmt: skip


def render_csv(view: ReportView) -> str:
    """Rows of `view.records` with a heading; ratios as ratios, times in ns, rates per second; empty where unknown."""
    columns = list(dict.fromkeys(key for record in view.records for key in record))
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(view.records)
    return out.getvalue()


def render_json(view: ReportView) -> str:
    """One document: the answers in words, and under `comparisons` the same unrounded."""
    document = view.model_dump(mode="json", exclude=set(_FOR_PEOPLE))
    document["comparisons"] = list(view.records)
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


# A report to be published: page, tables and numbers in one folder, with a control that says whether it holds.

FOLDER = "publish"


def publish(run: RunDirectory, view: ReportView) -> Path:
    """Write `RUN/publish/`: report.html (nothing outside it is needed), report.md, results.csv and results.json."""
    run.path.joinpath(FOLDER).mkdir(exist_ok=True)
    for name, text in (
        ("report.html", render_html(view)),
        ("report.md", render_markdown(view)),
        ("results.csv", render_csv(view)),
        ("results.json", render_json(view)),
    ):
        run.write_text(f"{FOLDER}/{name}", text)
    return run.path / FOLDER


def objection(analysis: Analysis) -> str | None:
    """Why the report must not be relied on, in a line; None when its own control holds."""
    if analysis.trusted:
        return None
    if analysis.control is None:
        return "the run has no control."
    if analysis.trusted is False:
        return "UNTRUSTED: the control, a second instance of the baseline, came out different from the baseline."
    return "the control has fewer than five usable epochs and proves nothing: give the run a larger budget."
