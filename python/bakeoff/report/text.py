"""Print a report in a terminal: one screen at the end of a run, or all of it. No word is ever broken."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from bakeoff.files import from_here
from bakeoff.report.view import COMPARISONS, ROWS_MAX, Prose, ReportView, Row, Table, marks, value_text
from bakeoff.results import run_argument
from bakeoff.stats.model import Word

SCREEN_LINES = 40
WHY_LINES = 4  # of those 40
_WEAK_LEAST, _WEAK_MOST = 4, 10  # lines of warnings and footnotes
_GAP = "  "
_NUMBER = re.compile(r"([+−<>≤~] ?)?\d[\d.,]*[%×]?|–|n/a|")
_STYLES = {Word.FASTER: "bold green", Word.SLOWER: "bold red", Word.EQUIVALENT: "bold", Word.INCONCLUSIVE: "yellow"}


def render_screen(view: ReportView, console: Console) -> None:
    """Print the answer in at most `SCREEN_LINES` lines, and where the rest is."""
    screen, width = view.screen, console.width
    above = [_clipped([view.question], 2, width, "bold"), _clipped([screen.answer], 5, width)]
    weak = [f"{each.word}: {each.text}" for each in view.doubts]
    below = [_clipped((*screen.figures, *screen.published), 8, width), _clipped(screen.why, WHY_LINES, width)]
    end = [*_lines(screen.effort, width, "dim"), *map(Text, _where(view, width))]
    room = SCREEN_LINES - sum(len(block) + 1 for block in (*above, *below, end) if block) - 2
    rows = len(screen.table.rows) if screen.table else 0
    below += [_clipped(weak, min(_WEAK_MOST, max(_WEAK_LEAST, room - rows - 4)), width, "yellow")]
    table = _screen_table(view, width, room - len(below[-1]))
    _print(console, (line for block in (*above, table, *below, end) if block for line in (Text(), *block)))


def render_terminal(view: ReportView, console: Console) -> None:
    """Print everything but charts and folded tables."""
    width = console.width
    _print(console, [Text(), *_lines(view.question, width, "bold"), *_lines(view.dateline, width, "dim")])
    for status in view.statuses:
        style = "bold red" if status.word == "UNTRUSTED" else "yellow"
        _print(console, _lines(f"{status.word}: {status.text}", width, style))
    _block(console, _lines(" ".join(view.summary), width))
    _block(console, _table_lines(_forest_table(view), width) if view.forest.rows else [])
    remarks = (f"{each.workload}, {each.threads}: {each.remark}" for each in view.verdicts if each.remark)
    _block(console, (line for text in remarks for line in _lines(text, width)))
    _block(console, (line for text in view.screen.why for line in _lines(text, width)))
    for section in (inner for outer in view.sections for inner in outer.sections() if inner.in_terminal):
        _block(console, _lines(section.title, width, "bold"))
        for part in section.parts:
            if isinstance(part, Prose) and not part.small:
                _print(console, _lines(part.text, width))
            elif isinstance(part, Table):
                _print(console, [*_table_lines(part, width), *_lines(part.note, width, "dim")])
    said = (*view.screen.figures, *view.means, view.conditions)
    _block(console, (line for text in said for line in _lines(text, width)))
    notes = (f"[{note.number}] {note.word}: {note.text}" for note in view.footnotes)
    _block(console, (line for text in notes for line in _lines(text, width)))
    _block(console, (line for text in view.effort for line in _lines(text, width, "dim")))
    _print(console, map(Text, _where(view, width, whole=True)))
    if view.command:
        _print(console, [Text(f"Again:  {view.command}", style="dim")])


def _print(console: Console, lines: Iterable[Text]) -> None:
    for line in lines:
        line.rstrip()
        console.print(line, soft_wrap=True)


def _block(console: Console, lines: Iterable[Text]) -> None:
    if lines := list(lines):
        _print(console, [Text(), *lines])


def _where(view: ReportView, width: int, *, whole: bool = False) -> Iterator[str]:
    """Say where the page is, and how to print the whole report. A path that is too long gets a separate line."""
    if not view.directory:
        return
    path = Path(view.directory)
    places = [("Report:", from_here(str(path / "report.html")))]
    places += [] if whole else [("More:", f"bakeoff report {run_argument(path)} --format text")]
    for title, text in places:
        yield from [f"{title} {text}"] if len(title) + 1 + cell_len(text) <= width else [title, text]


def _lines(text: str, width: int, style: str = "", indent: str = "") -> list[Text]:
    found = textwrap.wrap(
        text, width, break_long_words=False, break_on_hyphens=False, initial_indent=indent, subsequent_indent=indent
    )
    return [Text(line, style=style) for line in found]


def _clipped(texts: Iterable[str], most: int, width: int, style: str = "") -> list[Text]:
    """Wrap texts into at most `most` lines. Texts that do not fit are counted; a first one that is too long is cut."""
    wrapped = [_lines(text, width, style) for text in texts if text]
    lines: list[Text] = []
    for at, own in enumerate(wrapped):
        last = at == len(wrapped) - 1
        if len(lines) + len(own) > most - (not last):
            if at:
                return [*lines, Text(f"… and {len(wrapped) - at} more.", style=style)]
            own = own[: most - (not last)]
            own[-1].truncate(width - 1)
            own[-1].append("…")
        lines += own
    return lines


# ---- tables ----------------------------------------------------------------------------------------------------------


def _screen_table(view: ReportView, width: int, room: int) -> list[Text]:
    """Return the table with all rows, or only the most important ones if they do not fit."""
    screen = view.screen
    if not screen.table:
        return []
    rows, caption = screen.table.rows, _lines(screen.caption, width, "dim")
    for most in range(ROWS_MAX, 0, -1):
        shown = screen.shown(most)
        kept = screen.table.model_copy(update={"rows": tuple(rows[at] for at in shown)})
        more = f"… and {len(rows) - len(shown)} more" if len(shown) < len(rows) else ""
        lines = [*caption, *_table_lines(kept, width), *_lines(more, width, "dim")]
        if len(lines) <= room:
            break
    return lines


def _forest_table(view: ReportView) -> Table:
    several = len(view.arms) > 2
    rows = [
        Row.of(*([row.contender] if several else []), row.ratio, row.interval or "none yet",
               row.verdict + marks(row.notes), group=row.short)
        for row in view.forest.rows
    ]  # fmt: skip
    columns = (*(["contender"] if several else []), "ratio", "95% interval", "verdict")
    return Table(id=COMPARISONS, columns=columns, rows=tuple(rows), group_title="cell")


def _table_lines(table: Table, width: int) -> list[Text]:
    """Lay a table out. If it is too wide, leave out its `wide` columns, the last one first, then stack it."""
    kept = list(range(len(table.columns)))
    while True:
        titles = [table.columns[at] for at in kept]
        rows = [[value_text(row.values[at]) for at in kept] for row in table.rows]
        grouped = bool(table.group_title)
        heads = [table.group_title, *titles] if grouped else titles
        cells = (
            _without_repeats([[row.group, *own] for row, own in zip(table.rows, rows, strict=True)])
            if grouped
            else rows
        )
        widths = [max(map(cell_len, column)) for column in zip(heads, *cells, strict=True)]
        if sum(widths) + len(_GAP) * (len(widths) - 1) <= width:
            return list(_laid_out(heads, cells, widths))
        droppable = [at for at in kept if table.columns[at] in table.wide]
        if not droppable:
            return list(_stacked(heads, cells, width, grouped=grouped))
        kept.remove(droppable[-1])


def _without_repeats(rows: list[list[str]]) -> list[list[str]]:
    groups = [row[0] for row in rows]
    return [
        ["" if own == before else own, *row[1:]] for own, before, row in zip(groups, ["", *groups], rows, strict=False)
    ]


def _laid_out(heads: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[Text]:
    right = [bool(rows) and all(_NUMBER.fullmatch(row[at]) for row in rows) and at > 0 for at in range(len(heads))]
    if any(heads):
        yield Text(_GAP.join(map(_padded, heads, widths, right)), style="bold")
        yield Text("─" * (sum(widths) + len(_GAP) * (len(widths) - 1)), style="dim")
    for row in rows:
        padded = map(_padded, row, widths, right)
        yield Text(_GAP).join(Text(cell, style=_style(cell)) for cell in padded)


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def _style(cell: str) -> str:
    return _STYLES.get(next(iter(cell.split()), ""), "")  # type: ignore[call-overload,no-any-return]


def _stacked(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, grouped: bool) -> Iterator[Text]:
    """Yield each row as a line with its first column, and below it the others with their headings."""
    for row in rows:
        named = [*zip(heads, row, strict=True)]
        if grouped and (group := named.pop(0)[1]):
            yield from _lines(group, width, "bold")
        yield from _lines(named[0][1], width, indent="  " if grouped else "")
        rest = " · ".join(f"{head} {cell}".strip() for head, cell in named[1:] if cell)
        yield from _lines(rest, width, indent="    " if grouped else "  ")
