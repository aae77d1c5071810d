"""The queries of a replay in a report: the leading sentence, the table, the details, records for programs."""

import csv
import io
import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import synthetic
from axe_playwright_python.sync_playwright import Axe
from plain_analysis import plain_analysis
from rich.console import Console
from screens import screen_of
from synthetic import Truth, duel_study, make_run

from bakeoff.replay.answer_rules import DOCUMENT, Answers, Compared, DigestAnswers
from bakeoff.replay.digests import DigestTimes, digest_times
from bakeoff.replay.sections import Query, _coverage, _lost, _short, different_work, findings, queries_section
from bakeoff.report import build_view, render_csv, render_html, render_json, render_markdown, render_terminal

TEXTS = {
    f"{at:016x}": f"SELECT `c{at}` FROM `orders` WHERE `customer` = ? ORDER BY `c{at}` LIMIT ?" for at in range(1, 6)
}
SLOWER, FASTER, OTHER_ROWS, FAILS, SAME = TEXTS
EFFECT = {SLOWER: math.log(1.3), FASTER: math.log(0.7)}
SECRET = "SELECT c1 FROM orders WHERE customer = 'Ann <b>' ORDER BY c1 LIMIT 3"
CAPTURE = "shop"


def with_digests(histograms_of):
    """Make the histograms of a replay, one operation per digest; B always fails one of them."""

    def make(slices):
        messages = histograms_of(slices)
        rng = np.random.default_rng(int(slices["epoch"][0]))
        for event in [message for message in messages if message["operation"] == "event"]:
            for digest in TEXTS:
                if digest == FAILS and event["arm"] == "B":
                    continue
                effect = EFFECT.get(digest, 0.0) if event["arm"] == "B" else 0.0
                mean = 1e6 * math.exp(effect + rng.normal(0, 0.005))
                hdr = synthetic.encode_lognormal(2000, median_ns=mean * 0.93, sigma=0.38)
                messages.append(event | {"operation": digest, "mean_ns": mean, "count": 2000, "hdr": hdr})
        return messages

    return make


def answers():
    equal = {digest: Compared(executed=100) for digest in TEXTS}
    compared = equal | {
        SLOWER: Compared(executed=100, plan=True),
        OTHER_ROWS: Compared(executed=100, differences={"rows": 3}, examples={"rows": ("2 rows", "1 row")}),
        FAILS: Compared(executed=5, differences={"errors": 5}, failed={"B": 5},
                        examples={"errors": ("no error", "1305 FUNCTION ? does not exist")}),
    }  # fmt: skip
    plans = {SLOWER: {"A": ("orders: ref customer, 1 part",), "B": ("orders: all rows; filesort",)}}
    return Answers(
        capture=CAPTURE, seconds=3.0, limit_s=12.0, executed=405, skipped={"cut": 2, "INSERT": 7}, not_reached=9,
        tables=4, other_tables={"B": {"shop.orders": "10 rows; 9 rows"}},
        digests={
            digest: DigestAnswers(text=text, compared={"B": compared[digest]}, plans=plans.get(digest, {}),
                                  rows_examined={"A": 10, "B": 5000} if digest == SLOWER else {})
            for digest, text in TEXTS.items()
        },
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    study = duel_study(workloads=(CAPTURE,), threads=(4,), control=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(synthetic, "histograms_of", with_digests(synthetic.histograms_of))
        made = make_run(tmp_path_factory.mktemp("runs"), study, Truth(effect={"B": math.log(0.93)}))
    failed = {
        "cell": f"{CAPTURE}/4",
        "arm": "B",
        "sql_errno": 1305,
        "count": 20,
        "message": "FUNCTION ? is missing",
    }
    for epoch in made.finished_epochs():
        made.write_json(f"epochs/{epoch:03d}/failures.json", [failed | {"operation": FAILS}])
        (made.path / f"epochs/{epoch:03d}/SHA256SUMS").unlink()
    made.write_json(DOCUMENT, {CAPTURE: answers().model_dump(mode="json")})
    return made


@pytest.fixture(scope="module")
def analysis(run):
    return plain_analysis(run, run.study())


@pytest.fixture(scope="module")
def view(run, analysis):
    return build_view(run, analysis)


def test_the_report_leads_with_the_differences(view):
    assert re.fullmatch(
        r"Total work 0\.9\d+× \(0\.9\d+ to 0\.9\d+\)\. 1 query slower \(\d+% of the time\), 1 query faster, "
        r"1 query returns other rows, 1 query fails on one side only, 1 with another plan, "
        r"1 table with another checksum\.",
        view.summary[0],
    )
    assert view.screen.answer == view.summary[0]


def of_queries(queries, *, answers=None, **fields):
    """Make a context in which only these queries and answers are known."""
    places = {(each.cell, each.contender): [] for each in queries}
    for each in queries:
        places[each.cell, each.contender].append(each)
    replayed = SimpleNamespace(
        queries=queries, answers=answers or {}, by_cell={}, by_place=places, failures={}, other_tables=()
    )
    return SimpleNamespace(once=lambda make: replayed, cell_title=str, **fields)


def found_in(*queries):
    """Return the leading sentence for queries with these verdicts (None if not timed) and answers."""
    listed = []
    for at, (word, compared) in enumerate(queries):
        digest = f"{at:016x}"
        times = word and DigestTimes(
            cell="shop/4",
            contender="B",
            digest=digest,
            executions={},
            share=0.1,
            contender_share=0.1,
            estimate=None,
            word=word,
        )
        listed.append(Query("shop/4", "B", digest, "SELECT ?", times, compared, None))
    context = of_queries(listed, labels={"B": "B"}, primary=(), cells_planned=())
    (sentence,) = findings(context)
    return sentence.removeprefix("Total work has no ratio. ")


SAME_ANSWERS = Compared(executed=5)


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        ([("not tested", Compared())] * 12, "None of 12 queries was tested for time."),
        (
            [("not tested", SAME_ANSWERS), (None, SAME_ANSWERS)],
            "None of 2 queries was tested for time, none of 2 compared gives other answers.",
        ),
        (
            [("unclear", SAME_ANSWERS)] * 3 + [("not tested", Compared())],
            "None of 3 queries tested is shown to be slower or faster, 1 was not tested, none of 3 compared gives "
            "other answers.",
        ),
        ([("unclear", Compared())], "None of 1 query tested is shown to be slower or faster."),
    ],
)
def test_a_report_without_findings_says_what_was_tested(queries, said):
    assert found_in(*queries) == said


