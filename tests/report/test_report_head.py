"""The head of the page: a card per cell or the forest plot, the arms, what is folded."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from plain_analysis import plain_analysis
from synthetic import Truth, duel_study, make_run
from view_parts import panels_of

from bakeoff.report import build_view, render_html, render_json, render_markdown
from bakeoff.report.context import without_common
from bakeoff.spec import Data, Question, parse_server
from bakeoff.spec.study import Design, Factor, Part
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Flag, FlagKind, Interval, Obstacle, Stop, Word


def built(root, study, truth=None, *, change=None, epochs=6):
    run = make_run(root, study, truth, epochs=epochs, blocks=2)
    return build_view(run, plain_analysis(run, study).model_copy(update=change or {}))


def with_contenders(study, names):
    """Add contenders to a study, each another release of MariaDB."""
    first = study.arms[1]
    more = [
        first.model_copy(update={"name": name, "label": f"mariadb:{name}", "server": parse_server("mariadb:10.11")})
        for name in names
    ]
    return study.model_copy(update={"arms": (*study.arms[:2], *more)})


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Four contenders in two cells, two of them faster in one and slower in the other."""
    study = with_contenders(duel_study(workloads=("oltp_read_only",), threads=(1, 4), control=False), "CDE")
    truth = Truth(effect={"B": -0.1, "C": 0.2, "D": 0.0, "E": -0.3})
    return built(tmp_path_factory.mktemp("several"), study, truth)


@pytest.fixture(scope="module")
def factorial(tmp_path_factory):
    """Two servers, two character sets and one row format: four combinations and a control."""
    factors = (
        Factor(name="server", parts=(Part.SERVER,), levels=("mysql:5.7.22", "mysql:8.0.15")),
        Factor(name="charset", parts=(Part.DATA,), levels=("latin1", "utf8mb4")),
        Factor(name="row_format", parts=(Part.DATA,), levels=("dynamic",)),
    )
    study = duel_study(workloads=("oltp_read_only",), threads=(4,))
    levels = {
        name: (server, charset, "dynamic")
        for name, (server, charset) in zip(
            "ABCD", ((s, c) for s in factors[0].levels for c in factors[1].levels), strict=True
        )
    }
    arms = tuple(
        study.arms[0].model_copy(
            update={
                "name": name,
                "label": " ".join(own[:2]),
                "server": parse_server(own[0]),
                "data": Data(charset=own[1]),
            }
        )
        for name, own in levels.items()
    )
    levels["A'"] = levels["A"]
    design = Design(question="What does utf8mb4 cost?", factors=factors, levels=levels)
    study = study.model_copy(update={"arms": (*arms, study.arms[2]), "design": design})
    return built(tmp_path_factory.mktemp("factorial"), study, Truth(effect={"B": -0.1, "C": -0.2, "D": -0.3}))


def test_the_environment_shows_the_about_text_of_the_study(tmp_path):
    study = duel_study()
    design = Design(question="What does it cost?", about="A question of 2019.", factors=(), levels={"A": (), "B": ()})
    view = built(tmp_path, study.model_copy(update={"design": design}))
    (environment,) = (section for section in view.sections if section.anchor == "environment")
    assert environment.parts[0].text == "A question of 2019."
    assert "A question of 2019." in render_html(view)


def test_every_interval_appears_once_on_the_first_page(view, page):
    head = re.sub(r' (?:aria-label|style)="[^"]*"', "", page.partition("<details>")[0])
    intervals = [row.interval for row in view.lines[0]]
    assert len(set(intervals)) == len(intervals) == 6
    assert all(head.count(interval) == 1 for interval in intervals)
    assert not any(row.interval in head for row in view.controls)
    assert page.count('<div class="forest-row control') == 6


def test_more_than_twenty_forest_rows_fold_to_the_ten_largest(several, tmp_path):
    crowd = duel_study(workloads=tuple("abcdefghijk"), threads=(1, 4), control=False)
    for made, count in ((several, 8), (built(tmp_path, crowd, epochs=3), 10)):
        first, rest = made.lines
        assert (len(first), len(first) + len(rest)) == (count, len(made.verdicts))
        page = render_html(made)
        assert page.count('<div class="forest-row cell') == len(made.verdicts)
        assert page.partition("<details>")[0].count('class="point"') == count
        for place, text in made.forest.ticks:
            assert f'<span style="left:{place}%">{text}</span>' in page
    assert max(abs(row.point - made.forest.one) for row in rest) <= max(
        abs(row.point - made.forest.one) for row in first
    )


