"""Render a report as HTML, Markdown, CSV, JSON and in a terminal, and write the folder to be published."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import compress, groupby
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from bakeoff.explain import flame
from bakeoff.report import charts, numbers, setups
from bakeoff.report.charts import VERDICTS, picture_svg
from bakeoff.report.view import (
    ArmView,
    Charts,
    Code,
    ForestRow,
    Panel,
    Part,
    Prose,
    ReportView,
    Row,
    Section,
    Steps,
    Table,
    Tone,
    Value,
    VerdictView,
)
from bakeoff.results import RunDirectory
from bakeoff.results.manifest import bakeoff_version
from bakeoff.stats.model import Analysis

# HTML: one file that opens from a disk, asks nothing of any network and runs no script but that of flame graphs.
# Labels, logs and server names are untrusted: the template escapes everything, undefined names are errors, and a
# content security policy inside the page forbids other scripts and requests even if something slipped through.


def render_html(view: ReportView) -> str:
    """The whole page as text."""
    # Safe: the drawing library escapes texts in the SVG (tests/report/test_report_untrusted.py).
    drawings = {panel: Markup(svg) for panel, svg in charts.draw(view.panels, dashed=view.dashed).items()}
    return _template().render(
        view=view,
        drawings=drawings,
        # Safe: ours, and the policy names its digest.
        flame_script=Markup(flame.flame_script()) if view.has_flames else "",
        flame_policy=Markup(flame.flame_policy()) if view.has_flames else "",
        version=bakeoff_version(),
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(charts.TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "arm_key": lambda slot: charts.css_key(f"arm-{slot}"),
        "arm_shape": _arm_shape,
        "breakable": _breakable,
        "by_group": _by_group,
        "code": _with_code,
        "explained": _explained,
        "flame_functions": flame.flame_functions,
        "has_own_keys": _has_own_keys,
        "percent": numbers.share,
    }
    environment.globals["flame_frames"] = flame.flame_frames
    return environment.get_template("report.html.j2")


def _arm_shape(slot: int) -> Markup:
    """The point's shape that an arm has in charts, for its swatch."""
    paint = Markup('<path d="{}" fill="var(--{})"/>')
    return paint.format(charts.LEGEND_SHAPES[charts.shape_of(slot)], charts.css_key(f"arm-{slot}"))