ON_ONE = Compared(executed=5, failed={"B": 5}, differences={"errors": 5})
ON_BOTH = Compared(executed=5, failed={"A": 5, "B": 5})
OTHER_ERRORS = Compared(executed=5, failed={"A": 5, "B": 5}, differences={"errors": 5})


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ([OTHER_ERRORS], "1 query fails on both, with other errors."),
        ([ON_ONE, OTHER_ERRORS, OTHER_ERRORS, ON_BOTH],
         "1 query fails on one side only, 2 queries fail on both, with other errors, 1 query fails on both."),
    ],
)  # fmt: skip
def test_queries_that_fail_on_both_arms_are_counted_separately(refused, said):
    assert found_in(*[("unclear", each) for each in refused]) == said


def test_the_warning_gives_the_ratio_without_queries_that_one_arm_refuses(view):
    (status,) = [each for each in view.statuses if each.word == "DIFFERENT WORK"]
    found = re.search(r"20% of the baseline's time .* about (\d\.\d\d)×", status.text)
    assert float(found[1]) == pytest.approx(4 / (1.3 + 0.7 + 1 + 1), abs=0.02)


@pytest.mark.parametrize(("refuses", "whose"), [("A", "contender"), ("B", "baseline")])
def test_different_work_is_sized_by_the_arm_that_completes_it(run, analysis, refuses, whose):
    """A refusal takes no time, so the share on the refusing arm is next to nothing."""
    of_baseline = digest_times(refused_by(refuses, run), baseline="A", ended=analysis.stopped)
    compared = Compared(executed=5, differences={"errors": 5}, failed={refuses: 5})
    queries = [
        Query(each.cell, "B", each.digest, "", each, compared if each.digest == FAILS else SAME_ANSWERS, None)
        for each in of_baseline
    ]
    context = of_queries(queries, labels={"B": "mysql:8.0"})
    (status,) = different_work(context)
    assert f"20% of the {whose}'s time" in status.text


def refused_by(arm, run):
    """Return the run's histograms as if the other arm completed what this one refuses."""
    found = {epoch: run.histograms(epoch) for epoch in run.finished_epochs()}
    other = {"A": "B", "B": "A"}[arm]
    return {
        epoch: [each for each in messages if each["operation"] != FAILS]
        + [
            each | {"operation": FAILS, "arm": other}
            for each in messages
            if (each["operation"], each["arm"]) == (SAME, "A")
        ]
        for epoch, messages in found.items()
    }


def test_the_table_has_at_most_twenty_queries_and_prefers_differing_ones():
    listed = [Query("shop/4", "B", f"{at:016x}", f"SELECT {at}", None, SAME_ANSWERS, None) for at in range(60)]
    listed[50:52] = [replace(query, compared=ON_ONE) for query in listed[50:52]]
    context = of_queries(
        listed, samples={}, compared_arms=(), labels={"A": "A", "B": "B"}, analysis=SimpleNamespace(baseline="A")
    )
    table = next(part for part in queries_section(context).parts if getattr(part, "id", "") == "queries")
    shown = [row.values[0].text for row in table.rows]
    assert shown == [f"SELECT {at}" for at in (*range(18), 50, 51)]
    assert table.note == "40 other queries are in the CSV and JSON forms."


def test_the_table_is_sorted_by_time_lost(view):
    rows = [[value.text for value in row.values] for row in view.tables["queries"].rows]
    assert rows[0][0].startswith("SELECT c1 FROM orders")
    assert rows[0][4:6] == ["SLOWER", rows[0][5]]
    assert rows[0][8] == "plan"
    by_verdict = {row[4]: row for row in rows}
    assert by_verdict["FASTER"][5].startswith("−")
    assert by_verdict["fails"][8] == "errors"
    assert "never completed on mysql:8.0 (1)" in view.tables["queries"].note