def test_notes_mark_their_rows_and_appear_once_per_kind(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(1, 4), control=False)
    run = make_run(tmp_path, study, epochs=6, blocks=2)
    analysis = plain_analysis(run, study)
    own = Flag(kind=FlagKind.UNSTABLE, text="arm B stood still for 3 s in epoch 2.")
    both = Flag(kind=FlagKind.UNSTABLE, text="the slice before weighs on the next.")
    first, second = analysis.comparisons
    flagged = first.model_copy(update={"flags": (own, both)}), second.model_copy(update={"flags": (both,)})
    view = build_view(run, analysis.model_copy(update={"comparisons": flagged}))
    assert [row.notes for row in view.lines[0]] == [(1, 2), (2,)]
    (doubt,) = [each for each in view.doubts if each.word == "UNSTABLE"]
    assert doubt.text.startswith("mysql:8.0 stood still for 3 s in epoch 2.") and doubt.text.endswith("… and 1 more.")
    head, _, below = render_html(view).partition("<nav")
    assert head.count("UNSTABLE") == 1 and "weighs on the next" not in head and "weighs on the next" in below


def test_a_long_axis_has_few_ticks(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False)
    run = make_run(tmp_path, study, Truth(effect={"B": math.log(30)}), epochs=6)
    forest = build_view(run, plain_analysis(run, study)).forest
    assert [text for _, text in forest.ticks] == ["1", "2", "5", "10", "20"]
    assert forest.ticks[0][0] == forest.one


def test_an_arm_that_completed_nothing_in_one_epoch_has_no_ratio(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(1, 4), control=False)
    run = make_run(tmp_path, study, Truth(effect={"B": -0.1}), epochs=8)
    epochs = list(run.load_epochs())
    slices = epochs[6].slices
    idle = (slices["arm"] == "B") & (slices["cell"] == "oltp_read_only/4")
    epochs[6] = replace(epochs[6], slices=slices.with_columns(events=np.where(idle, 0, slices["events"])))
    analysis = analyse(epochs, study, ended=Stop.BUDGET)
    run.write_json("analysis.json", analysis)
    view = build_view(run, analysis)
    by_cell = {verdict.cell: verdict for verdict in view.verdicts}
    slower, none = by_cell["oltp_read_only/1"], by_cell["oltp_read_only/4"]
    assert "SLOWER" in slower.words and slower.ratio
    assert "completed nothing in epoch 6" in none.sentence
    assert (none.ratio, none.change, none.interval, none.headline) == ("", "", "", "has no verdict")
    assert analysis.geometric_mean == {}
    history = pytest.importorskip("bakeoff.history.page")
    assert {point.cell for point in history.points_of(run, series="nightly")} == {"oltp_read_only/1"}


def test_no_restarts_are_reported_for_a_running_server(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False)
    there = study.arms[1].model_copy(update={"server": parse_server("mysql://app@db/")})
    study = study.model_copy(update={"arms": (study.arms[0], there)})
    run = make_run(tmp_path, study, Truth(effect={"B": -0.1}), epochs=8)
    view = build_view(run, analyse(run.load_epochs(), study, ended=Stop.BUDGET))
    assert view.verdicts[0].headline == (
        "is probably slower (8 repetitions; a server that runs already gets no verdict)"
    )
    assert "This rests on 8 repetitions" in " ".join(view.summary)
    assert "restart of" not in render_markdown(view) and "restarts of" not in render_markdown(view)


def test_a_label_may_contain_a_full_stop(tmp_path):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), labels=("mysql:5.7", "8.0 (vs. stock)"))
    run = make_run(tmp_path, study, Truth(effect={"B": -0.1}), epochs=8)
    view = build_view(run, analyse(run.load_epochs(), study, ended=Stop.BUDGET))
    assert re.match(r"8\.0 \(vs\. stock\) is [\d.]+% slower \(", view.summary[0])
    assert not view.verdicts[0].remark.startswith("stock")


