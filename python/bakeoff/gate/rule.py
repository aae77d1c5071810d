"""The gate: whether a contender is slower than allowed, by the intervals and the stopping rule of a duel.

A gate's reference is its limit, the log ratio of the largest slowdown allowed; a duel's is 0. A comparison is DECISIVE
when its anytime-valid interval excludes the limit, and PRECISE at a fixed share of it. The gate passes if every
comparison does, so passing needs no correction (an intersection-union test). It fails if one does, so failing is
corrected by Holm, and measuring ends there. docs/reference/gate.md has the simulated error rates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import NormalDist
from typing import ClassVar

from pydantic import Field

from bakeoff.plan import Plan
from bakeoff.spec import Question, Study
from bakeoff.stats import interval as iv
from bakeoff.stats.hosts import moments
from bakeoff.stats.model import Comparison, Frozen, Obstacle, Stop
from bakeoff.stats.resolution import NoiseCard
from bakeoff.units import percent_text

PRECISION_SHARE = 0.25
"""Half-width at which measuring ends, as a share of the limit: tells half of it from one and a half times it."""

DEFAULT_NAME = "gate"
"""The name of a project's only gate."""

OFTEN = 0.9
"""Probability with which `reach` holds."""

_ALPHA = iv.ALPHA_PRECISE / 2  # of one side of the t interval


class OnUnclear(StrEnum):
    """What a gate that cannot tell does to the pipeline."""

    PASS = "pass"
    FAIL = "fail"


class GateQuestion(Question):
    """Whether a contender is slower than allowed; `reference` is the log ratio of the largest slowdown allowed.

    Attributes:
        on_unclear: what to do if the gate cannot tell; None for exit code 6.
        bisect: use the exit codes of git bisect run.
        junit, history: absolute paths of further files to write.
    """

    noun: ClassVar[str] = "gate"

    kind: str = "gate"
    reference: float = Field(lt=0)
    name: str = DEFAULT_NAME
    on_unclear: OnUnclear | None = None
    bisect: bool = False
    junit: Path | None = None
    history: Path | None = None


class Answer(StrEnum):
    """What a gate, or one of its comparisons, says."""

    PASS = "pass"
    FAIL = "fail"
    UNCLEAR = "cannot tell"


@dataclass(frozen=True)
class Sample:
    """One comparison: log ratios, one per epoch, why measuring ended, and the host that measured each."""

    values: Sequence[float]
    stop: Stop
    hosts: Sequence[str] = ()


class CellAnswer(Frozen):
    """The answer of one comparison."""

    cell: str
    contender: str
    answer: Answer


class Gate(Frozen):
    """The answer of a whole gate; `why` says why there can be none, `max_slowdown` is a share (0.02)."""

    answer: Answer
    max_slowdown: float
    cells: tuple[CellAnswer, ...]
    why: str = ""


def as_gate(
    study: Study,
    max_slowdown: float,
    *,
    name: str = DEFAULT_NAME,
    on_unclear: OnUnclear | None = None,
    bisect: bool = False,
    junit: Path | None = None,
    history: Path | None = None,
) -> Study:
    """Return the study with a gate's question: is a contender slower by more than `max_slowdown` (0.02 is 2%)?"""
    size = -math.log1p(-max_slowdown)
    question = GateQuestion(
        reference=-size, name=name, on_unclear=on_unclear, bisect=bisect, junit=junit, history=history
    )
    changes = {"question": question, "precision": PRECISION_SHARE * size, "equivalence": size, "has_target": False}
    return study.model_copy(update=changes)


def as_question(study: Study) -> GateQuestion:
    """Return what a gate's study asks."""
    assert isinstance(study.question, GateQuestion), "only a gate asks it"
    return study.question


def limit_text(limit: float) -> str:
    """`2%`, `12.5%`: the slowdown that a limit allows, as it was typed."""
    return f"{-math.expm1(limit) * 100:.4g}%"


def answers(samples: Sequence[Sample], *, limit: float, family: int) -> list[Answer]:
    """Answer each comparison.

    Args:
        samples: those measured so far.
        limit: log ratio of the largest slowdown allowed, below 0.
        family: how many comparisons the gate has; those without a sample count as not failed.
    """
    harms = [_harm(sample, limit, family) for sample in samples]
    adjusted = iv.holm([*harms, *[None] * (family - len(harms))])
    return [_answer(harm, q) for harm, q in zip(harms, adjusted, strict=False)]


