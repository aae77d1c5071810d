"""A result: a table of numbers, the command that made it, the machine; as JSON and as Markdown."""

import json
import textwrap
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import record
from record import RESULTS, ROOT

PAGE = ROOT / "docs" / "evidence" / "method-defaults.md"
BEGIN, END = "<!-- bench/method -->", "<!-- end -->"
COLUMNS = 100


@dataclass(frozen=True)
class Result:
    """What one experiment found.

    Attributes:
        name: of the command.
        asks: the question, in a sentence.
        columns, rows: cells are text or numbers already in the columns' units.
        says: what follows from the numbers, in sentences made from them.
        figures: everything behind them.
    """

    name: str
    asks: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    says: str
    figures: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def markdown(self) -> str:
        """Question, table, what follows."""
        lines = [f"**{self.asks}**", "", _line(self.columns), "|" + "---|" * len(self.columns)]
        lines += [_line(map(cell, row)) for row in self.rows]
        return "\n".join(
            [
                *lines,
                "",
                textwrap.fill(self.says, COLUMNS),
                "",
                f"    bench/method/run.py {self.name}      # {self.seconds:.0f} s",
            ]
        )


def cell(value: object) -> str:
    """Format a cell: three digits of a number, a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def write(result: Result, server: str) -> Path:
    """Write `bench/results/method-NAME-DATE.json`; a file is written once and never edited."""
    return record.write(f"method-{result.name}", {"server": server} | asdict(result), RESULTS)


def newest(names: tuple[str, ...]) -> str:
    """Return the latest result of each experiment as Markdown, with the machine and date of each."""
    parts = []
    for name in names:
        files = sorted(RESULTS.glob(f"method-{name}-*.json"))
        if not files:
            continue
        kept = json.loads(files[-1].read_text(encoding="utf-8"))
        result = Result(
            **{key: kept[key] for key in ("name", "asks", "says", "figures", "seconds")},
            columns=tuple(kept["columns"]),
            rows=tuple(map(tuple, kept["rows"])),
        )
        host = kept["host"]
        where = (
            f"{kept['server']}, {kept['date']}, {host['cpus_usable']} CPUs ({host['cpu_model']}), load average "
            f"{host['load_average'][0]:.1f} when it ended, commit {kept['commit'] or 'unknown'}."
        )
        parts.append(f"{result.markdown}\n\n{textwrap.fill(where, COLUMNS)}")
    return "\n\n".join(parts) + "\n"


def replace_between_markers(path: Path, text: str) -> None:
    """Put the text between the lines `<!-- bench/method -->` and `<!-- end -->` of a file."""
    before, marker, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (marker and end):
        raise SystemExit(f"{path}: it has no lines {BEGIN} and {END} to put the result between.")
    path.write_text(f"{before}{marker}\n\n{text}\n{end}{after}", encoding="utf-8")


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"
