"""Keep docs/record/: published claims that were measured again, a folder each. Its pages follow from its data files.

python -m tools.record add RUN NAME   keep the data files of a finished run in docs/record/NAME, then write
python -m tools.record write          write every page and picture, and the index
python -m tools.record check          fail if a file differs from what `write` would write

What explains a difference is written by hand: docs/record/NAME/note.md.
"""

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from bakeoff.errors import BakeoffError, ResultsError
from bakeoff.report import build_view
from bakeoff.report.context import Context, read_analysis
from bakeoff.report.markdown import escaped, section_lines
from bakeoff.report.numbers import ratio
from bakeoff.report.studies import published_lines
from bakeoff.report.view import Section, Status
from bakeoff.results import RunDirectory, open_run
from bakeoff.stats.effects import Agreement, PublishedRatio, published_ratios
from tools.record_picture import picture

RECORD = Path(__file__).parent.parent / "docs" / "record"
PAGE, PICTURE, NOTE = "README.md", "ratios.svg", "note.md"
RUN = "run.json"  # what a report says that only the run directory has
_HEAD = """\
# The record

What others published about MySQL and MariaDB, measured again with bakeoff. Each page has the
claims, the measured ratios with their intervals, and the command. A judgement holds for the machine
that its page names.

The pages follow from the data files beside them: `make record` writes them, `make record-check`
compares. In runs before 23:50 UTC on 30 November 2026 the adaptive hash index is each version's
default unless the page says otherwise; in later ones it is off
([why](../explanation/decisions/measuring.md)).

"""


class Claim(NamedTuple):
    """A published ratio: its cell and arms, what it says, and `0.90×, measured 0.91× (0.90 to 0.92)`."""

    ratio: PublishedRatio
    where: str
    says: str
    figures: str


