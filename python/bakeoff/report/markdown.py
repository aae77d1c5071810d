"""Render a report as Markdown for a blog or an issue. Charts and folds are only on the page."""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from bakeoff.report.charts import VERDICTS, picture_svg
from bakeoff.report.csv import render_csv
from bakeoff.report.html import render_html
from bakeoff.report.json import render_json
from bakeoff.report.view import (
    ArmView,
    Charts,
    Code,
    Part,
    Prose,
    ReportView,
    Section,
    Table,
    VerdictView,
    marks,
    value_text,
)
from bakeoff.results import RunDirectory
from bakeoff.stats.model import Analysis

_SPECIAL = re.compile(r"([\\`*\[\]|])")


def render_markdown(view: ReportView, *, pictures: str | None = None) -> str:
    """Return the text. `pictures` is the prefix of the SVG files that it shows; None leaves charts out."""
    shown = {
        name: f"![{escaped(title)}]({quote(f'{pictures}{name}.svg')})"
        for name, title in (published_charts(view) if pictures is not None else {}).items()
    }
    parts = [f"# {escaped(view.question)}", escaped(view.dateline)]
    parts += [f"> **{escaped(status.word)}**: {escaped(status.text)}" for status in view.statuses]
    arms = "\n".join(_arm_line(arm) for arm in view.arms)
    parts.append(_markdown_table(view.arms_table) if view.arms_table else arms)
    parts.append(escaped(" ".join(view.summary)))
    screen = view.screen
    parts += _part_lines(screen.charts, 2, shown) if screen.charts else [shown.get(VERDICTS, "")]
    parts += [escaped(screen.caption), *_part_lines(screen.table, 2, shown)] if screen.table else []
    parts.append("\n".join(_remark_line(each) for each in view.verdicts if each.remark or each.notes))
    parts.append("\n".join(f"- {_prose(line)}" for line in (*screen.why, *screen.figures)))
    parts += [escaped(sentence) for sentence in (*view.means, view.conditions)]
    for section in view.below:
        parts += section_lines(section, 2, shown)
    if view.footnotes:
        parts.append("## Notes")
    parts += [
        f"[{note.number}] **{escaped(note.word)}**: {escaped(note.text)} ({escaped('; '.join(note.where))})"
        for note in view.footnotes
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _arm_line(arm: ArmView) -> str:
    rest = " · ".join(part for part in (arm.version, arm.setup) if part)
    return f"- **{escaped(arm.label)}** ({arm.role.value})" + (f": {escaped(rest)}" if rest else "")


def _remark_line(verdict: VerdictView) -> str:
    where = f"{verdict.workload}, {verdict.threads}, {verdict.contender}"
    return f"- **{escaped(where)}**: {escaped(verdict.remark)}{marks(verdict.notes)}"


def published_charts(view: ReportView) -> dict[str, str]:
    """Chart -> title, for the charts a published text shows: the ratios, and throughput."""
    panels = (panel for part in view.parts() if isinstance(part, Charts) and part.published for panel in part.panels)
    verdicts = {VERDICTS: view.question} if view.forest.rows and not view.screen.charts else {}
    return verdicts | {panel.id: f"{panel.title}, {panel.y_title}" for panel in panels}


def markdown_files(view: ReportView, name: str, pictures: str = "") -> dict[str, str]:
    drawn = {f"{pictures}{chart}.svg": picture_svg(view, chart) for chart in published_charts(view)}
    return {name: render_markdown(view, pictures=pictures)} | drawn


def section_lines(section: Section, level: int, shown: Mapping[str, str]) -> list[str]:
    parts = [text for part in section.parts for text in _part_lines(part, level, shown)]
    return [f"{'#' * level} {escaped(section.title)}", escaped(section.note), *parts] if parts else []


def _part_lines(part: Part, level: int, shown: Mapping[str, str]) -> list[str]:
    match part:
        case Section():
            return section_lines(part, level + 1, shown)
        case Charts():
            found = [shown[panel.id] for panel in part.panels if panel.id in shown]
            return [*found, escaped(part.note)] if found else []
        case Table():
            return [] if part.page_only else [_markdown_table(part), escaped(part.note)]
        case Prose():
            return [_prose(part.text)]
        case Code():
            return [f"```sh\n{part.text.replace('```', '')}\n```"]
        case _:
            return []


def _markdown_table(table: Table) -> str:
    if table.is_facts:
        return "\n".join(f"- {': '.join(escaped(value.text) for value in row.values)}" for row in table.rows)
    grouped = [table.group_title] if table.group_title else []
    heads = [*grouped, *table.columns]
    texts = len(heads) if table.all_text else 1 + len(grouped)
    lines = [_line(heads), "| " + " | ".join("---" if at < texts else "---:" for at in range(len(heads))) + " |"]
    before = None
    for row in table.rows:
        group = ["" if row.group == before else row.group] if grouped else []
        before = row.group
        lines.append(_line([*group, *map(value_text, row.values)]))
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(escaped(cell) for cell in cells) + " |"


def _prose(text: str) -> str:
    """Escape a text, but keep words between backticks as code."""
    line = re.sub("`+", "`", " ".join(text.split()))
    return re.sub(r"(`[^`]+`)|[^`]+", lambda found: found[1] or _escaped_part(found[0]), line)


def escaped(text: str) -> str:
    return _escaped_part(" ".join(text.split()))


def _escaped_part(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


# A report to be published: page, text, tables and numbers in one folder.

FOLDER = "publish"


def publish(run: RunDirectory, view: ReportView) -> Path:
    run.path.joinpath(FOLDER).mkdir(exist_ok=True)
    files = {"report.html": render_html(view), "results.csv": render_csv(view), "results.json": render_json(view)}
    files |= markdown_files(view, "report.md")
    for name, text in files.items():
        run.write_text(f"{FOLDER}/{name}", text)
    return run.path / FOLDER


def objection(analysis: Analysis) -> str | None:
    """Return why a report must not be relied on, or None if its control holds."""
    if analysis.trusted:
        return None
    if analysis.control is None:
        return "the run has no control."
    if analysis.trusted is False:
        return "UNTRUSTED: the control, a second instance of the baseline, differs from the baseline."
    if analysis.control_is_idle:
        return "the control or the baseline completed nothing in an epoch, so the control proves nothing."
    return "the control has fewer than five usable epochs and proves nothing: give the run a larger budget."