def test_the_margin_is_drawn_or_named(view, page, tmp_path):
    low, high = view.forest.margin
    assert low < view.forest.one < high and high - low >= 0.9
    assert "Grey band: ±1%" in view.forest.legend
    wide = built(tmp_path, duel_study(workloads=("oltp_read_only",), threads=(4,)), Truth(effect={"B": math.log(9)}))
    assert wide.forest.margin is None and 'class="margin"' not in render_html(wide)
    assert "Too narrow for this axis: ±1%" in wide.forest.legend


def test_more_than_four_arms_are_a_folded_table(factorial, several, view, page):
    assert factorial.arms_table.columns == ("arm", "role", "version", "server", "charset")
    rows = [[value.text for value in row.values] for row in factorial.arms_table.rows]
    assert rows[1][0] == "mysql:5.7.22 utf8mb4" and rows[1][1] == "contender"
    assert rows[1][3:] == ["mysql:5.7.22", "utf8mb4"]
    assert rows[4][1] == "control" and rows[4][3:] == rows[0][3:]  # the baseline's own
    settings = several.arms_table.columns[3:]
    assert "innodb_flush_method" in settings and "server" in settings
    for made in (factorial, several):
        html, text = render_html(made), render_markdown(made)
        assert html.index("<details>") < html.index('id="table-arms"') and '<ul class="arms">' not in html
        assert "| arm | role | version |" in text and "(baseline)" not in text
        assert "arms" in json.loads(render_json(made))["tables"]
    assert view.arms_table is None and '<ul class="arms">' in page


def test_every_epochs_chart_has_a_line_at_one(view, several):
    for panel in panels_of(view, "epochs") + panels_of(several, "epochs"):
        assert panel.one == "1: as fast"


def with_ratios(root, *ratios):
    """One contender in a cell for each (mean, low, high), claimed if 1 is outside."""
    study = duel_study(workloads=("oltp_read_only",), threads=tuple(range(1, len(ratios) + 1)), control=False)
    run = make_run(root, study, epochs=6, blocks=2)
    analysis = plain_analysis(run, study)
    claimed = []
    for comparison, each in zip(analysis.comparisons, ratios, strict=True):
        mean, low, high = map(math.log, each)
        interval = Interval(low=low, high=high)
        word = Word.FASTER if low > 0 else Word.SLOWER if high < 0 else Word.INCONCLUSIVE
        verdict = comparison.verdict.model_copy(
            update={"words": (word,), "at_least": max(low, 0) or min(high, 0) or None}
        )
        estimate = comparison.estimate.model_copy(update={"mean": mean, "interval": interval})
        claimed.append(comparison.model_copy(update={"estimate": estimate, "verdict": verdict}))
    return build_view(run, analysis.model_copy(update={"comparisons": tuple(claimed)}))


@pytest.mark.parametrize(
    ("ratio", "headline"),
    [
        ((1.07, 1.003, 1.14), "is 7.0% faster (0.3% to 14.0%)"),
        ((0.93, 0.87, 0.9996), "is 7.00% slower (0.04% to 13.00%)"),
        ((1.24, 1.19, 1.29), "is 24% faster (19% to 29%)"),
    ],
)
def test_the_headline_of_a_claim_never_includes_zero(tmp_path, ratio, headline):
    assert with_ratios(tmp_path, ratio).verdicts[0].headline == headline


@pytest.mark.parametrize(
    ("ratio", "headline"),
    [
        ((0.975, 0.948, 1.003), "may be anything from 6% slower to 1% faster"),
        ((1.002, 0.9978, 1.0064), "may be anything from 0.3% slower to 0.7% faster"),
        ((0.91, 0.73, 1.14), "may be anything from 30% slower to 20% faster"),
    ],
)
def test_the_headline_of_an_open_question_is_as_wide_as_its_interval(tmp_path, ratio, headline):
    assert with_ratios(tmp_path, ratio).verdicts[0].headline == headline