@pytest.mark.parametrize(
    ("share", "shown"), [(0.042, "+4.2%"), (-0.042, "−4.2%"), (0.0004, "0.0%"), (-0.0004, "0.0%"), (0.0, "0.0%")]
)
def test_time_lost_that_rounds_to_nothing_has_no_sign(share, shown):
    assert _lost(share) == shown


def test_shortened_queries_with_the_same_beginning_stay_distinct():
    long = "SELECT `p` . `id` , COUNT ( * ) FROM `page_category` `c` JOIN `page` `p` ON `p` . `id` = `c` . `page_id` "
    ends = ("WHERE `c` . `id` = ?", "WHERE `c` . `id` = ? AND `p` . `title` > ?")
    short = [_short(long + end) for end in ends]
    assert short[1] == "SELECT p.id, COUNT (*) FROM page_cat…e_id WHERE c.id = ? AND p.title > ?"
    assert short[0] != short[1] and all(len(each) <= 72 for each in short)


def test_details_show_sql_differences_and_both_plans(view):
    tables = view.tables
    plans = next(table for name, table in tables.items() if name.endswith("-plans"))
    step = [value.text for value in plans.rows[0].values]
    assert step == ["1", "orders: ref customer, 1 part", "orders: all rows; filesort"]
    said = {value.text for name, table in tables.items() if name.endswith("-differences")
            for row in table.rows for value in row.values}  # fmt: skip
    assert {"2 rows", "1 row", "no error", "1305 FUNCTION ? does not exist", "5,000"} <= said
    assert [value.text for value in tables["other-tables"].rows[0].values] == ["shop.orders", "10 rows; 9 rows"]


def test_every_format_shows_the_queries_and_literals_only_when_asked(run, analysis, view):
    page, text = render_html(view), render_markdown(view)
    out = io.StringIO()
    render_terminal(view, Console(file=out, width=220))
    assert "calls" in page and "calls" in out.getvalue()
    for form in (page, text, out.getvalue()):
        assert "Total work 0.9" in form
        assert "c1 FROM orders" in form
    assert "9 were not reached in 12 s" in page
    shown = build_view(run, analysis, samples={SLOWER: SECRET})
    assert "Ann" not in page + text + render_json(view) + render_csv(view)
    assert "Ann &lt;b&gt;" in render_html(shown)


def test_the_screen_names_the_queries_that_lose_most(view, snapshot):
    screen = screen_of(view)
    assert re.search(r"^\+\d\.\d% time, 0\.77\d*× \(.*SLOWER: SELECT c1 FROM", screen, re.MULTILINE)
    assert screen == snapshot
    assert screen_of(view, 120) == snapshot


def test_coverage_says_why_the_answer_pass_ended_early():
    ended = answers().model_copy(update={"ended_by": "ALTER TABLE `orders` FORCE", "tables": 0})
    said = next(iter(_coverage(of_queries((), answers={CAPTURE: ended}))))
    assert said.endswith(
        "; 9 were not reached because data may differ after a query that took too long on one side only: "
        "ALTER TABLE orders FORCE."
    )


def test_errors_while_timed_are_counted_by_query_and_arm(view, run):
    (row,) = view.tables["failures"].rows
    count = 20 * len(run.finished_epochs())
    assert [value.text for value in row.values][1:] == ["1305 FUNCTION ? is missing", "0", str(count)]


def test_json_and_csv_have_a_record_per_query(view):
    document = json.loads(render_json(view))
    assert [each["contender"] for each in document["comparisons"]] == ["mysql:8.0"]
    by_digest = {each.get("digest"): each for each in document["queries"]}
    assert by_digest[SLOWER]["ratio"] == pytest.approx(1 / 1.3, rel=0.02)
    assert by_digest[FAILS]["differs"] == "errors"
    assert by_digest[None]["table"] == "shop.orders"
    rows = list(csv.DictReader(io.StringIO(render_csv(view))))
    assert {row["digest"] for row in rows} == {"", *TEXTS}
    # One name for an arm in every row, of comparisons, queries and tables.
    of_rows = {(row["run"], row["baseline"], row["contender"]) for row in rows}
    assert of_rows == {(view.run, "mysql:5.7", "mysql:8.0")} and len(rows) == 1 + len(TEXTS) + 1


def test_a_run_without_answers_still_has_its_times(run, analysis):
    path = run.path / DOCUMENT
    kept = path.read_bytes()
    path.unlink()
    try:
        view = build_view(run, analysis)
        assert "1 query slower" in view.summary[0]
        assert len(view.tables["queries"].rows) == len(TEXTS)
    finally:
        path.write_bytes(kept)


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (1100, "dark"), (400, "light")])
def test_the_report_passes_axe_core_and_fits_a_phone(browser, view, tmp_path, width, scheme):
    (tmp_path / "report.html").write_text(render_html(view), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto((tmp_path / "report.html").as_uri(), wait_until="load")
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.get_by_text("orders: all rows; filesort").is_visible()
    page.close()
