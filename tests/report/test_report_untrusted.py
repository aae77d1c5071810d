"""Names, logs and settings come from other people's machines: all of them must be escaped."""

import html
import io
import re

import pytest
from plain_analysis import plain_analysis
from rich.console import Console
from synthetic import duel_study, make_run

from bakeoff.cli.main import run as command
from bakeoff.report import build_view, render_csv, render_html, render_markdown, render_terminal
from bakeoff.report.view import Section
from bakeoff.stats.model import Flag, FlagKind

EVIL = '</svg></style></title><script>alert("1")</script>{{ 7*7 }}|`x`*<img src=x onerror=y>\'\x1b[2J\u202e\x00\x9b'


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    study = duel_study(workloads=("oltp_read_only",), threads=(1, 4), labels=(f"A{EVIL}", f"B{EVIL}"), title=EVIL)
    run = make_run(
        tmp_path_factory.mktemp("evil"), study, epochs=3, discarded={1: EVIL}, command=("bakeoff", "duel", EVIL)
    )
    for path in run.path.glob("epochs/*/servers/*/my.cnf"):
        path.write_text(EVIL)
    analysis = plain_analysis(run, study)
    flagged = tuple(
        c.model_copy(update={"flags": (Flag(kind=FlagKind.UNSTABLE, text=EVIL),), "workload": EVIL})
        for c in analysis.comparisons
    )
    undeclared = {"B": {EVIL: (EVIL, EVIL)}}
    return build_view(run, analysis.model_copy(update={"comparisons": flagged, "undeclared": undeclared}))


def test_untrusted_text_is_escaped_in_html(page):
    text = render_html(page)
    assert "<script" not in text.lower() and "<img" not in text.lower() and "49" not in _near(text, "alert")
    assert text.count("</style>") == 1 and text.count("</title>") == text.count("<title>")
    tags = {tag.lower() for tag in re.findall(r"<\s*([a-zA-Z][\w:-]*)", text)}
    assert tags <= {
        "html", "head", "meta", "link", "title", "style", "body", "main", "p", "span", "h1", "h2", "h3", "div", "b",
        "ul", "li", "svg", "path", "g", "line", "text", "rect", "defs", "clippath", "section", "article", "strong",
        "sup", "a", "nav", "i", "small", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "details",
        "summary", "pre", "ol", "code", "footer", "wbr",
    }  # fmt: skip
    assert html.escape("<script>alert") in text
    assert " onerror=y" not in re.sub(r"&lt;img src=x onerror=y&gt;", "", text)


def test_untrusted_text_is_escaped_in_markdown(page):
    about_sql = Section.of(EVIL, page.tables["latency"])
    body = render_markdown(page.model_copy(update={"sections": (about_sql, *page.sections)})).partition("```sh")[0]
    assert "<script" not in body and "<img" not in body
    for line in body.splitlines():
        if line.startswith("|"):
            cells = len(re.findall(r"(?<!\\)\|", line))
            assert cells >= 3


def test_a_content_security_policy_forbids_scripts_and_requests(page):
    assert "Content-Security-Policy" in render_html(page) and "default-src 'none'" in render_html(page)


def _near(text, word):
    at = text.index(word)
    return text[at : at + 200]


HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def test_hidden_characters_are_shown_in_page_and_terminal(page):
    screen = Console(file=io.StringIO(), width=200, markup=False, emoji=False)
    render_terminal(page, screen)
    for text in (screen.file.getvalue(), render_html(page), render_markdown(page)):
        assert not HIDDEN.search(text)
        assert "\\x1b[2J" in text or "\\\\x1b" in text


def test_a_list_of_runs_shows_hidden_characters(tmp_path, capfd):
    make_run(tmp_path, duel_study(title=EVIL), epochs=1, blocks=2)
    assert command(["list", "runs", "--runs", str(tmp_path)]) == 0
    shown = capfd.readouterr().out
    assert "\\x1b[2J\\u202e" in shown and not HIDDEN.search(shown)


def test_hidden_characters_are_escaped_in_csv(page):
    assert "\x1b" in EVIL and "\x1b" not in render_csv(page) and "\u202e" not in render_csv(page)