class Record:
    """A folder of the record, or a run that is to be kept, with its report."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run = folder, RunDirectory(folder)
        study, analysis = self.run.study(), read_analysis(self.run)
        if analysis is None:
            raise ResultsError(f"{folder.name} has no analysis.json.", hint="Let the run end first.")
        self.view, self.design = build_view(self.run, analysis), study.design
        self.kept = self.run.read_json(RUN) or {}
        if self.kept:
            statuses = tuple(Status(**each) for each in self.kept["statuses"])
            self.view = self.view.model_copy(update={"statuses": statuses})
        ratios = published_ratios(analysis, study.design, study.precision) if study.design else ()
        lines = [
            line.rpartition(": ")[0].split(": published ", 1) for line in published_lines(Context(self.run, analysis))
        ]
        self.claims = [
            Claim(each, where, each.claim.says if each.claim else "figures", figures)
            for each, (where, figures) in zip(ratios, lines, strict=True)
        ]

    def page(self) -> str:
        view, note = self.view, self.folder / NOTE
        sections, table = {section.anchor: section for section in view.sections}, view.screen.table
        parts = [
            f"# {escaped(view.question)}",
            escaped(f"{view.dateline} · {self.kept['effort']}"),
            _linked(self.design.about) if self.design else "",
            *(f"> **{escaped(each.word)}**: {escaped(each.text)}" for each in view.doubts),
            *_lines(sections.get("published")),
            f"![published and measured ratios]({PICTURE})" if self.claims else "",
            escaped(view.screen.answer),
            f"## What explains it\n\n{note.read_text(encoding='utf-8').strip()}" if note.exists() else "",
            *_lines(table and Section.of("Every comparison", table, note=view.screen.caption)),
            *_lines(sections.get("effects")),
            *_lines(sections.get("costs")),
            *_lines(sections.get("sizes")),
            *_lines(Section.of("Settings", view.tables.get("undeclared"))),
            *_lines(sections.get("again")),
            *_lines(Section.of("Machine", view.tables["environment"])),
            escaped(f"Servers: {'; '.join(self.kept['versions'])}. {self.kept['conditions']}"),
            f"For the rest of what was kept: `bakeoff report docs/record/{self.folder.name} --format text`.",
        ]
        return "\n\n".join(filter(None, parts)) + "\n"

    def in_index(self) -> str:
        words = "".join(f" · **{word}**" for word in dict.fromkeys(each.word for each in self.view.statuses))
        published = self.design.published if self.design else None
        claims = (_sentence(list(group)) for _, group in groupby(self.claims, lambda each: each.says))
        title = f"## [{escaped(self.view.question)}]({self.folder.name}/{PAGE})"
        source = f"Published: {_linked(published.source) if published else 'nothing'}."
        found = "\n".join(claims) or escaped(self.view.screen.answer)
        return "\n\n".join((title, escaped(self.view.dateline) + words, source, found))


def _lines(section: Section | None) -> list[str]:
    return section_lines(section, 2, {}) if section else []


def _linked(text: str) -> str:
    host = r"(?<![\w./@-])((?:[a-z0-9-]+\.)+(?:com|org|net)\b(?:/[\w./-]*\w)?)"
    return re.sub(host, r"[\1](https://\1)", escaped(text))


def _sentence(claims: Sequence[Claim]) -> str:
    if len(claims) == 1:
        text = f"{claims[0].where}: published {claims[0].figures}"
    else:
        means = [each.ratio.measured.mean for each in claims if each.ratio.measured] or [math.nan]
        text = f"{len(claims)} ratios, measured {ratio(min(means))} to {ratio(max(means))}"
    return f"- **{_tally(claims)}**: {escaped(f'{claims[0].says}: {text}')}"


def _tally(claims: Sequence[Claim]) -> str:
    counts = Counter(each.ratio.agreement for each in claims)
    return " · ".join(f"{each} {counts[each]}" if len(claims) > 1 else each for each in Agreement if counts[each])


def index(records: Iterable[Record]) -> str:
    newest = sorted(records, key=lambda each: each.run.manifest().created_at, reverse=True)
    claims = [claim for record in newest for claim in record.claims]
    count = f"{len(claims)} published ratios: {_tally(claims)}." if newest else "It is empty: no run is kept yet."
    return _HEAD + "\n\n".join((count, *(record.in_index() for record in newest))) + "\n"


def expected(record: Path) -> dict[Path, str]:
    """Return the text of every file that follows from the data files."""
    records = [Record(file.parent) for file in sorted(record.glob("*/study.json"))]
    pages = {each.folder / PAGE: each.page() for each in records}
    pictures = {each.folder / PICTURE: picture([claim[:2] for claim in each.claims]) for each in records if each.claims}
    return {record / PAGE: index(records)} | pages | pictures


def write(record: Path) -> int:
    for path, text in expected(record).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


def check(record: Path) -> int:
    wanted = {path: text.encode() for path, text in expected(record).items()}
    present = {path for name in (PAGE, PICTURE) for path in (record / name, *record.glob(f"*/{name}")) if path.exists()}
    wrong = [path for path in wanted.keys() | present if path not in present or path.read_bytes() != wanted.get(path)]
    for path in sorted(wrong):
        print(f"{path} is not what the data files give: run `make record` and look at the difference.")
    return int(bool(wrong))


def add(record: Path, run: str, name: str) -> int:
    source = open_run(run)
    view, folder = Record(source.path).view, record / name
    builds = [f"builds/{each}.json" for each in source.builds()]
    kept = {file: source.read_json(file) for file in ("manifest.json", "study.json", "analysis.json", *builds)}
    kept["analysis.json"]["latencies"] = []  # a quarter of the file, and on no page
    versions = list(dict.fromkeys(arm.version for arm in view.arms if arm.version))
    statuses = [each.model_dump() for each in view.statuses]
    kept[RUN] = dict(effort=view.screen.effort, conditions=view.conditions, versions=versions, statuses=statuses)
    for file, document in kept.items():
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(f"{text}\n", encoding="utf-8")
    if view.screen.why and not (folder / NOTE).exists():
        (folder / NOTE).write_text("".join(f"- {escaped(line)}\n" for line in view.screen.why), encoding="utf-8")
    return write(record)


def main(arguments: Sequence[str], record: Path = RECORD) -> int:
    try:
        match arguments:
            case ["add", run, name]:
                return add(record, run, name)
            case ["write"]:
                return write(record)
            case ["check"]:
                return check(record)
    except BakeoffError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
