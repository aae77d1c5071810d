"""The form of the documentation: the length of a line, of a paragraph and of the README."""

import subprocess
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
COLUMNS_MAX = 100
PARAGRAPH_LINES_MAX = 5
README_LINES_MAX = 80


def pages():
    """Pages written by hand. The pages of the record are made from data files."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [Path(line) for line in listed.stdout.splitlines() if (ROOT / line).exists()]
    return [path for path in paths if path.parts[:2] != ("docs", "record") or path.name == "note.md"]


@pytest.mark.parametrize("page", pages(), ids=str)
def test_lines_and_paragraphs_are_short(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = text.splitlines()
    paragraphs = [
        lines[slice(*token.map)]
        for token in MarkdownIt("commonmark").enable("table").parse(text)
        if token.type == "paragraph_open"
    ]
    assert not [line for each in paragraphs for line in each if len(line) > COLUMNS_MAX]
    assert not [each[0] for each in paragraphs if len(each) > PARAGRAPH_LINES_MAX]


def test_the_readme_fits_on_a_page():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= README_LINES_MAX
    assert not [line for line in lines if len(line) > COLUMNS_MAX]