def test_the_lead_never_cites_a_vague_ratio(tmp_path):
    vague, clear = (10.2, 2.2, 46.4), (1.5, 1.45, 1.55)
    lead = with_ratios(tmp_path / "both", vague, clear, (0.9, 0.88, 0.92)).screen.answer
    assert "50% faster" in lead and "10" not in lead
    assert "The largest" not in with_ratios(tmp_path / "vague", vague, (7.0, 2.5, 20.0)).screen.answer


def test_no_difference_is_called_the_largest_if_none_is_significant(tmp_path):
    summary = " ".join(with_ratios(tmp_path, (1.1, 0.8, 1.4), (1.0, 0.92, 1.08), (1.01, 0.9, 1.12)).summary)
    assert "The largest" not in summary
    assert re.search(r"The narrowest interval: .* 2 threads, −8% to \+8%\.", summary)


@pytest.mark.parametrize(
    ("words", "reference", "said"),
    [
        ((Word.SLOWER,), 0.0, "6 restarts · difference decisive"),
        ((Word.EQUIVALENT,), math.log(0.9), "6 restarts · limit decided"),
        ((Word.INCONCLUSIVE,), 0.0, "6 restarts"),
    ],
)
def test_a_difference_is_decisive_only_if_one_is_claimed(tmp_path, words, reference, said):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False)
    study = study.model_copy(update={"question": Question(reference=reference)})
    run = make_run(tmp_path, study, epochs=6, blocks=2)
    analysis = plain_analysis(run, study)
    (first,) = analysis.comparisons
    verdict = first.verdict.model_copy(update={"words": words})
    decided = first.model_copy(update={"stop": Stop.DECISIVE, "verdict": verdict, "more_s": None})
    (card,) = build_view(run, analysis.model_copy(update={"comparisons": (decided,)})).verdicts
    assert card.basis == said


@pytest.mark.parametrize("obstacle", [Obstacle.NOTHING_DONE, None])
def test_the_headline_does_not_promise_an_impossible_verdict(tmp_path, obstacle):
    study = duel_study(workloads=("oltp_read_only",), threads=(4,), control=False)
    run = make_run(tmp_path, study, epochs=6, blocks=2)
    analysis = plain_analysis(run, study)
    (first,) = analysis.comparisons
    nothing = first.estimate.model_copy(update={"interval": Interval(low=None, high=None), "n": 0})
    verdict = first.verdict.model_copy(update={"words": (Word.INCONCLUSIVE,), "at_least": None})
    without = first.model_copy(update={"estimate": nothing, "verdict": verdict, "obstacle": obstacle})
    view = build_view(run, analysis.model_copy(update={"comparisons": (without,)}))
    assert view.verdicts[0].headline == ("has no verdict" if obstacle else "has no verdict yet")
    assert not any("ratios differ" in sentence for sentence in view.summary)


@pytest.mark.parametrize(
    ("labels", "short"),
    [
        (
            ("mysql:8.0.15 · utf8mb4_0900_ai_ci", "mysql:8.0.15 · utf8mb4_bin", "mysql:5.7.22 · utf8mb4_bin"),
            ("8.0.15 · 0900_ai_ci", "8.0.15 · bin", "5.7.22 · bin"),
        ),
        (("mysql:8.0 · latin1_bin", "mysql:8.0 · utf8mb4_bin"), ("latin1_bin", "utf8mb4_bin")),
        (("mysql:8.0", "mysql:8.0,innodb_flush_method=fsync"), ("8.0", "8.0,innodb_flush_method=fsync")),
        (("mysql:8.0,innodb_a=1", "mysql:8.0,innodb_b=1"), ("innodb_a=1", "innodb_b=1")),
        (("mysql:8.0", "mariadb:10.11"), ("mysql:8.0", "mariadb:10.11")),
        (("mysql://root@db1/shop", "mysql://root@db2/shop"), ("mysql://root@db1/shop", "mysql://root@db2/shop")),
        (("mysql:8.0", "mysql:8.0 · tls"), ("mysql:8.0", "mysql:8.0 · tls")),
    ],
)
def test_a_short_label_is_what_differs_between_the_arms(labels, short):
    assert without_common(*labels) == short
