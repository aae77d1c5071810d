"""The report as Markdown: tables ready for a blog or an issue."""

import re

from bakeoff.report.view import ReportView, Table, Value

_SPECIAL = re.compile(r"([\\`*\[\]|])")


def render_markdown(view: ReportView) -> str:
    """The whole text; labels and other people's words are escaped."""
    parts = [f"# {_plain(view.question)}", _plain(view.dateline)]
    parts += [f"> **{_plain(status.word)}**: {_plain(status.text)}" for status in view.statuses]
    parts.append("\n".join(_arm_line(view, index) for index in range(len(view.arms))))
    parts.append(_plain(" ".join(view.lead)))
    parts.append("\n".join(_answer_lines(view)))
    parts += [_plain(sentence) for sentence in (*view.summary, view.conditions)]
    parts += ["## Throughput", _table(view.throughput)]
    if view.scaling.rows:
        parts += ["## Scaling law", _table(view.scaling), _plain(view.scaling.note)]
    parts += ["## Stability", _table(view.stability), _plain(view.stability.note)]
    parts += ["## Latency", _plain(view.latency_note), _table(view.latency)]
    if view.published.rows:
        parts += ["## Published and measured", _table(view.published), _plain(view.published.note)]
    if view.effects.rows:
        parts += ["## Effects of the factors", _table(view.effects), _plain(view.effects.note)]
    if view.interactions.rows:
        parts += ["### Interactions", _table(view.interactions), _plain(view.interactions.note)]
    if view.pairs:
        parts += ["## All pairs", "Each row over each column, in per cent of throughput, slowest first."]
        parts += [_table(table) for table in view.pairs]
    if view.tpcc.rows:
        parts += ["## TPC-C", _table(view.tpcc), _plain(view.tpcc.note), _table(view.tpcc_types)]
    if view.sets.rows:
        parts += ["### The published way beside ours", _table(view.sets), _plain(view.sets.note)]
    parts += ["## What one event costs", _table(view.costs), _plain(view.costs.note)]
    if view.sizes.rows:
        parts += ["## Sizes", _table(view.sizes), _plain(view.sizes.note)]
    parts.append("## Settings")
    parts.append(_table(view.declared) if view.declared.rows else "The study sets nothing differently on any arm.")
    if view.undeclared.rows:
        parts += ["Different without being asked for:", _table(view.undeclared)]
    if view.same_rows.rows:
        parts += ["## Same rows on every arm", _table(view.same_rows), _plain(view.same_rows.note)]
    parts += ["## Environment", "\n".join(f"- {_row_text(row.values)}" for row in view.environment.rows)]
    parts += ["## Method", "\n".join(f"{number}. {_plain(line)}" for number, line in enumerate(view.method, start=1))]
    parts.append(_plain(view.attempts))
    if view.wall.rows:
        parts += ["### Where the time went", _table(view.wall), _plain(view.wall.note)]
    if view.voided.rows:
        parts += ["Voided epochs:", _table(view.voided)]
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


def _table(table: Table) -> str:
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
