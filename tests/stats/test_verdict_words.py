"""Words, rounding, and what must never be said."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.stats.model import Estimate, Interval, Obstacle, Stop, Word
from bakeoff.stats.verdict import Case, may_claim, verdict
from bakeoff.units import at_least_text, decimals_for, percent_text, ratio_text

W = math.log(1.01)


def case(low, high, *, n=8, stop=Stop.PRECISE, claim=True, **options):
    estimate = Estimate(mean=(low + high) / 2, interval=Interval(low=low, high=high), n=n)
    defaults = {
        "contender": "mysql:8.0", "baseline": "mysql:5.7", "precision": W, "equivalence": W, "detectable": 0.02,
        "more_epochs": 4, "more_s": 120.0, "has_target": True, "negligible": low > -W and high < W,
    }  # fmt: skip
    return Case(estimate=estimate, stop=stop, claim=claim, **(defaults | options))


@pytest.mark.parametrize(
    ("low", "high", "claim", "words"),
    [
        (0.05, 0.06, True, (Word.FASTER,)),
        (-0.06, -0.05, True, (Word.SLOWER,)),
        (-0.005, 0.006, True, (Word.EQUIVALENT,)),
        (0.001, 0.006, True, (Word.FASTER, Word.EQUIVALENT)),
        (0.001, 0.006, False, (Word.EQUIVALENT,)),
        (-0.02, 0.006, True, (Word.INCONCLUSIVE,)),
        (0.001, 0.02, False, (Word.INCONCLUSIVE,)),
    ],
)
def test_the_interval_and_the_claim_decide_the_words(low, high, claim, words):
    said = verdict(case(low, high, claim=claim))
    assert said.words == words
    assert (said.at_least is None) == (Word.FASTER not in words and Word.SLOWER not in words)


def test_a_claim_states_the_bound_nearer_zero():
    assert verdict(case(-0.06, -0.05)).at_least == -0.05
    assert verdict(case(0.05, 0.06)).at_least == 0.05


@pytest.mark.parametrize(("n", "stop"), [(4, stop) for stop in Stop])
def test_too_few_epochs_give_no_verdict(n, stop):
    said = verdict(case(-0.001, 0.001, n=n, stop=stop))
    assert said.words == (Word.INCONCLUSIVE,) and said.at_least is None
    assert "at least 6" in said.sentence
    assert not may_claim(n=n, stop=stop, p_adjusted=0.0, anytime_claim=True)


@pytest.mark.parametrize(
    ("stop", "p_adjusted", "anytime", "claim"),
    [
        (Stop.PRECISE, 0.039, False, True),
        (Stop.PRECISE, 0.041, True, False),
        (Stop.BUDGET, None, True, False),
        (Stop.DECISIVE, 0.0, False, False),
        (Stop.DECISIVE, None, True, True),
        (Stop.ABORTED, 0.0, False, False),
        (Stop.ABORTED, None, True, True),
        (Stop.RUNNING, 0.0, False, False),
    ],
)
def test_stop_reason_and_epochs_decide_which_test_a_claim_needs(stop, p_adjusted, anytime, claim):
    assert may_claim(n=8, stop=stop, p_adjusted=p_adjusted, anytime_claim=anytime) is claim
    assert may_claim(n=5, stop=stop, p_adjusted=p_adjusted, anytime_claim=anytime) is anytime


def test_verdict_sentences_give_ratio_interval_and_restarts():
    assert verdict(case(-0.0988, -0.0900)).sentence == (
        "mysql:8.0 is slower than mysql:5.7: ratio 0.910 (0.905 to 0.914) over 8 restarts, so by at least 8.6%."
    )
    assert verdict(case(-0.005, 0.006)).sentence == (
        "mysql:8.0 and mysql:5.7 are equivalent within ±1%: ratio 1.001 (0.995 to 1.007) over 8 restarts."
    )
    assert "different but negligible" in verdict(case(0.001, 0.006)).sentence
    assert "after correction for the number of comparisons" in verdict(case(0.001, 0.02, claim=False)).sentence


def test_inconclusive_says_what_it_would_take():
    sentence = verdict(case(-0.02, 0.012, stop=Stop.BUDGET)).sentence
    assert "A difference of 2% would probably (4 times in 5) have been found." in sentence
    assert "±1% would take about 4 more restarts (about 2 min)." in sentence


@pytest.mark.parametrize(("n", "more_epochs", "more_s"), [(8, 702, 13_500.0), (8, 8931, 187_000.0), (2, 4, 60.0)])
def test_no_precision_is_mentioned_without_a_target(n, more_epochs, more_s):
    open_case = case(-0.02, 0.5, n=n, stop=Stop.BUDGET, has_target=False, more_epochs=more_epochs, more_s=more_s)
    assert "±1%" not in verdict(open_case).sentence


def test_too_few_epochs_say_which_way_it_looks():
    said = verdict(case(0.24, 0.42, n=4, stop=Stop.BUDGET))
    assert said.words == (Word.INCONCLUSIVE,)
    assert said.sentence.startswith(
        "Inconclusive: probably faster, ratio 1.39 (1.27 to 1.53) over 4 restarts; a verdict"
    )


def test_a_claim_never_seems_to_touch_1():
    assert "1.0001 to " in verdict(case(0.00015, 0.13)).sentence
    assert " to 0.9999)" in verdict(case(-0.13, -0.0002)).sentence


def test_a_missed_target_precision_is_mentioned():
    assert "short of the target ±1%" in verdict(case(0.05, 0.09, stop=Stop.BUDGET)).sentence
    assert "short of" not in verdict(case(0.05, 0.06, stop=Stop.BUDGET)).sentence
    assert "short of" not in verdict(case(0.05, 0.09, stop=Stop.BUDGET, has_target=False)).sentence


def test_the_control_sentence_compares_the_baseline_with_itself():
    sentence = verdict(case(-0.005, 0.006, is_control=True)).sentence
    assert sentence.startswith("Control: mysql:5.7 against itself")


def test_an_arm_that_completed_nothing_gets_no_verdict():
    said = verdict(case(0.05, 0.06, obstacle=Obstacle.NOTHING_DONE, why="mysql:8.0 completed nothing in epoch 3."))
    assert said.words == (Word.INCONCLUSIVE,)
    assert said.sentence == "No verdict: mysql:8.0 completed nothing in epoch 3."


@given(st.floats(-1, 1), st.floats(1e-5, 0.3), st.integers(0, 40), st.sampled_from(list(Stop)), st.booleans())
def test_no_banned_words_and_no_claim_beyond_the_interval(mean, half, n, stop, claim):
    said = verdict(case(mean - half, mean + half, n=n, stop=stop, claim=claim))
    assert not re.search("significant|same speed|no difference|nan|inf", said.sentence.lower())
    for word in (Word.FASTER, Word.SLOWER):
        if word in said.words:
            percent = re.search(r"by at least ([\d.]+)%", said.sentence)
            limit = abs(math.expm1(said.at_least)) * 100
            assert percent is None or 0 < float(percent[1]) <= limit * (1 + 1e-9)
            assert ("by at least" in said.sentence) and ((said.at_least > 0) == (word is Word.FASTER))


@given(st.floats(-1, 1), st.floats(1e-5, 0.3))
def test_printed_interval_contains_the_true_one(mean, half):
    text = ratio_text(mean, mean - half, mean + half)
    ratio, low, high = map(float, re.fullmatch(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", text).groups())
    assert low <= math.exp(mean - half) + 1e-8 and high >= math.exp(mean + half) - 1e-8
    assert high - low <= 2 * 4 * math.exp(mean) * math.sinh(half) + 2e-5
    assert low <= ratio <= high


def test_a_ratio_without_an_interval_says_so():
    assert ratio_text(0.0, None, None) == "1.00 (no interval yet)"


@pytest.mark.parametrize(
    ("half", "digits"), [(0.03, 2), (0.0098, 3), (0.0012, 3), (0.3, 1), (2.0, 0), (0.0, 5), (math.inf, 3)]
)
def test_decimals_follow_the_half_width(half, digits):
    assert decimals_for(half) == digits


def test_at_least_gains_digits_before_it_says_zero():
    assert at_least_text(math.log(1.0004), 0.01) == "0.04%"
    assert at_least_text(0.0, 0.01) == "a trace"


def test_a_large_difference_is_reported_without_an_exponent():
    assert [percent_text(math.log(ratio)) for ratio in (1.014, 1.996, 2.3)] == ["1.4%", "100%", "130%"]