def _answer(harm: float | None, adjusted: float | None) -> Answer:
    if harm is None or adjusted is None:
        return Answer.UNCLEAR
    if harm >= 1 - _ALPHA:
        return Answer.PASS
    return Answer.FAIL if adjusted <= _ALPHA else Answer.UNCLEAR


def _harm(sample: Sample, limit: float, family: int) -> float | None:
    """One-sided p-value of 'not slower than allowed': near 0 beyond the limit, near 1 within it.

    An anytime-valid interval has no p-value: 0 or 1 if it excludes the limit, else None. Its level is that of the
    interval shown (`AnalysisContext.interval`), corrected on the side that fails.
    """
    n = len(sample.values)
    if sample.stop is Stop.RUNNING or n < iv.N_MIN_DECISIVE or not all(map(math.isfinite, sample.values)):
        return None
    found = moments(sample.values, sample.hosts)
    beyond = found.mean - limit
    if sample.stop is Stop.DECISIVE:
        return 0.0 if beyond < 0 else 1.0
    if sample.stop.anytime_only:
        alpha = iv.ALPHA_LIVE / (family if beyond < 0 else 1)
        excluded = abs(beyond) > iv.anytime_half_width(*found[1:], alpha=alpha)
        return (0.0 if beyond < 0 else 1.0) if excluded else None
    if n < iv.N_MIN:
        return None
    half = iv.p_value(beyond, *found[1:]) / 2
    return half if beyond < 0 else 1 - half


def judge(comparisons: Sequence[Comparison], *, limit: float, family: int, trusted: bool | None = None) -> Gate:
    """Judge a gate by the comparisons of a run; the control's are ignored.

    `trusted` is False if the control differs from its baseline, so that nothing can be said.
    """
    own = [each for each in comparisons if not each.is_control]
    # An arm that completed nothing in an epoch has no ratio at all.
    dead = [not each.estimate.n for each in own]
    unlike = [each.obstacle is Obstacle.UNLIKE_MACHINES for each in own]
    usable = [not (nothing or several) for nothing, several in zip(dead, unlike, strict=True)]
    points = [each.points if may else () for each, may in zip(own, usable, strict=True)]
    samples = [
        Sample([point.value for point in found], each.stop, [point.host for point in found])
        for each, found in zip(own, points, strict=True)
    ]
    found = answers(samples, limit=limit, family=family)
    why = ""
    if trusted is False:
        why = "the control differs from its own baseline: something other than the builds moved the numbers."
    elif Answer.FAIL in found:
        pass
    elif any(dead):
        why = "an arm completed nothing in an epoch."
    elif any(unlike):
        why = "the hosts are unlike machines; combine_hosts in the study combines them."
    elif len(own) < family:
        why = "not every comparison was measured."
    whole = Answer.UNCLEAR
    if trusted is not False and Answer.FAIL in found:
        whole = Answer.FAIL
    elif not why and set(found) == {Answer.PASS}:
        whole = Answer.PASS
    cells = [
        CellAnswer(cell=each.cell, contender=each.contender, answer=answer)
        for each, answer in zip(own, found, strict=True)
    ]
    return Gate(answer=whole, max_slowdown=-math.expm1(limit), cells=tuple(cells), why=why)


def reach(sd: float, n: int, *, limit: float) -> tuple[float, float]:
    """Return the log ratios from which a comparison passes, and down to which it fails, nine times in ten each."""
    apart = iv.precision_half_width(sd, n) + NormalDist().inv_cdf(OFTEN) * sd / math.sqrt(n)
    return limit + apart, limit - apart


def forecast_sentence(card: NoiseCard, study: Study, plan: Plan) -> str:
    """Say what this gate can tell apart on this machine in its budget; empty if unknown."""
    if not card.lines:
        return ""
    fitting, limit = int((plan.budget_s - plan.load_s) / plan.epoch_s), study.question.reference
    ends = [
        reach(line.sd_epoch, max(iv.N_MIN, min(fitting, line.epochs_needed)), limit=study.question.reference)
        for line in card.lines
    ]
    passes, fails = max(end for end, _ in ends), min(end for _, end in ends)
    allowed = limit_text(limit)
    if passes >= 0:
        return (
            f"this machine is too noisy for {allowed} in this budget: a build as fast as the baseline may not pass; "
            "give more --budget or more --max-slowdown"
        )
    return (
        f"by this noise a build passes that is up to about {percent_text(passes)} slower, and fails from about "
        f"{percent_text(fails)} on, nine times in ten; in between the gate may not be able to tell"
    )