def _by_group(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Neighbouring rows of one group together; rows without a group each alone."""
    return [(group, list(part)) for group, part in groupby(rows, key=lambda row: row.group)]


def _with_code(text: str) -> Markup:
    """Escape a text; words between backticks become code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _breakable(text: str) -> Markup:
    """Escape a text; a line may end after a comma or an equals sign inside a word, as in a server with its options."""
    return Markup(re.sub(r"(,(?=[a-z@])|=(?=\S))", r"\1<wbr>", str(escape(text))))


def _explained(heading: str, listed: bool) -> Markup:
    """A heading; a word of the page's list of words shows its meaning under the pointer and leads there."""
    meaning = setups.WORDS.get(heading) or setups.WORDS.get(heading.removesuffix("s"))
    if meaning is None or not listed:
        return _breakable(heading)
    return Markup('<a class="word" href="#table-words" title="{}">{}</a>').format(meaning, heading)


def _has_own_keys(panel: Panel) -> bool:
    """Whether a panel's lines are no arms, so that it needs a legend of its own."""
    return any(not series.key.startswith("arm-") for series in panel.series)


# Markdown: tables ready for a blog or an issue. Charts and `Fold`s are on the page only; folded sections are text, too.

_SPECIAL = re.compile(r"([\\`*\[\]|])")


def render_markdown(view: ReportView, *, pictures: str | None = None) -> str:
    """The whole text; labels and other people's words are escaped.

    Args:
        view: what it says.
        pictures: refer to `published_charts` as SVG files beside the text, whose names begin with this.
    """
    shown = {
        name: f"![{_plain(title)}]({quote(f'{pictures}{name}.svg')})"
        for name, title in (published_charts(view) if pictures is not None else {}).items()
    }
    parts = [f"# {_plain(view.question)}", _plain(view.dateline)]
    parts += [f"> **{_plain(status.word)}**: {_plain(status.text)}" for status in view.statuses]
    arms = "\n".join(_arm_line(arm) for arm in view.arms)
    parts.append(_markdown_table(view.arms_table) if view.arms_table else arms)
    parts.append(_plain(" ".join(view.summary)))
    parts.append("\n".join(_verdict_line(verdict) for verdict in view.verdicts))
    parts += [_plain(sentence) for sentence in (*view.means, view.conditions)]
    parts.append(shown.get(VERDICTS, ""))
    for section in view.sections:
        parts += _section_lines(section, 2, shown)
    if view.footnotes:
        parts.append("## Notes")
    parts += [
        f"[{note.number}] **{_plain(note.word)}**: {_plain(note.text)} ({_plain('; '.join(note.where))})"
        for note in view.footnotes
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _arm_line(arm: ArmView) -> str:
    rest = " · ".join(part for part in (arm.version, arm.setup) if part)
    return f"- **{_plain(arm.label)}** ({arm.role.value})" + (f": {_plain(rest)}" if rest else "")


def _verdict_line(verdict: VerdictView) -> str:
    return f"- **{_plain(verdict.workload)}, {verdict.threads}**: {_plain(verdict.sentence)}{_marks(verdict.notes)}"


def published_charts(view: ReportView) -> dict[str, str]:
    """Name -> title of the charts that a published text has as pictures: the verdicts, and throughput."""
    parts = (part for section in view.sections for inner in section.sections() for part in inner.parts)
    panels = (panel for part in parts if isinstance(part, Charts) and part.published for panel in part.panels)
    verdicts = {VERDICTS: view.question} if view.forest.rows else {}
    return verdicts | {panel.id: f"{panel.title}, {panel.y_title}" for panel in panels}


def markdown_files(view: ReportView, name: str, pictures: str = "") -> dict[str, str]:
    """The text as a file of that name, and beside it the pictures that it refers to, as in `render_markdown`."""
    drawn = {f"{pictures}{chart}.svg": picture_svg(view, chart) for chart in published_charts(view)}
    return {name: render_markdown(view, pictures=pictures)} | drawn


def _section_lines(section: Section, level: int, shown: Mapping[str, str]) -> list[str]:
    """The section's paragraphs; empty when nothing in it has a form in text."""
    parts = [text for part in section.parts for text in _part_lines(part, level, shown)]
    return [f"{'#' * level} {_plain(section.title)}", _plain(section.note), *parts] if parts else []


def _part_lines(part: Part, level: int, shown: Mapping[str, str]) -> list[str]:
    match part:
        case Section():
            return _section_lines(part, level + 1, shown)
        case Charts():
            found = [shown[panel.id] for panel in part.panels if panel.id in shown]
            return [*found, _plain(part.note)] if found else []
        case Table():
            return [] if part.page_only else [_markdown_table(part), _plain(part.note)]
        case Prose():
            return [_plain(part.text).replace("\\`", "`")]
        case Steps():
            return ["\n".join(f"{number}. {_plain(item)}" for number, item in enumerate(part.items, start=1))]
        case Code():
            return [f"```sh\n{part.text.replace('```', '')}\n```"]
        case _:
            return []


def _markdown_table(table: Table) -> str:
    if table.is_facts:
        return "\n".join(f"- {': '.join(_plain(value.text) for value in row.values)}" for row in table.rows)
    grouped = [table.group_title] if table.group_title else []
    heads = [*grouped, *table.columns]
    texts = len(heads) if table.all_text else 1 + len(grouped)
    lines = [_line(heads), "| " + " | ".join("---" if at < texts else "---:" for at in range(len(heads))) + " |"]
    before = None
    for row in table.rows:
        group = ["" if row.group == before else row.group] if grouped else []
        before = row.group
        lines.append(_line([*group, *map(_value_text, row.values)]))
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(_plain(cell) for cell in cells) + " |"


def _value_text(value: Value) -> str:
    return f"{value.text} ({value.sub})" if value.sub else value.text


def _plain(text: str) -> str:
    """Escape what Markdown or HTML would take for markup; a line break becomes a space."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


# A terminal: the verdicts, the forest plot, the few tables that matter most, what to be wary of, where the rest is.

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
    if len(view.verdicts) > 1 or "queries" in view.tables or (view.conclusion and view.conclusion.lead):
        console.print()
        console.print(Text(" ".join(view.summary)))
    if view.forest.rows:
        console.print()
        console.print(_forest_table(view, wide=console.width >= _WIDE))
    if len(view.verdicts) <= _SENTENCES_MAX:
        console.print()
        for verdict in view.verdicts:
            where = f"{verdict.workload}, {verdict.threads}: "
            console.print(
                Text.assemble((where, "dim"), (verdict.sentence, _STYLES[verdict.tone]), _marks(verdict.notes))
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


def _forest_table(view: ReportView, *, wide: bool) -> RichTable:
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
        cells += [
            Text(row.ratio, style="bold"),
            Text(row.interval or "none yet"),
            Text(row.verdict + _marks(row.notes), style=_STYLES[row.tone]),
        ]
        table.add_row(*cells)
        before = row.short
    return table


def _marks(notes: Iterable[int]) -> str:
    """` [1] [3]`: references to footnotes."""
    return "".join(f" [{number}]" for number in notes)


def _grouped(table: Table) -> RichTable:
    """A table, its groups' names once each."""
    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    kept = [name not in table.wide for name in table.columns]
    for name in (table.group_title, *compress(table.columns, kept)):
        shown.add_column(Text(name), overflow="fold")
    before = ""
    for row in table.rows:
        group = "" if row.group == before else row.group
        shown.add_row(*(Text(cell) for cell in (group, *map(_value_text, compress(row.values, kept)))))
        before = row.group
    return shown


def _strip(row: ForestRow, one: float) -> str:
    """The forest plot's line in characters."""

    def column(position: float | None) -> int | None:
        return None if position is None else min(_STRIP - 1, int(position / 100 * _STRIP))

    return numbers.strip(
        _STRIP,
        column(one) or 0,
        column(row.low),
        column(row.point) if row.measured else None,
        column(row.high),
        cut=(row.cut_left, row.cut_right),
    )


# Programs: CSV and JSON.


def render_csv(view: ReportView) -> str:
    """Rows of `view.records`, and of a replay its queries, with a heading; empty where unknown."""
    records = (*view.records, *view.queries)
    columns = list(dict.fromkeys(key for record in records for key in record))
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def render_json(view: ReportView) -> str:
    """One document: the head, `tables` (by id); unrounded `comparisons`, `costs`, and of a replay `queries`."""
    left_out = {"forest", "sections", "records", "queries", "costs", "arms_table"}
    document = view.model_dump(mode="json", exclude=left_out)
    document["tables"] = {name: table.model_dump(mode="json") for name, table in view.tables.items()}
    document["comparisons"] = view.records
    if view.conclusion and view.conclusion.document:
        document[view.conclusion.key] = view.conclusion.document.model_dump(mode="json")
    document |= {name: found for name in ("queries", "costs") if (found := getattr(view, name))}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


# A report to be published: page, tables and numbers in one folder, with a control that says whether it holds.

FOLDER = "publish"


def publish(run: RunDirectory, view: ReportView) -> Path:
    """Write `RUN/publish/`: report.html and results.json need nothing else; report.md has its pictures beside it."""
    run.path.joinpath(FOLDER).mkdir(exist_ok=True)
    files = {
        "report.html": render_html(view),
        "results.csv": render_csv(view),
        "results.json": render_json(view),
    }
    files |= markdown_files(view, "report.md")
    for name, text in files.items():
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
    if analysis.control_is_idle:
        return "the control or the baseline completed nothing in an epoch, so the control proves nothing."
    return "the control has fewer than five usable epochs and proves nothing: give the run a larger budget."
