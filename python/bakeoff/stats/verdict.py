"""From an interval to words. The words are few, and 'no significant difference' is not among them."""

import math
from dataclasses import dataclass

from bakeoff.stats.interval import ALPHA_PRECISE, N_MIN, N_MIN_DECISIVE
from bakeoff.stats.model import Estimate, Interval, Stop, Verdict, Word
from bakeoff.stats.wording import at_least_text, percent_text, ratio_text
from bakeoff.units import format_duration, format_rate


@dataclass(frozen=True)
class Case:
    """All that a verdict needs; log ratios.

    Attributes:
        contender, baseline: as a reader calls them.
        claim: the interval excludes 'equal' also after correction over the family (`may_claim`).
        detectable: minimal detectable effect; infinite when unknown or when no claim was possible yet.
        nothing_done: why no ratio exists at all (an arm completed nothing), or empty.
        restarted: both servers were started anew for every epoch; without that the luck of one start is not averaged
            out, and there is no verdict.
        rate_per_s: of an open loop; None: a closed one.
        kept_up: in an open loop, neither arm fell short of the rate.
    """

    contender: str
    baseline: str
    estimate: Estimate
    stop: Stop
    claim: bool
    precision: float
    equivalence: float
    detectable: float
    more_epochs: int | None
    more_s: float | None
    nothing_done: str = ""
    restarted: bool = True
    is_control: bool = False
    rate_per_s: float | None = None
    kept_up: bool = True


def enough(n: int, stop: Stop) -> bool:
    """Whether n epochs may carry a verdict at all."""
    return n >= (N_MIN_DECISIVE if stop is Stop.DECISIVE else N_MIN)


def may_claim(*, n: int, stop: Stop, p_adjusted: float | None, anytime_claim: bool) -> bool:
    """Whether a difference may be claimed.

    PRECISE and BUDGET claim by Holm's p-value at 4 %; DECISIVE by its own interval, corrected already; what may
    tell only the anytime-valid interval (`Stop.anytime_only`) by that at 5 % over the family (`anytime_claim`).
    """
    if not enough(n, stop):
        return False
    if stop is Stop.DECISIVE:
        return True
    if stop in (Stop.PRECISE, Stop.BUDGET):
        return p_adjusted is not None and p_adjusted <= ALPHA_PRECISE
    return anytime_claim


def verdict(case: Case) -> Verdict:
    """The words, the least size of a claim, and the sentence."""
    words, at_least = _words(case)
    return Verdict(words=words, at_least=at_least, sentence=_sentence(case, words, at_least))


def _words(case: Case) -> tuple[tuple[Word, ...], float | None]:
    low, high = case.estimate.interval.low, case.estimate.interval.high
    if case.nothing_done or not case.restarted:
        return (Word.INCONCLUSIVE,), None
    negligible = low is not None and high is not None and -case.equivalence < low and high < case.equivalence
    if case.rate_per_s is not None and (case.kept_up or negligible):
        return (Word.RATE_FIXED,), None
    if low is None or high is None or not enough(case.estimate.n, case.stop):
        return (Word.INCONCLUSIVE,), None
    words: list[Word] = []
    at_least = None
    if case.claim and low > 0:
        words, at_least = [Word.FASTER], low
    elif case.claim and high < 0:
        words, at_least = [Word.SLOWER], high
    if negligible:
        words.append(Word.EQUIVALENT)
    return tuple(words) or (Word.INCONCLUSIVE,), at_least


def _sentence(case: Case, words: tuple[Word, ...], at_least: float | None) -> str:
    interval = case.estimate.interval
    counted = _counted(case.estimate)
    if case.is_control and not case.nothing_done:
        return f"Control: {case.baseline} against itself gives {counted}; the truth is 1."
    if not case.restarted and not case.nothing_done:
        return (
            f"No verdict: {counted.replace('restart', 'repetition')}, and a server that runs already is not restarted, "
            "so the luck of its one start is part of the ratio."
        )
    if Word.RATE_FIXED in words:
        assert case.rate_per_s is not None
        return (
            f"The rate is fixed at {format_rate(case.rate_per_s)}/s, so throughput does not tell {case.contender} from "
            f"{case.baseline}; compare response times."
        )
    margin = f"±{percent_text(case.equivalence)}"
    if at_least is not None:
        word = "faster" if Word.FASTER in words else "slower"
        size = at_least_text(at_least, interval.half_width or 0.0)
        text = f"{case.contender} is {word} than {case.baseline} by at least {size}: {counted}."
        if Word.EQUIVALENT in words:
            text += f" All of the interval lies within {margin}: different but negligible."
        return text + _short_of_target(case)
    if Word.EQUIVALENT in words:
        return f"{case.contender} and {case.baseline} are equivalent within {margin}: {counted}." + _short_of_target(
            case
        )
    if case.nothing_done:
        return f"Inconclusive: {case.nothing_done}"
    if not enough(case.estimate.n, case.stop) or interval.low is None:
        return f"Inconclusive: {counted}; a verdict takes at least {N_MIN}.{_more(case)}"
    return f"Inconclusive: {counted}.{_missing(case, interval)}{_more(case)}"


def _counted(estimate: Estimate) -> str:
    restarts = "1 restart" if estimate.n == 1 else f"{estimate.n} restarts"
    if estimate.n == 0:
        return "no restart was measured"
    return f"ratio {ratio_text(estimate.mean, estimate.interval.low, estimate.interval.high)} over {restarts}"


def _missing(case: Case, interval: Interval) -> str:
    assert interval.low is not None and interval.high is not None
    if interval.low > 0 or interval.high < 0:
        return " Alone the interval would exclude 1; not after correction for the number of comparisons."
    if not math.isfinite(case.detectable):
        return ""
    return f" A difference of {percent_text(case.detectable)} would probably (4 times in 5) have been found."


def _more(case: Case) -> str:
    if not case.more_epochs:
        return ""
    target = f"±{percent_text(case.precision)}"
    minutes = "" if case.more_s is None else f" (about {format_duration(case.more_s)})"
    restarts = "1 more restart" if case.more_epochs == 1 else f"{case.more_epochs} more restarts"
    return f" {target} would take about {restarts}{minutes}."


def _short_of_target(case: Case) -> str:
    half = case.estimate.interval.half_width
    if case.stop not in (Stop.BUDGET, Stop.REOPENED) or half is None or half <= case.precision:
        return ""
    return f" The budget ended at ±{percent_text(half)}, short of the target ±{percent_text(case.precision)}."
